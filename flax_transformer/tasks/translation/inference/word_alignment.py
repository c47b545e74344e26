"""Which source word each target word comes from, by attention, in Pharaoh's notation `0-0 1-2`."""

from collections.abc import Sequence

import numpy as np

_SPACES = {'<0x09>', '<0x0A>', '<0x0B>', '<0x0C>', '<0x0D>', '<0x20>'}


def words_of(pieces: Sequence[str]) -> list[int | None]:
    """The word in which each piece begins, counted from 0 as `str.split` does; None: white space alone.

    >>> words_of(['▁a', 'b', '▁', 'c', '▁d'])
    [0, 0, None, 1, 2]
    """
    words: list[int | None] = []
    current, inside = -1, False
    for piece in pieces:
        word = None
        for character in ' ' if piece in _SPACES else piece.replace('▁', ' '):
            if character.isspace():
                inside = False
                continue
            if not inside:
                current, inside = current + 1, True
            word = current if word is None else word
        words.append(word)
    return words


def align_words(weights: np.ndarray, source: Sequence[str], target: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """(source word, target word) for each target word, by what its pieces attend to most.

    Args:
      weights: attention [T, S] of target pieces over source pieces, EOS last on both sides.
      source, target: the pieces, without EOS. A word that attends most to EOS is left out.
    """
    of_source, of_target = words_of(source), words_of(target)
    num_source = max((word for word in of_source if word is not None), default=-1) + 1
    mass: dict[int, np.ndarray] = {}
    for t, word in enumerate(of_target):
        if word is None:
            continue
        row = mass.setdefault(word, np.zeros(num_source + 1))
        for s, source_word in enumerate(of_source):
            if source_word is not None:
                row[source_word] += weights[t, s]
        row[num_source] += weights[t, len(source)]
    best = {word: int(np.argmax(row)) for word, row in mass.items()}
    return tuple((source_word, word) for word, source_word in sorted(best.items()) if source_word < num_source)


def pharaoh(alignment: Sequence[tuple[int, int]]) -> str:
    """`0-0 1-2`, sorted.

    >>> pharaoh([(1, 2), (0, 0)])
    '0-0 1-2'
    """
    return ' '.join(f'{source}-{target}' for source, target in sorted(alignment))
