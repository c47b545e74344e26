"""How much the attention RNN computes: the FLOPs of its matrix products, counted from the config alone.

A multiplication and an addition are two FLOPs. As for the Transformer, only products count, not activations, softmax,
dropout or the optimizer, every slot of a row counts, including padding, and the backward pass has two products for each
one of the forward pass.
"""

from flax_transformer.ops.flops import Flops
from flax_transformer.rnn.config import RecurrentConfig
from flax_transformer.rnn.layers import GATES


def forward_flops(model: RecurrentConfig, source: int, target: int) -> Flops:
    """FLOPs of the forward pass over one row with `source` and `target` slots."""
    hidden, width, d_model = model.hidden_size, model.width_of_attention, model.d_model
    gates, context, has_attention = GATES[model.cell] * hidden, 2 * hidden, model.attention != 'none'
    layers = [d_model, *[context] * (model.num_encoder_layers - 1)]
    encoder = 2 * sum(2 * gates * (inputs + hidden) for inputs in layers)
    decoder = 2 * gates * (d_model + hidden) + 2 * context * hidden  # the first layer and its initial state
    decoder += (model.num_decoder_layers - 1) * 2 * gates * (hidden + context + hidden)
    decoder += 2 * (hidden + context + d_model) * d_model  # the layer before the logits
    if model.input_feeding:
        decoder += 2 * context * gates
    if model.attention == 'additive':
        decoder += 2 * hidden * width
    return Flops(
        encoder=source * encoder,
        decoder=target * decoder + has_attention * source * 2 * context * width,
        attention=has_attention * target * source * 2 * (width + context),
        logits=target * 2 * d_model * model.vocab_size_of_target,
    )
