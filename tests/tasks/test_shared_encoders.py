"""The encoders that classification and speech share."""

import jax
import pytest

from flax_transformer.config import (
    ClassificationConfig,
    ClassificationTrainingConfig,
    ClassifierConfig,
    SpeechConfig,
    SpeechModelConfig,
)
from flax_transformer.tasks.api import make_trainer


@pytest.mark.parametrize(
    'config',
    [
        ClassificationConfig(
            model=ClassifierConfig('transformer', d_model=16), training=ClassificationTrainingConfig(batch_size=8)
        ),
        SpeechConfig(model=SpeechModelConfig(d_model=16, d_ff=16, num_layers=1)),
    ],
    ids=['classification', 'speech'],
)
def test_the_transformers_encoder_is_pre_ln(config: ClassificationConfig | SpeechConfig) -> None:
    """Only its stack ends with a norm of its own; the parameters of runs have it."""
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(make_trainer(config).shapes)]
    assert any('final_norm' in path for path in paths)
