"""The config of a speech-to-text experiment."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Literal

from flax_transformer.audio.mel import FeatureConfig, num_frames
from flax_transformer.common.fields import check, check_positive, check_range, check_types, section, setting
from flax_transformer.engine.config import LoopConfig, TaskConfig
from flax_transformer.tasks.sections import ExamplesConfig, check_heads


@dataclass(frozen=True)
class SpeechModelConfig:
    """The model: strided convolutions over log-mel features, an encoder, and one dense layer."""

    # What reads the frames; transformer: the encoder of Vaswani et al. 2017; recurrent: LSTMs or GRUs, both directions.
    encoder: Literal['transformer', 'recurrent'] = 'transformer'
    vocab_size: int = 64  # the most units, the blank included
    # Each convolution's stride over time; their product is the number of feature frames for one of the encoder. Each
    # unit needs a frame of the encoder, and two equal units one between them. Over frequency the stride is 2.
    strides: tuple[int, ...] = (2, 2)
    channels: tuple[int, ...] = (16, 32)  # each convolution's
    d_model: int = 144  # width of the encoder's input, and of the transformer
    num_layers: int = 4  # layers of the encoder
    num_heads: int = 4  # transformer: heads of the attention
    d_ff: int = 576  # transformer: inner width of the feed-forward network
    cell: Literal['lstm', 'gru'] = 'gru'  # recurrent: its cells
    hidden_size: int = 144  # recurrent: of each direction
    dropout_rate: float = setting(0.1, 'transferable')  # acts inside of the encoder and on its input
    # Computation's type; auto: bfloat16 on TPUs and GPUs, but not NVIDIA's before Ampere.
    dtype: Literal['auto', 'float32', 'bfloat16'] = setting('auto', 'transferable')

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'd_model', 'num_layers', 'num_heads', 'd_ff', 'hidden_size')
        check(self.vocab_size >= 2, f'vocab_size={self.vocab_size}: expected at least 2, the blank and a unit')
        check(
            0 < len(self.strides) == len(self.channels) and min(self.strides + self.channels) >= 1,
            f'strides={self.strides}, channels={self.channels}: expected as many of each, of at least 1',
        )
        check_heads(self)
        check_range(self, 'dropout_rate', least=0, below=1)

    @property
    def stride(self) -> int:
        """Feature frames for each frame of the encoder."""
        return prod(self.strides)


@dataclass(frozen=True)
class UnitConfig:
    """What a transcript is written in; learned from the training transcripts and kept in the run directory."""

    # What a unit is; words: whatever white space separates; characters: with the space as one of them; bpe and unigram:
    # pieces, by SentencePiece.
    algorithm: Literal['words', 'characters', 'bpe', 'unigram'] = 'characters'
    lower_case: bool = True  # lower the transcripts before anything else

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True)
class SpeechDataConfig(ExamplesConfig):
    """Recordings with transcripts. They are named in one of these forms:

    `folder/train.tsv`, `folder/train.jsonl`  a manifest: a table with paths and transcripts
    `fsdd/index.tsv?official_split=train#digit`  some rows of it, and the column of the transcript
    `LibriSpeech/train-clean-100`  a folder in LibriSpeech's layout
    `tones:train`  generated: the touch-tones of a telephone
    """

    train: str = 'train.tsv'  # a manifest, a folder in LibriSpeech's layout, or tones:train
    validation: str = ''  # what the best checkpoint is chosen by; empty: none
    test: str = ''  # what `evaluate` reads; empty: none
    # Longer recordings are left out of training, and reported; the transcriber reads them in windows of this length.
    max_seconds: float = 16.0
    num_lengths: int = 4  # batch lengths: more waste less padding on short recordings; each is compiled

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, 'num_lengths')
        check_range(self, 'max_seconds', above=0)


@dataclass(frozen=True)
class StringsConfig:
    """Several recordings of one speaker, with gaps between them, as one utterance: digits become strings of digits."""

    most: int = 0  # recordings in an utterance of training and validation; 0: each recording by itself
    fewest: int = 1  # recordings in an utterance
    most_gap_ms: float = 200.0  # the longest gap, drawn from 0 on; half of the utterances begin, and half end, with one
    validation: int = 200  # strings that are made of the validation recordings

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, 'most', least=0, most=1000)
        check(
            not self.most or 1 <= self.fewest <= self.most,
            f'fewest={self.fewest}, most={self.most}: expected 1 <= fewest <= most',
        )
        check_range(self, 'most_gap_ms', least=0)
        check_positive(self, 'validation')


@dataclass(frozen=True)
class PerturbationConfig:
    """How each utterance of training is changed at random, so that a model learns from few speakers."""

    speed: float = 1.1  # played up to so much faster or slower, which changes the pitch, too; 1: never
    vocal_tract: float = 1.0  # frequencies stretched or shrunk by up to so much (Jaitly and Hinton 2013); 1: never
    gain_db: float = 10.0  # louder or softer by up to so many decibels
    color_db: float = 3.0  # deviation of a smooth random curve over the bands, as of microphones and rooms; 0: none
    lowest_snr_db: float | None = 10.0  # noise, white to dull, this many dB below speech or up to 30 more; None: none
    band_masks: int = 2  # SpecAugment (Park et al. 2019): runs of mel bands set to their mean
    most_bands: int = 8  # the widest run
    frame_masks: int = 1  # runs of frames set to each band's mean
    most_mask_ms: float = 80.0  # the longest run; none takes more than a fifth of the utterance

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, 'speed', 'vocal_tract', least=1, most=2)
        check_range(self, 'band_masks', 'frame_masks', least=0, most=100)
        check_range(self, 'gain_db', 'color_db', 'most_bands', 'most_mask_ms', least=0)


@dataclass(frozen=True, kw_only=True)
class SpeechTrainingConfig(LoopConfig):
    """How long and in what batches to train, and when to report, evaluate and save."""

    batch_size: int = 32  # utterances per batch, over all devices
    # Validation score that decides what is best: the word or character error rate, or the loss.
    best_by: Literal['word_error_rate', 'character_error_rate', 'loss'] = setting('word_error_rate', 'resumable')

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, 'batch_size')


@dataclass(frozen=True, kw_only=True)
class SpeechConfig(TaskConfig):
    """One speech-to-text experiment."""

    task: ClassVar[str] = 'speech'

    model: SpeechModelConfig = section(SpeechModelConfig)
    features: FeatureConfig = section(FeatureConfig)
    tokenizer: UnitConfig = section(UnitConfig)
    data: SpeechDataConfig = section(SpeechDataConfig)
    strings: StringsConfig = section(StringsConfig)
    perturbation: PerturbationConfig = section(PerturbationConfig)
    training: SpeechTrainingConfig = section(SpeechTrainingConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check(
            self.most_frames >= 1,
            f'data.max_seconds={self.data.max_seconds:g}: expected at least features.window_ms='
            f'{self.features.window_ms:g}, one frame',
        )

    @property
    def most_samples(self) -> int:
        return round(self.data.max_seconds * self.features.sample_rate)

    @property
    def most_frames(self) -> int:
        return num_frames(self.most_samples, self.features)

    def encoder_frames(self, num_samples: int) -> int:
        return -(-num_frames(num_samples, self.features) // self.model.stride)
