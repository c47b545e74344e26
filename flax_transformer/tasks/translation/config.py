"""The config of a translation experiment; the defaults are those of Vaswani et al. 2017 (base model)."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from flax_transformer.common.fields import check, check_positive, check_range, section, setting
from flax_transformer.data.audit.config import CheckConfig
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.config import LoopConfig, TaskConfig
from flax_transformer.rnn.config import RecurrentConfig
from flax_transformer.text.tokenizer import TokenizerConfig
from flax_transformer.transformer.config import TransformerConfig

ModelConfig = TransformerConfig | RecurrentConfig


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(LoopConfig):
    """How long and in what batches to train, and when to report, evaluate and save."""

    tokens_per_step: int = field(default=25_600, kw_only=False)  # target slots per batch, over all devices
    # Section 5.4; spread over the other vocab_size - 1 pieces.
    label_smoothing: float = field(default=0.1, kw_only=False)
    r_drop_alpha: float = 0.0  # weight of R-Drop (Liang et al. 2021), agreement of two passes; 0: off
    # What steps on CPUs compute in if model.dtype is auto; auto: bfloat16 where faster (d_model of 256 or more).
    cpu_dtype: Literal['auto', 'float32', 'bfloat16'] = 'float32'
    best_by: Literal['loss', 'bleu'] = setting('loss', 'resumable')  # validation score that decides what is best
    # Validation sentences translated at each evaluation, for BLEU; None: all; 0: none.
    evaluate_bleu: int | None = setting(0, 'resumable')
    # Validation sentences on which the quality of translations is calibrated after the last step; 0: none.
    calibrate_on: int = setting(1000, 'resumable', 'cosmetic')
    sample_translations: int = setting(3, 'resumable', 'cosmetic')  # validation sentences shown at each evaluation
    # Draw the attention over the first sample in TensorBoard at each evaluation; needs matplotlib.
    draw_attention: bool = setting(True, 'resumable', 'cosmetic')

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, 'tokens_per_step')
        check_range(self, 'label_smoothing', least=0, below=1)
        check_range(self, 'sample_translations', 'r_drop_alpha', 'evaluate_bleu', 'calibrate_on', least=0)
        check(
            self.best_by != 'bleu' or self.evaluate_bleu != 0,
            "best_by='bleu': nothing is translated with evaluate_bleu=0; expected a number of sentences, or None",
        )


@dataclass(frozen=True, kw_only=True)
class Config(TaskConfig):
    """One translation experiment."""

    task: ClassVar[str] = 'translation'

    model: ModelConfig = section(TransformerConfig)
    tokenizer: TokenizerConfig = section(TokenizerConfig)
    data: DataConfig = section(DataConfig)
    check: CheckConfig = section(CheckConfig, 'resumable')
    training: TrainingConfig = section(TrainingConfig)
    decoding: DecodingConfig = section(DecodingConfig, 'resumable')

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_rows()
        self._check_tokenizer()
        self._check_training()
        self._check_positions()

    def _check_rows(self) -> None:
        row = self.data.target_length
        tokens = self.training.tokens_per_step
        check(
            tokens % row == 0,
            f'tokens_per_step={tokens} is not a multiple of data.target_length={row}; a batch has whole rows: the '
            f'nearest is {max(1, round(tokens / row)) * row}',
        )
        most = self.parallel.max_tokens_per_device
        check(
            most == 0 or most >= row,
            f'parallel.max_tokens_per_device={most}: expected at least data.target_length={row}, one row, or 0',
        )

    def _check_tokenizer(self) -> None:
        unk = self.tokenizer.unk_id
        last = self.model.vocab_size - 1
        is_special = unk in (self.model.pad_id, self.model.eos_id)
        check(not is_special, f'tokenizer.unk_id={unk} is also pad_id or eos_id; expected three different ids')
        check(unk <= last, f'tokenizer.unk_id={unk}: expected an id from 0 to model.vocab_size - 1 = {last}')
        for name, algorithm in (('bpe_dropout', 'bpe'), ('unigram_alpha', 'unigram')):
            value = getattr(self.data, name)
            check(
                not value or self.tokenizer.algorithm == algorithm,
                f'data.{name}={value} has no effect with tokenizer.algorithm={self.tokenizer.algorithm!r}, only with '
                f'{algorithm}',
            )

    def _check_training(self) -> None:
        alpha = self.training.r_drop_alpha
        rates = [value for name, value in vars(self.model).items() if name.endswith('dropout_rate')]
        check(
            not alpha or any(rates),
            f'training.r_drop_alpha={alpha} has no effect without dropout: set model.dropout_rate',
        )
        end = self.optimizer.schedule_steps
        steps = self.training.steps
        check(
            end is None or end >= steps,
            f'optimizer.schedule_steps={end}: expected at least training.steps={steps}: the rate is 0 from there on',
        )

    def _check_positions(self) -> None:
        limit = self.model.max_positions
        if limit is None:
            return
        decoding = self.decoding
        output = decoding.max_tokens or decoding.max_source_tokens + decoding.max_extra_tokens
        longest = max(self.data.source_length, self.data.target_length, decoding.max_source_tokens, output)
        check(
            limit >= longest,
            f'model.max_length={limit}: expected {longest} learned positions or more, for every slot of a row and '
            f'for decoding.max_tokens, else max_source_tokens + max_extra_tokens = {output}',
        )

    @property
    def has_validation(self) -> bool:
        return any(corpus.has_validation for corpus in self.data.corpora)

    @property
    def rows_per_step(self) -> int:
        """Packed rows of a global batch."""
        return self.training.tokens_per_step // self.data.target_length
