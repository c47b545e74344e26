"""JAX_ENABLE_X64, strict promotion of types and a mesh, which a program around ours may set, change nothing."""

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_classification
import tiny_embeddings
import tiny_speech
import tiny_trigger_word
from conftest import copy_config

from flax_transformer import Translator, train
from flax_transformer.tasks.api import make_trainer
from flax_transformer.tasks.classification.classifier import Classifier
from flax_transformer.tasks.speech.transcriber import Transcriber
from flax_transformer.tasks.trigger_word.detector import Detector

LINES = ['a b c', 'h g f e d c', 'a']


@contextlib.contextmanager
def set_by_the_caller() -> Iterator[None]:
    with jax.enable_x64(True), jax.numpy_dtype_promotion('strict'):
        yield


@pytest.mark.slow
def test_a_translator_gives_the_same_numbers(copy_run: Path) -> None:
    translator = Translator.from_run(copy_run, beam_width=1)
    expected = translator(LINES), translator.score(LINES, LINES)
    with set_by_the_caller():
        assert (translator(LINES), translator.score(LINES, LINES)) == expected


@pytest.mark.slow
def test_a_search_over_ids_gives_the_same_numbers(copy_run: Path) -> None:
    translator = Translator.from_run(copy_run, coverage_penalty=0.2)
    search = lambda: translator.translate_ids(translator.weights, jnp.asarray(translator.encode(LINES), int))
    expected = search()
    with set_by_the_caller():
        found = search()
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert {x.dtype.itemsize for x in jax.tree.leaves(found)} <= {1, 4}


@pytest.mark.parametrize(
    'config',
    [
        copy_config,
        tiny_classification.tiny_config,
        lambda _: tiny_speech.tiny_config(),
        lambda _: tiny_trigger_word.tiny_config(),
        tiny_embeddings.tiny_config,
        lambda folder: tiny_embeddings.tiny_config(folder, 'glove'),
    ],
    ids=['translation', 'classification', 'speech', 'trigger_word', 'skip_gram', 'glove'],
)
@pytest.mark.slow_cases('classification', 'glove', 'speech', 'trigger_word')
def test_a_task_trains_in_32_bits(config: Callable, tmp_path: Path) -> None:
    made = config(tmp_path)
    with set_by_the_caller():
        trainer = make_trainer(made)
        step = trainer.lower().as_text()
    assert {x.dtype.itemsize for x in jax.tree.leaves(trainer.shapes)} <= {4}
    # optax's CTC loss makes a one-hot of the default type.
    assert made.task == 'speech' or not re.search(r'tensor<\d[^>]*xf64>', step)


def mesh_of_eight(axis_type: jax.sharding.AxisType) -> contextlib.AbstractContextManager:
    return jax.set_mesh(jax.make_mesh((8,), ('data',), axis_types=(axis_type,)))


def test_a_task_trains_under_a_mesh_over_more_devices(tmp_path: Path) -> None:
    tiny_embeddings.write_text(tmp_path)
    with mesh_of_eight(jax.sharding.AxisType.Auto):
        run = train(tiny_embeddings.tiny_config(tmp_path, 'glove', steps=2), tmp_path / 'run')
    assert run.read_config().training.steps == 2


SOUND = np.random.default_rng(0).uniform(-0.5, 0.5, 4000).astype(np.float32)


@pytest.mark.parametrize(
    ('run', 'kind', 'call'),
    [
        ('tiny_classifier', Classifier, lambda made: made.probabilities(['a good film'])),
        ('tiny_transcriber', Transcriber, lambda made: made.log_probabilities([SOUND])),
        ('tiny_detector', Detector, lambda made: made.probabilities(SOUND)),
    ],
    ids=['labels', 'transcripts', 'hits'],
)
@pytest.mark.slow_cases('hits', 'transcripts')
def test_a_mesh_over_more_devices_changes_no_answer(run: str, kind: type, call: Callable, request) -> None:
    made = kind.from_run(request.getfixturevalue(run))
    expected = call(made)
    for axis_type in (jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit):
        with mesh_of_eight(axis_type):
            for each in (made, kind.from_run(request.getfixturevalue(run))):
                np.testing.assert_array_equal(call(each), expected)
