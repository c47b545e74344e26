"""How FLOPs are counted."""

from typing import NamedTuple


class Flops(NamedTuple):
    """FLOPs of the matrix products of a sequence-to-sequence model, by part."""

    encoder: float  # layers over the source, linear in its slots
    decoder: float  # layers over the target, and what is projected of the source once for them
    attention: float  # queries by keys, and weights by values
    logits: float

    @property
    def total(self) -> float:
        return sum(self)

    def times(self, factor: float) -> 'Flops':
        return Flops(*(factor * part for part in self))
