"""What the model is: its sizes, and every departure from the paper."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from flax_transformer.common.fields import check, check_range, check_types, check_vocabularies, setting

GROUP_SIZE = 16  # features in a group of group norm: 32 groups at the base model's width, as in Wu and He 2018


@dataclass(frozen=True)
class TransformerConfig:
    """The model. Defaults: the paper's base model (table 3), 37,000 shared pieces."""

    FORMER = MappingProxyType({'encoder_norm': 'same'})  # a field of older runs

    vocab_size: int = 37_000  # pieces, including special ones
    target_vocab_size: int | None = None  # if the target has its own vocabulary; None: shared with the source
    d_model: int = 512  # width of the residual stream
    num_heads: int = 8  # attention heads of each layer
    head_dim: int | None = None  # width of one head; None: d_model / num_heads
    d_ff: int = 2048  # inner width of the feed-forward network
    num_encoder_layers: int = 6  # layers over the source
    num_decoder_layers: int = 6  # layers over the target
    # drops each sublayer's output and embedding + position (section 5.4)
    dropout_rate: float = setting(0.1, 'transferable')
    attention_dropout_rate: float = setting(0.0, 'transferable')  # drops attention weights; 0 in the published model
    # drops feed-forward activations; 0 in the published model
    activation_dropout_rate: float = setting(0.0, 'transferable')
    # layer (the paper), rms, or group: 16 features of a position each
    norm: Literal['layer', 'rms', 'group'] = 'layer'
    norm_first: bool = False  # False: norm(x + sublayer(x)), the paper; True: x + sublayer(norm(x))
    norm_epsilon: float = 1e-6  # added to the variance in norms
    activation: Literal['relu', 'gelu', 'gelu_tanh', 'swish'] = 'relu'  # the feed-forward network's
    gated: bool = False  # multiply its activations by a second product of its input (Shazeer 2020)
    feed_forward_bias: bool = True  # biases in its products
    # Sinusoids, in three orders (section 3.5); a learned table; or a bias on scores by distance (Raffel et al. 2020).
    positions: Literal['interleaved', 'concatenated', 'tensor2tensor', 'learned', 'relative'] = 'interleaved'
    position_offset: int = 0  # the first token's position in a table of sinusoids; 2 in fairseq
    embedding_norm: bool = False  # normalize the sum of embedding and position, as BART does
    scale_embedding: bool = True  # multiply embeddings by sqrt(d_model), section 3.4
    # all: source = target = softmax; sides: source = target; target: target = softmax
    tie_embeddings: Literal['all', 'sides', 'target', 'none'] = 'all'
    # A file of word vectors that the embeddings of the source start from, relative to data.root; empty: random numbers.
    # To keep them as they are, set --optimizer.freeze embedding/table, or source_embedding/table if they are not tied.
    embedding_from: str = setting('', 'transferable')
    # How a query is compared with a key (section 3.2.1): q . k / sqrt(head_dim), the paper; q . k; or
    # weight . tanh(q + k), with a trained weight for each head (Bahdanau et al. 2015).
    attention_score: Literal['scaled_dot', 'dot', 'additive'] = 'scaled_dot'
    attention_bias: bool = False  # biases in the query, key, value and output projections
    logits_bias: bool = False  # a bias on the logits
    pad_id: int = 0  # fills up after each sentence; its embedding is the zero vector
    start_id: int | None = None  # the decoder's start; None: pad_id
    # What reads pad_id's row of the embedding. output: only the logits, if tied; neither: zeros there too, as in
    # Marian; both: like any other row, so that the decoder starts from it.
    pad_row: Literal['output', 'neither', 'both'] = 'output'
    eos_id: int = 1  # ends every source and target
    max_length: int = 512  # positions of a learned table; sinusoids have no limit
    # cudnn: fused, on NVIDIA GPUs, for heads of a multiple of 8 values, at most 128 (256 from Hopper on); plain on
    # other devices. auto: cudnn to train on NVIDIA GPUs from Ampere to Hopper, for heads of at most 128 values, if the
    # other settings allow it; else plain.
    attention: Literal['auto', 'plain', 'cudnn'] = setting('auto', 'resumable', 'transferable')
    # Computation's type; auto: bfloat16 on TPUs and GPUs, but not NVIDIA's before Ampere.
    dtype: Literal['auto', 'float32', 'bfloat16'] = setting('auto', 'transferable')

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, 'num_encoder_layers', 'num_decoder_layers', least=1, most=1000)
        sizes = ('vocab_size', 'd_model', 'num_heads', 'd_ff', 'max_length', 'head_dim', 'target_vocab_size')
        check_range(self, *sizes, least=1, below=2**31)
        check_range(self, 'position_offset', least=0, below=2**31)
        check_range(self, 'dropout_rate', 'attention_dropout_rate', 'activation_dropout_rate', least=0, below=1)
        check_range(self, 'norm_epsilon', above=0)
        check(
            self.head_dim is not None or self.d_model % self.num_heads == 0,
            f'd_model={self.d_model} is not divisible by num_heads={self.num_heads}; change one, or set head_dim',
        )
        check(self.d_model % 2 == 0, f'd_model={self.d_model}: expected an even number, for pairs of sine and cosine')
        check(
            self.norm != 'group' or self.d_model % GROUP_SIZE == 0,
            f'd_model={self.d_model} is not divisible by {GROUP_SIZE}, the features of a group of group norm',
        )
        check_vocabularies(self)
        check_range(self, 'start_id', least=0, below=self.vocab_size_of_target)
        if self.attention == 'cudnn':
            self._check_cudnn()

    def _check_cudnn(self) -> None:
        width = self.width_of_head
        check(
            width % 8 == 0 and width <= 256,
            f"attention='cudnn': heads are {width} wide; expected a multiple of 8, at most 128, or 256 on Hopper GPUs "
            'and later; change num_heads or head_dim',
        )
        check(self.dtype != 'float32', "attention='cudnn' computes in bfloat16: expected dtype='auto' or 'bfloat16'")
        check(
            self.attention_score == 'scaled_dot',
            f"attention='cudnn': attention_score={self.attention_score!r}, expected 'scaled_dot', or attention='plain'",
        )
        check(self.positions != 'relative', "attention='cudnn': positions='relative', expected attention='plain'")
        check(
            self.attention_dropout_rate == 0,
            f"attention='cudnn': attention_dropout_rate={self.attention_dropout_rate}, expected 0 or attention='plain'",
        )

    @property
    def width_of_head(self) -> int:
        return self.head_dim or self.d_model // self.num_heads

    @property
    def max_positions(self) -> int | None:
        """The longest source or target; None: any length."""
        return self.max_length if self.positions == 'learned' else None

    @property
    def vocab_size_of_target(self) -> int:
        return self.target_vocab_size or self.vocab_size
