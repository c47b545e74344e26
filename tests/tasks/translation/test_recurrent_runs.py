"""A run of the attention RNN does what a Transformer's does: the same commands, searches, scores and files."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import copy_config, made_once
from drawn_params import drawn

from flax_transformer import Translator, train
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.config import Config, RecurrentConfig, TransformerConfig
from flax_transformer.data.bitext.batches import Batch
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.interop.ctranslate2 import CTranslate2Translator
from flax_transformer.interop.stablehlo import lower, with_fixed_shapes
from flax_transformer.tasks.api import make_trainer
from flax_transformer.tasks.translation.inspection import attention_map
from flax_transformer.tasks.translation.run import Run

LINES = ['a b c', 'h g f e d c b', 'a', 'c c d']


def rnn_config(folder: Path, **training: object) -> Config:
    config = copy_config(folder, **training)
    return replace(config, model=RecurrentConfig(vocab_size=20, d_model=32, hidden_size=32, dropout_rate=0.1))


@pytest.fixture(scope='module')
def rnn_run(copy_folder: Path, shared_folder: Path) -> Path:
    """A run that has learned to copy. Read it only."""
    return made_once(shared_folder / 'copy_rnn', lambda run: train(rnn_config(copy_folder), run))


@pytest.fixture(scope='module')
def translator(rnn_run: Path) -> Translator:
    return Translator.from_run(rnn_run)


@pytest.fixture(scope='module')
def begun_run(copy_run: Path, copy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with drawn parameters. Read it only."""
    run, config = Run(tmp_path_factory.mktemp('rnn') / 'begun'), rnn_config(copy_folder)
    run.open(config)
    run.write_tokenizer(Run(copy_run).read_tokenizer())
    shapes = make_trainer(config).shapes
    zeros = jax.tree.map(lambda x: jnp.asarray(np.zeros(x.shape, x.dtype)), shapes)
    params = jax.tree.map(jnp.asarray, drawn(shapes.params))
    with contextlib.closing(Checkpoints(run.checkpoints)) as checkpoints:
        checkpoints.save(zeros._replace(step=jnp.int32(3), params=params), {}, {'validation_loss': 1.0})
    return run.path


def searching(translator: Translator, **decoding: object) -> Translator:
    return translator.with_decoding(replace(translator.decoding, **decoding))


@pytest.mark.slow
@pytest.mark.parametrize(
    'decoding',
    [
        {'beam_width': 1},
        {'coverage_penalty': 0.2},
        {'weights': 'int8'},
        {'groups': 2, 'diversity': 0.1},
    ],
    ids=lambda decoding: next(iter(decoding)),
)
def test_every_search_finds_the_copy(translator: Translator, decoding: dict) -> None:
    assert [one.text for one in searching(translator, **decoding)(LINES[:2])] == LINES[:2]


@pytest.mark.slow
def test_it_votes_with_a_transformer(rnn_run: Path, copy_run: Path) -> None:
    both = Translator.from_run(rnn_run, copy_run)
    assert [type(model.config) for model in both.models] == [RecurrentConfig, TransformerConfig]
    alone = [Translator.from_run(run).score(LINES, LINES) for run in (rnn_run, copy_run)]
    expected = [np.mean([one.log_prob for one in of_line]) for of_line in zip(*alone, strict=True)]
    # The geometric mean of two nearly certain models, normalized: never below the mean of their log-probabilities.
    found = both(LINES)
    assert [one.text for one in found] == LINES
    assert all(one.log_prob >= least - 1e-5 for one, least in zip(found, expected, strict=True))


@pytest.mark.slow
def test_its_own_attention_aligns_words(translator: Translator) -> None:
    weights = attention_map(translator, 'a b c').weights
    assert weights.shape[:2] == (1, 1)  # one layer, one head
    assert weights.sum(axis=-1) == pytest.approx(1.0, abs=1e-5)
    (scored,) = translator.score(['a b c d'], ['a b c d'], alignment=True)
    assert list(scored.alignment) == [(i, i) for i in range(4)]


@pytest.mark.slow
def test_eight_devices_give_the_loss_of_one(copy_folder: Path) -> None:
    config = rnn_config(copy_folder)
    config, found = replace(config, model=replace(config.model, dropout_rate=0.0)), []
    for parallel in ({}, {'num_devices': 8}, {'num_devices': 8, 'strategy': 'mesh', 'fsdp': 2, 'tensor': 2}):
        trainer = make_trainer(replace(config, parallel=replace(config.parallel, **parallel)))
        shape = trainer.task.batch_shapes().source.shape
        ids = np.random.default_rng(0).integers(3, 20, shape).astype(np.int32)
        ones, places = np.ones_like(ids), np.broadcast_to(np.arange(shape[1], dtype=np.int32), shape)
        state, sums = trainer.step(trainer.init_state(), Batch(ids, ids, ones, ones, places, places))
        query = trainer.devices.gather(state.params)['decoder']['query']['kernel']
        found.append((float(jnp.asarray(sums['loss']).reshape(-1)[0]), float(np.abs(query).sum())))
    for one in found[1:]:
        assert one == pytest.approx(found[0], rel=1e-5)


@pytest.mark.slow
def test_the_export_knows_neither_batch_nor_length_when_it_is_traced(begun_run: Path) -> None:
    translator = Translator.from_run(begun_run, beam_width=1)
    program = lower(translator, *with_fixed_shapes(translator), inside=True, platforms=('cpu',))
    assert [str(size) for size in program.in_avals[0].shape] == ['b', 's']
    source = np.asarray(translator.tokenizer.encode(['a b c']), np.int32)
    (expected,) = translator(['a b c'])
    found = np.asarray(program.call(source)['tokens'])[0, 0]
    assert found[: expected.num_tokens].tolist() == list(expected.token_ids)


def test_formats_of_transformers_refuse_it(begun_run: Path, tmp_path: Path, capsys) -> None:
    assert main(['export-marian', str(begun_run), str(tmp_path / 'marian')]) == 2
    assert 'expected a Transformer' in capsys.readouterr().err
    with pytest.raises(UserError, match='expected a Transformer'):
        CTranslate2Translator.of(Translator.from_run(begun_run))
    assert not (tmp_path / 'marian').exists()


def test_a_run_does_not_change_its_kind_of_model(
    begun_run: Path, copy_run: Path, copy_folder: Path, tmp_path: Path
) -> None:
    assert json.loads((begun_run / 'config.json').read_text())['model']['class'] == 'RecurrentConfig'
    with pytest.raises(UserError, match=r'model\.class'):
        train(copy_config(copy_folder), begun_run)
    with pytest.raises(UserError, match='another model'):
        train(rnn_config(copy_folder), tmp_path / 'new', init_from=copy_run)
