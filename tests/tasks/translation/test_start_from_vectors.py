"""A translation model's source embeddings start from word vectors, whichever parameters they are."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import copy_config

from flax_transformer.common.errors import UserError
from flax_transformer.config import Config, RecurrentConfig
from flax_transformer.data.vector_files import with_pretrained, write_vectors
from flax_transformer.engine.launch import prepare
from flax_transformer.tasks.translation import training as module
from flax_transformer.tasks.translation.loading import LoadedRun
from flax_transformer.tasks.translation.model import family_of
from flax_transformer.tasks.translation.preparation import prepare_run
from flax_transformer.tasks.translation.run import Run


@pytest.fixture
def config(copy_folder: Path, tmp_path: Path) -> Config:
    write_vectors(tmp_path / 'vectors.txt', ['a', 'b', 'zz'], np.random.default_rng(0).standard_normal((3, 32)))
    config = copy_config(copy_folder)
    data = replace(config.data, cache=str(tmp_path / 'cache'))
    return replace(config, data=data, model=replace(config.model, embedding_from=str(tmp_path / 'vectors.txt')))


def test_pieces_of_the_source_start_from_vectors(config: Config, tmp_path: Path, capsys, monkeypatch) -> None:
    run = Run(tmp_path / 'run')
    prepared = prepare(module.training(), config, run, config)
    assert ' start at random (' in capsys.readouterr().err
    ids, rows = prepared.pretrained
    assert {prepared.tokenizer.source_piece(int(i)).removeprefix('▁') for i in ids} == {'a', 'b'}
    assert np.array_equal(prepare_run(config, run).pretrained.rows, rows)  # another process does so
    start = LoadedRun(config, None, prepared.tokenizer)
    assert prepare_run(config, run, start).pretrained is None  # --init-from comes first

    recurrent = RecurrentConfig(vocab_size=20, d_model=32, hidden_size=8, tie_embeddings='target')
    untied = replace(config.model, tie_embeddings='none')
    for model, name in ((config.model, 'embedding'), (untied, 'source_embedding'), (recurrent, 'source_embedding')):
        shapes = family_of(model).parameter_shapes(model)
        fresh = jax.tree.map(lambda x: np.random.default_rng(1).standard_normal(x.shape, np.float32), shapes)
        family = family_of(model)._replace(init_params=lambda *_, fresh=fresh: jax.tree.map(np.copy, fresh))
        monkeypatch.setattr(module, 'family_of', lambda _, family=family: family)
        found = module._initial_params(replace(config, model=model), prepared)
        expected = with_pretrained(fresh[name]['table'], prepared.pretrained)
        assert not np.array_equal(expected, fresh[name]['table'])
        jax.tree.map(np.testing.assert_array_equal, found, {**fresh, name: {**fresh[name], 'table': expected}})


def test_vectors_of_another_width_leave_no_config_behind(config: Config, tmp_path: Path) -> None:
    write_vectors(tmp_path / 'vectors.txt', ['a'], np.ones((1, 5)))
    with pytest.raises(UserError, match=r'vectors of 5 values, but model.d_model=32'):
        prepare_run(config, Run(tmp_path / 'run'))
    assert not Run(tmp_path / 'run').exists()
