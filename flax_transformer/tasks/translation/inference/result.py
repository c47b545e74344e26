"""What a translator returns: which hypotheses, their text, score, flags and word alignment."""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.decoding.problem import Hypotheses
from flax_transformer.tasks.translation.metrics import score_tokens
from flax_transformer.text.term_marks import unmarked
from flax_transformer.text.tokenizer import Tokenizer, as_text, count_unspaced

from .lines import Line

_SPACES = {'<0x09>', '<0x0A>', '<0x0B>', '<0x0C>', '<0x0D>', '<0x20>'}  # pieces of SentencePiece
LINE_BREAKS = {ord(character): ' ' for character in '\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029'}
LONGEST_LOOP = 8  # tokens
TIMES = 4  # a loop must come in a row to be a repetition
# Quality below which a translation is doubtful: of 600 sentences of Tatoeba by `everyday`, 23 %, whose chrF is 0.44 in
# the mean, and 0.71 that of the others.
DOUBTFUL = 0.5


@dataclass(frozen=True)
class Translation:
    """The best translation of one line; as a string, its text."""

    text: str  # one line: no line break of any kind
    score: float  # the search ranks by it: log-probability / length penalty; the mean over the parts of a split line
    log_prob: float  # nats, summed over tokens
    num_tokens: int  # EOS included
    truncated: bool = False  # cut at its longest permitted length
    split: bool = False  # translated in parts: the line was too long, or split_sentences is set
    repetition: bool = False  # a few tokens come again and again, unlike in the source
    untranslated: bool = False  # equal to the source, or empty
    replaced: bool = False  # the line was not valid Unicode; invalid parts became U+FFFD before translation
    missing: tuple[str, ...] = ()  # required phrases that it lacks
    quality: float | None = None  # expected chrF, 0 to 1; None: the model is not calibrated
    word_quality: tuple[float, ...] | None = None  # probability of each word, between spaces, to be right
    token_ids: tuple[int, ...] = ()  # EOS included; a split line has those of all parts
    tokens: tuple[str, ...] = ()  # the pieces of token_ids
    token_log_probs: tuple[float, ...] = ()  # nats; their sum is log_prob
    n_best: tuple['Translation', ...] = ()  # if n_best is above 1: distinct texts, best first, this one included
    alignment: tuple[tuple[int, int], ...] | None = None  # (source word, target word) from 0, if asked for

    def __str__(self) -> str:
        return self.text

    @property
    def doubtful(self) -> bool:
        return self.quality is not None and self.quality < DOUBTFUL


def unchanged(line: str | bytes, alignment: bool = False) -> Translation:
    """A line as its own translation, which no model was asked for; with `alignment`, of each word with itself."""
    text, replaced = as_text(line)
    links = tuple((i, i) for i, _ in enumerate(text.split()))
    return Translation(text, 0.0, 0.0, 0, replaced=replaced, alignment=links if alignment else None)


def on_one_line(translation: Translation) -> Translation:
    """The translation with a space for every line break, which a literal may have."""
    text = translation.text.translate(LINE_BREAKS)
    if text == translation.text:
        return translation
    return replace(translation, text=text, n_best=tuple(map(on_one_line, translation.n_best)))


class Translations(list[Translation]):
    """One translation for each line, in order."""

    num_compilations: int = 0  # programs compiled, or loaded from the cache, for these lines


def best_of_each(
    hypotheses: Sequence[Hypotheses],
    sources: Sequence[str],
    source_ids: Sequence[Sequence[int]],
    tokenizer: Tokenizer,
    decoding: DecodingConfig,
    language: str | None = None,
    rerank: Callable[[list[list[Translation]]], list[list[Translation]]] | None = None,
) -> list[Translation]:
    """The translation of each source that the search, or minimum Bayes risk, ranks first; n_best has the others.

    One with a fault that decoding.pass_over names comes after the best without. BLEU counts the tokens of `language`.
    `rerank` orders the hypotheses of each source anew.
    """
    is_one_wanted = decoding.mbr == 'none' and decoding.n_best == 1 and not rerank

    def candidate(ranked: Hypotheses, i: int) -> Translation:
        length = ranked.lengths[i]
        tokens = ranked.tokens[i][:length], ranked.scores[i], ranked.token_log_probs[i][:length]
        return make_translation(tokenizer, *tokens, is_finished=bool(ranked.is_finished[i]))

    def is_faulty(translation: Translation, source: str, source_ids: Sequence[int]) -> bool:
        if decoding.pass_over == 'nothing':
            return False
        if has_loop(translation.token_ids) and not has_loop(source_ids):
            return True
        return decoding.pass_over == 'loops_and_copies' and is_untranslated(source, translation.text)

    ranks_of_each = [[i for i in range(len(ranked.lengths)) if i == 0 or ranked.lengths[i]] for ranked in hypotheses]
    every = [
        [candidate(ranked, i) for i in (ranks[:1] if is_one_wanted else ranks)]
        for ranked, ranks in zip(hypotheses, ranks_of_each, strict=True)
    ]
    if rerank:
        every = rerank(every)

    best = []
    for ranked, ranks, candidates, *line in zip(hypotheses, ranks_of_each, every, sources, source_ids, strict=True):
        if decoding.mbr != 'none':
            candidates = _by_expected_utility(candidates, decoding, language)
        first, *others = candidates
        if is_faulty(first, *line):
            others = others or [candidate(ranked, i) for i in ranks[1:]]
            no_worse = [other for other in others if other.truncated <= first.truncated]
            first = next((other for other in no_worse if not is_faulty(other, *line)), first)
        if decoding.n_best > 1:
            first = replace(first, n_best=distinct([first, *candidates])[: decoding.n_best])
        best.append(first)
    return best


