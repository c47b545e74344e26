"""How the Transformer's parameters are split over a mesh with the axes data, fsdp and tensor.

As in Megatron-LM (Shoeybi et al. 2019, section 3), the first matrix of a pair is split by columns and the second by
rows along `tensor`: what is between the two, heads or inner units, is never exchanged.
"""

from jax.sharding import PartitionSpec as P

# (regular expression for the end of a parameter's path, the mesh axis of each dimension); the first match counts.
SHARDING_RULES: tuple[tuple[str, P], ...] = (
    # Vocabulary by d_model: pieces over tensor, so that each device computes the logits of its own pieces only.
    (r'embedding/table', P('tensor', 'fsdp')),
    (r'positions/table', P(None, 'fsdp')),
    (r'projection', P('fsdp', 'tensor')),
    (r'logits_bias', P('tensor')),
    # Attention: [d_model, heads * width] by heads, then back.
    (r'attention/(query|key|value)/kernel', P('fsdp', 'tensor')),
    (r'attention/(query|key|value)/bias', P('tensor')),
    (r'attention/score_weight', P('tensor', None)),
    (r'attention/output/kernel', P('tensor', 'fsdp')),
    # Feed-forward: [d_model, d_ff] by inner units, then back.
    (r'feed_forward/(inner|gate)/kernel', P('fsdp', 'tensor')),
    (r'feed_forward/(inner|gate)/bias', P('tensor')),
    (r'feed_forward/outer/kernel', P('tensor', 'fsdp')),
    # Vectors of d_model values: too small to split.
    (r'(output|outer)/bias', P()),
    (r'norm/(scale|bias)', P()),
)
