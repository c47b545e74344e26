"""Segmentations drawn at random: those of SentencePiece, and the same for a seed in every process."""

import itertools
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tokenizer_lines import LINES

from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import Tokenizer

TEXT = [*LINES, 'one two three four five six seven', 'once upon a time there was a time of times'] * 20
ODD = [*LINES, '', ' ', '  one   two ', '猫 und 犬犬', 'a\u2581b', 'tab\there', '🙂🙂 one 🙂']
BPE = SentencePieceTokenizer.train(TEXT, vocab_size=340)
BPE_UNK = SentencePieceTokenizer.train(TEXT, vocab_size=90, byte_fallback=False)
UNIGRAM = SentencePieceTokenizer.train(TEXT, vocab_size=330, algorithm='unigram')


@pytest.mark.parametrize('tokenizer', [BPE, BPE_UNK], ids=['bytes', 'unk'])
def test_bpe_without_dropout_is_what_sentencepiece_gives(tokenizer: Tokenizer) -> None:
    """The whole algorithm, on odd lines too: 0 leaves no merge out."""
    for line in ODD:
        assert tokenizer.sample(line, seed=1, alpha=0.0) == tokenizer.encode([line])[0]


def test_bpe_with_full_dropout_is_characters_and_bytes() -> None:
    for line in ODD:
        pieces = [BPE.piece(i) for i in BPE.sample(line, seed=1, alpha=1.0)[:-1]]
        assert all(len(piece) == 1 or piece.startswith('<0x') for piece in pieces)


def test_a_sharp_unigram_draw_is_the_best_segmentation() -> None:
    for line in ODD:
        assert UNIGRAM.sample(line, seed=1, alpha=1000.0) == UNIGRAM.encode([line])[0]


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


@pytest.mark.parametrize('alpha', [0.0, 0.5, 1.0])
def test_unigram_draws_have_the_probabilities_of_all_segmentations(alpha: float) -> None:
    """Kudo 2018, section 3.2: every segmentation of a word, written out, by the power of its probability."""
    all_scores = (segmentation_scores(word, alpha) for word in sorted(set(' '.join(TEXT).split())) if len(word) < 10)
    scores = max(all_scores, key=len)
    word = ''.join(next(iter(scores)))[1:]
    assert len(scores) > 3
    draws = 4000
    counts = Counter(
        tuple(UNIGRAM.piece(i) for i in UNIGRAM.sample(word, seed=seed, alpha=alpha)[:-1]) for seed in range(draws)
    )
    assert counts.keys() <= scores.keys()
    for pieces, score in scores.items():
        expected = score / sum(scores.values())
        # Five standard deviations of a count.
        assert abs(counts[pieces] / draws - expected) < 5 * math.sqrt(expected / draws) + 1e-3


def test_half_of_the_merges_of_two_characters_are_left_out() -> None:
    """Provilkov et al. 2020: a word of one merge stays apart at the rate of alpha."""
    pair = next(piece for piece in BPE._segmenter._ids if len(piece) == 2 and piece[0] == '\u2581')
    apart = sum(len(BPE.sample(pair[1], seed=seed, alpha=0.3)) == 3 for seed in range(2000))
    assert abs(apart / 2000 - 0.3) < 0.05


@pytest.mark.parametrize('name', ['BPE', 'UNIGRAM'])
def test_another_process_draws_the_same(name: str, tmp_path: Path) -> None:
    """SentencePiece's own draws differ from process to process: a run that goes on would not see the same."""
    tokenizer = globals()[name]
    tokenizer.save(tmp_path)
    code = (
        'from pathlib import Path; '
        'from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer; '
        f't = SentencePieceTokenizer.load(Path({str(tmp_path)!r})); '
        f'print([t.sample(line, seed=i + 1, alpha=0.3) for i, line in enumerate({LINES!r})])'
    )
    other = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, timeout=60)
    expected = [tokenizer.sample(line, seed=i + 1, alpha=0.3) for i, line in enumerate(LINES)]
    assert other.stdout.strip() == str(expected)
