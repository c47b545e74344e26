"""Training in bfloat16 on CPUs that multiply it faster."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import copy_config

from flax_transformer import Translator, train
from flax_transformer.common.errors import UserError
from flax_transformer.config import Config
from flax_transformer.tasks.translation import training


def config_of(folder: Path, steps: int, **model: int | str) -> Config:
    config = copy_config(folder, steps=steps, checkpoint_every=1)
    training = replace(config.training, cpu_dtype='auto')
    return replace(
        config, model=replace(config.model, **model), data=replace(config.data, validation=''), training=training
    )


@pytest.mark.slow
def test_a_run_goes_on_in_the_dtype_that_it_began_in(
    copy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, 'is_bfloat16_faster', lambda: True)
    whole = train(config_of(copy_folder, 2, d_model=256), tmp_path / 'whole')
    train(config_of(copy_folder, 1, d_model=256), tmp_path / 'parts')
    monkeypatch.setattr(training, 'is_bfloat16_faster', lambda: False)  # as on another machine
    parts = train(config_of(copy_folder, 2, d_model=256), tmp_path / 'parts')
    assert parts.read_config() == whole.read_config()
    assert whole.read_config().training.cpu_dtype == 'bfloat16'
    one, other = (Translator.from_run(run.path) for run in (whole, parts))
    jax.tree.map(np.testing.assert_array_equal, one.params, other.params)
    assert one.model.config.dtype == 'auto'  # translates in float32
    exact = train(config_of(copy_folder, 2, d_model=256), tmp_path / 'exact')
    assert exact.read_config().training.cpu_dtype == 'auto'
    leaves = (jax.tree.leaves(Translator.from_run(run.path).params) for run in (whole, exact))
    assert any((a != b).any() for a, b in zip(*leaves, strict=True))
    config = whole.read_config()
    with pytest.raises(UserError, match="cpu_dtype: 'bfloat16' there, 'float32' here"):
        train(replace(config, training=replace(config.training, cpu_dtype='float32')), whole.path)


@pytest.mark.parametrize(('d_model', 'dtype'), [(128, 'auto'), (256, 'float32')])
def test_small_and_float32_models_are_not_probed(
    copy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, d_model: int, dtype: str
) -> None:
    monkeypatch.setattr(training, 'is_bfloat16_faster', lambda: pytest.fail('probed'))
    config = config_of(copy_folder, 1, d_model=d_model, dtype=dtype)
    assert training.training().begin(config, training.Run(tmp_path / 'run')) == config
