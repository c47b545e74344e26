"""What users correct is kept, learned exactly, and can be taken back."""

from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import TESTS
from num2words import num2words

from flax_transformer import Translator, UserError
from flax_transformer.tasks.translation.learning import learner as learning
from flax_transformer.tasks.translation.learning.learner import Learned, Learner
from flax_transformer.tasks.translation.learning.lessons import Lessons, read_kept
from flax_transformer.tasks.translation.learning.memory import Memory, Pair, memory_file, read_tmx, write_tmx

EN_DE = ('en', 'de')
NUMBERS = (6, 7, 8, 9, 10, 11, 12, 20, 30, 40, 50, 60, 70, 80, 90)


def pair(source: str, target: str, who: str = '') -> Pair:
    return Pair(source, target, *EN_DE, who)


@pytest.fixture(scope='module')
def learner() -> Iterator[Learner]:
    patch = pytest.MonkeyPatch()
    patch.setattr(learning, '_HELD_OUT', 8)
    translator = Translator.from_run(TESTS / 'golden' / 'number_words', batch_tokens=128, buckets=(32,), beam_width=2)
    yield Learner(translator, [pair(num2words(n), num2words(n, lang='de')) for n in NUMBERS])
    patch.undo()


PAIRS = [pair('one dozen', 'zwölf'), pair('two dozen', 'vierundzwanzig'), pair('half a dozen', 'sechs')]


def bits(learned: Learned) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(learned.changed)]


def test_the_newest_of_what_most_users_want_is_the_answer(tmp_path: Path) -> None:
    memory = Memory(tmp_path / 'a.jsonl')
    assert memory.add([pair(' two  dozen', 'vierundzwanzig', 'ann')]) == [1]
    assert memory.add([pair('two dozen', 'vierundzwanzig', 'ann')] * 1000) == [0] * 1000
    assert memory.add([pair('two dozen', 'zwei Dutzend', 'bob'), pair('two', 'zwei')]) == [2, 3]
    assert memory.exact('two dozen', EN_DE) == 'zwei Dutzend'
    memory.add([pair('two dozen', 'vierundzwanzig', 'eve')])
    assert memory.exact('two dozen', EN_DE) == 'vierundzwanzig'
    assert memory.exact('two dozen', ('de', 'en')) is None
    memory.take_back(4)
    memory.take_back(1)
    again = Memory(memory.file)
    for each in (memory, again):
        assert each.exact('two dozen', EN_DE) == 'zwei Dutzend'
        assert each.version == 6
        assert [entry.number for entry in each.pairs()] == [2, 3]
        assert [entry.number for entry in each.pairs(version=4)] == [1, 2, 3, 4]
    assert [(round(match.similarity, 2), match.pair.target) for match in memory.near('two dozen eggs', EN_DE)] == [
        (0.67, 'zwei Dutzend')
    ]
    with pytest.raises(UserError, match='taken back already'):
        memory.take_back(4)
    learned = memory.file.with_suffix('.learned.npz')
    learned.write_text('zwei Dutzend')
    memory.forget([2])
    assert not learned.exists()
    assert 'Dutzend' not in memory.file.read_text()
    assert [entry.target for entry in memory.pairs()] == ['zwei']


@pytest.mark.parametrize(
    ('bad', 'why'),
    [
        (pair('', 'nichts'), 'the source is empty'),
        (pair('nothing', ' \n'), 'the translation is empty'),
        (pair('no', 'nein ' * 20), 'no translations of each other'),
        (pair('Dies ist ein ganz deutscher Satz.', 'This is a German sentence.'), 'is in German; expected English'),
        (pair('x' * 3000, 'x' * 3000), '3000 characters'),
    ],
)
def test_what_cannot_be_a_translation_is_refused_with_all_that_came_with_it(
    tmp_path: Path, bad: Pair, why: str
) -> None:
    memory = Memory(tmp_path / 'a.jsonl')
    with pytest.raises(UserError, match=f'pair 2.*{why}'):
        memory.add([pair('two', 'zwei'), bad])
    assert not memory.pairs()


