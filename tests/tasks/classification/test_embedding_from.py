"""A classifier's embeddings start from word vectors, frozen or not; a file that does not fit leaves no run behind."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from tiny_classification import tiny_config

from flax_transformer.common.errors import UserError
from flax_transformer.data.pretrained import PretrainedRows, with_pretrained
from flax_transformer.data.vector_files import write_vectors
from flax_transformer.engine.monitor.reporter import Reporter
from flax_transformer.engine.preemption import Interrupted
from flax_transformer.tasks.classification.config import Config
from flax_transformer.tasks.classification.loading import load_run
from flax_transformer.tasks.classification.model import init_params
from flax_transformer.tasks.classification.train import train
from flax_transformer.tasks.classification.vocabulary import UNK_ID

WORDS = ('good', 'bad', 'Film', 'elsewhere')


@pytest.fixture
def config(texts_folder: Path, tmp_path: Path) -> Config:
    matrix = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    write_vectors(tmp_path / 'vectors.bin', WORDS, matrix)
    # The step is that of the tiny classifier, which other tests compile.
    config = tiny_config(texts_folder, model={'embedding_from': str(tmp_path / 'vectors.bin')})
    return replace(config, optimizer=replace(config.optimizer, freeze=('encoder/embedding/table',)))


def test_known_words_start_from_their_vectors_and_stay_there_if_frozen(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Reporter, 'advance', lambda _, step: step == 3 and os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted):
        train(config, tmp_path / 'run')
    assert capsys.readouterr().err.count('vectors of 2 tokens; 11 start at random (') == 1
    loaded = load_run(tmp_path / 'run')
    fresh = init_params(config.model, jax.random.key(config.seed))['encoder']['embedding']['table']
    tokens = loaded.vocabulary.tokens(range(loaded.vocabulary.size))
    ids = [tokens.index(word) for word in WORDS[:2]]
    matrix = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)[:2]
    expected = with_pretrained(fresh, PretrainedRows(np.array(ids), matrix))
    np.testing.assert_array_equal(loaded.params['encoder']['embedding']['table'], expected)
    assert np.array_equal(expected[UNK_ID], fresh[UNK_ID])
    # A run that has begun needs the file no more.
    (tmp_path / 'vectors.bin').unlink()
    monkeypatch.setattr(Reporter, 'advance', lambda _, step: step == 5 and os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted):
        train(config, tmp_path / 'run')
    assert 'start at random' not in capsys.readouterr().err


def test_a_file_that_does_not_fit_leaves_no_run_behind(config: Config, tmp_path: Path) -> None:
    (tmp_path / 'vectors.bin').unlink()
    with pytest.raises(UserError, match=r'model\.embedding_from: .*vectors\.bin does not exist'):
        train(config, tmp_path / 'run')
    assert not (tmp_path / 'run' / 'config.json').exists()


def test_parameters_of_another_run_come_before_vectors(config: Config, tiny_classifier: Path, tmp_path: Path) -> None:
    (tmp_path / 'vectors.bin').unlink()
    config = replace(config, training=replace(config.training, steps=1))
    run = train(config, tmp_path / 'run', init_from=tiny_classifier)
    theirs, ours = (load_run(each).params['encoder']['embedding']['table'] for each in (tiny_classifier, run.path))
    np.testing.assert_array_equal(theirs, ours)
