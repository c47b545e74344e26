"""Training a classifier: learned, resumed to the bit, the same on two devices, and what it refuses."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tiny_classification import tiny_config

from flax_transformer import Classifier, train
from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.tasks.api import make_trainer
from flax_transformer.tasks.classification.batches import Batch, EncodedTexts
from flax_transformer.tasks.classification.config import (
    ClassificationTrainingConfig,
    ClassifierConfig,
    VocabularyConfig,
)
from flax_transformer.tasks.classification.model import ClassifierModel, init_params, probabilities
from flax_transformer.tasks.classification.preparation import class_weights, log_ratios, with_naive_bayes
from flax_transformer.tasks.classification.run import Labels, Run
from flax_transformer.tasks.classification.vocabulary import padded


def test_validation_reports_what_it_learned(tiny_classifier: Path) -> None:
    records = [record for record in read_metrics(tiny_classifier) if record['kind'] == 'validation']
    assert [record['step'] for record in records] == [30, 60]
    assert records[-1]['accuracy'] == records[-1]['macro_f1'] == 1.0
    assert records[-1]['loss'] < records[0]['loss'] < np.log(2)
    assert records[-1]['examples'] == 40


@pytest.mark.slow
def test_a_linear_classifier_learns_pairs_of_words_and_parts_of_them(tmp_path: Path) -> None:
    """Two labels have the same words; the third has a word in many forms, of which one more is then asked."""
    texts = [('bites', 'dog bites man'), ('bitten', 'man bites dog'), *(('fish', f'fish{i}ing') for i in range(10))]
    lines = [f'{label}\t{a} {text} {b}\n' for a in 'xyz' for b in 'uvw' for label, text in texts]
    for split in ('train', 'validation'):
        (tmp_path / f'{split}.tsv').write_text(''.join(lines))
    config = tiny_config(tmp_path, model={'encoder': 'linear', 'vocab_size': 500, 'num_classes': 3})
    config = replace(
        config,
        tokenizer=VocabularyConfig(ngrams=2, characters=4),
        data=replace(config.data, test='', max_length=64),
        training=replace(config.training, class_weights=('balanced',)),
    )
    classifier = Classifier.from_run(train(config, tmp_path / 'run').path)
    asked = ['z dog bites man u', 'z man bites dog u', 'fish77ing']
    assert [answer.label for answer in classifier(asked)] == ['bites', 'bitten', 'fish']
    (ids,) = classifier.ids(['fish77ing'])
    assert classifier.vocabulary.tokens(ids)[:2] == ['<unk>', '__fi']


@pytest.mark.slow
def test_two_devices_compute_what_one_does(texts_folder: Path) -> None:
    """Without dropout, which pmap draws by device; the last rows are empty, and examples weigh unevenly."""
    config = tiny_config(texts_folder, model={'dropout_rate': 0.0}, label_smoothing=0.1, batch_size=6)
    generator = np.random.default_rng(0)
    tokens = generator.integers(0, 20, (6, 16)).astype(np.int32)
    weight = np.array([1, 2, 0.5, 1, 0, 0], np.float32)
    batch = Batch(tokens * (weight > 0)[:, None], np.array([0, 1, 1, 0, 0, 0], np.int32), weight)
    one, two = (make_trainer(replace(config, parallel=ParallelConfig(num_devices=count))) for count in (1, 2))
    expected, found = (jax.device_get(trainer.gradients(trainer.init_state(), batch)) for trainer in (one, two))
    assert found[1]['weighted_examples'] == 4.5
    assert found[1]['examples'] == 4
    # Sums in another order.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), found, expected)


def test_class_weights_are_balanced_or_given() -> None:
    labels = Labels(('a', 'b=c'), (1, 3))
    np.testing.assert_allclose(class_weights(('balanced',), labels) * labels.counts, [2, 2])
    assert class_weights(('b=c=0.5',), labels).tolist() == [1, 0.5]
    for bad in (('balanced', 'a=1'), ('a',), ('a=0',), ('a=x',)):
        with pytest.raises(UserError, match='expected balanced alone, or LABEL=WEIGHT'):
            ClassificationTrainingConfig(class_weights=bad)
    with pytest.raises(UserError, match='expected each label once'):
        ClassificationTrainingConfig(class_weights=('a=2', 'a=3'))


def rewritten(folder: Path, to: Path, split: str, change: Any) -> Path:
    """A copy of the texts' folder with one file changed."""
    to.mkdir()
    for file in folder.glob('*.tsv'):
        text = file.read_text('utf-8')
        (to / file.name).write_text(change(text) if file.stem == split else text, encoding='utf-8')
    return to