def test_a_line_that_was_being_written_is_passed_over_and_a_damaged_file_named(tmp_path: Path) -> None:
    memory = Memory(tmp_path / 'a.jsonl')
    memory.add([pair('two', 'zwei')])
    with memory.file.open('a') as opened:
        opened.write('{"source": "thr')
    again = Memory(memory.file)
    assert again.version == 1
    again.add([pair('four', 'vier')])
    assert [entry.source for entry in Memory(memory.file).pairs()] == ['two', 'four']
    memory.file.write_text('{"source": 1}\n')
    with pytest.raises(UserError, match='is damaged'):
        Memory(memory.file)


def test_a_translation_memory_comes_back(tmp_path: Path) -> None:
    pairs = [pair('Is 1 < 2 & 3?', 'Ist 1 < 2 & 3?'), pair('two', 'zwei')]
    assert list(read_tmx(write_tmx(pairs), EN_DE, 'x')) == pairs
    assert [each[:4] for each in read_tmx(write_tmx(pairs), ('de', 'en'), 'x')][1] == ('zwei', 'two', 'de', 'en')
    with pytest.raises(UserError, match='expected TMX'):
        list(read_tmx(b'<tmx>', EN_DE, 'x'))


def test_what_is_learned_is_a_function_of_the_pairs_alone(
    tmp_path: Path, learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def learned(*pairs: Pair) -> Learned:
        current = learner.start()
        for each in pairs:
            current = learner.learn(current, each)
        return current

    memory = Memory(memory_file(tmp_path, 'ann'))
    memory.add(PAIRS)
    lessons = Lessons(tmp_path, learner)
    first = lessons.learned('ann')
    assert bits(first) == bits(learned(*PAIRS))
    assert bits(first) != bits(learner.start())

    memory.take_back(2)
    after = lessons.learned('ann')
    assert bits(after) == bits(learned(PAIRS[0], PAIRS[2]))
    assert bits(Lessons(tmp_path, learner).learned('ann')) == bits(after)  # as after a kill
    assert bits(lessons.learned('ann', version=3)) == bits(first)
    assert bits(Lessons(tmp_path, learner).learned('ann', version=1)) == bits(learned(PAIRS[0]))
    with pytest.raises(UserError, match='expected 0 to 4'):
        lessons.learned('ann', version=5)

    lessons.keep('ann', after, 4)
    head, changed = read_kept(memory.file, learner.digest)
    assert head['version'] == 4
    assert [changed[name].tobytes() for name in sorted(changed)] == bits(after)
    assert read_kept(memory.file, 'another model') == ({}, {})
    monkeypatch.setattr(Learner, 'learn', lambda *given: pytest.fail('it was learned already'))
    assert bits(Lessons(tmp_path, learner).learned('ann')) == bits(after)


def test_what_a_model_knew_is_kept_or_an_update_not_taken(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    once = learner.learn(learner.start(), PAIRS[0])
    rise = learner._rise(once.changed)
    assert rise > 0.0001
    with monkeypatch.context() as patch:
        patch.setattr(learning, '_MOST_RISE', rise / 4)
        nearer = learner.learn(learner.start(), PAIRS[0])
        assert not nearer.left_out
        assert rise / 8 < learner._rise(nearer.changed) <= rise / 4
        patch.setattr(learning, '_BACK', 10.0)
        refused = learner.learn(once, PAIRS[1])
        assert bits(refused) == bits(once)
        assert 'what the model knew would rise' in refused.left_out[2]

    with monkeypatch.context() as patch:
        patch.setattr(learning, '_LEARNING_RATE', -100.0)
        patch.setattr(learning, '_MOST_RISE', 1e9)
        learner._step = jax.jit(learner._after_step)
        assert 'did not fall' in learner.learn(once, PAIRS[1]).left_out[2]
    learner._step = jax.jit(learner._after_step)
    too_long = pair('one ' * 200, 'eins ' * 200)
    assert 'tokens' in learner.learn(once, too_long).left_out[2]


def test_a_model_without_a_sample_cannot_learn(learner: Learner) -> None:
    with pytest.raises(UserError, match='3 pairs of the training'):
        Learner(learner.translator, PAIRS)
