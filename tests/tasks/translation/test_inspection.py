"""Pictures of attention show what they say."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

from flax_transformer import Translator
from flax_transformer.common.installing import install_command

matplotlib.use('agg')

from flax_transformer.tasks.translation.inspection import attention_map, plot_attention


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


@pytest.mark.slow
def test_an_evaluation_draws_the_attention_of_its_first_sample(copy_run: Path, monkeypatch) -> None:
    """Into TensorBoard, of the parameters that are evaluated; without matplotlib it says so, once."""
    from flax_transformer.data.bitext.corpus import Pairs
    from flax_transformer.engine.monitor.reporter import Reporter
    from flax_transformer.tasks.translation import inspection
    from flax_transformer.tasks.translation.loading import load_run
    from flax_transformer.tasks.translation.preparation import Prepared, ValidationSet
    from flax_transformer.tasks.translation.training import TranslationValidation

    config, params, tokenizer, *_ = load_run(copy_run)

    lines, pictures = [], []
    told = SimpleNamespace(
        say=lines.append,
        sample=lambda step, number, **parts: lines.append(parts['translation']),
        picture=lambda *of_one: pictures.append(of_one),
    )
    assert vars(told).keys() <= set(dir(Reporter))
    line = 'a b c d e f'  # the length above: the same programs
    each = ValidationSet('train', Pairs([line], [line]), None, None)
    training = replace(config.training, draw_attention=True, sample_translations=1)
    prepared = Prepared(tokenizer, [], [each], {})
    validation = TranslationValidation(replace(config, training=training), prepared, SimpleNamespace())
    validation._translate = lambda params: {('train', 0): line}
    validation._translate_and_score(7, params, told)
    ((step, name, png),) = pictures
    assert (step, name) == (7, 'attention')
    assert png.startswith(b'\x89PNG')

    def absent(*_: object) -> bytes:
        raise ImportError('No module named matplotlib')

    monkeypatch.setattr(inspection, 'attention_png', absent)
    for _ in range(2):
        validation._translate_and_score(8, params, told)
    assert lines == [
        *[line] * 2,
        f'no pictures of attention: matplotlib is not installed: {install_command("plots")}',
        line,
    ]
