"""How the attention RNN's parameters are split over a mesh with the axes data, fsdp and tensor.

The matrices that a scan multiplies with at every step are whole on each device: split, they would be exchanged at every
step. Only the tables are split over `tensor`.
"""

from jax.sharding import PartitionSpec as P

# (regular expression for the end of a parameter's path, the mesh axis of each dimension); the first match counts.
SHARDING_RULES: tuple[tuple[str, P], ...] = (
    # Vocabulary by d_model: pieces over tensor, so that each device computes the logits of its own pieces only.
    (r'embedding/table', P('tensor', 'fsdp')),
    (r'projection', P('fsdp', 'tensor')),
    (r'logits_bias', P('tensor')),
    # Products outside of the scans.
    (r'(input|initial|key|output)/kernel', P('fsdp', None)),
    # Products of each step.
    (r'(recurrent|feeding|query)/kernel', P()),
    # Vectors: too small to split.
    (r'(input|initial|key|output)/bias', P()),
    (r'vector', P()),
)
