"""Pictures show what they say."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import matplotlib
import numpy as np
import pytest

from flax_transformer import Translator
from flax_transformer.common.installing import install_command

matplotlib.use('agg')

from flax_transformer.tasks.translation.attention_map import attention_map, plot_attention, plot_positions


def test_the_map_of_a_copy_is_a_diagonal(copy_run: Path) -> None:
    translator = Translator.from_run(copy_run, beam_width=1)
    attention = attention_map(translator, 'a b c d e f', 'a b c d e f')
    assert attention.source == attention.target
    assert attention.weights.shape == (1, 4, len(attention.target), len(attention.source))
    np.testing.assert_allclose(attention.weights.sum(axis=-1), 1.0, rtol=1e-5)
    figure = plot_attention(attention)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == attention.source
    np.testing.assert_allclose(axes.images[0].get_array(), attention.weights[-1].mean(axis=0))
    np.testing.assert_allclose(
        plot_attention(attention, head=2).axes[0].images[0].get_array(), attention.weights[-1][2]
    )


@pytest.mark.parametrize('layout', ['interleaved', 'concatenated'])
def test_positions_are_drawn_by_layout(layout: str) -> None:
    picture = plot_positions(10, 8, layout).axes[0].images[0].get_array()
    assert picture.shape == (10, 8)


def test_an_evaluation_draws_the_attention_of_its_first_sample(copy_run: Path, tmp_path: Path, monkeypatch) -> None:
    """Into TensorBoard, of the parameters that are evaluated; without matplotlib it says so, once."""
    from flax_transformer.data.bitext.corpus import Pairs
    from flax_transformer.engine.monitor.reporter import Reporter
    from flax_transformer.tasks.translation import attention_map as visualize
    from flax_transformer.tasks.translation.loading import load_run
    from flax_transformer.tasks.translation.validation import TranslationValidation
    from flax_transformer.tasks.translation.validation_sets import ValidationSet

    config, params, tokenizer = load_run(copy_run)

    class Told:
        pictures: ClassVar[list] = []
        lines: ClassVar[list] = []

        def say(self, text: str) -> None:
            self.lines.append(text)

        def sample(self, step: int, number: int, **parts: str) -> None:
            self.lines.append(parts['translation'])

        def picture(self, step: int, name: str, png: bytes) -> None:
            self.pictures.append((step, name, png))

    assert {'say', 'sample', 'picture'} <= set(dir(Reporter))
    each = ValidationSet('train', Pairs(['a b'], ['a b']), None, None)
    training = replace(config.training, draw_attention=True, sample_translations=1)
    validation = TranslationValidation(replace(config, training=training), SimpleNamespace(), tokenizer, [each])
    validation._translate_and_score(7, params, Told())
    ((step, name, png),) = Told.pictures
    assert (step, name) == (7, 'attention')
    assert png.startswith(b'\x89PNG')

    def absent(*_: object) -> bytes:
        raise ImportError('No module named matplotlib')

    monkeypatch.setattr(visualize, 'attention_png', absent)
    for _ in range(2):
        validation._translate_and_score(8, params, Told())
    assert Told.lines == [
        *['a b'] * 2,
        f'no pictures of attention: matplotlib is not installed: {install_command("plots")}',
        'a b',
    ]
