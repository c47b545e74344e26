"""The lesson of negation: trained on generated opinions, encoders that see the order of words have the pairs right."""

from pathlib import Path

import pytest

from flax_transformer import Classifier, train
from flax_transformer.engine.config import OptimizerConfig
from flax_transformer.tasks.classification.config import (
    ClassificationConfig,
    ClassificationDataConfig,
    ClassificationTrainingConfig,
    ClassifierConfig,
)
from flax_transformer.tasks.classification.opinions import score_pairs

NOTES = 'completely lacking in good taste , good service and good ambience'


def trained(folder: Path, encoder: str) -> Classifier:
    config = ClassificationConfig(
        model=ClassifierConfig(
            encoder=encoder,
            vocab_size=300,
            d_model=32,
            hidden_size=32,
            d_ff=64,
            num_maps=32,
            dropout_rate=0.1,
            encoder_dropout_rate=0.0,
        ),
        data=ClassificationDataConfig(train='opinions:train', max_length=32),
        optimizer=OptimizerConfig(schedule='constant', learning_rate=3e-3, warmup_steps=0),
        training=ClassificationTrainingConfig(steps=800, batch_size=64, log_every=200, checkpoint_every=800),
    )
    return Classifier.from_run(train(config, folder / encoder).path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('encoder', 'least', 'most'), [('average', 0, 30), ('recurrent', 95, 100), ('transformer', 95, 100)]
)
def test_pairs_with_negation_need_the_order_of_words(encoder: str, least: int, most: int, tmp_path: Path) -> None:
    classifier = trained(tmp_path, encoder)
    found = score_pairs(lambda texts: [each.label for each in classifier(texts)])
    assert least <= found.both <= most
    pair = [classifier(text).label for text in (NOTES, NOTES.replace('completely lacking in', 'full of'))]
    assert (pair == ['neg', 'pos']) == (encoder != 'average')
