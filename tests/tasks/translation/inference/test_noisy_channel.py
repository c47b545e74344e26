"""The hypothesis that is most probable in both directions."""

from dataclasses import replace

import pytest
from tagged_translator import tagged_translator

from flax_transformer import Translator
from flax_transformer.config import DecodingConfig
from flax_transformer.tasks.translation.inference.noisy_channel import NEAR, WEIGHT, reranked
from flax_transformer.tasks.translation.inference.result import Translation

BOTH = (('de', 'fr'), ('fr', 'de'))
LINES = ['a b c', 'h g f e d', 'b', 'a a d e f g', 'c h', 'd d b a']


def hypothesis(text: str, score: float, **fields: object) -> Translation:
    """Of one token, so that its score is its mean log-probability."""
    return Translation(text, score, score, 1, **fields)


def test_only_hypotheses_about_as_probable_as_the_first_change_places() -> None:
    far = hypothesis('far', -1.02 - NEAR)
    own = [hypothesis('first', -1.0), hypothesis('second', -1.02), hypothesis('third', -1.04), far]
    others = [hypothesis('sure', -1.0), hypothesis('sure', -1.01), hypothesis('cut', -1.01, truncated=True)]
    unknown = [hypothesis('one', -1.0), hypothesis('two', -1.01)]
    scores = {'first': -2.0, 'second': -2.0 + 0.019 / WEIGHT, 'third': -2.0 + 0.05 / WEIGHT, 'one': -9.0, 'two': None}
    asked = []

    def score_back(lines: list[int], texts: list[str]) -> list[float | None]:
        asked.extend(zip(lines, texts, strict=True))
        return [scores[text] for text in texts]

    found = reranked([own, others, unknown], score_back)
    assert [[other.text for other in line] for line in found] == [
        ['third', 'first', 'second', 'far'],
        ['sure', 'sure', 'cut'],
        ['one', 'two'],
    ]
    assert asked == [(0, 'first'), (0, 'second'), (0, 'third'), (2, 'one'), (2, 'two')]


def test_phrases_that_are_required_matter_more() -> None:
    found = [hypothesis('with', -1.0), hypothesis('without', -0.9, missing=('a',))]
    assert reranked([found], lambda lines, texts: pytest.fail('nothing to compare')) == [found]


@pytest.fixture(scope='module')
def plain() -> Translator:
    """A model of two directions that has learned nothing."""
    decoding = DecodingConfig(target_language='fr', n_best=4, max_tokens=6, max_source_tokens=16, alpha=1.0)
    return tagged_translator(decoding, pairs=BOTH)


def both_ways(plain: Translator, **fields: object) -> Translator:
    return plain.with_decoding(replace(plain.decoding, noisy_channel=('fr',), **fields))


def test_the_first_is_most_probable_in_both_directions_together(plain: Translator) -> None:
    translator = both_ways(plain)
    assert translator.programs is plain.programs
    back = plain.with_decoding(replace(plain.decoding, source_language='fr', target_language='de'))
    changed = 0
    for line, before, after in zip(LINES, plain(LINES), translator(LINES), strict=True):
        assert {other.text for other in after.n_best} == {other.text for other in before.n_best}
        first = before.n_best[0]
        near = [
            other
            for other in before.n_best
            if other.truncated == first.truncated
            and other.log_prob / other.num_tokens >= first.log_prob / first.num_tokens - NEAR
        ]
        worth = {other.text: other.score + WEIGHT * back.score(other.text, line).score for other in near}
        assert worth[after.text] == pytest.approx(max(worth.values()), abs=1e-5)
        changed += after.text != before.text
    assert changed  # else this shows nothing


@pytest.mark.parametrize('line', ['a b c', 'a b c d e f g'])  # with its tag, the second needs more slots than without
def test_what_a_server_compiles_before_is_all_that_it_takes(plain: Translator, line: str) -> None:
    translator = both_ways(plain, n_best=1, buckets=(8, 16))
    length = len(translator.tokenizer.encode([line], target_language='fr')[0])
    assert length == (5 if line == 'a b c' else 9)
    for program in translator.programs_for(translator.runner.slots(length), 1):
        program.compile()
    translator(line)
    assert len(translator.runner._shapes) == 2  # the search, and the way back
    assert translator.runner._shapes <= set(translator.runner._compiled)


def test_other_searches_and_directions_do_without(plain: Translator) -> None:
    for fields in ({'search': 'sample', 'samples': 4}, {'mbr': 'chrf'}, {'target_language': 'de'}):
        assert both_ways(plain, **fields).way_back is None


def test_a_model_that_has_not_learned_the_way_back_does_without(plain: Translator) -> None:
    decoding = replace(plain.decoding, noisy_channel=('fr',))
    for pairs in (BOTH[:1], (('fr', 'fr'), *BOTH)):
        own = replace(decoding, source_language=pairs[0][0], target_language='fr')
        assert Translator(plain.models, plain.params, plain.tokenizer, own, pairs=pairs).way_back is None
