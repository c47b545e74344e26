"""Every hyper-parameter once: frozen dataclasses that check themselves.

The defaults are those of Vaswani et al. 2017 (base model); every departure from the paper is a field.
"""

from dataclasses import dataclass, field
from typing import Literal

from flax_transformer.checks import check, check_positive, check_rates, check_types
from flax_transformer.config.decoding import DecodingConfig
from flax_transformer.config_data import CheckConfig, CorpusConfig, DataConfig

__all__ = [
    'CheckConfig',
    'Config',
    'CorpusConfig',
    'DataConfig',
    'DecodingConfig',
    'OptimizerConfig',
    'ParallelConfig',
    'TokenizerConfig',
    'TrainingConfig',
    'TransformerConfig',
]


@dataclass(frozen=True)
class TransformerConfig:
    """The model. Defaults: the paper's base model (table 3), 37,000 shared pieces."""

    vocab_size: int = 37_000  # pieces, special ones included
    target_vocab_size: int | None = None  # of a target vocabulary of its own; None: source and target share theirs
    d_model: int = 512  # width of every residual stream
    num_heads: int = 8
    head_dim: int | None = None  # width of one head; None: d_model / num_heads
    d_ff: int = 2048  # inner width of the feed-forward network
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    dropout_rate: float = 0.1  # on each sublayer's output and on embedding + position (section 5.4)
    attention_dropout_rate: float = 0.0  # on attention weights; 0 in the published model
    activation_dropout_rate: float = 0.0  # after the feed-forward activation; 0 in the published model
    norm_first: bool = False  # False: LayerNorm(x + sublayer(x)), the paper; True: x + sublayer(LayerNorm(x))
    norm_epsilon: float = 1e-6
    activation: Literal['relu', 'gelu', 'swish'] = 'relu'
    positions: Literal['interleaved', 'concatenated', 'tensor2tensor', 'learned'] = 'interleaved'  # section 3.5
    scale_embedding: bool = True  # multiply embeddings by sqrt(d_model), section 3.4
    tie_embeddings: Literal['all', 'target', 'none'] = 'all'  # all: source = target = softmax; target: target = softmax
    attention_bias: bool = False  # biases in the query, key, value and output projections
    logits_bias: bool = False  # a bias on the logits
    pad_id: int = 0  # also the decoder's start: its embedding is the zero vector
    # What pad_id's row of the embedding is read for. output: for logits alone, where the two are tied; neither: a zero
    # vector there too, as in Marian; both: as any other row, so that the decoder starts from it.
    pad_row: Literal['output', 'neither', 'both'] = 'output'
    eos_id: int = 1  # ends every source and target
    max_length: int = 512  # positions of a learned table; sinusoids know no limit
    dtype: Literal['auto', 'float32', 'bfloat16'] = 'auto'  # of computation; auto: bfloat16 on TPU and GPU

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(
            self, 'vocab_size', 'd_model', 'num_heads', 'd_ff', 'num_encoder_layers', 'num_decoder_layers', 'max_length'
        )
        check_rates(self, 'dropout_rate', 'attention_dropout_rate', 'activation_dropout_rate')
        check(self.head_dim is None or self.head_dim >= 1, f'head_dim={self.head_dim}: expected at least 1')
        check(
            self.head_dim is not None or self.d_model % self.num_heads == 0,
            f'd_model={self.d_model} is not divisible by num_heads={self.num_heads}; change one, or set head_dim',
        )
        check(self.d_model % 2 == 0, f'd_model={self.d_model}: expected an even number, for pairs of sine and cosine')
        check(self.norm_epsilon > 0, f'norm_epsilon={self.norm_epsilon}: expected more than 0')
        check(
            self.target_vocab_size is None or self.target_vocab_size >= 1,
            f'target_vocab_size={self.target_vocab_size}: expected at least 1, or None',
        )
        check(
            self.target_vocab_size is None or self.tie_embeddings != 'all',
            f"target_vocab_size={self.target_vocab_size}: tie_embeddings='all' shares one table; set target or none",
        )
        for name in ('pad_id', 'eos_id'):
            value = getattr(self, name)
            for size in ('vocab_size', 'vocab_size_of_target'):
                last = getattr(self, size) - 1
                limit = 'vocab_size' if size == 'vocab_size' else 'target_vocab_size'
                check(0 <= value <= last, f'{name}={value}: expected an id from 0 to {limit} - 1 = {last}')
        check(self.pad_id != self.eos_id, f'pad_id and eos_id are both {self.pad_id}; expected two different ids')

    @property
    def width_of_head(self) -> int:
        """`head_dim`, or d_model / num_heads where that is None."""
        return self.head_dim or self.d_model // self.num_heads

    @property
    def vocab_size_of_target(self) -> int:
        """`target_vocab_size`, or vocab_size where that is None."""
        return self.target_vocab_size or self.vocab_size


