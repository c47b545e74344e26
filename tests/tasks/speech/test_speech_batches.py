"""Examples and batches: pure functions of the seed and a number."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_speech import tiny_config

from flax_transformer.data.audio.corpus import Corpus, read_corpus
from flax_transformer.data.audio.reading import faster
from flax_transformer.tasks.speech.config import StringsConfig
from flax_transformer.tasks.speech.examples import Examples, Strings, TrainingBatches, lengths_for, played

RATE, MOST = 8_000, 8_000
NUMBERS = {key: number for number, key in enumerate('0123456789ABCD*#', start=1)}


def encode(text: str) -> list[int]:
    return [NUMBERS[key] for key in text.split()]


@pytest.fixture(scope='module')
def tones() -> Corpus:
    return read_corpus('tones:train', None, RATE, say=print)


@pytest.fixture(scope='module')
def strings(tones: Corpus) -> Strings:
    return Strings(tones, StringsConfig(most=4), rate=RATE, most_samples=MOST, seed=0)


def make_batches(examples: Examples, *, batch_size: int = 8, own_rows: np.ndarray | None = None) -> TrainingBatches:
    config = tiny_config(batch_size=batch_size)
    data = replace(config.data, max_seconds=MOST / RATE, num_lengths=3)
    config = replace(config, data=data, perturbation=replace(config.perturbation, speed=1.1))
    own_rows = np.arange(batch_size) if own_rows is None else own_rows
    prepared = SimpleNamespace(train=examples, units=SimpleNamespace(encode=encode), most_labels=4)
    return TrainingBatches(config, prepared, own_rows)


@pytest.mark.slow
def test_a_string_is_clips_of_one_speaker_at_their_places(tones: Corpus, strings: Strings) -> None:
    by_place = {each.place: index for index, each in enumerate(tones.recordings)}
    counts = set()
    for number in range(40):
        samples, places = strings.samples(number), strings.recording(number).place.split(' + ')
        clips = [tones.recordings[by_place[place]] for place in places]
        counts.add(len(clips))
        assert len(samples) == strings.recording(number).num_samples <= MOST
        assert {clip.speaker for clip in clips} == {strings.recording(number).speaker}
        assert strings.recording(number).text == ' '.join(clip.text for clip in clips)
        at = 0
        for clip in clips:  # each is found after the one before, whole
            own = tones.samples(by_place[clip.place])
            errors = [np.abs(samples[i : i + len(own)] - own).max() for i in range(at, len(samples) - len(own) + 1)]
            start = next(i for i, error in enumerate(errors, start=at) if error < 0.02)
            at = start + len(own)
    assert counts == {1, 2, 3, 4}


@pytest.mark.parametrize('are_strings', [True, False])
def test_batches_hold_their_examples_whole(tones: Corpus, strings: Strings, are_strings: bool) -> None:
    examples = strings if are_strings else tones.chosen(list(range(96)))
    batches = make_batches(examples)
    assert len(batches.lengths) <= 3
    for number in range(20):
        plan, batch = batches.planned(number), batches.batch(number)
        assert batch.samples.shape == (8, plan.slots)
        assert plan.slots in batches.lengths
        for row, (example, speed) in enumerate(zip(plan.numbers, plan.speeds, strict=True)):
            own = examples.samples(example)
            own = faster(own, speed, played(len(own), speed))
            np.testing.assert_array_equal(batch.samples[row, : batch.num_samples[row]], own)
            assert not batch.samples[row, len(own) :].any()
            assert batch.labels[row, : batch.num_labels[row]].tolist() == encode(examples.recording(example).text)
    assert 0 <= batches.padding() < 0.5


def test_an_epoch_has_each_recording_once(tones: Corpus) -> None:
    batches = make_batches(tones.chosen(list(range(50))), batch_size=10)
    for first in (0, 5):
        drawn = [i for number in range(first, first + 5) for i in batches.planned(number).numbers]
        assert sorted(drawn) == list(range(50))
        assert batches.epoch({'batch': first}) == first / 5
        assert len(batches.describe({'batch': first})['recordings']) == 10


def test_fewer_recordings_than_rows_leave_empty_rows(tones: Corpus) -> None:
    batch = make_batches(tones.chosen([0, 1, 2])).batch(4)
    assert (batch.num_samples > 0).tolist() == [True] * 3 + [False] * 5
    assert not batch.samples[3:].any()
    assert not batch.num_labels[3:].any()


def test_processes_make_their_own_rows_of_the_same_batches(strings: Strings) -> None:
    whole, parts = make_batches(strings), [make_batches(strings, own_rows=np.arange(i, 8, 2)) for i in (0, 1)]
    for number in (0, 17):
        for i, part in enumerate(parts):
            for all_rows, own in zip(whole.batch(number), part.batch(number), strict=True):
                np.testing.assert_array_equal(all_rows[i::2], own)


@pytest.mark.parametrize(('speed', 'length'), [(1.25, 641), (0.8, 1001)])
def test_playing_faster_raises_the_pitch(speed: float, length: int) -> None:
    times = np.arange(801) / RATE
    assert played(801, speed) == length
    found = faster(np.sin(2 * np.pi * 200 * times).astype(np.float32), speed, length)
    expected = np.sin(2 * np.pi * 200 * speed * np.arange(length) / RATE)
    np.testing.assert_allclose(found, expected, atol=4e-3)  # linear interpolation at 40 samples a period


def test_lengths_waste_little_and_hold_the_longest() -> None:
    assert lengths_for([100] * 9, most=100, count=4, multiple=100) == [100]
    assert lengths_for([5, 990], most=1000, count=1, multiple=7)[-1] >= 1000


def test_strings_of_training_give_each_length_as_many_recordings(tones: Corpus) -> None:
    common = {'rate': RATE, 'most_samples': 4 * MOST, 'seed': 0}
    for is_training, expected in ((True, [0.25, 0.25, 0.25, 0.25]), (False, [0.1, 0.2, 0.3, 0.4])):
        strings = Strings(tones, StringsConfig(most=4), is_training=is_training, **common)
        lengths = [len(strings.recording(number).text.split()) for number in range(600)]
        found = [length * lengths.count(length) / sum(lengths) for length in range(1, 5)]
        np.testing.assert_allclose(found, expected, atol=0.05)
        assert strings.count == pytest.approx(tones.count / np.mean(lengths), rel=0.1)
