"""What a recurrent model is: its cell, its sizes, how its decoder reads the source."""

from dataclasses import dataclass
from typing import Literal

from flax_transformer.common.fields import check_range, check_types, check_used, check_vocabularies, setting


@dataclass(frozen=True)
class RecurrentConfig:
    """The attention RNN. Defaults: one layer on each side, as in Bahdanau et al. 2015, with 37,000 shared pieces."""

    max_positions = None  # a source or target may have any length

    vocab_size: int = 37_000  # pieces, including special ones
    target_vocab_size: int | None = None  # if the target has its own vocabulary; None: shared with the source
    cell: Literal['lstm', 'gru'] = 'lstm'  # lstm: Hochreiter and Schmidhuber 1997; gru: Cho et al. 2014
    d_model: int = 512  # width of the embeddings and of the layer before the logits
    hidden_size: int = 1024  # width of each cell's state; the encoder has this in each direction
    num_encoder_layers: int = 1  # layers that read the source, in both directions
    num_decoder_layers: int = 1  # layers that write the target; the first one's state is the attention's query
    # How a state is compared with each source position: by a small network, by a product (Luong et al. 2015,
    # "general"), or not at all: the decoder sees the encoder's final states only (Sutskever et al. 2014).
    attention: Literal['additive', 'multiplicative', 'none'] = 'additive'
    attention_size: int | None = None  # width of the additive network; None: hidden_size
    # Whether the decoder's first layer reads what the attention found at the step before. Without, it knows only the
    # words so far, and trains faster: the attention of all positions is computed at once.
    input_feeding: bool = True
    # acts on embeddings, between layers, on the encoder's last states and before the logits
    dropout_rate: float = setting(0.2, 'transferable')
    tie_embeddings: Literal['all', 'target', 'none'] = 'all'  # all: source = target = softmax; target: target = softmax
    # A file of word vectors that the embeddings of the source start from, relative to data.root; empty: random numbers.
    # To keep them as they are, set --optimizer.freeze embedding/table, or source_embedding/table if they are not tied.
    embedding_from: str = setting('', 'transferable')
    logits_bias: bool = False  # a bias on the logits
    pad_id: int = 0  # also the decoder's start: its embedding is the zero vector
    eos_id: int = 1  # ends every source and target
    # Computation's type; auto: bfloat16 on TPUs and GPUs, but not NVIDIA's before Ampere.
    dtype: Literal['auto', 'float32', 'bfloat16'] = setting('auto', 'transferable')

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, 'num_encoder_layers', 'num_decoder_layers', least=1, most=100)
        sizes = ('vocab_size', 'target_vocab_size', 'd_model', 'hidden_size', 'attention_size')
        check_range(self, *sizes, least=1, below=2**31)
        check_used(self, 'attention_size', None, 'attention', 'additive')
        check_range(self, 'dropout_rate', least=0, below=1)
        check_vocabularies(self)

    @property
    def width_of_attention(self) -> int:
        return self.attention_size or self.hidden_size

    @property
    def vocab_size_of_target(self) -> int:
        return self.target_vocab_size or self.vocab_size