@dataclass(frozen=True)
class TokenizerConfig:
    """SentencePiece, trained once on both sides of the training pairs and kept in the run directory."""

    algorithm: Literal['bpe', 'unigram'] = 'bpe'
    normalization: Literal['identity', 'nfkc', 'nmt_nfkc'] = 'identity'  # identity gives every line back as it was
    byte_fallback: bool = True  # spell characters outside the vocabulary as UTF-8 bytes instead of unk (256 pieces)
    character_coverage: float = 0.9999  # share of the characters that get a piece of their own
    unk_id: int = 2
    max_sentences: int = 500_000  # pairs used for training it, evenly spaced where there are more

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'max_sentences')
        check(0.9 <= self.character_coverage <= 1.0, f'character_coverage={self.character_coverage}: expected 0.9 to 1')
        check(self.unk_id >= 0, f'unk_id={self.unk_id}: expected at least 0')


@dataclass(frozen=True)
class OptimizerConfig:
    """Defaults: section 5.3 of the paper."""

    name: Literal['adam', 'adamw', 'adafactor', 'lion'] = 'adam'
    schedule: Literal['noam', 'inverse_sqrt', 'linear', 'cosine', 'constant'] = 'noam'
    learning_rate: float = 1.0  # noam: a factor on d_model^-0.5 * min(step^-0.5, step * warmup^-1.5); others: the peak
    warmup_steps: int = 4000
    beta1: float = 0.9  # all but adafactor
    beta2: float = 0.98  # all but adafactor
    epsilon: float = 1e-9  # adam and adamw
    weight_decay: float = 0.0  # adamw and lion; matrices only
    clip_norm: float | None = None  # clip the global gradient norm; None: never, as in the paper
    ema_decay: float = 0.0  # evaluate and keep an exponential moving average of the parameters; 0: off

    def __post_init__(self) -> None:
        check_types(self)
        check(self.learning_rate > 0, f'learning_rate={self.learning_rate}: expected more than 0')
        check(self.warmup_steps >= 0, f'warmup_steps={self.warmup_steps}: expected at least 0')
        check(
            self.schedule not in ('noam', 'inverse_sqrt') or self.warmup_steps >= 1,
            f'warmup_steps=0: schedule {self.schedule} divides by it; expected at least 1',
        )
        check_rates(self, 'beta1', 'beta2', 'ema_decay')
        check(self.epsilon > 0, f'epsilon={self.epsilon}: expected more than 0')
        check(self.weight_decay >= 0, f'weight_decay={self.weight_decay}: expected at least 0')
        check(
            self.weight_decay == 0 or self.name in ('adamw', 'lion'),
            f'weight_decay={self.weight_decay} has no effect with name={self.name!r}; use adamw or lion',
        )
        check(
            self.clip_norm is None or self.clip_norm > 0, f'clip_norm={self.clip_norm}: expected more than 0, or None'
        )


