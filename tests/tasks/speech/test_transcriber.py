"""Transcribing: arrays and files, long recordings in windows, times of words, and recordings that are bad."""

import json
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.io import wavfile

from flax_transformer import Transcriber
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.data.audio.corpus import Corpus, read_corpus
from flax_transformer.tasks.speech.ctc import most_beam_size

RATE = 8_000


@pytest.fixture(scope='module')
def transcriber(tiny_transcriber: Path) -> Transcriber:
    return Transcriber.from_run(tiny_transcriber)


@pytest.fixture(scope='module')
def tones() -> Corpus:
    return read_corpus('tones:test', None, RATE, say=print)


def joined(tones: Corpus, numbers: list[int], gap: float = 0.1) -> tuple[np.ndarray, list[str], list[float]]:
    """Tones with gaps of quiet noise, their keys, and when the middle of each is, in seconds."""
    generator, parts, keys, middles, end = np.random.default_rng(0), [], [], [], 0.0
    for number in numbers:
        quiet = generator.normal(0, 0.001, round(gap * RATE)).astype(np.float32)
        samples = tones.samples(number)
        middles.append(end + gap + len(samples) / RATE / 2)
        end += gap + len(samples) / RATE
        parts += [quiet, samples]
        keys.append(tones.recordings[number].text.lower())
    return np.concatenate([*parts, quiet]), keys, middles


def distance(one: list[str], two: list[str]) -> int:
    jiwer = pytest.importorskip('jiwer')
    found = jiwer.process_words(' '.join(one), ' '.join(two))
    return found.substitutions + found.deletions + found.insertions


def test_each_recording_gets_the_same_answer_in_any_company(transcriber: Transcriber, tones: Corpus) -> None:
    recordings = [joined(tones, [i, i + 1])[0] for i in range(0, 40, 2)]
    together = transcriber(recordings)
    assert together[3] == transcriber(recordings[3])
    assert together[::-1] == transcriber(recordings[::-1])
    right = sum(
        distance([tones.recordings[2 * i + j].text.lower() for j in (0, 1)], each.text.split())
        for i, each in enumerate(together)
    )
    assert right < 0.3 * 40


def test_long_recordings_are_read_in_windows(transcriber: Transcriber, tones: Corpus) -> None:
    """12 s, where training had at most 0.8: as many keys right, each at its time."""
    samples, keys, middles = joined(tones, list(range(40)))
    found = transcriber(samples)
    assert found.seconds == pytest.approx(len(samples) / RATE)
    assert distance(keys, found.text.split()) < 0.4 * len(keys)
    near = [min(abs((word.start + word.end) / 2 - middle) for middle in middles) for word in found.words]
    assert np.mean(near) < 0.15
    assert all(one.end <= two.start + 1e-6 for one, two in zip(found.words, found.words[1:], strict=False))


@pytest.mark.slow
def test_a_model_of_strings_hears_silence_after_each_recording(transcriber: Transcriber, tones: Corpus) -> None:
    """Half of the longest gap; one of single recordings hears them as they are."""
    single = replace(transcriber.config, strings=replace(transcriber.config.strings, most=0))
    samples = tones.samples(5)
    (found,) = transcriber.log_probabilities([samples])
    for others in (transcriber.config.strings.most_gap_ms / 2, 0):
        count = round(others * RATE / 1000)
        (expected,) = Transcriber(single, transcriber.params, transcriber.units).log_probabilities(
            [np.pad(samples, (0, count))]
        )
        assert np.array_equal(found, expected) == bool(count)


def test_integers_and_floats_are_the_same_recording(transcriber: Transcriber, tones: Corpus) -> None:
    samples = (tones.samples(3) * 32767).astype(np.int16)
    expected = transcriber(samples)
    assert expected == transcriber((samples / 32768).astype(np.float32)) == transcriber(samples / 32768)
    loud = transcriber(samples * 1e30)
    assert loud.text == expected.text
    assert loud.remarks == ('scaled down: the samples exceeded full scale',)


def test_a_beam_is_no_less_probable(transcriber: Transcriber, tones: Corpus) -> None:
    pytest.importorskip('fast_ctc_decode')
    recordings = [joined(tones, [i, i + 1])[0] for i in range(0, 20, 2)]
    for one, more in zip(transcriber(recordings), transcriber(recordings, beam_size=20), strict=True):
        assert more.log_probability >= one.log_probability - 1e-4
        assert [word.text for word in more.words] == more.text.split()


