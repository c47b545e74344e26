"""N lines in, N lines out, for any bytes; nothing that a model says breaks a line."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_lines import check_lines, random_line, tiny_translator

from flax_transformer import Translator
from flax_transformer.config import DecodingConfig
from flax_transformer.decoding.problem import Hypotheses
from flax_transformer.tasks.translation.inference.lines import split_into_parts, split_sentences
from flax_transformer.tasks.translation.inference.result import (
    best_of_each,
    has_loop,
    is_untranslated,
    make_translation,
)


@pytest.fixture(scope='module')
def tiny() -> Translator:
    return tiny_translator(max_source_tokens=32)


@pytest.mark.parametrize('count', [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_as_many_random_lines_come_out_as_went_in(count: int, tiny: Translator) -> None:
    rng = np.random.default_rng(0)
    counts = check_lines(tiny, [random_line(rng) for _ in range(count)])
    assert counts['lines'] == count
    for kind in ('blank', 'replaced', 'split'):
        assert counts[kind] > count / 50, 'the lines are too tame to test anything'
    assert tiny.runner.num_compilations <= 8  # of each length, to translate and to place literals


HARD = {
    '10,000 characters of words': b'word ' * 2_000,
    '10,000 characters without a space': b'y' * 10_000,
    'Chinese without a space': '长句子没有空格'.encode() * 100,
    'separators': 'a\u2028b\u2029c\x85d\x0be\x0cf\x1cg'.encode(),
    'control characters': bytes(i for i in range(32) if i != 10),
    'half a character': '😀'.encode()[:2],
    'all bytes': bytes(i for i in range(256) if i != 10),
}


def test_hard_lines(tiny: Translator) -> None:
    started = time.perf_counter()
    check_lines(tiny, [b'before', *[x for line in HARD.values() for x in (line, b'')]])
    assert time.perf_counter() - started < 60


def saying(translator: Translator, pieces: list[str]) -> Translator:
    """The translator, with a model that says nothing but these pieces, in any order, and no end."""
    table = np.zeros_like(translator.params['embedding']['table'])
    ids = [next(i for i in range(table.shape[0]) if translator.tokenizer.piece(i) == piece) for piece in pieces]
    # The last norm's bias is a constant direction: rows along it win whatever the input.
    params = jax.tree.map(jnp.zeros_like, translator.params)
    layer = params['decoder']['layers_0']['feed_forward_residual']['norm']
    layer['bias'] = jnp.ones_like(layer['bias'])
    table[ids] = 1.0
    return translator.with_params(params | {'embedding': {'table': jnp.asarray(table)}})


@pytest.mark.parametrize('pieces', [['<0x0A>'], ['<0xE2>'], ['<0x00>']])
def test_what_byte_fallback_says_breaks_neither_a_line_nor_its_encoding(pieces: list[str], tiny: Translator) -> None:
    lines = ['der Hund', '', 'die Katze läuft']
    found = saying(tiny, pieces)(lines)
    assert all(set(one.tokens) == set(pieces) for one in found if one.tokens)
    assert [bool(one.tokens) for one in found] == [True, False, True]
    text = ''.join(one.text + '\n' for one in found)
    assert text.encode('utf-8').decode('utf-8') == text
    assert len(text.splitlines()) == 3


def test_a_separator_spelt_in_bytes_breaks_no_line(tiny: Translator) -> None:
    """U+2028, the line separator, is three bytes."""
    ids = tiny.tokenizer.encode(['\u2028'])[0]
    made = make_translation(tiny.tokenizer, ids * 2, 0.0, [0.0] * 2 * len(ids), is_finished=True)
    assert '<0xE2>' in made.tokens
    assert len(made.text.splitlines()) == 1


def test_str_lines_with_lone_surrogates_are_replaced_and_flagged(tiny: Translator) -> None:
    one, other = tiny(['a \ud800 b', 'a b'])
    assert one.replaced
    assert not other.replaced


@pytest.mark.slow
def test_repetition_is_flagged_unless_the_source_repeats_too(tiny: Translator) -> None:
    translator = saying(tiny_translator(max_tokens=20), ['<0x21>'])
    one, other = translator(['der Hund', '! ! ! ! ! ! ! ! !'])
    assert one.repetition
    assert has_loop(tiny.tokenizer.encode(['! ! ! ! ! ! ! ! !'])[0])
    assert not other.repetition


@pytest.mark.parametrize(
    ('ids', 'loops'),
    [([], False), ([1] * 3, False), ([1] * 4, True), ([1, 2] * 3 + [1], False), ([9, *[1, 2, 3] * 4, 9], True)],
)
def test_a_loop_is_four_times_the_same_in_succession(ids: list[int], loops: bool) -> None:
    assert has_loop(ids) == loops


@pytest.mark.parametrize(
    ('pass_over', 'found', 'chosen'),
    [
        ('nothing', ['loop', 'copy', 'good'], 'loop'),
        ('loops', ['loop', 'copy', 'good'], 'copy'),
        ('loops', ['copy', 'loop', 'good'], 'copy'),
        ('loops_and_copies', ['copy', 'loop', 'good'], 'good'),
        ('loops_and_copies', ['copy', 'loop', 'cut'], 'copy'),
    ],
)
def test_the_next_hypothesis_without_the_fault_comes_first(pass_over, found, chosen, tiny: Translator) -> None:
    texts = {'copy': 'die Katze läuft', 'loop': '! ' * 9, 'good': 'der Hund', 'cut': 'der'}
    ids = [tiny.tokenizer.encode([texts[name]])[0] for name in found]
    lengths, zeros = np.array(list(map(len, ids))), np.zeros(3)
    tokens = np.array([row + [0] * (max(lengths) - len(row)) for row in ids])
    is_finished = np.array([name != 'cut' for name in found])
    hypotheses = Hypotheses(tokens, zeros, zeros, lengths, is_finished, np.zeros(tokens.shape))
    for n_best in (1, 3):
        decoding = DecodingConfig(pass_over=pass_over, n_best=n_best)
        (best,) = best_of_each([hypotheses], [texts['copy']], [[5, 6, 7]], tiny.tokenizer, decoding)
        assert best.text.strip() == texts[chosen].strip()
    others = [name for name in found if name != chosen]
    assert [one.text.strip() for one in best.n_best] == [texts[name].strip() for name in (chosen, *others)]


def test_samples_vote_as_often_as_they_were_drawn_and_a_beam_by_probability(tiny: Translator) -> None:
    ids = [tiny.tokenizer.encode([text])[0] for text in ('der Hund', 'die Katze', 'die Katze')]
    lengths = np.array(list(map(len, ids)))
    tokens = np.array([row + [0] * (max(lengths) - len(row)) for row in ids])
    gains = np.where(np.arange(3) == 0, 0.0, -9.0)[:, None] * np.ones(tokens.shape)
    hypotheses = Hypotheses(tokens, gains[:, 0], gains[:, 0], lengths, lengths > 0, gains)
    for search, chosen in (('sample', 'die Katze'), ('beam', 'der Hund')):
        decoding = DecodingConfig(search=search, mbr='chrf', samples=3)
        (best,) = best_of_each([hypotheses], ['x'], [[5]], tiny.tokenizer, decoding)
        assert best.text.strip() == chosen


@pytest.mark.parametrize(
    ('source', 'text', 'expected'),
    [
        ('the cat sat', 'The cat  sat', True),
        ('the cat sat', 'die Katze saß', False),
        ('New York', 'New York', False),
        ('1 2 3 4', '1 2 3 4', False),
        ('anything', ' ', True),
    ],
)
def test_untranslated_is_the_source_or_nothing(source: str, text: str, expected: bool) -> None:
    assert is_untranslated(source, text) == expected


def test_parts_and_gaps_are_the_paragraph() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        pieces = rng.choice(['Dr. Smith is here.', 'Is he? ', '\t', '  ', 'Yes!', 'No. ', ' \u3000', 'e.g. so.'], 6)
        line = ' '.join(pieces)
        lead, parts = split_sentences(line, 'en')
        assert lead + ''.join(text + gap for text, gap in parts) == line
        assert all(text == text.strip() != '' for text, _ in parts)
    assert len(split_sentences('Hello there. How are you? Fine!', 'en')[1]) == 3


def test_a_sentence_that_is_too_long_is_split_within_its_paragraph() -> None:
    line = split_into_parts('Short one.  ' + 'many words, ' * 20 + 'end.', lambda text: len(text.split()), 12, 'en')
    assert line.parts[0] == 'Short one.'
    assert line.gaps[0] == '  '
    assert len(line.parts) > 2
    assert line.gaps[1:] == [' '] * (len(line.parts) - 2) + ['']
