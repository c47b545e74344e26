"""A classifier's embeddings start from word vectors; a file that does not fit leaves no run behind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tiny_classification import tiny_config

from flax_transformer import train
from flax_transformer.data.vector_files import PretrainedRows, with_pretrained, write_vectors
from flax_transformer.engine import launch
from flax_transformer.tasks.classification.config import ClassificationConfig
from flax_transformer.tasks.classification.model import init_params
from flax_transformer.tasks.classification.run import Run
from flax_transformer.tasks.classification.vocabulary import UNK_ID

WORDS = ('good', 'bad', 'Film', 'elsewhere')


@pytest.fixture
def config(texts_folder: Path, tmp_path: Path) -> ClassificationConfig:
    matrix = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    write_vectors(tmp_path / 'vectors.bin', WORDS, matrix)
    return tiny_config(texts_folder, model={'embedding_from': str(tmp_path / 'vectors.bin')})


@pytest.fixture
def table_at_start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A function that prepares a run and returns the embedding that the engine is to begin with; None: a fresh one."""

    def begin(*args: Any, **options: Any) -> Any:
        given: list[Any] = []
        monkeypatch.setattr(launch, 'run_session', lambda *_, initial_params, **__: given.append(initial_params()))
        train(*args, **options)
        return None if given[0] is None else given[0]['encoder']['embedding']['table']

    return begin


@pytest.mark.slow
def test_known_words_start_from_their_vectors_until_the_run_has_begun(
    config: ClassificationConfig, tmp_path: Path, table_at_start: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_at_start(config, tmp_path / 'run')
    assert capsys.readouterr().err.count('vectors of 2 tokens; 11 start at random (') == 1
    fresh = init_params(config.model, jax.random.key(config.seed))['encoder']['embedding']['table']
    vocabulary = Run(tmp_path / 'run').read_tokenizer()
    tokens = vocabulary.tokens(range(vocabulary.size))
    ids = np.array([tokens.index(word) for word in WORDS[:2]])
    matrix = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)[:2]
    np.testing.assert_array_equal(table, with_pretrained(fresh, PretrainedRows(ids, matrix)))
    assert np.array_equal(table[UNK_ID], fresh[UNK_ID])
    # A run without a checkpoint starts again; one with a checkpoint needs the file no more.
    np.testing.assert_array_equal(table_at_start(config, tmp_path / 'run'), table)
    (tmp_path / 'vectors.bin').unlink()
    (tmp_path / 'run' / 'checkpoints' / '3').mkdir(parents=True)
    assert table_at_start(config, tmp_path / 'run') is None