@pytest.mark.parametrize(
    ('split', 'change', 'fields', 'message'),
    [
        ('train', lambda text: text.replace('neg', 'pos'), {}, 'training texts that all have the same label'),
        ('train', lambda text: text.replace('neg', 'mixed', 1), {}, 'set --model.num-classes 3'),
        ('train', str, {'class_weights': ('ngo=2',)}, "no label 'ngo'.* Did you mean neg"),
    ],
)
def test_data_that_does_not_fit_is_refused_before_anything_is_written(
    split: str, change: Any, fields: dict[str, Any], message: str, texts_folder: Path, tmp_path: Path
) -> None:
    folder = rewritten(texts_folder, tmp_path / 'data', split, change)
    with pytest.raises(UserError, match=message):
        train(tiny_config(folder, **fields), tmp_path / 'run')
    assert not (tmp_path / 'run' / 'config.json').exists()


def test_a_run_does_not_resume_with_other_texts(tiny_classifier: Path, texts_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_classifier, tmp_path / 'run')
    folder = rewritten(texts_folder, tmp_path / 'data', 'train', lambda text: text.replace('good', 'fine', 1))
    config = tiny_config(folder, steps=70)
    with pytest.raises(UserError, match=r'is not what .* was trained on so far'):
        train(config, tmp_path / 'run')


def test_a_run_starts_from_the_parameters_and_vocabulary_of_another(
    tiny_classifier: Path, texts_folder: Path, tmp_path: Path
) -> None:
    folder = rewritten(texts_folder, tmp_path / 'data', 'train', lambda text: text.replace('good', 'great'))
    config = tiny_config(folder, steps=1, evaluate_every=1, checkpoint_every=1)
    run = train(config, tmp_path / 'run', init_from=tiny_classifier)
    assert run.read_tokenizer().digest == Run(tiny_classifier).read_tokenizer().digest
    assert read_metrics(run.path)[-1]['accuracy'] > 0.9
    other = tiny_config(folder, model={'d_model': 16})
    with pytest.raises(UserError, match=r'model\.d_model: 8 there, 16 here'):
        train(other, tmp_path / 'other', init_from=tiny_classifier)


def test_a_naive_bayes_start_is_naive_bayes() -> None:
    """Its first values are log-count ratios by hand; the average then decides as naive Bayes does."""
    texts = [[2, 3, 3], [2, 4], [3, 4], [5]]
    labels = np.array([0, 0, 1, 1], np.int32)
    encoded = EncodedTexts(padded(texts, 3), labels, np.ones(4, np.float32), ['x'] * 4)
    counts = np.array([[2, 1, 1, 0], [0, 1, 1, 1]]) + 1.0  # tokens 2 to 5, once a text
    logs = np.log(counts / counts.sum(axis=1, keepdims=True))
    found = log_ratios(encoded, 7, 2)
    np.testing.assert_allclose(found[2:6], (logs - logs.mean(axis=0)).T, rtol=1e-6)
    assert not found[[0, 1, 6]].any()  # pad, unk, and a token of no text

    config = ClassifierConfig(vocab_size=7, d_model=4)
    zeros = jax.tree.map(np.zeros_like, init_params(config, jax.random.key(0)))
    params = with_naive_bayes(zeros, encoded, 'average')
    tokens = padded([[2], [2, 4], [3, 4, 5], [3, 4]], 3)
    scores = np.array([logs[:, np.array(text[text > 0]) - 2].sum(axis=1) for text in tokens])
    probability = np.asarray(jax.jit(partial(probabilities, model=ClassifierModel(config)))(params, tokens))
    np.testing.assert_array_equal(probability.argmax(axis=1), scores.argmax(axis=1))


@pytest.mark.slow
def test_a_naive_bayes_start_decides_before_the_first_step(texts_folder: Path, tmp_path: Path) -> None:
    config = tiny_config(texts_folder, start='naive_bayes', steps=1, evaluate_every=1, checkpoint_every=1)
    config = replace(config, optimizer=replace(config.optimizer, learning_rate=1e-6))
    assert read_metrics(train(config, tmp_path / 'run').path)[-1]['accuracy'] > 0.9
