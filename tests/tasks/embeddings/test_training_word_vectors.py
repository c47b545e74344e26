"""Training word vectors in run directories: they learn, resume to the bit, and read the run from its files alone."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_embeddings import ROYAL, WATERY, tiny_config, write_text

from flax_transformer import train
from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.tasks.api import load_run, make_trainer
from flax_transformer.tasks.embeddings.blocks import Blocks
from flax_transformer.tasks.embeddings.corpus_checks import report_of
from flax_transformer.tasks.embeddings.preparation import prepare_run
from flax_transformer.tasks.embeddings.run import Run
from flax_transformer.tasks.embeddings.word2vec import apply_updates, skip_gram


@pytest.fixture(scope='module')
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('words')
    write_text(folder)
    return folder


@pytest.mark.parametrize('method', ['skip_gram', 'cbow', 'glove'])
@pytest.mark.slow_cases('cbow', 'glove')
def test_words_of_one_group_become_alike_and_a_cut_run_goes_on_to_the_bit(
    text_folder: Path, tmp_path: Path, method: str
) -> None:
    config = tiny_config(text_folder, method, steps=40 if method == 'cbow' else 8)  # which makes fewer predictions
    run = train(config, tmp_path / 'whole')
    found = load_run(f'{run.path}@last')
    vectors = found.matrix - found.matrix.mean(axis=0)  # what all have in common tells nothing
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    royal, watery = (units[[found.vocabulary.ids[word] for word in group]] for group in (ROYAL, WATERY))
    alike, unlike = (royal @ royal.T)[np.triu_indices(4, 1)].mean(), (royal @ watery.T).mean()
    assert alike > unlike + 0.3
    losses = [record['loss'] for record in read_metrics(run.path) if record['kind'] == 'train']
    assert losses[-1] < losses[0]
    train(replace(config, training=replace(config.training, steps=5)), tmp_path / 'cut')
    again = load_run(f'{train(config, tmp_path / "cut").path}@last')  # the first part may be the best one
    jax.tree.map(np.testing.assert_array_equal, again.params, found.params)


def test_text_of_which_sampling_leaves_no_pair_is_refused(tmp_path: Path) -> None:
    (tmp_path / 'train.txt').write_text('a b\n' * 20)
    config = tiny_config(tmp_path, 'glove')
    config = replace(config, data=replace(config.data, sample=1e-4))
    for _ in range(2):
        with pytest.raises(UserError, match=r'train.txt: data.sample=0.0001 leaves out .*--data.sample 0'):
            train(config, tmp_path / 'run')


def test_damaged_pairs_are_counted_again(text_folder: Path, tmp_path: Path) -> None:
    config, run = tiny_config(text_folder, 'glove'), Run(tmp_path / 'run')
    run.path.mkdir()
    whole = prepare_run(config, run)
    run.write_vocabulary(whole.vocabulary)
    content = run.pairs_file.read_bytes()
    for damaged in (content[: len(content) // 24 * 12], content[:8] + b'\xff' * 4 + content[12:]):
        run.pairs_file.write_bytes(damaged)
        prepare_run(config, run)
        assert run.pairs_file.read_bytes() == content


def test_tables_are_updated_in_place(text_folder: Path) -> None:
    """XLA copies a table that it cannot update in place: the step would need room for one."""
    for method in ('skip_gram', 'glove'):
        config = tiny_config(text_folder, method)
        trainer = make_trainer(replace(config, model=replace(config.model, vocab_size=50_000)))
        table = 50_000 * 8 * 4
        assert trainer.lower().compile().memory_analysis().temp_size_in_bytes < table, method


@pytest.mark.slow
def test_two_devices_apply_the_updates_of_both_blocks(text_folder: Path) -> None:
    config = tiny_config(text_folder, blocks_per_step=2)
    trainer = make_trainer(replace(config, parallel=ParallelConfig('pmap', 2)))
    generator = np.random.default_rng(0)
    reach = generator.integers(0, 3, (2, 2, 8)).astype(np.int8)
    words, negatives = (generator.integers(0, 12, (2, size)).astype(np.int32) for size in (12, 8))
    batch = Blocks(words, *reach, negatives)
    state = trainer.init_state()
    start = {name: np.asarray(table) + 0.1 for name, table in state.params.items()}
    state = trainer.init_state(jax.tree.map(jnp.asarray, start))
    update = jax.jit(lambda block: skip_gram(jax.tree.map(jnp.asarray, start), block, 0.1, config.model)[0])
    expected = start
    for row in range(2):
        expected = jax.jit(apply_updates)(expected, update(Blocks(*(x[row] for x in batch))))
    found = trainer.step(state, batch)[0].params
    # Sums in another order.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, expected)


def test_a_text_without_neighbors_and_a_small_table_are_refused(text_folder: Path, tmp_path: Path) -> None:
    (tmp_path / 'train.txt').write_text('a\nb\na\nb\n')
    config = tiny_config(tmp_path)
    config = replace(config, data=replace(config.data, validation=''))
    with pytest.raises(UserError, match='no line has two known words'):
        prepare_run(config, Run(tmp_path / 'run'))
    assert not Run(tmp_path / 'run').exists()
    Run(tmp_path / 'run').check(config)  # what is left there is in nobody's way
    with pytest.raises(UserError, match='does not exist'):
        prepare_run(replace(config, data=replace(config.data, train='none.txt')), Run(tmp_path / 'run'))


def test_check_names_what_is_wrong_with_a_text(tmp_path: Path) -> None:
    text = 'the cat sat.\nthe cat sat.\nthe cat ran.\nalone\n\nsat. ran.\n'
    (tmp_path / 'train.txt').write_text(text)
    (tmp_path / 'validation.txt').write_text('the\n')
    report = report_of(tiny_config(tmp_path), None)
    found = {(each.corpus, each.kind): (each.severity, each.count, each.total) for each in report.findings}
    assert found == {
        ('train', 'alone'): ('warning', 1, 6),
        ('train', 'repeated'): ('warning', 1, 6),
        ('train', 'punctuation'): ('warning', 2, 4),
        ('train', 'rare'): ('note', 1, 12),
        ('validation', 'alone'): ('warning', 1, 1),
    }
    assert report.pairs == {'train': 6, 'validation': 1}
    assert 'repeated' in str(report)


@pytest.mark.parametrize(
    ('section', 'fields', 'message'),
    [
        ('model', {'method': 'glove', 'output': 'hierarchical_softmax'}, 'has no effect'),
        ('tokenizer', {'pattern': '(a)'}, 'no groups'),
        ('data', {'sample': 1.5}, 'sample=1.5'),
    ],
)
def test_bad_settings_are_named(tmp_path: Path, section: str, fields: dict, message: str) -> None:
    config = tiny_config(tmp_path)
    with pytest.raises(ValueError, match=message):
        replace(getattr(config, section), **fields)
