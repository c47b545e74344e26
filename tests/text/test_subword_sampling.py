"""Segmentations drawn at random: those of SentencePiece, and the same whatever was drawn before."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from tokenizer_lines import LINES

from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import Tokenizer

TEXT = [*LINES, 'one two three four five six seven', 'once upon a time there was a time of times'] * 20
ODD = [*LINES, '', ' ', '  one   two ', '猫 und 犬犬', 'a\u2581b', 'tab\there', '🙂🙂 one 🙂']
BPE = SentencePieceTokenizer.train(TEXT, vocab_size=340)
BPE_UNK = SentencePieceTokenizer.train(TEXT, vocab_size=90, byte_fallback=False)
BPE_WIDE = SentencePieceTokenizer.train(TEXT, vocab_size=150, byte_fallback=False)
UNIGRAM = SentencePieceTokenizer.train(TEXT, vocab_size=330, algorithm='unigram')


def sample(tokenizer: Tokenizer, line: str, *, seed: int, alpha: float) -> list[int]:
    return tokenizer.sample_flat([line], seeds=np.array([seed]), alpha=alpha)[0].tolist()


@pytest.mark.parametrize('tokenizer', [BPE, BPE_UNK], ids=['bytes', 'unk'])
def test_bpe_without_dropout_is_what_sentencepiece_gives(tokenizer: Tokenizer) -> None:
    """The whole algorithm, on odd lines too: 0 leaves no merge out."""
    for line in ODD:
        assert sample(tokenizer, line, seed=1, alpha=0.0) == tokenizer.encode([line])[0]


def test_a_sharp_unigram_draw_is_the_best_segmentation() -> None:
    for line in ODD:
        assert sample(UNIGRAM, line, seed=1, alpha=1000.0) == UNIGRAM.encode([line])[0]


def segmentation_scores(word: str, alpha: float) -> dict[tuple[str, ...], float]:
    """All segmentations of a word into pieces, each with the power of its probability."""
    known, word = UNIGRAM._segmenter._scores, '\u2581' + word
    scores = {}
    for cuts in itertools.product((False, True), repeat=len(word) - 1):
        ends = [i + 1 for i, cut in enumerate(cuts) if cut] + [len(word)]
        pieces = tuple(word[a:b] for a, b in itertools.pairwise([0, *ends]))
        if all(piece in known for piece in pieces):
            scores[pieces] = math.exp(alpha * sum(known[piece] for piece in pieces))
    return scores


@pytest.mark.parametrize('alpha', [0.0, 0.5])
@pytest.mark.slow_cases('0.5')
def test_unigram_draws_have_the_probabilities_of_all_segmentations(alpha: float) -> None:
    """Kudo 2018, section 3.2: every segmentation of a word, written out, by the power of its probability."""
    all_scores = (segmentation_scores(word, alpha) for word in sorted(set(' '.join(TEXT).split())) if len(word) < 10)
    scores = max(all_scores, key=len)
    word = ''.join(next(iter(scores)))[1:]
    assert len(scores) > 3
    draws = 4000
    counts = Counter(
        tuple(UNIGRAM.piece(i) for i in sample(UNIGRAM, word, seed=seed, alpha=alpha)[:-1]) for seed in range(draws)
    )
    assert counts.keys() <= scores.keys()
    for pieces, score in scores.items():
        expected = score / sum(scores.values())
        # Five standard deviations of a count.
        assert abs(counts[pieces] / draws - expected) < 5 * math.sqrt(expected / draws) + 1e-3


def bpe_probabilities(pieces: tuple[str, ...], alpha: float) -> Counter[tuple[str, ...]]:
    """The exact probability of each outcome of BPE-dropout, as in SentencePiece: a dropped pair is not tried again."""
    scores, found = BPE_WIDE._segmenter._scores, Counter()

    def go_on(pieces: tuple[str, ...], refused: frozenset[int], probability: float) -> None:
        """`refused`: the ends of the left pieces of pairs that were dropped as they are now."""
        ends = list(itertools.accumulate(map(len, pieces)))
        pairs = [
            (-scores[left + right], i)
            for i, (left, right) in enumerate(itertools.pairwise(pieces))
            if left + right in scores and ends[i] not in refused
        ]
        if not pairs:
            found[pieces] += probability
            return
        _, i = min(pairs)
        go_on(pieces, refused | {ends[i]}, probability * alpha)
        beside = {ends[i], ends[i - 1] if i else 0, ends[i + 1]}  # these pairs are others after the merge
        merged = (*pieces[:i], pieces[i] + pieces[i + 1], *pieces[i + 2 :])
        go_on(merged, refused - beside, probability * (1 - alpha))

    go_on(pieces, frozenset(), 1.0)
    return found


def test_bpe_dropout_has_the_exact_probabilities_of_all_outcomes() -> None:
    """Of each word, enumerated merge by merge, kept or dropped."""
    alpha = 0.3
    words = {word for word in ' '.join(TEXT).split() if len(word) < 9}
    all_exact = sorted((bpe_probabilities(('\u2581', *word), alpha) for word in sorted(words)), key=len)[-6:]
    assert len(all_exact[-1]) > 15
    draws = 20_000
    for number, exact in enumerate(all_exact):
        assert sum(exact.values()) == pytest.approx(1)
        word = ''.join(next(iter(exact)))[1:]
        ids, lengths = BPE_WIDE.sample_flat([word] * draws, seeds=np.arange(draws) + draws * number, alpha=alpha)
        ends = np.cumsum(lengths).tolist()
        counts = Counter(tuple(ids[a : b - 1].tolist()) for a, b in itertools.pairwise([0, *ends]))
        counts = {tuple(map(BPE_WIDE.piece, drawn)): count for drawn, count in counts.items()}
        assert counts.keys() <= exact.keys()
        for pieces, probability in exact.items():
            # Five standard deviations of a count.
            allowed = 5 * math.sqrt(probability * (1 - probability) / draws) + 1 / draws
            assert abs(counts.get(pieces, 0) / draws - probability) < allowed


def test_what_is_remembered_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn line by line, all at once, after others, or with a memory of a few words."""
    seeds = np.arange(len(TEXT), dtype=np.uint64) + 2**63
    ids, lengths = BPE.sample_flat(TEXT, seeds=seeds, alpha=0.3)
    monkeypatch.setattr('flax_transformer.text.subword_sampling._CACHED', 4)
    fresh = SentencePieceTokenizer(BPE.model)
    ends = np.cumsum(lengths).tolist()
    for i in reversed(range(0, len(TEXT), 7)):
        alone, (length,) = fresh.sample_flat([TEXT[i]], seeds=seeds[i : i + 1], alpha=0.3)
        assert length == lengths[i]
        np.testing.assert_array_equal(alone, ids[ends[i] - length : ends[i]])
