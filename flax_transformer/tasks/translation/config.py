"""Every hyper-parameter once: frozen dataclasses that check themselves.

The defaults are those of Vaswani et al. 2017 (base model); every departure from the paper is a field.
"""

from dataclasses import dataclass, field

from flax_transformer.common.checks import check, check_types
from flax_transformer.data.audit.config import CheckConfig
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.config.optimizer import OptimizerConfig
from flax_transformer.engine.config.parallel import ParallelConfig
from flax_transformer.engine.config.training import TrainingConfig
from flax_transformer.text.config import TokenizerConfig
from flax_transformer.transformer.config import TransformerConfig


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
        most = self.parallel.max_tokens_per_device
        check(
            most == 0 or most >= row,
            f'parallel.max_tokens_per_device={most}: expected at least data.target_length={row}, one row, or 0',
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
        check(
            not self.training.patience or any(corpus.has_validation for corpus in self.data.corpora),
            f'training.patience={self.training.patience} has no effect without a validation set (data.validation)',
        )
        model, alpha = self.model, self.training.r_drop_alpha
        check(
            not alpha or model.dropout_rate or model.attention_dropout_rate or model.activation_dropout_rate,
            f'training.r_drop_alpha={alpha} has no effect without dropout: set model.dropout_rate',
        )
        end, steps = self.optimizer.schedule_steps, self.training.steps
        check(
            end is None or end >= steps,
            f'optimizer.schedule_steps={end}: expected at least training.steps={steps}: the rate is 0 from there on',
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
