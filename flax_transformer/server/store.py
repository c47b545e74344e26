"""What a server keeps for its next start: in a file, or else in memory alone."""

import sqlite3
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError

from .fields import Refused

_TABLES = """
pragma locking_mode = exclusive;
pragma journal_mode = wal;
pragma synchronous = normal;
create table if not exists usage (day integer, client text, characters integer, primary key (day, client));
create table if not exists glossaries (id text primary key, content text);
"""


class Store:
    """Tables of SQLite's."""

    def __init__(self, file: Path | None = None) -> None:
        """Raises UserError for a file of another kind, or of a server that runs."""
        try:
            self._base = sqlite3.connect(file or ':memory:', timeout=1.0, isolation_level=None, check_same_thread=False)
            self._base.executescript(_TABLES)
        except sqlite3.Error as error:
            raise UserError(f'{file}: {error}; expected a new file, or one of a server that has ended') from None

    def __call__(self, statement: str, *values: Any) -> list[Any]:
        """The rows of a statement. Raises Refused, as if the disk is full."""
        try:
            return self._base.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise Refused(503, f'This server cannot keep what it must: {error}') from None
