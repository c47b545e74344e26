"""Scores against sacrebleu's own."""

import pytest
import sacrebleu

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


def test_lines_may_have_different_numbers_of_references() -> None:
    more = [OTHERS[0], None, OTHERS[2], None, None]
    scores = score(OURS, [THEIRS, more], sources=OURS)
    assert scores.bleu == sacrebleu.corpus_bleu(OURS, [THEIRS, more]).score > score(OURS, THEIRS).bleu
    for text in (scores.bleu_signature, scores.chrf_signature, scores.chrf_plus_plus_signature, scores.ter_signature):
        assert text.startswith('nrefs:var')
    assert scores.exact == pytest.approx(2 / 5)
    with pytest.raises(ValueError, match='5 translations, 2 references'):
        score(OURS, [THEIRS, OTHERS[:2]])


def test_scores_by_source_length_are_those_of_the_lines_alone() -> None:
    sources = ['w ' * n for n in (3, 10, 11, 60, 0)]
    scores = score(OURS, THEIRS, sources=sources)
    assert [(one.words, one.num_lines) for one in scores.by_length] == [('0-10', 3), ('11-20', 1), ('51 or more', 1)]
    first = [OURS[i] for i in (0, 1, 4)], [[THEIRS[i] for i in (0, 1, 4)]]
    assert scores.by_length[0].bleu == sacrebleu.corpus_bleu(*first).score
    assert '51 or more' in str(scores)
    assert str(scores).startswith('exact matches: 20.0% of 5 lines\nBLEU ')


@pytest.mark.parametrize(('ours', 'word'), [('a b', 'too short'), ('a b c d e f g h', 'too long'), ('a b c d', None)])
def test_a_length_ratio_that_is_far_off_is_warned_of(ours: str, word: str | None) -> None:
    text = str(score([ours] * 3, ['a b c d'] * 3))
    assert ('warning' in text) == (word is not None)
    assert word is None or word in text


def test_only_undeclared_tokenized_text_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    lines = [f'line {number} .' for number in range(120)]  # sacreBLEU warns at a hundred
    score(lines, lines, tokens=ScoreTokens(bleu='none'))
    assert not caplog.records
    score(lines, lines)
    assert 'forgot to detokenize' in caplog.text
