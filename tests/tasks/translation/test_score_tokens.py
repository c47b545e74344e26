"""Scores are sacreBLEU's own; in other scripts near-perfect translations score high, by its tokenizer, if installed."""

import typing
from pathlib import Path

import pytest
import sacrebleu

from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig
from flax_transformer.tasks.translation import metrics as module
from flax_transformer.tasks.translation.inference.result import expected_utilities
from flax_transformer.tasks.translation.metrics import ScoreTokens, note_on, score, score_tokens
from flax_transformer.tasks.translation.significance import paired_tests

# A reference, a translation that differs from it in a word, and a line that is translated as the reference has it.
SENTENCES = {
    'zh': ('一个男人在街上骑自行车。', '一个男人在街上骑摩托车。', '她昨天买了一本关于历史的书。'),
    'ja': (
        '男の人が道で自転車に乗っている。',
        '男の人が道でバイクに乗っている。',
        '彼女は昨日、本を買いました。',
    ),
    'ko': (
        '한 남자가 거리에서 자전거를 타고 있다.',
        '한 남자가 거리에서 오토바이를 타고 있다.',
        '그녀는 책을 샀다.',
    ),
    'th': ('ผู้ชายคนหนึ่งขี่จักรยานบนถนน', 'ผู้ชายคนหนึ่งขี่จักรยานยนต์บนถนน', 'เมื่อวานเธอซื้อหนังสือ'),
}
LINES = {language: ([reference, same], [ours, same]) for language, (reference, ours, same) in SENTENCES.items()}


@pytest.mark.parametrize('language', LINES)
def test_near_perfect_translations_score_high_as_sacrebleu_itself_says(language: str) -> None:
    references, ours = LINES[language]
    tokens = score_tokens(language)
    scores = score(ours, references, sources=references, tokens=tokens)
    expected = sacrebleu.BLEU(tokenize=tokens.bleu)
    assert scores.bleu == expected.corpus_score(ours, [references]).score > 60
    assert scores.bleu_signature == str(expected.get_signature())
    assert scores.bleu_signature in str(scores)
    assert scores.chrf == sacrebleu.corpus_chrf(ours, [references]).score
    if language != 'ko':
        assert score(ours, references).bleu < 10, 'by spaces, a sentence is a word'
        assert 0.9 < scores.length_ratio < 1.1
    (found,) = [one for one in paired_tests(ours, ours, references, resamples=2, trials=2, tokens=tokens)][:1]
    assert (found.baseline, found.signature) == (pytest.approx(scores.bleu), scores.bleu_signature)


def test_ter_counts_chinese_characters() -> None:
    references, ours = LINES['zh']
    expected = sacrebleu.TER(normalized=True, asian_support=True)
    found = score(ours, references, tokens=score_tokens('zh'))
    assert found.ter == expected.corpus_score(ours, [references]).score < 10
    assert found.ter_signature == str(expected.get_signature())
    assert score(ours, references).ter > 30


@pytest.mark.parametrize(
    ('languages', 'tokenizer'),
    [
        ('zh zh_CN zh-Hans zh_TW.UTF-8 zho zho_Hant cmn_Hans chi yue', 'zh'),
        ('de en_US fr cs ru ar hi vi out', '13a'),
        ('th tha_Thai lo khm_Khmr my', 'char'),
    ],
)
def test_codes_of_all_kinds_are_understood(languages: str, tokenizer: str) -> None:
    assert {language: score_tokens(language).bleu for language in languages.split()} == dict.fromkeys(
        languages.split(), tokenizer
    )
    assert score_tokens(None) == ScoreTokens('13a')


@pytest.mark.parametrize(('languages', 'extra'), [('ja ja_JP jpn_Jpan', 'ja'), ('ko ko-KR kor_Hang', 'ko')])
def test_without_a_package_characters_are_counted_and_a_note_says_so(languages: str, extra: str, monkeypatch) -> None:
    module.score_tokens.cache_clear()
    missing = f"its package is not installed: pip install 'sacrebleu[{extra}]'"
    with monkeypatch.context() as patch:
        patch.setattr(module, '_problem_with', lambda name: missing)
        for language in languages.split():
            tokens = score_tokens(language)
            assert (tokens.bleu, missing in tokens.note) == ('char', True)
        scores = score(*LINES[extra][::-1], tokens=tokens)
        assert 'tok:char' in scores.bleu_signature
        assert str(scores).count(tokens.note) == 1
        module.score_tokens.cache_clear()
        patch.setattr(module, '_problem_with', lambda name: '')
        assert score_tokens(languages.split()[1]) == ScoreTokens(f'{extra}-mecab', extra == 'ja')
    module.score_tokens.cache_clear()


def test_every_tokenizer_of_sacrebleu_can_be_chosen() -> None:
    (names,) = [typing.get_args(typing.get_type_hints(DataConfig)['bleu_tokenizer'])]
    assert set(names) == {'auto', *sacrebleu.BLEU.TOKENIZERS}
    with pytest.raises(UserError, match=r"bleu_tokenizer='13b': expected one of .*\. Did you mean 13a"):
        DataConfig(bleu_tokenizer='13b')
    for name in ('none', 'char', 'intl', 'zh', '13a'):
        assert score_tokens('de', name) == ScoreTokens(name, name == 'zh')
    assert score_tokens('zh', '13a') == ScoreTokens('13a', True)


def test_a_model_that_is_not_downloaded_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('sacrebleu.utils.SACREBLEU_DIR', str(tmp_path))
    load = r'python -c \'import sacrebleu; sacrebleu.BLEU\(tokenize="flores200"\)\''
    module.score_tokens.cache_clear()
    with pytest.raises(UserError, match=rf"data.bleu_tokenizer='flores200': its model is not downloaded: {load}"):
        score_tokens('de', 'flores200')


def test_references_in_another_script_than_the_language_says_are_noted() -> None:
    references, ours = LINES['zh']
    scores = score(ours, references, tokens=score_tokens('out'))
    assert 'set data.target_language to their language' in scores.bleu_note
    assert scores.bleu_note in str(scores)
    assert note_on(ScoreTokens(), LINES['ko'][0]) == note_on(ScoreTokens('zh'), references) == ''


def test_one_word_translations_have_no_bleu_unless_their_tokens_are_characters() -> None:
    assert 'BLEU is not defined' in str(score(['五'], ['五'], tokens=score_tokens('zh')))
    assert 'BLEU 100.00' in str(score(['四百七十一'], ['四百七十一'], tokens=score_tokens('zh')))
    assert 'BLEU is not defined' in str(score(['四百七十一'], ['四百七十一']))


def test_minimum_bayes_risk_counts_the_target_languages_tokens() -> None:
    texts = ['一个男人骑自行车。', '一个男人骑摩托车。', '今天下雨。']
    expected = [sum(sacrebleu.sentence_bleu(a, [b], tokenize='zh').score for b in texts) / 3 for a in texts]
    assert list(expected_utilities(texts, [1.0] * 3, 'bleu', 'zh')) == pytest.approx(expected)
    assert expected[0] > expected[2]


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


def test_ter_is_left_out_where_a_line_is_too_long_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, 'MOST_TER_WORDS', 5)
    scores = score(OURS, THEIRS)
    assert scores.ter is None
    assert 'TER is left out' in str(scores)
    found = paired_tests(OURS, OURS, THEIRS, resamples=2, trials=2)
    assert [each.metric for each in found] == ['BLEU', 'chrF2', 'chrF2++']


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
