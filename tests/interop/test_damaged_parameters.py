"""Parameters that are not finite are not handed on to other programs, which would not say so."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from conftest import TESTS

from flax_transformer import Translator
from flax_transformer.common.errors import UserError
from flax_transformer.config import DecodingConfig
from flax_transformer.interop import marian_runs
from flax_transformer.interop.stablehlo import export_run
from flax_transformer.tasks.translation.loading import load_run

GOLDEN = TESTS / 'golden' / 'number_words'


def test_parameters_that_are_not_finite_are_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_run(GOLDEN)
    params = jax.tree.map(lambda x: x.at[(0,) * x.ndim].set(jnp.nan), loaded.params)
    expected = 'decoder/.* holds numbers that are not finite'
    with pytest.raises(UserError, match=expected):
        export_run(Translator(loaded.config.model, params, loaded.tokenizer), tmp_path / 'export')
    monkeypatch.setattr(marian_runs, 'load_run', lambda *_, **__: loaded._replace(params=params))
    with pytest.raises(UserError, match=expected):
        marian_runs.export_marian(GOLDEN, tmp_path / 'marian', DecodingConfig(length_penalty='power'))
    assert not list(tmp_path.iterdir())
