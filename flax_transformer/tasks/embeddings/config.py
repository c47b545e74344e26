"""The config of an experiment with word vectors."""

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from flax_transformer.common.fields import check, check_positive, check_range, check_types, check_used, section, setting
from flax_transformer.engine.config import EngineConfig, LoopConfig, OptimizerConfig, TaskConfig
from flax_transformer.tasks.sections import ExamplesConfig


@dataclass(frozen=True)
class EmbeddingsModelConfig:
    """The model: two vectors for each word, and what is predicted from what."""

    # What predicts what; skip_gram: a word each of its neighbors; cbow: the mean of the neighbors the word; glove: two
    # words the logarithm of how often they occur together.
    method: Literal['skip_gram', 'cbow', 'glove'] = 'skip_gram'
    # skip_gram and cbow: how a word is predicted.
    output: Literal['negative_sampling', 'hierarchical_softmax'] = 'negative_sampling'
    vocab_size: int = 100_000  # rows of each table; rarer words are left out
    d_model: int = 100  # width of the vectors
    window: int = 5  # neighbors on each side, at most; skip_gram and cbow draw 1 to window for each word
    negatives: int = 5  # negative_sampling: words drawn for each prediction
    x_max: float = 100.0  # glove: a pair that occurs less often weighs less

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'd_model', 'negatives')
        check_range(self, 'x_max', above=0)
        check_range(self, 'vocab_size', least=2, most=2**28)
        check_range(self, 'window', least=1, most=100)
        check_used(self, 'output', 'negative_sampling', 'method', 'skip_gram', 'cbow')


@dataclass(frozen=True)
class WordsConfig:
    """What counts as a word."""

    pattern: str = r'\S+'  # regular expression; each match in a line is a word
    lower_case: bool = False  # lower the text before anything else
    min_count: int = 5  # a word that occurs less often is left out

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'min_count')
        try:
            compiled = re.compile(self.pattern)
        except re.error as error:
            raise ValueError(
                f'pattern={self.pattern!r}: {error}; expected a regular expression, such as [a-z]+'
            ) from None
        check(compiled.groups == 0, f'pattern={self.pattern!r}: expected no groups; write (?:...) for (...)')
        check(compiled.fullmatch('') is None, f'pattern={self.pattern!r} matches the empty string; expected + for *')


@dataclass(frozen=True)
class TextConfig(ExamplesConfig):
    """Plain text, a sentence, paragraph or article on each line: words are neighbors only within a line.

    Files may be compressed (.gz, .xz, .bz2, .zst); `*` in a path matches several files, read in order of their names.
    """

    train: str = 'train.txt'  # the text to learn from
    validation: str = ''  # what the best checkpoint is chosen by; empty: none
    # A word with more than this share of all occurrences is left out at random, the more often the more frequent it
    # is; 0: never.
    sample: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 'sample', least=0, below=1)


@dataclass(frozen=True)
class UpdateConfig:
    """How large the updates are."""

    learning_rate: float = 0.025  # the first step's; glove: about 0.1
    # How it changes; linear: falls to 0.
    schedule: Literal['linear', 'constant'] = 'linear'
    schedule_steps: int | None = setting(None, 'resumable')  # end of linear; None: training.steps

    def __post_init__(self) -> None:
        check_types(self)
        _ = self.engine  # its own checks

    @property
    def engine(self) -> OptimizerConfig:
        """As the engine takes it, which only reads the schedule."""
        return OptimizerConfig(
            schedule=self.schedule,
            learning_rate=self.learning_rate,
            warmup_steps=0,
            schedule_steps=self.schedule_steps,
        )


@dataclass(frozen=True, kw_only=True)
class EmbeddingsTrainingConfig(LoopConfig):
    """How long and in what batches to train, and when to report, evaluate and save."""

    # Words (glove: pairs of words) whose updates are computed from the same vectors. Larger blocks are faster; word2vec
    # updates after each word. With several devices, each computes a block.
    block_size: int = 64
    blocks_per_step: int = 1024  # blocks that all devices together take

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, 'block_size', 'blocks_per_step')


@dataclass(frozen=True, kw_only=True)
class EmbeddingsConfig(TaskConfig):
    """One experiment with word vectors."""

    task: ClassVar[str] = 'embeddings'

    model: EmbeddingsModelConfig = section(EmbeddingsModelConfig)
    tokenizer: WordsConfig = section(WordsConfig)
    data: TextConfig = section(TextConfig)
    optimizer: UpdateConfig = section(UpdateConfig)
    training: EmbeddingsTrainingConfig = section(EmbeddingsTrainingConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check(
            self.model.method != 'glove' or not self.has_validation,
            "data.validation and data.held_out have no effect with model.method='glove': counts of another text are "
            'not comparable; leave them out',
        )

    @property
    def engine(self) -> EngineConfig:
        return EngineConfig(self.optimizer.engine, self.training, self.parallel, self.seed)
