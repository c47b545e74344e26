"""The config of a trigger-word experiment."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from flax_transformer.audio.mel import FeatureConfig
from flax_transformer.common.fields import check, check_positive, check_range, check_types, section, setting
from flax_transformer.engine.config import LoopConfig, TaskConfig
from flax_transformer.tasks.sections import ExamplesConfig


@dataclass(frozen=True)
class DetectorConfig:
    """The model: a causal strided convolution over frames, a GRU, and a sigmoid for each output frame."""

    num_filters: int = 64  # filters of the convolution
    kernel: int = 8  # the convolution's width, in frames
    stride: int = 4  # frames for each output frame: 4 of 10 ms give one every 40 ms
    hidden_size: int = 64  # the GRU's
    dropout_rate: float = setting(0.2, 'transferable')  # acts after the convolution and after the GRU

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'num_filters', 'stride', 'hidden_size')
        check(
            self.kernel >= self.stride,
            f'kernel={self.kernel}: expected at least stride={self.stride}, or frames are lost',
        )
        check_range(self, 'dropout_rate', least=0, below=1)


@dataclass(frozen=True)
class HitConfig:
    """When the probabilities of the output frames make a hit."""

    threshold: float = setting(0.98, 'resumable')  # least score of a hit: the mean of the last `average` probabilities
    average: int = setting(2, 'resumable')  # output frames
    # Seconds that must pass between two hits; the score must also have fallen below half of the threshold.
    pause: float = setting(0.8, 'resumable')

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, 'average', least=1, most=1000)
        check_range(self, 'threshold', above=0, below=1)
        check_range(self, 'pause', least=0)


@dataclass(frozen=True)
class SceneConfig:
    """How training scenes are mixed: clips one after another, over background."""

    seconds: float = 8.0  # a scene's length
    label_seconds: float = 0.5  # how long the label is 1 after the end of the trigger word
    trigger_share: float = 0.35  # how many clips are the trigger word
    # How many of the other clips are the beginning or the end of the trigger word alone, which must not fire.
    partial_share: float = 0.25
    levels: tuple[float, float] = (-52.0, -10.0)  # dB of full scale, of clips; each differs from its scene's by up to 6
    background_levels: tuple[float, float] = (-75.0, -35.0)  # dB of full scale
    speeds: tuple[float, float] = (0.87, 1.15)  # what clips are played at; the pitch goes with it
    gaps: tuple[float, float] = (0.05, 1.2)  # seconds between clips

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, 'trigger_share', 'partial_share', least=0, below=1)
        check_range(self, 'seconds', above=0)
        check_range(self, 'label_seconds', above=0, below=self.seconds)
        for name, least in (('levels', -300.0), ('background_levels', -300.0), ('speeds', 0.1), ('gaps', 0.0)):
            low, high = getattr(self, name)
            check(least <= low <= high, f'{name}={low, high}: expected the lowest, from {least:g} on, then the highest')


@dataclass(frozen=True)
class TriggerWordDataConfig(ExamplesConfig):
    """Short recordings, each of the trigger word or of something else, and background.

    Each field takes any number of manifests (docs/how-to/trigger_word.md), such as `clips/index.tsv?split=train#label`,
    or `melodies:train`, generated melodies of three tones with the text `rising`, `falling` and so on.
    """

    trigger: str = 'rising'  # the text of the recordings that are to be found
    train: tuple[str, ...] = ('melodies:train',)  # manifests of recordings, each of one word
    train_background: tuple[str, ...] = ()  # what clips are mixed with; noise is also generated
    validation: tuple[str, ...] = ()  # what the best checkpoint is chosen by; empty: none
    validation_background: tuple[str, ...] = ()  # what validation scenes are mixed with
    test: tuple[str, ...] = ()  # what `evaluate` reads; empty: none
    test_background: tuple[str, ...] = ()  # further sounds without the word

    def __post_init__(self) -> None:
        super().__post_init__()
        check(bool(self.trigger), 'trigger is empty: expected the text of the recordings to find')
        has_validation = bool(self.validation or self.held_out)
        check(
            has_validation or not self.validation_background, 'validation_background has no effect without validation'
        )
        check(bool(self.test) or not self.test_background, 'test_background has no effect without test')


@dataclass(frozen=True, kw_only=True)
class TriggerWordTrainingConfig(LoopConfig):
    """How long and in what batches to train, and when to report, evaluate and save."""

    batch_size: int = 16  # scenes per batch, over all devices
    positive_weight: float = 2.0  # what an output frame with label 1 weighs; the others, many more, weigh 1
    validation_scenes: int = 64  # mixed from the validation clips
    # Validation score that decides what is best.
    best_by: Literal['loss', 'false_rejects'] = setting('loss', 'resumable')

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, 'batch_size', 'validation_scenes')
        check_range(self, 'positive_weight', above=0)


@dataclass(frozen=True, kw_only=True)
class TriggerWordConfig(TaskConfig):
    """One trigger-word experiment."""

    task: ClassVar[str] = 'trigger_word'

    features: FeatureConfig = section(FeatureConfig)
    model: DetectorConfig = section(DetectorConfig)
    hits: HitConfig = section(HitConfig)
    scenes: SceneConfig = section(SceneConfig)
    data: TriggerWordDataConfig = section(TriggerWordDataConfig)
    training: TriggerWordTrainingConfig = section(TriggerWordTrainingConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check(
            self.features.window >= self.features.hop,
            f'features.window_ms={self.features.window_ms}: expected at least hop_ms={self.features.hop_ms}',
        )
        check(
            self.scenes.seconds * self.features.sample_rate >= self.samples_per_output,
            f'scenes.seconds={self.scenes.seconds}: expected at least one output frame',
        )

    @property
    def samples_per_output(self) -> int:
        return self.model.stride * self.features.hop
