"""Lines in, translations out: in order, one for each, whatever the company."""

import asyncio
import copy
import pickle
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sacrebleu
from tagged_translator import tagged_translator
from traced import equations

from flax_transformer import Translator
from flax_transformer.common.errors import UserError
from flax_transformer.config import DecodingConfig, ParallelConfig
from flax_transformer.decoding.problem import Hypotheses
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.tasks.api import make_trainer
from flax_transformer.tasks.translation.inference.batch_runner import Runner
from flax_transformer.tasks.translation.inference.ids import translate_ids
from flax_transformer.tasks.translation.inference.result import expected_utilities
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer


@pytest.fixture(scope='module')
def translator(copy_run: Path) -> Translator:
    return Translator.from_run(copy_run)


def searching(translator: Translator, **decoding: object) -> Translator:
    """The translator with other fields of DecodingConfig."""
    return translator.with_decoding(replace(translator.decoding, **decoding))


@pytest.fixture(scope='module')
def greedy(translator: Translator) -> Translator:
    """Takes lines of up to 16 tokens."""
    return searching(translator, beam_width=1, max_source_tokens=16, split_sentences=True)


def random_lines(count: int) -> list[str]:
    rng = np.random.default_rng(5)
    return [' '.join(rng.choice(list('abcdefgh'), rng.integers(1, 12))) for _ in range(count)]


def test_a_translation_does_not_depend_on_its_company(translator: Translator) -> None:
    lines = random_lines(24)
    together = translator(lines)
    backwards = translator(lines[::-1])[::-1]
    for first, second in zip(together, backwards, strict=True):
        assert first.text == second.text
        # Batches of other shapes sum float32 in another order.
        assert first.score == pytest.approx(second.score, abs=1e-5)
    for i in (0, 7, 13):
        alone = translator([lines[i]])[0]
        assert alone.text == together[i].text
        assert alone.score == pytest.approx(together[i].score, abs=1e-5)


def test_one_string_gives_one_translation_which_prints_its_text(translator: Translator) -> None:
    one = translator('a b')
    assert (f'{one}', one) == ('a b', translator(['a b'])[0])
    assert str(translator(b'a \xff')) == translator(['a \ufffd'])[0].text


def test_an_unknown_field_is_refused_with_the_nearest(copy_run: Path) -> None:
    with pytest.raises(TypeError, match=r"'beam' is no field of DecodingConfig. Did you mean beam_width\?"):
        Translator.from_run(copy_run, beam=4)


def test_what_is_no_line_is_refused(translator: Translator) -> None:
    with pytest.raises(TypeError, match='got a line of type NoneType'):
        translator(['a', None])


def test_translate_ids_is_one_pure_function_between_encode_and_decode(greedy: Translator) -> None:
    """Jitted inside another program, and the same on padded sources."""
    translator = greedy
    eos_id, pad_id = translator.tokenizer.eos_id, translator.tokenizer.pad_id
    lines = ['a b c', b'h', '', *'abcde']  # the translator's batches have as many: the same program
    source = translator.encode(lines)
    assert (source.shape, source.dtype, source[2].tolist()) == ((8, 16), np.int32, [eos_id] + [pad_id] * 15)
    wide = np.pad(source[:2], ((0, 1), (0, 16)), constant_values=pad_id)

    @jax.jit
    def program(params, source):
        return translator.translate_ids(params, source)

    plain, inside = translator.translate_ids(translator.weights, source), program(translator.weights, wide)
    length = min(plain.tokens.shape[-1], inside.tokens.shape[-1])
    np.testing.assert_array_equal(plain.tokens[:2, :, :length], inside.tokens[:2, :, :length])
    np.testing.assert_allclose(plain.scores[:2], inside.scores[:2], atol=1e-5)
    assert translator.decode(plain.tokens[:2, 0]) == [str(each) for each in translator(['a b c', 'h'])]
    assert translator.decode(source) == ['a b c', 'h', '', *'abcde']  # one vocabulary for both sides
    assert translator.decode([[eos_id, *source[0]]]) == ['']


