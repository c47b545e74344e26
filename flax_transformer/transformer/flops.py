"""How much a model computes: the FLOPs of its matrix products, counted from the config alone.

A multiplication and an addition are two FLOPs. Softmax, norms, activations, dropout and the optimizer do not count (a
few per cent of a step), nor does recomputation that saves memory: FLOP/s over a chip's peak is what PaLM calls model
FLOPs utilization (Chowdhery et al. 2022, appendix B). Padding and masked attention count, as they are computed. The
backward pass has two products for each one of the forward pass.
"""

from flax_transformer.ops.flops import Flops

from .config import TransformerConfig


def forward_flops(model: TransformerConfig, source: int, target: int) -> Flops:
    """FLOPs of the forward pass over one row with `source` and `target` slots."""
    width = model.num_heads * model.width_of_head
    projection = 2 * model.d_model * width  # one slot's query, key, value or output
    feed_forward = (6 if model.gated else 4) * model.d_model * model.d_ff
    products = 1 if model.attention_score == 'additive' else 2  # each attention has two; additive scores need none
    pairs = model.num_encoder_layers * source * source  # a query and a key each, in all attentions
    pairs += model.num_decoder_layers * target * (target + source)
    return Flops(
        encoder=model.num_encoder_layers * source * (4 * projection + feed_forward),
        decoder=model.num_decoder_layers * (target * (6 * projection + feed_forward) + source * 2 * projection),
        attention=2 * products * width * pairs,
        logits=target * 2 * model.d_model * model.vocab_size_of_target,
    )
