"""JAX_ENABLE_X64 and strict promotion of types, which a program around ours may need, change nothing."""

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

from flax_transformer import Translator
from flax_transformer.tasks.find import make_trainer

LINES = ['a b c', 'h g f e d c', 'a']


@contextlib.contextmanager
def set_by_the_caller() -> Iterator[None]:
    with jax.enable_x64(True), jax.numpy_dtype_promotion('strict'):
        yield


def test_a_translator_gives_the_same_numbers(copy_run: Path) -> None:
    translator = Translator.from_run(copy_run, beam_width=1)
    expected = translator(LINES), translator.score(LINES, LINES)
    with set_by_the_caller():
        assert (translator(LINES), translator.score(LINES, LINES)) == expected


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
def test_a_task_trains_in_32_bits(config: Callable, tmp_path: Path) -> None:
    made = config(tmp_path)
    with set_by_the_caller():
        trainer = make_trainer(made)
        step = trainer.lower().as_text()
    assert {x.dtype.itemsize for x in jax.tree.leaves(trainer.shapes)} <= {4}
    # optax's CTC loss makes a one-hot of the default type.
    assert made.task == 'speech' or not re.search(r'tensor<\d[^>]*xf64>', step)
