"""Raw samples from a pipe, however they are cut."""

import io
import os

import numpy as np
import pytest

from flax_transformer.data.audio.wav import pcm_chunks

SAMPLES = np.random.default_rng(0).integers(-(2**15), 2**15, 5000).astype('<i2')


class Pipe:
    """A stream that hands out so many bytes at a time."""

    def __init__(self, content: bytes, sizes: list[int]) -> None:
        self.file, self.sizes = io.BytesIO(content), sizes

    def read1(self, most: int) -> bytes:
        return self.file.read(min(most, self.sizes.pop(0) if self.sizes else most))


@pytest.mark.parametrize('sizes', [[], [1, 1, 1, 2, 3], [1] * 9999, [333] * 99])
def test_any_cut_has_the_same_samples(sizes: list[int]) -> None:
    chunks = list(pcm_chunks(Pipe(SAMPLES.tobytes(), sizes)))
    assert all(len(chunk) and chunk.dtype == np.float32 for chunk in chunks)
    np.testing.assert_array_equal(np.concatenate(chunks), SAMPLES.astype(np.float32) / 32768)


def test_half_a_sample_at_the_end_is_dropped() -> None:
    assert [len(chunk) for chunk in pcm_chunks(io.BytesIO(SAMPLES[:3].tobytes()[:-1]))] == [2]
    assert list(pcm_chunks(io.BytesIO(b'x'))) == []
    assert list(pcm_chunks(io.BytesIO())) == []


def test_what_has_come_is_passed_on_without_waiting_for_more() -> None:
    reader, writer = os.pipe()
    with open(reader, 'rb') as stream:
        chunks = pcm_chunks(stream)
        for size in (1, 80, 5):
            os.write(writer, SAMPLES[:size].tobytes())
            np.testing.assert_array_equal(next(chunks), SAMPLES[:size].astype(np.float32) / 32768)
        os.close(writer)
        assert list(chunks) == []