def _by_expected_utility(
    candidates: list[Translation], decoding: DecodingConfig, language: str | None
) -> list[Translation]:
    log_probs = np.array([candidate.log_prob for candidate in candidates])
    # Samples come as often as they are probable, hypotheses of a beam once.
    weights = np.ones(len(candidates)) if decoding.search == 'sample' else np.exp(log_probs - log_probs.max())
    worth = expected_utilities([candidate.text for candidate in candidates], weights, decoding.mbr, language)
    return [candidates[i] for i in np.argsort(-worth, kind='stable')]


def expected_utilities(
    texts: Sequence[str], weights: Sequence[float], utility: str, language: str | None = None
) -> np.ndarray:
    """The utility of each text, averaged over all texts as references, by their unnormalized weights.

    `utility` is `bleu` (sentence BLEU with smoothing `exp` and effective order) or `chrf` (chrF2), both 0 to 100.
    """
    unique = list(dict.fromkeys(texts))
    numbers = list(map(unique.index, texts))
    mass = np.bincount(numbers, weights)
    score = _utility(utility, language)
    table = np.array([[score(ours, theirs) for theirs in unique] for ours in unique])
    return (table @ (mass / mass.sum()))[numbers]


@functools.cache
def _utility(name: str, language: str | None) -> Callable[[str, str], float]:
    from sacrebleu.metrics import BLEU, CHRF  # a slow import that no other search needs

    metric = BLEU(effective_order=True, tokenize=score_tokens(language).bleu) if name == 'bleu' else CHRF()

    def score(ours: str, theirs: str) -> float:
        return metric.sentence_score(ours, [theirs]).score

    return score


def joined_lines(
    lines: Sequence[Line], translated: Sequence[Translation], sources: Sequence[Sequence[int]]
) -> Translations:
    """Joins the translations of all parts into one for each line; `sources` are the parts' ids."""
    out = Translations()
    end = 0
    for line in lines:
        start = end
        end += len(line.parts)
        whole = joined(translated[start:end], line)
        repetition = has_loop(whole.token_ids) and not has_loop(list(itertools.chain(*sources[start:end])))
        untranslated = bool(line.parts) and is_untranslated(line.text, whole.text)
        out.append(replace(whole, repetition=repetition, untranslated=untranslated, replaced=line.replaced))
    return out


