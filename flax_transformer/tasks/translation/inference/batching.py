"""Which lines share a batch: few static shapes (length buckets x batch sizes), each compiled once."""

from collections.abc import Iterator, Sequence

_BUCKETS = (16, 32, 64, 128, 256)  # slots; beyond, multiples of the last
_SIZES = (1, 8, 64)  # rows; or as many as batch_tokens allows


def bucket(length: int) -> int:
    """The slots for a sentence of `length` tokens."""
    last = _BUCKETS[-1]
    return next((slots for slots in _BUCKETS if length <= slots), -(-length // last) * last)


def full_rows(slots: int, batch_tokens: int, multiple_of: int) -> int:
    """Rows of a full batch, a multiple of `multiple_of` devices."""
    return max(batch_tokens // slots // multiple_of, 1) * multiple_of


def sizes(slots: int, batch_tokens: int, multiple_of: int = 1) -> list[int]:
    """The batch sizes of a bucket."""
    full = full_rows(slots, batch_tokens, multiple_of)
    return sorted({*(-(-size // multiple_of) * multiple_of for size in _SIZES if size < full), full})


def shapes(max_slots: int, batch_tokens: int, multiple_of: int = 1) -> list[tuple[int, int]]:
    """All (rows, slots) in which lines of up to max_slots tokens are translated."""
    buckets = [slots for slots in _BUCKETS if slots < max_slots]
    buckets += [min(bucket(max_slots), max_slots)]
    return [(rows, slots) for slots in buckets for rows in sizes(slots, batch_tokens, multiple_of)]


def plan(
    lengths: Sequence[int], max_slots: int, batch_tokens: int, multiple_of: int = 1
) -> Iterator[tuple[list[int], int, int]]:
    """(indices, rows, slots) of each batch of sentences with these lengths.

    Longest first: batches of similar lengths waste least, and the greatest need for memory shows at once. Each bucket
    uses one size only, the smallest that holds all sentences left when it is first used, else the full one; so there
    are no more shapes than buckets.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    used: dict[int, int] = {}
    while order:
        slots = min(bucket(lengths[order[0]]), max(max_slots, lengths[order[0]]))
        if slots not in used:
            used[slots] = next(
                (rows for rows in sizes(slots, batch_tokens, multiple_of) if len(order) <= rows),
                full_rows(slots, batch_tokens, multiple_of),
            )
        rows = used[slots]
        yield order[:rows], rows, slots
        order = order[rows:]