@pytest.mark.parametrize(
    ('recording', 'message'),
    [
        (np.zeros((2, 800), np.float32), r'samples of shape \(2, 800\) .* expected one channel'),
        (np.array([0.0, np.nan]), '1 samples are NaN or infinite'),
        ('', r"got the name '' \(empty\); expected a recording"),
    ],
)
def test_what_is_no_recording_is_refused(transcriber: Transcriber, recording: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        transcriber(recording)


def test_nothing_and_silence_have_a_transcript(transcriber: Transcriber) -> None:
    for samples in (np.zeros(0, np.float32), np.zeros(1, np.float32), np.zeros(8_000, np.float32)):
        found = transcriber(samples)
        assert found.text == ' '.join(word.text for word in found.words)
        assert np.isfinite(found.log_probability)
    assert transcriber([]) == []
    assert 'too short: less than a frame' in transcriber(np.zeros(1, np.float32)).remarks


def test_odd_samples_get_the_remarks_of_odd_files(transcriber: Transcriber, tmp_path: Path) -> None:
    clipped = np.sign(np.random.default_rng(0).normal(size=RATE)).astype(np.float32)
    for samples, remark in ((np.zeros(RATE, np.float32), 'silent'), (clipped, 'clipped'), (clipped[:100], 'shorter')):
        wavfile.write(tmp_path / 'odd.wav', RATE, samples)
        found = transcriber.read(samples).remarks
        assert found == transcriber.read(tmp_path / 'odd.wav').remarks
        assert any(each.startswith(remark) for each in found)
    assert transcriber.read(jnp.zeros(RATE)).remarks == transcriber.read(np.zeros(RATE)).remarks


def test_a_beam_that_memory_has_no_room_for_is_refused(transcriber: Transcriber) -> None:
    for size in (0, 1_001, 10_000_000):
        with pytest.raises(UserError, match=f'beam_size={size}: expected 1 to 1,000; more would take more than 4 GB'):
            transcriber([], beam_size=size)
    assert [most_beam_size(units) for units in (20, 1_000, 100_000)] == [1_000, 10, 1]


def test_n_files_give_n_lines_whatever_they_are(
    tiny_transcriber: Path,
    transcriber: Transcriber,
    tones: Corpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    samples, _, _ = joined(tones, [1, 2])
    good, stereo, broken, gone = (tmp_path / name for name in ('good.wav', 'stereo.wav', 'broken.wav', 'gone.wav'))
    wavfile.write(good, RATE, (samples * 32767).astype(np.int16))
    wavfile.write(stereo, 2 * RATE, np.stack([np.repeat(samples, 2)] * 2, axis=1))
    broken.write_bytes(b'no sound')
    files = [str(file) for file in (broken, good, gone, stereo)]
    assert main(['transcribe', str(tiny_transcriber), *files]) == 2
    out, err = capsys.readouterr()
    lines = out.split('\n')
    assert lines == ['', transcriber(good).text, '', transcriber(stereo).text, '']
    assert lines[1]
    for said in (
        'broken.wav',
        'gone.wav',
        '2 of 4 recordings could not be read',
        f'mixed down from 2 channels ({stereo})',
    ):
        assert said in err
    assert main(['transcribe', str(tiny_transcriber), *files[1:2], '--format', 'jsonl', '--beam-size', '4']) == 0
    record = json.loads(capsys.readouterr().out)
    assert record['file'] == str(good)
    assert [word['text'] for word in record['words']] == record['text'].split()
    assert record['log_probability'] <= 0
    assert main(['transcribe', str(tiny_transcriber)]) == 2
    assert 'expected recordings: transcribe RUN FILE' in capsys.readouterr().err


def test_evaluate_scores_by_speaker_and_confuses_single_words(
    tiny_transcriber: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip('jiwer')
    assert main(['evaluate', str(tiny_transcriber), '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found['set'], found['num_utterances'], found['num_words']) == ('tones:test', 96, 96)
    assert found['word_error_rate_low'] <= found['word_error_rate'] <= found['word_error_rate_high'] < 0.5
    assert len(found['by_speaker']) == 6
    counts = np.array(found['confusion']['counts'])
    assert counts.sum(axis=1).tolist() == [6] * 16
    assert found['exact'] == pytest.approx(np.trace(counts) / 96)
    assert main(['evaluate', str(tiny_transcriber), '--count', '20', '--strings.most', '3']) == 0
    shown = capsys.readouterr().out
    assert 'tones:test, 20 strings: 20 utterances' in shown
    assert 'by speaker' in shown
    assert main(['evaluate', str(tiny_transcriber), '--count', '99999999999999999999']) == 2
    assert 'expected 0 to 1,000,000' in capsys.readouterr().err


@pytest.mark.slow
def test_word_error_rates_need_words(
    tiny_transcriber: Path, tones: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip('jiwer')
    wavfile.write(tmp_path / 'a.wav', RATE, tones.samples(0))
    table = tmp_path / 'index.tsv'
    table.write_text('path\ttext\tspeaker\na.wav\t\tann\n')
    assert main(['evaluate', str(tiny_transcriber), '--test', str(table)]) == 2
    assert 'all 1 transcripts are empty: there is no word to count errors by' in capsys.readouterr().err
    table.write_text('path\ttext\tspeaker\na.wav\t\tann\na.wav\t1\tbob\n')
    assert main(['evaluate', str(tiny_transcriber), '--test', str(table), '--json']) == 0
    assert list(json.loads(capsys.readouterr().out)['by_speaker']) == ['bob']
