"""How sure a model is: fitted to what happened, kept with the run, and without effect on translations."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flax_transformer import Translator
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.engine.runs.trust import remember
from flax_transformer.tasks.translation.calibration import correlations
from flax_transformer.tasks.translation.inference.lines import Line
from flax_transformer.tasks.translation.inference.quality import FILE, Calibration, Regression
from flax_transformer.tasks.translation.inference.result import Translation, joined


def translation_of(words: list[str], gains: list[float]) -> Translation:
    tokens = (*(f'▁{word}' for word in words), '</s>')
    gains = (*gains, -0.1)
    return Translation(
        ' '.join(words),
        -1.0,
        sum(gains),
        len(tokens),
        tokens=tokens,
        token_log_probs=gains,
        token_ids=(1,) * len(tokens),
    )


@pytest.fixture(scope='module')
def translated() -> tuple[list[Translation], list[str]]:
    """Translations, and references in which a word is as often as the model thought."""
    rng, translations, references = np.random.default_rng(0), [], []
    for _ in range(300):
        probabilities = rng.uniform(0.05, 1.0) * rng.uniform(0.5, 1.0, rng.integers(2, 7))
        words = [''.join(rng.choice([*'abcdef'], 5)) for _ in probabilities]
        kept = rng.random(len(words)) < probabilities
        translations.append(translation_of(words, np.log(probabilities).tolist()))
        references.append(' '.join(word if keep else 'XYZ' for word, keep in zip(words, kept, strict=True)))
    return translations, references


@pytest.fixture(scope='module')
def calibration(translated: tuple[list[Translation], list[str]]) -> Calibration:
    return Calibration.fitted(translated[0], [len(one.tokens) for one in translated[0]], translated[1])


def test_a_regression_expects_what_it_saw() -> None:
    rng = np.random.default_rng(1)
    features, weights = rng.normal(size=(20_000, 2)) * [3.0, 0.1] + [5.0, -1.0], np.array([0.5, -8.0])
    expected = 1 / (1 + np.exp(-(features - [5.0, -1.0]) @ weights))
    for targets in (expected, (rng.random(len(expected)) < expected).astype(float)):
        fitted = Regression.fitted(features, targets)
        np.testing.assert_allclose(fitted(features), expected, atol=0.03)
        assert fitted(features).mean() == pytest.approx(targets.mean(), abs=1e-4)


def test_quality_follows_chrf_and_words_that_are_right(translated, calibration: Calibration) -> None:
    translations, references = translated
    judged = [calibration.judged(one, len(one.tokens)) for one in translations]
    found = correlations(judged, [references])
    assert found['pearson_quality'] > 0.55
    assert found['pearson_quality'] > found['pearson_log_prob']
    sure, right = (np.array(x) for x in zip(*[
        (quality, word in reference.split())
        for one, reference in zip(judged, references, strict=True)
        for word, quality in zip(one.text.split(), one.word_quality, strict=True)
    ], strict=True))  # fmt: skip
    for low in (0.2, 0.4, 0.6):
        chosen = (low <= sure) & (sure < low + 0.2)
        assert right[chosen].mean() == pytest.approx(sure[chosen].mean(), abs=0.08)


def test_a_split_line_has_the_quality_of_its_parts(calibration: Calibration) -> None:
    short, long = translation_of(['a'], [-0.1]), translation_of(['b', 'c', 'd'], [-2.0, -2.0, -2.0])
    parts = [calibration.judged(replace(one, n_best=(one, one)), 3) for one in (short, long)]
    line = Line('x. y', False, '', ['x.', 'y'], [' ', ''])
    whole = joined(parts, line)
    assert whole.quality == pytest.approx((2 * parts[0].quality + 4 * parts[1].quality) / 6)
    assert whole.word_quality == (*parts[0].word_quality, *parts[1].word_quality)
    assert whole.n_best[0].quality == whole.quality
    assert joined([short, parts[1]], line).quality is None
    assert calibration.judged(Translation('', 0.0, 0.0, 0), 0).quality is None


def test_what_is_written_is_read_and_what_is_damaged_refused(calibration: Calibration, tmp_path: Path) -> None:
    assert Calibration.read(tmp_path) is None
    calibration.write(tmp_path)
    assert Calibration.read(tmp_path) == calibration
    text = (tmp_path / FILE).read_text()
    for old, new in (
        ('"bias"', '"bios"'),
        ('"weights": [', '"weights": [0.5,'),
        ('"sentences": 300', '"sentences": "many"'),
    ):
        (tmp_path / FILE).write_text(text.replace(old, new))
        with pytest.raises(UserError, match=r'quality\.json is damaged \(.*\); calibrate the run again'):
            Calibration.read(tmp_path)
    (tmp_path / FILE).write_text(text.replace('"format": 2', '"format": 3'))
    with pytest.raises(UserError, match='has format 3'):
        Calibration.read(tmp_path)
    with pytest.raises(UserError, match='1 sentences to calibrate on'):
        Calibration.fitted([translation_of(['a'], [-1.0])], [2], ['a'])


def test_a_calibrated_run_translates_as_before_and_says_how_sure_it_is(
    copy_run: Path, copy_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / 'run'
    shutil.copytree(copy_run, run)
    (tmp_path / 'lines').write_text('a b c\n\nh z\n')
    translate = ['-q', 'translate', str(run), '--input', str(tmp_path / 'lines'), '--format', 'jsonl']
    files = ['--source', str(copy_folder / 'test.in'), '--reference', str(copy_folder / 'test.out')]
    assert main(['-q', 'calibrate', str(run)]) == 2
    assert 'was not trained here by you' in capsys.readouterr().err
    assert main(translate) == 0
    before = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main(['-q', 'calibrate', str(run), *files]) == 0
    assert f'{run / FILE}: calibrated on 50 sentences' in capsys.readouterr().out
    remember(run)
    assert main(['-q', 'calibrate', str(run)]) == 0
    capsys.readouterr()
    assert main(translate) == 0
    after = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one.pop('quality') for one in before] == [None] * 3
    qualities = [one.pop('quality') for one in after]
    assert qualities[1] is None
    assert 0.5 < qualities[0] <= 1
    assert [len(one.pop('word_quality') or ()) for one in after] == [3, 0, len(after[2]['translation'].split())]
    assert after == [{key: value for key, value in one.items() if key != 'word_quality'} for one in before]
    translator = Translator.from_run(run)
    assert translator.score('a b', 'a b').quality == translator('a b').quality
    assert Translator.from_run(run, run).calibration is None


def test_words_of_two_parts_that_become_one_have_no_quality() -> None:
    parts = [Translation(text, 0.0, 0.0, 1, quality=0.5, word_quality=(0.5,)) for text in 'ab']
    for gap, expected in (('', None), (' ', (0.5, 0.5))):
        assert joined(parts, Line('x y', False, '', ['x', 'y'], [gap, ''])).word_quality == expected
