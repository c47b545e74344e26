"""What a translator returns: the text, its score, and flags."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from flax_transformer.tasks.translation.inference.lines import Line
from flax_transformer.text.tokenizer import count_unspaced

_LINE_BREAKS = {ord(character): ' ' for character in '\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029'}
LONGEST_LOOP = 8  # tokens; a loop of up to this length is a repetition if it comes TIMES times in a row
TIMES = 4


@dataclass(frozen=True)
class Translation:
    """The best translation of one line; as a string, its text."""

    text: str  # one line: no line break of any kind
    score: float  # what the search ranked by: log-probability / length penalty; the mean over the parts of a split line
    log_prob: float  # nats, summed over tokens
    num_tokens: int  # with EOS
    truncated: bool = False  # cut at its longest permitted length
    split: bool = False  # translated in parts: the line was too long, or split_sentences is set
    repetition: bool = False  # a few tokens come again and again, unlike in the source
    untranslated: bool = False  # equal to the source, or empty
    replaced: bool = False  # the line was not valid Unicode: what was not became U+FFFD before translation
    token_ids: tuple[int, ...] = ()  # with EOS; for a split line those of all parts
    tokens: tuple[str, ...] = ()  # the pieces of token_ids
    token_log_probs: tuple[float, ...] = ()  # nats; their sum is log_prob
    n_best: tuple['Translation', ...] = ()  # if n_best is above 1: distinct texts, best first, this one included
    alignment: tuple[tuple[int, int], ...] | None = None  # (source word, target word) from 0, if asked for

    def __str__(self) -> str:
        return self.text


class Translations(list[Translation]):
    """One translation for each line, in order."""

    num_compilations: int = 0  # programs compiled, or loaded from the cache, for these lines


def one_line(text: str) -> str:
    """The text with a space for each Unicode line break, so that no reader takes it for two lines."""
    return text.translate(_LINE_BREAKS)


def with_flags(translation: Translation, line: Line, source_ids: Sequence[int]) -> Translation:
    """The translation of a line, with `repetition`, `untranslated` and `replaced` set."""
    repetition = has_loop(translation.token_ids) and not has_loop(source_ids)
    untranslated = bool(line.parts) and is_untranslated(line.text, translation.text)
    return replace(translation, repetition=repetition, untranslated=untranslated, replaced=line.replaced)


def has_loop(ids: Sequence[int]) -> bool:
    """Whether some 1 to LONGEST_LOOP ids come TIMES times in a row.

    >>> has_loop([1, 5, 6, 5, 6, 5, 6, 5, 6, 2]), has_loop([5, 6, 5, 6, 5, 6])
    (True, False)
    """
    array = np.asarray(ids)
    for n in range(1, min(LONGEST_LOOP, len(array) // TIMES) + 1):
        same = array[n:] == array[:-n]
        # n ids that come TIMES times in a row are n * (TIMES - 1) ids, each equal to the one n before it.
        run = 0
        for is_same in same.tolist():
            run = run + 1 if is_same else 0
            if run == n * (TIMES - 1):
                return True
    return False


def is_untranslated(source: str, text: str) -> bool:
    """Whether the translation is empty, or a source of three words or more unchanged (a name may well stay).

    In scripts without spaces, nine characters count as three words.

    >>> is_untranslated('Der Hund schläft .', 'der hund schläft.'), is_untranslated('New York', 'New York')
    (True, False)
    """
    if not text.strip():
        return True
    same = ''.join(source.casefold().split()) == ''.join(text.casefold().split())
    words = sum(any(map(str.isalpha, word)) for word in source.split())
    return same and (words >= 3 or count_unspaced(source) >= 9)


def joined(parts: Sequence[Translation], line: Line) -> Translation:
    """The translation of a line from those of its parts; empty for a blank line."""
    if len(parts) == 1 and not line.lead and not line.gaps[0]:
        return parts[0]
    text, links = line.lead if parts else '', []
    # The word of each character but white space: parts may begin within a word.
    words = [i for i, word in enumerate(line.text.split()) for _ in word]
    num_characters = 0
    for part, source, gap in zip(parts, line.parts, line.gaps, strict=True):
        target_words = len(text.split())
        links += [(words[num_characters] + i, target_words + j) for i, j in part.alignment or ()]
        num_characters += len(''.join(source.split()))
        text += part.text + gap if part.text else ''
    whole = Translation(
        text=text if line.gaps and line.gaps[-1] else text.rstrip(' '),
        score=float(np.mean([part.score for part in parts])) if parts else 0.0,
        log_prob=sum(part.log_prob for part in parts),
        num_tokens=sum(part.num_tokens for part in parts),
        truncated=any(part.truncated for part in parts),
        split=len(parts) > 1,
        token_ids=tuple(i for part in parts for i in part.token_ids),
        tokens=tuple(token for part in parts for token in part.tokens),
        token_log_probs=tuple(x for part in parts for x in part.token_log_probs),
        alignment=tuple(links) if any(part.alignment is not None for part in parts) else None,
    )
    most = max((len(part.n_best) for part in parts), default=0)
    if not most:
        return whole
    # The second best of a line joins the second best of its parts, or the last that a part has.
    lists = [part.n_best or (part,) for part in parts]
    ranks = [[replace(found[min(rank, len(found) - 1)], n_best=()) for found in lists] for rank in range(most)]
    return replace(whole, n_best=distinct([joined(rank, line) for rank in ranks]))


def distinct(translations: Sequence[Translation]) -> tuple[Translation, ...]:
    """The first translation with each text."""
    first: dict[str, Translation] = {}
    for translation in translations:
        first.setdefault(translation.text, translation)
    return tuple(first.values())
