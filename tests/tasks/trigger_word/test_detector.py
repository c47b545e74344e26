"""The detector: any chunking gives the same hits; its state does not grow; it hears what it was trained on."""

import jax
import numpy as np
import pytest
from tiny_trigger_word import RATE, tiny_config

from flax_transformer import Detector
from flax_transformer.common.errors import BadInput
from flax_transformer.data.audio.corpus import generated
from flax_transformer.tasks.trigger_word.detector import TAIL
from flax_transformer.tasks.trigger_word.model import TriggerWordModel


@pytest.fixture(scope='module')
def detector(tiny_detector) -> Detector:
    return Detector.from_run(tiny_detector, threshold=0.4)


@pytest.fixture(scope='module')
def recording() -> np.ndarray:
    """Six melodies of the test split, two of them rising, with gaps."""
    sounds = [sound for sound, *_ in generated('melodies:test', RATE)][:12]
    gap = np.zeros(RATE // 2, np.float32)
    return np.concatenate([part for sound in sounds for part in (sound, gap)])


def test_any_chunking_gives_the_same_hits(detector: Detector, recording: np.ndarray) -> None:
    whole = detector(recording)
    assert len(whole) >= 3
    generator = np.random.default_rng(0)
    for most in (37, 500, 9000):
        cuts = np.cumsum(generator.integers(0, most, 3 * len(recording) // most))
        chunks = np.split(recording, cuts[cuts < len(recording)])
        found = list(detector.stream(chunks))
        assert [hit.seconds for hit in found] == [hit.seconds for hit in whole]  # equal to the frame
        # Sums in another order, where another program computes as many frames as there are.
        np.testing.assert_allclose([hit.confidence for hit in found], [hit.confidence for hit in whole], atol=1e-5)


def test_the_same_model_computes_whole_scenes_and_streams(detector: Detector, recording: np.ndarray) -> None:
    config = tiny_config()
    model = TriggerWordModel(config.model, config.features)
    logits = jax.jit(model.apply)({'params': detector.params}, recording[None])
    found = detector.probabilities(recording)[: logits.shape[1]]
    np.testing.assert_allclose(found, jax.nn.sigmoid(logits)[0], atol=1e-5)


def test_an_output_frame_depends_on_the_past_alone(detector: Detector) -> None:
    config = tiny_config()
    model = TriggerWordModel(config.model, config.features)
    samples = np.random.default_rng(0).standard_normal((1, 10 * config.samples_per_output)).astype(np.float32)
    gradient = jax.jit(jax.grad(lambda x: model.apply({'params': detector.params}, x)[0, 4]))(samples)[0]
    last = 5 * config.samples_per_output
    assert np.abs(gradient[:100]).max() > 0
    assert np.abs(gradient[last - 20 : last]).max() > 0
    assert not gradient[last:].any()


def test_integers_of_16_bits_are_read_as_such_and_what_is_no_sound_is_refused(
    detector: Detector, recording: np.ndarray
) -> None:
    rounded = np.round(recording * 32767).astype(np.int16)
    expected = detector.probabilities(rounded.astype(np.float32) / 32768)
    np.testing.assert_array_equal(detector.probabilities(rounded), expected)
    for samples in (np.array([0, np.nan], np.float32), np.zeros((2, 100), np.float32)):
        with pytest.raises(BadInput, match=r'NaN or infinite|shape \(2, 100\)'):
            detector(samples)


def test_the_state_does_not_grow(detector: Detector) -> None:
    generator = np.random.default_rng(0)
    state, sizes = detector.start(), set()
    for count in (1, 10, 1000, 0, 7777, 159, 160, 161):
        state, _ = detector.step(state, generator.standard_normal(count).astype(np.float32) / 10)
        sizes.add(sum(leaf.size for leaf in jax.tree.leaves(state.model)))
        assert len(state.unread) < detector.seconds_per_output * RATE
        assert state.unread.base is None  # not a view, which would keep the whole chunk
    assert len(sizes) == 1


def test_a_word_is_heard_that_ends_with_the_recording(detector: Detector) -> None:
    """As if half a second of silence came after it; no more, or a stream's last hit would come late."""
    late = 0
    for sound, text, _ in generated('melodies:test', RATE):
        if text == 'rising':
            cut = sound[: np.flatnonzero(np.abs(sound) > 0.05)[-1] + 1]
            longer = detector(np.concatenate([cut, np.zeros(2 * RATE, np.float32)]))
            end = len(cut) / RATE
            found = [hit.seconds for hit in detector(cut)]
            assert found == [hit.seconds for hit in longer if hit.seconds < end + TAIL]
            late += any(second > end for second in found)
    assert late >= 3
