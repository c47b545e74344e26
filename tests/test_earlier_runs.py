"""Runs of schema 2, written before tasks were recipes, still load: tests/fixtures/runs has one of each task."""

import hashlib
import tarfile
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import TESTS

from flax_transformer.tasks.api import open_run, recipe_named

# The SHA-256 of all parameters, by path, when the run was written.
PARAMETERS = {
    'translation': '33592df4e3f8a6fdac809954cc8a32b4db954241493b653ca91a845741f91295',
    'classification': 'd9ba663ae5ed45cac08fc90852ecdde5671fee07bd03cf1e4d7f9fe36496cb4e',
    'speech': '8de9919d6d0485dd27363dd321415b109d4f4f6704ced5ad6aa3fad8d6dc7771',
    'trigger_word': '3ec555dd927ed1c3f2379d4f4aeb2d17ed24eb3aabddf13e1d65c19f015eb74c',
    'embeddings': '75d56134ac0f3e7e19f3bf748ae694a7c6a438f60bffdb41a510163b6fd843ad',
}


@pytest.mark.parametrize('task', PARAMETERS)
def test_a_run_written_earlier_loads_to_the_bit(task: str, tmp_path: Path) -> None:
    with tarfile.open(TESTS / 'fixtures' / 'runs' / f'{task}.tar.gz') as archive:
        archive.extractall(tmp_path, filter='data')
    config = open_run(tmp_path / task, task).read_config()
    loaded = recipe_named(task).load(tmp_path / task)
    assert loaded.config == config
    assert type(config) is recipe_named(task).config
    digest = hashlib.sha256()
    for path, array in jax.tree_util.tree_leaves_with_path(loaded.params):
        digest.update(jax.tree_util.keystr(path).encode() + np.asarray(array).tobytes())
    assert digest.hexdigest() == PARAMETERS[task]
