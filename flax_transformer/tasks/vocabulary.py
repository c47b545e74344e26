"""Vocabularies: words, characters or SentencePiece's pieces by id, kept in a run's folder `tokenizer`."""

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import MOST_WORDS, naming_damage, read_limited, write_whole
from flax_transformer.common.json_text import read_json
from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.text.tokenizer import DESCRIPTION_FILE, kind_of, write_files

if TYPE_CHECKING:
    from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

_SETTINGS_FILE = 'lower_case.json'
C = TypeVar('C')  # the config of the run's task


class TokenizerRun(RunDirectory[C]):
    """A run directory with a tokenizer, such as a `Vocabulary`, which it began with."""

    load_tokenizer: ClassVar[Callable[[Path], Any]]  # reads the folder that the tokenizer's `save` wrote
    model_files = ('tokenizer', 'tokenizer.sha256')

    @property
    def _folder(self) -> Path:
        return self.path / 'tokenizer'

    @property
    def _digest_file(self) -> Path:
        return self.path / 'tokenizer.sha256'

    def is_prepared(self) -> bool:
        return (self._folder / DESCRIPTION_FILE).is_file()

    def write_tokenizer(self, tokenizer: Any) -> None:
        write_whole(self._digest_file, tokenizer.digest + '\n')
        tokenizer.save(self._folder)

    def read_tokenizer(self) -> Any:
        """The run's tokenizer. Raises UserError if it is not the one that the run began with."""
        tokenizer = self.load_tokenizer(self._folder)
        with contextlib.suppress(FileNotFoundError):  # older runs have none
            if read_limited(self._digest_file, 1000).strip() != tokenizer.digest.encode():
                raise UserError(
                    f'{self._folder} is not the tokenizer that the run began with: its digest is not that in '
                    f'{self._digest_file.name}. Restore the one that the run was trained with'
                )
        return tokenizer


class Vocabulary:
    """Units by id. A task's subclass encodes texts.

    It has `hashed()`, the units for the digest, `written()`, for the file, and `read(text)` of that, which raises
    ValueError or TypeError for a damaged one.
    """

    first_id: ClassVar[int]  # the first unit's; smaller ids are special
    file: ClassVar[str]  # has the units
    kinds: ClassVar[tuple[str, ...]]  # what units may be; pieces are none of them

    def __init__(
        self, source: 'Sequence[str] | SentencePieceTokenizer', *, kind: str | None = None, lower_case: bool
    ) -> None:
        self.pieces = None if isinstance(source, Sequence) else source
        self.units = () if self.pieces else tuple(source)
        self.kind, self.lower_case = kind or self.kinds[0], lower_case
        self.ids = {unit: number for number, unit in enumerate(self.units, start=self.first_id)}

    @property
    def size(self) -> int:
        """Ids, special ones included."""
        return self.pieces.vocab_size if self.pieces else len(self.units) + self.first_id

    @cached_property
    def digest(self) -> str:
        content = self.pieces.digest if self.pieces else self.hashed()
        return hashlib.sha256(f'{self.lower_case}\n{content}'.encode()).hexdigest()

    def check_fits(self, vocab_size: int) -> None:
        check_fits(self.size, vocab_size, 'tokens')

    def save(self, folder: Path) -> None:
        write_files(folder, {_SETTINGS_FILE: self.lower_case})
        if self.pieces:
            self.pieces.save(folder)
        else:
            description = {'kind': self.kind, 'vocab_size': self.size, 'sha256': self.digest}
            write_files(folder, {self.file: self.written().encode(), DESCRIPTION_FILE: description})

    @classmethod
    def load(cls, folder: Path) -> Self:
        kind = kind_of(folder)
        with naming_damage(folder):
            lower_case = read_json(folder / _SETTINGS_FILE) is True
            if kind not in cls.kinds:
                from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

                return cls(SentencePieceTokenizer.load(folder), lower_case=lower_case)
            units = cls.read(read_limited(folder / cls.file, MOST_WORDS).decode('utf-8'))
            vocabulary = cls(units, kind=kind, lower_case=lower_case)
            if vocabulary.digest != read_json(folder / DESCRIPTION_FILE).get('sha256'):
                raise ValueError('its checksum differs')
            return vocabulary


def check_fits(size: int, vocab_size: int, what: str) -> None:
    """Raises UserError if a model of this vocab_size has no row for one of `size` ids of `what`."""
    if size > vocab_size:
        raise UserError(
            f'model.vocab_size={vocab_size}, but the vocabulary has {size} {what}; set --model.vocab-size {size}'
        )