def test_on_gpus_greedy_search_of_one_sentence_has_two_rows(
    greedy: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, programs = greedy.encode(['a b c']), greedy.programs
    expected = greedy.translate_ids(greedy.weights, source)
    monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    settings = {'special_ids': programs.special_ids, 'decoding': greedy.decoding, 'banned': tuple(programs.banned)}
    search = partial(translate_ids, models=greedy.models, **settings)
    found = [each for each in equations(jax.make_jaxpr(search)(greedy.weights, source).jaxpr) if each.outvars]
    shapes = {each.outvars[0].aval.shape for each in found if each.primitive.name == 'dot_general'}
    assert {shape[0] for shape in shapes if shape[-1] == greedy.tokenizer.target_vocab_size} == {2}
    found = jax.jit(search)(greedy.weights, source)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_allclose(found.scores, expected.scores, atol=0.05)  # in bfloat16


@pytest.mark.slow
def test_fewer_buckets_are_fewer_programs_and_the_same_translations(translator: Translator, greedy: Translator) -> None:
    lines = random_lines(9)
    coarse = searching(greedy, buckets=(48,), batch_tokens=96, max_source_tokens=48)
    assert coarse.runner.shapes() == [(1, 48), (2, 48)]
    assert coarse.warm_up() == coarse.runner.num_compilations == 2
    assert [str(each) for each in coarse(lines)] == [str(each) for each in greedy(lines)]
    coarse(lines[0])
    assert coarse.runner.num_compilations == 2
    with pytest.raises(UserError, match=r'buckets=\(64, 16\): expected one or more numbers of slots, ascending'):
        searching(translator, buckets=(64, 16))


def test_the_program_used_longest_ago_is_forgotten() -> None:
    runner = Runner(batch_tokens=64, max_slots=16, pad_id=0)
    runner.most_programs = 2

    def times(factor: int, ids: jax.Array) -> jax.Array:
        return factor * ids

    def shape(rows: int) -> tuple[tuple[int, int]]:
        return ((rows, 16),)

    for rows in (1, 4):
        runner.compile(times, 2, shape(rows))
    (row,) = runner.map(times, 2, [[[5]]])  # uses the first
    assert row.tolist() == [10] + 15 * [0]
    runner.compile(times, 2, shape(2))
    assert [runner.has_compiled(times, shape(rows)) for rows in (1, 4, 2)] == [True, False, True]
    runner.usual = frozenset([(times, shape(1))])
    for rows in (4, 8):
        runner.compile(times, 2, shape(rows))
    assert [runner.has_compiled(times, shape(rows)) for rows in (1, 2, 4, 8)] == [True, False, True, True]
    needed = [(times, shape(rows)) for rows in (4, 2, 16)]  # for one batch, more than are kept
    for function, shapes in needed:
        runner.compile(function, 2, shapes, keep=needed)
    assert [runner.has_compiled(times, shape(rows)) for rows in (1, 2, 4, 8, 16)] == [True, True, True, False, True]


def test_results_carry_tokens_and_what_each_is_worth(translator: Translator) -> None:
    (translation,) = translator(['a b c d'])
    assert translation.tokens[-1] == '</s>'
    assert len(translation.tokens) == len(translation.token_ids) == translation.num_tokens
    assert sum(translation.token_log_probs) == pytest.approx(translation.log_prob)
    assert translation.score == pytest.approx(
        translation.log_prob / ((5 + translation.num_tokens) / 6) ** 0.6, abs=1e-6
    )
    assert translator.tokenizer.decode(translation.token_ids) == translation.text
    assert translation.n_best == ()
    assert translation.alignment is None


def test_the_n_best_are_sorted_distinct_and_hold_the_best(translator: Translator) -> None:
    translator = searching(translator, n_best=2)
    for line, one in zip(random_lines(6), translator(random_lines(6)), strict=True):
        texts = [x.text for x in one.n_best]
        assert one.n_best[0].text == one.text, line
        assert len(texts) == len(set(texts)) == 2
        scores = [x.score for x in one.n_best if not x.truncated]
        assert scores == sorted(scores, reverse=True)


def test_given_pairs_are_worth_what_the_search_says(translator: Translator) -> None:
    lines = random_lines(9)
    found = translator(lines)
    scored = translator.score(lines, [one.text for one in found])
    for ours, theirs in zip(scored, found, strict=True):
        if ours.token_ids == theirs.token_ids:  # a text may be spelt in several ways
            assert ours.score == pytest.approx(theirs.score, abs=1e-5)
            np.testing.assert_allclose(ours.token_log_probs, theirs.token_log_probs, atol=1e-5)
    assert np.mean([x.token_ids == y.token_ids for x, y in zip(scored, found, strict=True)]) > 0.8
    wrong = translator.score(lines, [line[::-1] + ' h' for line in lines])
    assert all(x.score < y.score for x, y in zip(wrong, scored, strict=True))
    assert translator.score([], []) == []


def test_a_prefix_is_kept_and_continued(translator: Translator) -> None:
    prefixes = ['a b', '', 'h h', 'x']
    found = translator(['a b c d', 'b c', 'a b c', ''], prefixes=prefixes)
    assert [one.text for one in found[:2]] == ['a b c d', 'b c']
    assert found[2].text.startswith('h h')
    assert found[3].text == ''
    with pytest.raises(ValueError, match='1 prefixes, 2 lines'):
        translator(['a', 'b'], prefixes=['a'])


def test_banned_texts_and_ids_do_not_come(copy_run: Path, translator: Translator) -> None:
    found = searching(translator, beam_width=1, banned_texts=('c d',))(['a b c d e', 'd c'])
    assert 'c d' not in found[0].text
    assert found[1].text == 'd c'
    with pytest.raises(UserError, match=r'banned_ids=\(20,\): expected ids below vocab_size=20'):
        Translator.from_run(copy_run, banned_ids=(20,))


def test_attention_aligns_a_copy_with_its_source(translator: Translator) -> None:
    lines = ['a b c d', '', 'h g f e d']
    found = translator(lines, alignment=True)
    assert found[1].alignment is None
    links = [(i, j) for one in (found[0], found[2]) for i, j in one.alignment]
    assert all(0 <= i < 5 and 0 <= j < 5 for i, j in links)
    # One layer that has learned to copy in 250 steps looks at the right word most of the time.
    assert np.mean([i == j for i, j in links]) > 0.5
    again = translator.score([lines[0]] * 2, [found[0].text] * 2, alignment=True)[0].alignment
    assert again == found[0].alignment


def test_an_alignment_of_a_line_in_parts_counts_through(greedy: Translator) -> None:
    line = ' '.join('abcdefgh' * 4)
    (whole,) = greedy([line], alignment=True)
    assert whole.split
    assert max(i for i, _ in whole.alignment) > 16
    assert max(j for _, j in whole.alignment) < len(whole.text.split())


@pytest.mark.parametrize('strategy', [pytest.param('pmap', marks=pytest.mark.slow), 'mesh'])
def test_eight_devices_translate_as_one_does(strategy: str, copy_run: Path, translator: Translator) -> None:
    lines = [*random_lines(21), '']
    parallel = ParallelConfig(strategy=strategy, num_devices=8)
    for one, other in zip(Translator.from_run(copy_run, parallel=parallel)(lines), translator(lines), strict=True):
        assert one.token_ids == other.token_ids
        assert one.score == pytest.approx(other.score, abs=1e-5)


def test_a_stream_is_translated_in_order_and_in_bounded_memory(translator: Translator) -> None:
    read = []

    def lines():
        for i in range(25):
            read.append(i)
            yield 'ab cd'[i % 5]

    stream = translator.stream(lines(), chunk=10)
    first = next(stream)
    assert len(read) == 10
    assert [one.text for one in (first, *stream)] == ['a', 'b', '', 'c', 'd'] * 5


def test_a_batch_that_memory_does_not_hold_is_halved(greedy: Translator, capsys) -> None:
    lines = random_lines(40)
    expected = [one.text for one in greedy(lines)]
    translator = searching(greedy, batch_tokens=512)
    translator.programs.translate_ids = greedy.translate_ids  # which is compiled
    real, seen = translator.runner._call, []

    def call(function, params, arrays):
        seen.append(len(arrays[0]))
        if len(arrays[0]) > 8:
            raise jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory while trying to allocate')
        return real(function, params, arrays)

    translator.runner._call = call
    assert [one.text for one in translator(lines)] == expected
    assert 'out of memory with 16 lines at once; going on with 8' in capsys.readouterr().err
    assert seen[0] == 16
    assert {*seen} == {16, 8}
    seen.clear()
    translator(lines)
    assert max(seen) == 8  # what did not fit is not tried again


def test_other_errors_of_a_batch_are_not_hidden(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:

    def call(*_):
        raise jax.errors.JaxRuntimeError('INTERNAL: something else')

    monkeypatch.setattr(translator.runner, '_call', call)
    with pytest.raises(jax.errors.JaxRuntimeError, match='something else'):
        translator(['a'])


def test_sentences_of_a_paragraph_keep_their_white_space(greedy: Translator) -> None:
    (one,) = greedy(['  The bad cab.  Has he a bed?\tA bag! '])
    assert one.split
    texts = [x.text for x in greedy(['The bad cab.', 'Has he a bed?', 'A bag!'])]
    assert one.text == f'  {texts[0]}  {texts[1]}\t{texts[2]} '


def test_runs_of_different_tokenizers_make_no_ensemble(copy_run: Path, tmp_path: Path) -> None:
    run = tmp_path / 'run'
    shutil.copytree(copy_run, run)
    lines = [' '.join('ijklmnop'[i % 8 : i % 8 + 3]) for i in range(99)]
    Run(run).write_tokenizer(SentencePieceTokenizer.train(lines, vocab_size=20, byte_fallback=False))
    with pytest.raises(UserError, match='different tokenizers; an ensemble needs runs that share one'):
        Translator.from_run(copy_run, run)


@pytest.mark.parametrize('utility', ['bleu', 'chrf'])
def test_minimum_bayes_risk_equals_plain_loops(utility: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        texts = [' '.join(rng.choice(['der', 'Hund', 'bellt', 'laut', 'heute'], rng.integers(1, 7))) for _ in range(7)]
        weights = rng.uniform(0.1, 2, 7)
        one = {'bleu': sacrebleu.sentence_bleu, 'chrf': sacrebleu.sentence_chrf}[utility]
        expected = [
            sum(w * one(ours, [theirs]).score for w, theirs in zip(weights, texts, strict=True)) / weights.sum()
            for ours in texts
        ]
        np.testing.assert_allclose(expected_utilities(texts, weights, utility), expected, rtol=1e-9)


@pytest.mark.slow
def test_minimum_bayes_risk_chooses_by_expected_utility(translator: Translator) -> None:
    options = {'search': 'sample', 'samples': 8, 'temperature': 2.0, 'n_best': 8}
    line = 'a b c d e f'
    drawn = searching(translator, **options)([line])[0].n_best
    (chosen,) = searching(translator, **options, mbr='chrf')([line])
    assert {x.text for x in chosen.n_best} == {x.text for x in drawn}
    texts = [x.text for x in chosen.n_best]
    worth = expected_utilities(texts, [1.0] * len(texts), 'chrf')
    assert list(worth) == sorted(worth, reverse=True)


@pytest.fixture(scope='module')
def multilingual() -> Translator:
    """A model with tags that has learned nothing."""
    return tagged_translator(DecodingConfig(beam_width=2, target_language='de'))


def test_the_tag_of_the_target_language_begins_each_source_and_each_part_of_a_long_one(
    multilingual: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[list[int]] = []

    def search(function: object, params: object, columns: list[list[list[int]]], *_: object, last: object) -> list:
        given.extend(columns[0])
        shapes = dict.fromkeys(('tokens', 'token_log_probs'), (1, 1))
        found = Hypotheses(*(np.zeros(shapes.get(name, 1), int) for name in Hypotheses._fields))
        return [found] * len(columns[0])

    tokenizer = multilingual.tokenizer
    for language, tag in tokenizer.languages.items():
        decoding = DecodingConfig(target_language=language, max_source_tokens=8)
        translator = Translator(multilingual.model, multilingual.params, tokenizer, decoding)
        monkeypatch.setattr(translator.runner, 'map', search)
        given.clear()
        assert not translator(['a b c'])[0].split
        assert given == [[tag, *tokenizer.encode(['a b c'])[0]]]
        assert translator(['a b c d e f g h ' * 3])[0].split
        assert len(given) > 3
        assert all(ids[0] == tag and tag not in ids[1:] and len(ids) <= 8 for ids in given)


@pytest.mark.slow
def test_no_translation_holds_a_tag(multilingual: Translator) -> None:
    """Also where the model would rather say nothing else: tags are of the source side alone."""
    tags = list(multilingual.tokenizer.languages.values())
    table = np.array(multilingual.params['embedding']['table'])
    row = 50.0 * table[tags[0]]  # whatever the output, one of the two has the highest logit
    table[tags] = row, -row
    wishful = {**multilingual.params, 'embedding': {'table': table}}
    source = np.array(multilingual.tokenizer.encode(['a b c', 'h g f'], target_language='fr'))
    logits = jax.jit(multilingual.model.apply)({'params': wishful}, source, np.pad(source[:, :-1], ((0, 0), (1, 0))))
    assert np.isin(np.asarray(logits).argmax(-1), tags).any()
    assert not np.isin(multilingual.translate_ids(wishful, source).tokens, tags).any()


def test_an_unknown_target_language_is_refused_with_the_list(multilingual: Translator, copy_run: Path) -> None:
    with pytest.raises(UserError, match=r"target_language='dee': expected one of de, fr\. Did you mean de\?"):
        multilingual.with_params(multilingual.params, target_language='dee')
    config = multilingual.model.config
    with pytest.raises(UserError, match=r'target_language=None: expected one of de, fr'):
        Translator(config, multilingual.params, multilingual.tokenizer, DecodingConfig())
    with pytest.raises(UserError, match=r"target_language='de': expected one of out"):
        Translator.from_run(copy_run, target_language='de')
    assert Translator.from_run(copy_run, target_language='out').decoding.target_language is None


@pytest.fixture
def run_with_a_poor_last_checkpoint(copy_run: Path, tmp_path: Path) -> Path:
    """The copy run with one more checkpoint, of step 300: all parameters 0, and a high loss."""
    run = tmp_path / 'run'
    shutil.copytree(copy_run, run)
    config = Run(run).read_config()
    trainer = make_trainer(config)
    state = trainer.init_state()
    zeros = jax.tree.map(jnp.zeros_like, state.params)
    checkpoints = Checkpoints(run / 'checkpoints')
    checkpoints.save(state._replace(step=jnp.int32(300), params=zeros), {}, {'validation_loss': 99.0})
    checkpoints.close()
    return run


def test_an_unknown_step_is_refused_with_those_there_are(copy_run: Path) -> None:
    with pytest.raises(UserError, match=r'no checkpoint of step 7; there are 125, 250'):
        Translator.from_run(copy_run, step=7)


def test_checkpoints_by_name(run_with_a_poor_last_checkpoint: Path) -> None:
    run = run_with_a_poor_last_checkpoint
    table = lambda name: np.asarray(Translator.from_run(f'{run}{name}').params['embedding']['table'])
    assert not np.any(table('@last'))
    assert not np.any(table('@300'))
    np.testing.assert_array_equal(table('@best'), table('@250'))
    np.testing.assert_array_equal(table(''), table('@best'))
    assert not np.any(Translator.from_run(run, step=300).params['embedding']['table'])
    kept = [table(f'@{step}') for step in (250, 300)]
    np.testing.assert_allclose(table('@average'), sum(kept) / 2, rtol=1e-6)
    with pytest.raises(UserError, match=r"no checkpoint 'lst'. Did you mean last"):
        table('@lst')
    config = Run(run).read_config()
    Run(run).open(replace(config, training=replace(config.training, average_last=2)))  # point 15
    np.testing.assert_array_equal(table(''), table('@average'))


def test_what_practitioners_pass_is_read_or_refused(translator: Translator, copy_run: Path) -> None:
    (scored,) = translator.score(['a b'], ['a b'])
    assert translator.score('a b', 'a b') == translator.score(b'a b', b'a b') == scored
    forked = translator.with_decoding(replace(translator.decoding, n_best=1, alpha=0.5))
    forked.runner._process -= 1
    with pytest.raises(RuntimeError, match=r"forked from one in which JAX runs.*get_context\('spawn'\)"):
        forked('a b')
    begun = translator(['a b', 'c'], prefixes=['a', ''])
    assert translator(['a b', 'c'], prefixes=[b'a', None]) == begun
    assert Translator.from_run(copy_run, step='250', beam_width=np.int64(2)).decoding.beam_width == 2
    for ids, wrong in (([[3, 400]], 'the id 400'), ([[3, -4]], 'the id -4'), ([3, 4], r'shape \(2,\)')):
        with pytest.raises(UserError, match=wrong):
            translator.translate_ids(translator.weights, np.array(ids))
    with pytest.raises(UserError, match='chunk=0: expected at least 1'):
        list(translator.stream(['a'], chunk=0))


def test_asynchronous_lines_are_translated(translator: Translator) -> None:
    async def texts() -> list[str]:
        async def lines() -> AsyncIterator[str]:
            for line in ('a', 'b c', '', 'd'):
                yield line

        given = ['a b', '', 'c']
        return [each.text for chunk in (lines(), given) async for each in translator.stream_async(chunk, chunk=2)]

    assert asyncio.run(texts()) == ['a', 'b c', '', 'd', 'a b', '', 'c']


@pytest.mark.slow
def test_a_pickled_or_copied_translator_translates_the_same(translator: Translator) -> None:
    other = copy.deepcopy(pickle.loads(pickle.dumps(translator)))
    assert other(['a b c']) == translator(['a b c'])


@pytest.mark.parametrize('kind', ['Auto', 'Explicit'])
def test_a_mesh_that_the_caller_has_set_changes_nothing(kind: str, translator: Translator) -> None:
    expected = translator(['a b c'])
    with jax.set_mesh(jax.make_mesh((8,), ('data',), axis_types=(getattr(jax.sharding.AxisType, kind),))):
        assert translator(['a b c']) == expected
