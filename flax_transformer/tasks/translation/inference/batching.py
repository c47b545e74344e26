"""Which lines share a batch: few static shapes, length buckets x batch sizes, each compiled once."""

from collections.abc import Iterator, Sequence

_BUCKETS = (16, 32, 64, 128, 256)  # slots; longer ones are multiples of the last
_SIZES = (1, 8, 64)  # rows, and as many as the memory allows


def bucket(length: int) -> int:
    """The slots for a sentence of so many tokens."""
    last = _BUCKETS[-1]
    return next((slots for slots in _BUCKETS if length <= slots), -(-length // last) * last)


def full_rows(slots: int, batch_tokens: int, multiple_of: int) -> int:
    """Rows of a full batch; they divide among `multiple_of` devices."""
    return max(batch_tokens // slots // multiple_of, 1) * multiple_of


def sizes(slots: int, batch_tokens: int, multiple_of: int = 1) -> list[int]:
    """The batch sizes that there are for a bucket."""
    full = full_rows(slots, batch_tokens, multiple_of)
    return sorted({*(-(-size // multiple_of) * multiple_of for size in _SIZES if size < full), full})


def shapes(max_slots: int, batch_tokens: int, multiple_of: int = 1) -> list[tuple[int, int]]:
    """All (rows, slots) that lines of up to max_slots tokens are translated in."""
    buckets = [slots for slots in _BUCKETS if slots < max_slots]
    buckets += [min(bucket(max_slots), max_slots)]
    return [(rows, slots) for slots in buckets for rows in sizes(slots, batch_tokens, multiple_of)]


def plan(
    lengths: Sequence[int], max_slots: int, batch_tokens: int, multiple_of: int = 1
) -> Iterator[tuple[list[int], int, int]]:
    """(indices, rows, slots) of batches of sentences of the given lengths.

    Longest first: batches of one length waste least, and what needs most memory comes at once. A pure function of its
    arguments. What is left at the end goes into the smallest size that holds it; but of each bucket one size alone is
    used, so that there are no more shapes than buckets.
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
