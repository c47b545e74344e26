"""Reading JSON that a stranger may have written."""

import json
from pathlib import Path
from typing import Any

from .files import MOST_TEXT, read_limited


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError if it is none, or nested too deeply for Python to read."""
    try:
        # Python would take bytes for UTF-16 and UTF-32, too.
        return json.loads(text.decode('utf-8-sig') if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError('is nested too deeply') from None


def read_json(file: Path, most: int = MOST_TEXT) -> Any:
    """The value in a regular file of at most `most` bytes."""
    return parse_json(read_limited(file, most))
