"""What XLA makes of the rules on a mesh of simulated devices."""

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import copy_config

from flax_transformer.config import ParallelConfig
from flax_transformer.tasks.api import make_trainer

WARNING = 'Involuntary full rematerialization'


def compile_step() -> None:
    """Of a model in which every dimension can be split over 2 x 2 x 2 devices."""
    config = copy_config(Path(), tokens_per_step=16 * 32)
    # No other test compiles this width: a program from the cache warns of nothing.
    model = replace(config.model, vocab_size=128, d_model=72, dropout_rate=0.0)
    make_trainer(replace(config, model=model, parallel=ParallelConfig('mesh', 8, fsdp=2, tensor=2))).lower().compile()


@pytest.mark.slow
def test_embedding_does_not_gather_the_whole_batch_on_a_mesh(capfd) -> None:
    """XLA warns where it can only reshard an array by having all of it: it does in split rows of the table."""
    compile_step()
    assert WARNING not in capfd.readouterr().err
