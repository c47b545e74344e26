"""Refuses an earlier Python by name, before pip looks for packages that have no version for it."""

import sys

from hatchling.metadata.plugin.interface import MetadataHookInterface

if sys.version_info < (3, 11):  # noqa: UP036 - as pyproject.toml says, which old versions of pip read too late
    sys.exit(f'flax_transformer needs Python 3.11 or later, got {sys.version.split()[0]}')


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata: dict) -> None:
        """Adds nothing."""
