"""What a student learns from: lines, what a teacher made of them, and what people did."""

import glob
import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import naming_damage, sha256_of
from flax_transformer.common.json_text import parse_json, read_json
from flax_transformer.data.lines import content_suffix, each_line, open_binary, utf8_fault
from flax_transformer.data.shards import RECORD, InputFile, input_files

LEAST = 100  # lines

Translated = dict[str, Any]  # as `translate --format jsonl` writes it; from a file of text, the translation alone


@dataclass(frozen=True)
class Taught:
    """Files of lines, plain or compressed; each goes on where the one before it ends."""

    sources: tuple[Path, ...]
    references: tuple[Path, ...] = ()  # people's: one for each source file, or none
    translations: tuple[Path, ...] = ()  # one for each source file, or a folder by `translate --shard`

    def reversed(self) -> 'Taught':
        """The other direction, which nobody has translated yet."""
        return Taught(self.references, self.sources)

    def translated(self, folder: Path) -> 'Taught':
        return replace(self, translations=(folder,))

    def rows(self) -> Iterator[tuple[str, str, Translated]]:
        """Each line with its reference, which is empty if there is none, and its translation."""
        references = _lines_of(self.references) if self.references else repeat('')
        return zip(_lines_of(self.sources), references, self.records(), strict=False)

    def records(self) -> Iterator[Translated]:
        if not self._folder:
            return chain.from_iterable(map(_records_of, self.translations))
        return chain.from_iterable(self._records_in_folder(file) for file in self.files)

    def digest(self) -> str:
        """Of the content of all files."""
        files = [*self.sources, *self.references]
        files += [part for file in self.files for part in self._parts(file)] if self._folder else self.translations
        return hashlib.sha256(''.join(map(sha256_of, files)).encode()).hexdigest()

    def check(self) -> None:
        """Raises UserError unless all files of a line's have as many lines, and there are enough."""
        counts = [_count(each_line(file)) for file in self.sources]
        if sum(counts) < LEAST:
            raise UserError(f'{_named(self.sources)}: got {sum(counts)} lines, expected at least {LEAST}')
        self._check_counts(counts, self.references, each_line)
        if not self._folder:
            self._check_counts(counts, self.translations, _records_of)
            return
        for file, expected in zip(self.files, counts, strict=True):
            count = _count(self._records_in_folder(file))
            if count != expected:
                raise UserError(
                    f'{self._folder}: got {count} translations of the {expected} lines of {file.path}, expected all; '
                    '`translate --shard 1/1` makes those that are missing'
                )

    def _check_counts(self, counts: list[int], others: tuple[Path, ...], read: Callable[[Path], Iterator[Any]]) -> None:
        if others and len(others) != len(counts):
            raise UserError(
                f'got {_named(self.sources)} and {_named(others)}: {len(counts)} and {len(others)} files, expected as '
                'many of each'
            )
        for source, expected, file in zip(self.sources, counts, others, strict=False):
            count = _count(read(file))
            if count != expected:
                raise UserError(f'got {expected} lines in {source}, {count} in {file}, expected as many of each')

    @cached_property
    def files(self) -> list[InputFile]:
        """The source files, in the order given."""
        by_path = {file.path: file for file in input_files(self.sources)}
        return [by_path[path] for path in self.sources]

    @property
    def _folder(self) -> Path | None:
        """The folder of the translations, if they are in one."""
        return next((path for path in self.translations if path.is_dir()), None)

    def _parts(self, file: InputFile) -> list[Path]:
        found = self._folder.glob(f'{glob.escape(file.name)}.[0-9]*')
        name = Path(file.name).name
        return sorted(part for part in found if part.stem == name and re.fullmatch(r'\.\d{6,}', part.suffix))

    def _records_in_folder(self, file: InputFile) -> Iterator[Translated]:
        with naming_damage(self._folder / RECORD, 'give the translations as files'):
            is_json = dict(read_json(self._folder / RECORD)).get('format') == 'jsonl'
        for part in self._parts(file):
            with open_binary(part, file.path.suffix) as opened:
                for number, line in enumerate(opened, start=1):
                    place = f'{part}, line {number}'
                    try:
                        text = line.decode().removesuffix('\n').removesuffix('\r')
                    except UnicodeDecodeError as error:
                        raise UserError(f'{place}: {utf8_fault(error)}') from None
                    yield _record(text, place) if is_json else {'translation': text}


def _records_of(file: Path) -> Iterator[Translated]:
    """The lines of a file of translations: text, or .jsonl as `translate --format jsonl` writes it."""
    if content_suffix(file) != '.jsonl':
        yield from ({'translation': line} for line in each_line(file))
        return
    for number, line in enumerate(each_line(file), start=1):
        yield _record(line, f'{file}, line {number}')


def _record(line: str, place: str) -> Translated:
    """A translation and what is known of it. Raises UserError for another object."""
    try:
        record = parse_json(line)
        texts = [record['translation'], *(other['text'] for other in record.get('n_best') or ())]
        numbers = [record.get(name) or 0.0 for name in ('quality', 'log_prob', 'num_tokens')]
        is_right = all(isinstance(text, str) for text in texts) and all(map(math.isfinite, numbers))
    except (ValueError, TypeError, LookupError, AttributeError):
        is_right = False
    if not is_right:
        raise UserError(
            f'{place}: got {line[:50]!r}, expected an object with "translation", as `translate --format jsonl` writes '
            'it'
        )
    return record


def _lines_of(files: Sequence[Path]) -> Iterator[str]:
    return chain.from_iterable(map(each_line, files))


def _count(lines: Iterator[Any]) -> int:
    return sum(1 for _ in lines)


def _named(files: Sequence[Path]) -> str:
    return ', '.join(map(str, files))
