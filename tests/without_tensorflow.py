"""As if TensorFlow were not installed: `sys.meta_path` becomes what `finders` returns."""

import sys
from importlib.machinery import PathFinder
from typing import Any


class WithoutTensorFlow(PathFinder):
    """Finds what Python finds, but TensorFlow; importing it raises."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.split('.')[0] == 'tensorflow' else super().find_spec(name, path, target)


def finders() -> list[Any]:
    return [WithoutTensorFlow if finder is PathFinder else finder for finder in sys.meta_path]
