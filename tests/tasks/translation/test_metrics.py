"""Scores against sacrebleu's own, and our readable BLEU against it on real and adversarial tokens."""

import numpy as np
import pytest
import sacrebleu
from bleu_reference import bleu_tok, brevity_penalty, clipped_matches, closest_length
from conftest import corpus
from hypothesis import given, settings
from hypothesis import strategies as st

from flax_transformer.tasks.translation.metrics import ScoreTokens, score

OURS = ['The cat sat on the mat.', 'It is raining today', 'no', '', 'A b c d e f']
THEIRS = ['The cat sat on the mat.', 'It rains today, I think.', 'yes', 'Nothing', 'a b c d e f']
OTHERS = ['A cat was sitting on the mat.', 'Today it is raining', 'no', '', 'A b c d e']


def test_every_score_is_sacrebleus_with_its_signature() -> None:
    scores = score(OURS, THEIRS)
    assert scores.bleu == sacrebleu.corpus_bleu(OURS, [THEIRS]).score
    assert scores.chrf == sacrebleu.corpus_chrf(OURS, [THEIRS]).score
    assert scores.chrf_plus_plus == sacrebleu.corpus_chrf(OURS, [THEIRS], word_order=2).score
    assert scores.ter == sacrebleu.corpus_ter(OURS, [THEIRS]).score
    assert 'nw:2' in scores.chrf_plus_plus_signature
    assert 'tok:tercom' in scores.ter_signature
    for text in (scores.bleu_signature, scores.chrf_signature, scores.chrf_plus_plus_signature, scores.ter_signature):
        assert text in str(scores)


def test_several_references_are_all_used() -> None:
    scores = score(OURS, [THEIRS, OTHERS])
    assert scores.bleu == sacrebleu.corpus_bleu(OURS, [THEIRS, OTHERS]).score > score(OURS, THEIRS).bleu
    assert scores.bleu_signature.startswith('nrefs:2')
    assert scores.exact == pytest.approx(3 / 5)
    with pytest.raises(ValueError, match='5 translations, 2 references'):
        score(OURS, [THEIRS, OTHERS[:2]])


def test_lines_may_have_different_numbers_of_references() -> None:
    more = [OTHERS[0], None, OTHERS[2], None, None]
    scores = score(OURS, [THEIRS, more], sources=OURS)
    assert scores.bleu == sacrebleu.corpus_bleu(OURS, [THEIRS, more]).score > score(OURS, THEIRS).bleu
    for text in (scores.bleu_signature, scores.chrf_signature, scores.chrf_plus_plus_signature, scores.ter_signature):
        assert text.startswith('nrefs:var')
    assert scores.exact == pytest.approx(2 / 5)


def test_scores_by_source_length_are_those_of_the_lines_alone() -> None:
    sources = ['w ' * n for n in (3, 10, 11, 60, 0)]
    scores = score(OURS, THEIRS, sources=sources)
    assert [(one.words, one.num_lines) for one in scores.by_length] == [('0-10', 3), ('11-20', 1), ('51 or more', 1)]
    first = [OURS[i] for i in (0, 1, 4)], [[THEIRS[i] for i in (0, 1, 4)]]
    assert scores.by_length[0].bleu == sacrebleu.corpus_bleu(*first).score
    assert '51 or more' in str(scores)


@pytest.mark.parametrize(('ours', 'word'), [('a b', 'too short'), ('a b c d e f g h', 'too long'), ('a b c d', None)])
def test_a_length_ratio_that_is_far_off_is_warned_of(ours: str, word: str | None) -> None:
    text = str(score([ours] * 3, ['a b c d'] * 3))
    assert ('warning' in text) == (word is not None)
    assert word is None or word in text


# ------------------------------------------------------------------------------------------------ BLEU to be read


def assert_agrees(hypotheses: list[list[str]], references: list[list[list[str]]]) -> None:
    """With sacrebleu on the same tokens, to 1e-9."""
    most = max(len(theirs) for theirs in references)
    padded = [[' '.join(theirs[min(k, len(theirs) - 1)]) for theirs in references] for k in range(most)]
    metric = sacrebleu.BLEU(tokenize='none', smooth_method='none', force=True)
    expected = metric.corpus_score([' '.join(tokens) for tokens in hypotheses], padded)
    assert bleu_tok(hypotheses, references) == pytest.approx(expected.score, abs=1e-9)
    for n in range(1, 5):
        counts = [clipped_matches(ours, theirs, n) for ours, theirs in zip(hypotheses, references, strict=True)]
        matches, total = (sum(column) for column in zip(*counts, strict=True))
        assert (matches, total) == (expected.counts[n - 1], expected.totals[n - 1])
    length = sum(map(len, hypotheses))
    reference_length = sum(closest_length(ours, theirs) for ours, theirs in zip(hypotheses, references, strict=True))
    assert (length, reference_length) == (expected.sys_len, expected.ref_len)
    assert brevity_penalty(length, reference_length) == pytest.approx(expected.bp, abs=1e-12)


TOKENS = st.lists(st.sampled_from(['a', 'b', 'the', '.', 'ß', '||']), max_size=9)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.lists(st.tuples(TOKENS, st.lists(TOKENS, min_size=2, max_size=2)), min_size=1, max_size=6))
def test_our_bleu_agrees_with_sacrebleu_on_any_tokens(pairs) -> None:
    assert_agrees([ours for ours, _ in pairs], [theirs for _, theirs in pairs])


def test_our_bleu_agrees_with_sacrebleu_on_real_text() -> None:
    """References against references of other years: real sentences, in part alike."""
    lines = corpus('multi30k', 'test_2016_flickr.de').read_text(encoding='utf-8').splitlines()
    tokens = [line.split() for line in lines]
    rng = np.random.default_rng(0)
    noisy = [[t for t in line if rng.random() > 0.15] for line in tokens]
    assert_agrees(noisy, [[line] for line in tokens])
    assert 40 < bleu_tok(noisy, [[line] for line in tokens]) < 95


def test_only_undeclared_tokenized_text_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    lines = [f'line {number} .' for number in range(120)]  # sacreBLEU warns at a hundred
    score(lines, lines, tokens=ScoreTokens(bleu='none'))
    assert not caplog.records
    score(lines, lines)
    assert 'forgot to detokenize' in caplog.text


def test_the_papers_example_of_clipping() -> None:
    references = [['the', 'cat', 'is', 'on', 'the', 'mat'], ['there', 'is', 'a', 'cat', 'on', 'the', 'mat']]
    assert clipped_matches(['the'] * 7, references, 1) == (2, 7)
