"""Clips and scenes: where a word is, pure functions of the number, labels after the word, nothing overlaps."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_trigger_word import RATE, tiny_config

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.trigger_word.corpus_checks import audit
from flax_transformer.tasks.trigger_word.scenes import (
    Clip,
    Clips,
    Scenes,
    TrainingBatches,
    batch_of,
    by_trigger,
    extent,
)


def tone(seconds: float, level: float = 0.3) -> np.ndarray:
    return (level * np.sin(np.arange(int(seconds * RATE)))).astype(np.float32)


def silence(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE), np.float32)


def clip_of(*parts: np.ndarray, text: str = 'rising') -> Clip:
    samples = np.concatenate(parts)
    return Clip(samples, text, *extent(samples, RATE), 'x')


@pytest.mark.parametrize('noise', [0, 0.03])  # 20 dB below the tone
def test_the_word_is_the_loudest_stretch(noise: float) -> None:
    parts = [silence(0.5), tone(0.2), silence(0.1), tone(0.2), silence(0.6), tone(0.02), silence(0.1)]
    samples = np.concatenate(parts)
    samples += noise * np.random.default_rng(0).standard_normal(len(samples)).astype(np.float32)
    np.testing.assert_allclose(np.array(extent(samples, RATE)) / RATE, [0.5, 1.0], atol=0.041)


def scenes_of(*, seed: int = 0, only_words: bool = False, **scene: object) -> Scenes:
    """Scenes of short tones as the word, and longer ones as others, without background."""
    config = replace(tiny_config(), scenes=replace(tiny_config().scenes, partial_share=0.0, **scene))
    words = [clip_of(silence(0.2), tone(0.3), silence(0.2))]
    others = [] if only_words else [clip_of(silence(0.1), tone(0.4), silence(0.1), text='other')]
    return Scenes(Clips(words, others, []), config, seed=seed)


def test_a_scene_is_a_pure_function_of_seed_and_number() -> None:
    scenes, again, other = scenes_of(), scenes_of(), scenes_of(seed=1)
    again.scene(3)
    for one, two in zip(scenes.scene(7), again.scene(7), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not scenes_of(trigger_share=0.0).scene(0).ends
    assert scenes.fingerprint == again.fingerprint != other.fingerprint
    assert not np.array_equal(scenes.scene(7).samples, scenes.scene(8).samples)
    assert not np.array_equal(scenes.scene(7).samples, other.scene(7).samples)


def test_labels_are_1_for_half_a_second_after_each_word() -> None:
    """The tone stops where the label starts; the frames just before weigh nothing."""
    scenes = scenes_of(only_words=True, gaps=(0.6, 0.8), background_levels=(-90.0, -90.0), speeds=(1.0, 1.0))
    step, words = scenes.samples_per_output, 0
    for number in range(4):
        scene = scenes.scene(number)
        assert scene.labels.shape == (len(scene.samples) // step,)
        for end in scene.ends:
            first = -(-end // step)
            length = round(0.5 * RATE / step)
            assert scene.labels[first : first + length].all()
            assert not scene.labels[first - 3 : first].any()
            assert not scene.weight[first - 3 : first].any()
            before, after = scene.samples[end - 1000 : end - 500], scene.samples[end + 1 : end + 200]
            assert np.abs(before).max() > 3 * np.abs(after).max()
            words += 1
        assert set(scene.weight) == {0.0, 1.0, 2.0}
        assert (scene.weight[scene.labels > 0] == 2).all()
    assert words > 4


def test_clips_do_not_overlap_and_levels_vary() -> None:
    scenes = scenes_of(only_words=True, gaps=(0.0, 0.0), levels=(-50.0, -10.0), background_levels=(-95.0, -95.0))
    peaks = []
    for number in range(8):
        scene = scenes.scene(number)
        assert (np.diff(scene.ends) > 0.34 / 1.15 * RATE).all()  # the word and the least silence, at the highest speed
        peaks.append(20 * np.log10(np.abs(scene.samples).max()))
        assert np.abs(scene.samples).max() <= 1
    assert max(peaks) - min(peaks) > 20


def test_processes_share_a_batch_and_empty_rows_weigh_nothing() -> None:
    scenes = scenes_of()
    whole, part = (
        TrainingBatches(tiny_config(batch_size=4), scenes, np.array(rows)) for rows in ([0, 1, 2, 3], [1, 3])
    )
    for ours, theirs in zip(part.batch(2), whole.batch(2), strict=True):
        np.testing.assert_array_equal(ours, theirs[[1, 3]])
    assert whole.describe({'batch': 2}) == {'scenes': [8, 11]}
    batch = batch_of([scenes.scene(number) for number in range(3)], 5)
    assert not any(x[3:].any() for x in batch)
    np.testing.assert_array_equal(batch.samples[2], scenes.scene(2).samples)


def test_a_word_that_no_recording_has_is_refused_with_the_texts() -> None:
    with pytest.raises(UserError, match=r"a\.tsv: no recording has the text data\.trigger='amelia'; .*'rising'"):
        by_trigger([clip_of(tone(1))], 'amelia', ['a.tsv'])


def test_what_is_wrong_with_recordings_is_found() -> None:
    good, cut, quiet = clip_of(silence(0.2), tone(0.3), silence(0.2)), clip_of(silence(0.3), tone(0.3)), silence(0.5)
    long = clip_of(silence(0.2), tone(9), silence(0.2), text='long')
    train = Clips([good, cut, clip_of(quiet)], [long], [])
    report = audit({'train': train, 'test': Clips([good], [], [])}, tiny_config())
    assert {finding.kind: finding.count for finding in report.findings} == {
        'few_triggers': 3,
        'silent': 1,
        'too_long': 1,
        'leaked': 1,
    }
    alone = audit({'train': Clips([good], [], [])}, tiny_config())
    assert 'no_others' in {finding.kind for finding in alone.findings}
    assert 'add recordings' in str(alone)
