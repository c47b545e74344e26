"""The run directory of a translation model, with its tokenizer and what it was trained on."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import naming_damage, write_whole
from flax_transformer.common.json_text import read_json
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.tasks.vocabulary import TokenizerRun
from flax_transformer.text.tokenizer import Tokenizer, kind_of

from .config import Config
from .words import FILE as WORDS
from .words import TrainingWords

CACHE = 'data_cache'
SAMPLE = 'training_sample.jsonl'  # pairs that a model was trained on, for it to learn more


class LoadedRun(NamedTuple):
    config: Config
    params: Any
    tokenizer: Tokenizer
    words: TrainingWords | None = None  # those of its training text


class Run(TokenizerRun[Config]):
    config_class = Config
    model_files = (*TokenizerRun.model_files, SAMPLE, WORDS)
    use = 'translate {} < lines > translations'
    evaluate_on = '--source test.{0.source_language} --reference test.{0.target_language}'
    leftovers = (*TokenizerRun.leftovers, CACHE)

    @property
    def data_files(self) -> Path:
        return self.path / 'data_files.json'

    def read_data_files(self) -> dict[str, list[dict[str, Any]]]:
        """The files of each corpus when the run began, as `data.lines` lists them; {} for older runs."""
        if not self.data_files.exists():
            return {}
        with naming_damage(self.data_files, 'restore it from a backup, or remove it'):
            listed = dict(read_json(self.data_files))
            fields = ('path', 'bytes', 'mtime_ns', 'sha256')
            return {name: [{key: file[key] for key in fields} for file in files] for name, files in listed.items()}

    def write_data_files(self, files: dict[str, list[dict[str, Any]]]) -> None:
        """Records the files of each corpus; never overwrites what the run began with."""
        if not self.data_files.exists():
            write_whole(self.data_files, json.dumps(files, indent=2) + '\n')

    @contextlib.contextmanager
    def data_cache(self, data: DataConfig) -> Iterator[Path]:
        """Where the tokenized corpora are kept: data.cache, or a folder here, removed after a failure if empty."""
        if data.cache is not None:
            yield Path(data.cache).expanduser()
            return
        folder = self.path / CACHE
        try:
            yield folder
        except BaseException:
            if not any(folder.glob('*/')):
                shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # not empty, or not there
                self.path.rmdir()
            raise

    @staticmethod
    def init_params(config: Config, key: Any) -> Any:
        from .model import family_of

        return family_of(config.model).init_params(config.model, key)

    def loaded(self, config: Config, params: Any, scores: Any) -> LoadedRun:
        tokenizer = self.read_matching_tokenizer(config)
        reading = tokenizer.reading(config.data.source_language)
        return LoadedRun(config, params, reading, TrainingWords.read(self.path))

    @staticmethod
    def load_tokenizer(folder: Path) -> Tokenizer:
        # Not imported for a command's help, which needs no tokenizer.
        from flax_transformer.huggingface.fairseq_tokenizer import FairseqTokenizer
        from flax_transformer.huggingface.marian_tokenizer import MarianTokenizer
        from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

        kinds = {'marian': MarianTokenizer, 'fairseq': FairseqTokenizer}
        return kinds.get(str(kind_of(folder)), SentencePieceTokenizer).load(folder)

    def read_matching_tokenizer(self, config: Config) -> Tokenizer:
        """The run's tokenizer. Raises UserError if it is not the one that the run's model was trained with."""
        tokenizer = self.read_tokenizer()
        try:
            check_tokenizer(config, tokenizer)
        except UserError as error:
            raise UserError(
                f'{self.path / "tokenizer"} is not the tokenizer of this model: {error.args[0].partition(";")[0]}. '
                'Restore the one that the run was trained with'
            ) from None
        return tokenizer


def check_tokenizer(config: Config, tokenizer: Tokenizer) -> None:
    """Raises UserError if the tokenizer does not fit the config's model."""
    for setting in ('model.vocab_size', 'model.pad_id', 'model.eos_id', 'tokenizer.unk_id'):
        part, name = setting.split('.')
        got, expected = getattr(tokenizer, name), getattr(getattr(config, part), name)
        if got != expected:
            raise UserError(f'{setting}={expected}, but the tokenizer has {name} {got}; set --{setting} {got}')
    got, expected = tokenizer.target_vocab_size, config.model.vocab_size_of_target
    if got != expected:
        raise UserError(f'model.target_vocab_size: {expected} pieces, but the tokenizer has {got} on the target side')