@dataclass(frozen=True)
class TrainingConfig:
    """How long, in what batches, and what happens every so many steps."""

    steps: int = 100_000  # updates in all, those of earlier starts included
    tokens_per_step: int = 25_600  # target slots of a batch over all devices
    label_smoothing: float = 0.1  # section 5.4; spread over the other vocab_size - 1 pieces
    log_every: int = 50  # steps
    evaluate_every: int = 1000  # steps; loss on the validation set, and a few translations to look at
    checkpoint_every: int = 1000  # steps; the last is always saved; the best is found among those evaluated too
    keep_last: int = 2  # newest checkpoints kept, beside the best by validation loss
    average_last: int = 1  # newest checkpoints whose parameters translate, averaged (section 6.1); 1: the best alone
    sample_translations: int = 3  # validation sentences printed at each evaluation

    def __post_init__(self) -> None:
        check_positive(self, 'steps', 'tokens_per_step', 'log_every', 'evaluate_every', 'checkpoint_every', 'keep_last')
        check_rates(self, 'label_smoothing')
        check(self.sample_translations >= 0, f'sample_translations={self.sample_translations}: expected at least 0')
        check(
            1 <= self.average_last <= self.keep_last,
            f'average_last={self.average_last}: expected 1 to keep_last={self.keep_last}, the checkpoints there are',
        )


@dataclass(frozen=True)
class ParallelConfig:
    """On which devices, and how."""

    strategy: Literal['pmap', 'mesh'] = 'pmap'  # pmap: data parallel; mesh: jit over a mesh with a data axis
    num_devices: int = 0  # 0: every accelerator, or one CPU; CPU devices are simulated, as many as asked for

    def __post_init__(self) -> None:
        check_types(self)
        check(self.num_devices >= 0, f'num_devices={self.num_devices}: expected at least 0')


@dataclass(frozen=True)
class Config:
    """One experiment."""

    model: TransformerConfig = field(default_factory=TransformerConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    check: CheckConfig = field(default_factory=CheckConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    seed: int = 0  # of the initial parameters, the order of the data and dropout; below 2^31

    def __post_init__(self) -> None:
        check_types(self)
        check(0 <= self.seed < 2**31 - 1, f'seed={self.seed}: expected 0 to {2**31 - 2}')
        row = self.data.target_length
        check(
            self.training.tokens_per_step % row == 0,
            f'tokens_per_step={self.training.tokens_per_step} is not a multiple of data.target_length={row}; '
            f'a batch is whole rows: the nearest is {max(1, round(self.training.tokens_per_step / row)) * row}',
        )
        unk, special = self.tokenizer.unk_id, (self.model.pad_id, self.model.eos_id)
        check(unk not in special, f'tokenizer.unk_id={unk} is also pad_id or eos_id; expected three different ids')
        last = self.model.vocab_size - 1
        check(unk <= last, f'tokenizer.unk_id={unk}: expected an id from 0 to model.vocab_size - 1 = {last}')
        for name, algorithm in (('bpe_dropout', 'bpe'), ('unigram_alpha', 'unigram')):
            value = getattr(self.data, name)
            check(
                not value or self.tokenizer.algorithm == algorithm,
                f'data.{name}={value} has no effect with tokenizer.algorithm={self.tokenizer.algorithm!r}; it is for '
                f'{algorithm}',
            )
        if self.model.positions == 'learned':
            output = self.decoding.max_tokens or self.decoding.max_source_tokens + self.decoding.max_extra_tokens
            longest = max(self.data.source_length, self.data.target_length, self.decoding.max_source_tokens, output)
            check(
                self.model.max_length >= longest,
                f'model.max_length={self.model.max_length}: expected {longest} learned positions, as many as a row has '
                f'slots, and as decoding.max_tokens, else max_source_tokens + max_extra_tokens = {output}',
            )

    @property
    def rows_per_step(self) -> int:
        """Packed rows of a global batch."""
        return self.training.tokens_per_step // self.data.target_length
