"""Training speech to text, whole: what it learns, exact resume, several devices, what it refuses."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from tiny_speech import tiny_config

from flax_transformer import train
from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.tasks.api import make_trainer
from flax_transformer.tasks.speech.config import SpeechConfig, UnitConfig
from flax_transformer.tasks.speech.examples import Batch, fill
from flax_transformer.tasks.speech.run import Run
from flax_transformer.tasks.speech.training import SpeechValidation
from flax_transformer.tasks.speech.units import Units

SLOTS = 6_400  # the tiny config's batches have this length alone
ROWS = 32


def batch_of(*rows: tuple[int, list[int]]) -> Batch:
    """Noise of so many samples with these labels, and empty rows after them."""
    generator = np.random.default_rng(0)
    waveforms = [generator.uniform(-1, 1, count).astype(np.float32) for count, _ in rows]
    empty = ROWS - len(rows)
    labels = [labels for _, labels in rows] + [[]] * empty
    return fill(waveforms + [np.zeros(0, np.float32)] * empty, labels, slots=SLOTS, most_labels=13)


def test_validation_reports_what_it_learned(tiny_transcriber: Path) -> None:
    records = [record for record in read_metrics(tiny_transcriber) if record['kind'] == 'validation']
    assert [record['step'] for record in records] == [60, 120]
    assert records[-1]['word_error_rate'] < 0.15
    assert records[-1]['word_error_rate'] < records[0]['word_error_rate'] - 0.1
    assert records[-1]['loss'] < records[0]['loss']


@pytest.mark.slow
def test_empty_rows_and_those_too_short_for_their_labels_weigh_nothing() -> None:
    """And they are counted: never a loss of 1e5. The same on two devices, one of which gets empty rows alone."""
    rows = (3_000, [1, 2]), (6_000, [3])
    losses = []
    for num_devices in (1, 2):
        trainer = make_trainer(replace(tiny_config(), parallel=ParallelConfig(num_devices=num_devices)))
        params = trainer.init_state().params
        batches = batch_of(*rows), batch_of(*rows, (1_000, [1] * 9))
        alone, more = (jax.device_get(trainer.sums(params, batch)) for batch in batches)
        assert (alone['labels'], alone['utterances'], alone['too_short']) == (3, 2, 0)
        assert (more['labels'], more['utterances'], more['too_short']) == (3, 2, 1)
        assert 0 < alone['loss'] == more['loss'] < 1e3
        losses.append(float(alone['loss']))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)  # sums in another order
    assert trainer.task.summarize({name: float(value) for name, value in more.items()}) == {
        'loss': pytest.approx(losses[0] / 3),
        'utterances': 2,
        'too_short': 1,
    }


@pytest.mark.parametrize(('log_prob', 'loss'), [(np.log(1 / 3), np.log(3)), (np.nan, np.nan)])
def test_validation_leaves_out_what_is_too_short_and_no_broken_model(log_prob: float, loss: float) -> None:
    """Of two frames, three paths of nine collapse to one label and none to three; a loss of 0 would be the best."""
    units = Units.learn(['a b'], UnitConfig(algorithm='words'), 3)
    validation = object.__new__(SpeechValidation)
    validation._units, validation._references, validation._waveforms = units, ['a', 'a b a'], []
    validation._predictor = lambda params, waveforms: [np.full((2, 3), log_prob)] * 2
    found = validation.predict({}, 1, SimpleNamespace(say=lambda text: None))
    assert found['loss'] == pytest.approx(loss, nan_ok=True)
    assert np.isnan(loss) or found['too_short'] == 1


@pytest.mark.slow
def test_a_run_starts_from_another(tiny_transcriber: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r'model\.d_model: 32 there, 16 here'):
        train(tiny_config(model={'d_model': 16}), tmp_path / 'new', init_from=tiny_transcriber)
    config = tiny_config()
    for section, field, value in (('features', 'window_ms', 30.0), ('tokenizer', 'lower_case', False)):
        other = replace(config, **{section: replace(getattr(config, section), **{field: value})})
        with pytest.raises(UserError, match=rf'{section}\.{field}: .* there, {value} here'):
            train(other, tmp_path / 'new', init_from=tiny_transcriber)
    config = tiny_config(steps=1, log_every=1)
    config = replace(config, data=replace(config.data, validation=''))
    begun = train(config, tmp_path / 'begun', init_from=tiny_transcriber)
    assert read_metrics(begun.path)[-1]['loss'] < 1
    assert begun.read_tokenizer().digest == Run(tiny_transcriber).read_tokenizer().digest


def changed(config: SpeechConfig, fields: dict[str, object]) -> SpeechConfig:
    for name, value in fields.items():
        section, field = name.split('.')
        config = replace(config, **{section: replace(getattr(config, section), **{field: value})})
    return config


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'data.train': 'tones:trian'}, r"'tones:trian': expected one of tones:train, .* Did you mean train"),
        ({'model.vocab_size': 9}, 'model.vocab_size=9, but the vocabulary has 17 tokens; set --model.vocab-size 17'),
        ({'data.max_seconds': 0.09}, 'has no recording of at most data.max_seconds=0.09 with enough frames'),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    fields: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        train(changed(tiny_config(), fields), tmp_path / 'run')
    assert not (tmp_path / 'run' / 'config.json').exists()