def has_loop(ids: Sequence[int]) -> bool:
    """Whether some 1 to LONGEST_LOOP ids come TIMES times in a row.

    >>> has_loop([1, 5, 6, 5, 6, 5, 6, 5, 6, 2]), has_loop([5, 6, 5, 6, 5, 6])
    (True, False)
    """
    if len(ids) - len({*map(int, ids)}) < TIMES - 1:
        return False  # most lines, found much faster
    array = np.asarray(ids)
    for n in range(1, min(LONGEST_LOOP, len(array) // TIMES) + 1):
        # If n ids come TIMES times in a row, n * (TIMES - 1) are equal to those n before them.
        if sliding_window_view(array[n:] == array[:-n], n * (TIMES - 1)).all(axis=1).any():
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

    text = line.lead if parts else ''
    links = []
    # The word of each character but white space: parts may begin within a word.
    words = [i for i, word in enumerate(line.text.split()) for _ in word]
    num_characters = len(''.join(line.lead.split()))
    for part, source, gap in zip(parts, line.parts, line.gaps, strict=True):
        target_words = len(text.split())
        links += [(words[num_characters] + i, target_words + j) for i, j in part.alignment or ()]
        num_characters += len(''.join((source + gap).split()))
        text += part.text + gap if part.text else ''

    quality = None
    qualities = _chained(parts, 'word_quality')  # words of two parts may be one
    if parts and all(part.quality is not None for part in parts):
        quality = float(np.average([part.quality for part in parts], weights=[part.num_tokens for part in parts]))
    whole = Translation(
        text=text if line.gaps and line.gaps[-1] else text.rstrip(' '),
        score=float(np.mean([part.score for part in parts])) if parts else 0.0,
        log_prob=sum(part.log_prob for part in parts),
        num_tokens=sum(part.num_tokens for part in parts),
        truncated=any(part.truncated for part in parts),
        split=len(parts) > 1,
        missing=_chained(parts, 'missing'),
        quality=quality,
        word_quality=qualities if quality is not None and len(qualities) == len(text.split()) else None,
        token_ids=_chained(parts, 'token_ids'),
        tokens=_chained(parts, 'tokens'),
        token_log_probs=_chained(parts, 'token_log_probs'),
        alignment=tuple(links) if any(part.alignment is not None for part in parts) else None,
    )
    most = max((len(part.n_best) for part in parts), default=0)
    if not most:
        return whole

    # The second best of a line joins the second best, or last, of its parts.
    lists = [part.n_best or (part,) for part in parts]
    ranks = [[replace(best[min(rank, len(best) - 1)], n_best=()) for best in lists] for rank in range(most)]
    return replace(whole, n_best=distinct([joined(rank, line) for rank in ranks]))


def _chained(parts: Sequence[Translation], field: str) -> tuple[Any, ...]:
    return tuple(value for part in parts for value in getattr(part, field) or ())


def distinct(translations: Sequence[Translation]) -> tuple[Translation, ...]:
    """The first translation with each text."""
    first: dict[str, Translation] = {}
    for translation in translations:
        first.setdefault(translation.text, translation)
    return tuple(first.values())


def text_of(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of target ids, every line break a space."""
    return tokenizer.decode(ids).translate(LINE_BREAKS)


def make_translation(
    tokenizer: Tokenizer, ids: Sequence[int], score: float, gains: Sequence[float], *, is_finished: bool
) -> Translation:
    """The translation of these ids; `gains` are their log-probabilities in nats."""
    return Translation(
        text=text_of(tokenizer, ids),
        score=float(score),
        log_prob=float(np.sum(gains, dtype=np.float64)),
        num_tokens=len(ids),
        truncated=not is_finished,
        token_ids=tuple(map(int, ids)),
        tokens=tuple(map(tokenizer.piece, ids)),
        token_log_probs=tuple(map(float, gains)),
    )


def words_of(pieces: Sequence[str]) -> list[int | None]:
    """The word in which each piece begins, counted from 0 as `str.split` does; None: white space alone.

    >>> words_of(['▁a', 'b', '▁', 'c', '▁d'])
    [0, 0, None, 1, 2]
    """
    words: list[int | None] = []
    current = -1
    inside = False
    for piece in pieces:
        word = None
        for character in ' ' if piece in _SPACES else piece.replace('▁', ' '):
            if character.isspace():
                inside = False
                continue
            if not inside:
                current += 1
                inside = True
            word = current if word is None else word
        words.append(word)
    return words


def align_words(weights: np.ndarray, source: Sequence[str], target: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """(source word, target word) for each target word, by what its pieces attend to most, unless that is EOS.

    Args:
      weights: attention [T, S] of target pieces over source pieces, EOS last on both sides.
      source, target: the pieces, without EOS.
    """
    own, theirs = words_of(source), words_of(target)
    num_source, num_target = (max([-1, *(word for word in words if word is not None)]) + 1 for words in (own, theirs))
    mass = np.zeros((num_target + 1, num_source + 2))  # last come EOS, and white space
    rows = [num_target if word is None else word for word in theirs]
    columns = [num_source + 1 if word is None else word for word in own]
    np.add.at(mass, np.ix_(rows, [*columns, num_source]), weights[: len(rows), : len(columns) + 1])
    best = mass[:, :-1].argmax(axis=1).tolist()
    return tuple((best[word], word) for word in sorted({*rows} - {num_target}) if best[word] < num_source)


def align_ids(
    weights: np.ndarray, source: Sequence[int], target: Sequence[int], tokenizer: Tokenizer
) -> tuple[tuple[int, int], ...]:
    if tokenizer.marks:
        source, owners = unmarked(source, tokenizer.marks)
        weights = weights[:, : len(owners)] @ np.eye(len(source), dtype=weights.dtype)[owners]
    tags = set(tokenizer.languages.values())  # no words
    source_pieces = ['' if i in tags else tokenizer.source_piece(i) for i in source[:-1]]
    target_pieces = ['' if i in tags else tokenizer.piece(i) for i in target if i != tokenizer.eos_id]
    return align_words(weights, source_pieces, target_pieces)


def pharaoh(alignment: Sequence[tuple[int, int]]) -> str:
    """`0-0 1-2`, sorted.

    >>> pharaoh([(1, 2), (0, 0)])
    '0-0 1-2'
    """
    return ' '.join(f'{source}-{target}' for source, target in sorted(alignment))
