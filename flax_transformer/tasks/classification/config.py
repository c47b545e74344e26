"""The config of a classification experiment."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from flax_transformer.common.fields import check, check_positive, check_range, check_types, section, setting
from flax_transformer.engine.config import LoopConfig, TaskConfig
from flax_transformer.tasks.sections import ExamplesConfig, check_heads


@dataclass(frozen=True)
class ClassifierConfig:
    """The model: an encoder of embedded tokens, dropout, and one dense layer; linear: weights of tokens alone."""

    # What reads the tokens; average: the mean of the embeddings; recurrent: LSTMs or GRUs in both directions;
    # convolution: Kim 2014; transformer: the encoder of Vaswani et al. 2017; linear: a weight for each token and label.
    encoder: Literal['average', 'recurrent', 'convolution', 'transformer', 'linear'] = 'average'
    num_classes: int = 2  # labels; the training data must have as many
    vocab_size: int = 20_000  # words or pieces, including pad and unk
    d_model: int = 128  # width of the embeddings, and of the transformer
    # A file of word vectors that the embeddings start from, relative to data.root; empty: random numbers.
    # --optimizer.freeze encoder/embedding/table keeps them as they are.
    embedding_from: str = setting('', 'transferable')
    widths: tuple[int, ...] = (3, 4, 5)  # convolution: of the filters, in tokens
    num_maps: int = 100  # convolution: filters of each width
    num_layers: int = 1  # recurrent and transformer
    cell: Literal['lstm', 'gru'] = 'lstm'  # recurrent: its cells
    hidden_size: int = 128  # recurrent: of each direction
    num_heads: int = 4  # transformer: heads of the attention
    d_ff: int = 256  # transformer: inner width of the feed-forward network
    pool: Literal['mean', 'max'] = 'mean'  # recurrent and transformer: over positions
    dropout_rate: float = setting(0.5, 'transferable')  # acts before the dense layer
    encoder_dropout_rate: float = setting(0.1, 'transferable')  # acts inside of the encoder, and on the embeddings
    word_dropout_rate: float = setting(0.0, 'transferable')  # how often training replaces a token by unk
    # Computation's type; auto: bfloat16 on TPUs and GPUs, but not NVIDIA's before Ampere.
    dtype: Literal['auto', 'float32', 'bfloat16'] = setting('auto', 'transferable')

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'd_model', 'num_maps', 'num_layers', 'hidden_size', 'num_heads', 'd_ff')
        check_range(self, 'num_classes', least=2)
        check_range(self, 'vocab_size', least=3)
        check(
            bool(self.widths) and min(self.widths) >= 1 and len(set(self.widths)) == len(self.widths),
            f'widths={self.widths}: expected one or more, of at least 1, each once',
        )
        check_heads(self)
        check_range(self, 'dropout_rate', 'encoder_dropout_rate', 'word_dropout_rate', least=0, below=1)


@dataclass(frozen=True)
class VocabularyConfig:
    """How text becomes tokens; learned from the training texts and kept in the run directory."""

    # What a token is; words: whatever white space separates; words_and_punctuation: the same, and each sign of
    # punctuation that is not within a word, so that "Aspen?" is "Aspen ?"; bpe and unigram: pieces, by SentencePiece.
    algorithm: Literal['words_and_punctuation', 'words', 'bpe', 'unigram'] = 'words_and_punctuation'
    lower_case: bool = True  # lower the text before anything else
    min_count: int = 1  # words that occur less often become unk
    # 2: pairs of neighboring words are tokens, too; 3: and triples. Helps an average, which knows no order (Joulin et
    # al. 2017).
    ngrams: int = 1
    # 5: sequences of 3 to 5 characters of each word are tokens, too; 0: none. For linear (Bojanowski et al. 2017).
    characters: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'min_count', 'ngrams')
        check(self.characters in (0, 3, 4, 5, 6), f'characters={self.characters}: expected 0, or 3 to 6')
        for name, default in (('ngrams', 1), ('characters', 0)):
            value = getattr(self, name)
            check(
                value == default or self.algorithm in ('words', 'words_and_punctuation'),
                f'{name}={value} needs tokens that are words: got algorithm={self.algorithm!r}',
            )


@dataclass(frozen=True)
class ClassificationDataConfig(ExamplesConfig):
    """Labeled texts. They are named in one of these forms:

    `folder/train.tsv`  label<TAB>text on each line; `train.tsv#3,1` names the columns of label and text
    `folder/train.csv`  the same, separated by commas or semicolons
    `folder/train.jsonl`  on each line {"label": ..., "text": ...}
    `folder/train`  a folder for each label, with a .txt file for each text
    `tfds:imdb_reviews:train`  TensorFlow Datasets, prepared as array_record
    `opinions:train`  generated sentences, half of them negated

    Files may be compressed (.gz, .xz, .bz2, .zst); `*` in a path matches several files, read in order of their names.
    """

    train: str = 'train.tsv'  # a file, a folder with a folder for each label, tfds:NAME:SPLIT or opinions:SPLIT
    validation: str = ''  # what the best checkpoint is chosen by; empty: none
    test: str = ''  # what `evaluate` reads; empty: none
    max_length: int = 64  # tokens; of a longer text the rest is cut, and reported

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, 'max_length')


@dataclass(frozen=True, kw_only=True)
class ClassificationTrainingConfig(LoopConfig):
    """How long and in what batches to train, and when to report, evaluate and save."""

    batch_size: int = 64  # texts per batch, over all devices
    label_smoothing: float = 0.0  # spread over the other labels
    # Weight of each label's examples; 'balanced' gives all labels the same total; or LABEL=WEIGHT for some.
    class_weights: tuple[str, ...] = ()
    # Initial parameters; naive_bayes: each embedding begins with what the training data say of its token's labels.
    start: Literal['random', 'naive_bayes'] = 'random'
    # Validation score that decides what is best.
    best_by: Literal['loss', 'accuracy', 'macro_f1'] = setting('accuracy', 'resumable')

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, 'batch_size')
        check_range(self, 'label_smoothing', least=0, below=1)
        labels = [entry.rpartition('=')[0] for entry in self.class_weights]
        check(len(set(labels)) == len(labels), f'class_weights={self.class_weights}: expected each label once')
        for entry in self.class_weights if self.class_weights != ('balanced',) else ():
            label, _, weight = entry.rpartition('=')
            try:
                is_weight = bool(label) and 0 < float(weight) < float('inf')
            except ValueError:
                is_weight = False
            check(is_weight, f'class_weights={entry!r}: expected balanced alone, or LABEL=WEIGHT, as in spam=0.5')


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig(TaskConfig):
    task: ClassVar[str] = 'classification'

    model: ClassifierConfig = section(ClassifierConfig)
    tokenizer: VocabularyConfig = section(VocabularyConfig)
    data: ClassificationDataConfig = section(ClassificationDataConfig)
    training: ClassificationTrainingConfig = section(ClassificationTrainingConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        is_linear = self.model.encoder == 'linear'
        check(
            not is_linear or (self.training.start == 'random' and not self.model.embedding_from),
            "model.encoder='linear' has no embeddings: expected training.start='random', and no model.embedding_from",
        )
        check(
            self.training.start == 'random' or self.model.num_classes <= self.model.d_model,
            f"training.start='naive_bayes' needs an embedding value a label: model.d_model={self.model.d_model}, "
            f'expected at least model.num_classes={self.model.num_classes}',
        )
        check(
            self.tokenizer.ngrams == 1 or is_linear or self.model.encoder == 'average',
            f'tokenizer.ngrams={self.tokenizer.ngrams} is for an encoder that knows no order: expected '
            f"model.encoder='average' or 'linear', got {self.model.encoder!r}; set tokenizer.ngrams=1",
        )
        check(
            not self.tokenizer.characters or is_linear,
            f"tokenizer.characters={self.tokenizer.characters} is for model.encoder='linear', got "
            f'{self.model.encoder!r}; set tokenizer.characters=0',
        )
