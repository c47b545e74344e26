"""The commands `transcribe` and `detect`."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from flax_transformer.common.errors import BadInput, UserError

from .lines import LineWriter, to_json
from .options import OfCheckpoint, note, parse, positional, progress_bar

if TYPE_CHECKING:
    from flax_transformer.tasks.speech.transcriber import Transcriber
    from flax_transformer.tasks.trigger_word.detector import Detector, Hit


_TOGETHER = 16  # files that are read, transcribed and written together
_NAMED = 3  # files with a remark; --format jsonl gives each one its own


@dataclass(frozen=True)
class TranscribeOptions(OfCheckpoint):
    """Write down what is said in recordings: N files in, N lines out, in order.

    WAV of any rate and channels; FLAC, OGG and MP3 by the package soundfile. Options come last. A file that cannot
    be read gives an empty line, a message, and in the end the exit code 2.
    """

    output: Path | None = None  # a file to write instead of standard output
    format: Literal['text', 'jsonl'] = 'text'  # jsonl: an object per line, with scores and the times of each word
    beam_size: int = 1  # 1: the most probable unit of each frame; more: prefixes that a search keeps


def transcribe(argv: list[str]) -> int:
    options = parse('transcribe', TranscribeOptions, argv, task='speech', most=None)
    files = positional(argv)[1:]
    if not files:
        raise UserError(f'transcribe: got nothing after {argv[0]}, expected recordings: transcribe RUN FILE ...')
    from flax_transformer.tasks.speech.transcriber import Transcriber

    transcriber = Transcriber.from_run(argv[0], step=options.step)
    with LineWriter(options.output) as writer:
        remarks, num_broken = _transcribe(transcriber, files, options, writer.write)
    for remark, odd in remarks.items():
        names = ', '.join([*odd[:_NAMED], *['...'] * (len(odd) > _NAMED)])
        note(f'{len(odd)} of {len(files)} recordings: {remark} ({names})')
    if num_broken:
        note(f'{num_broken} of {len(files)} recordings could not be read')
    return 2 if num_broken else 0


def _transcribe(
    transcriber: 'Transcriber', files: list[str], options: TranscribeOptions, write: Callable[[list[str]], None]
) -> tuple[dict[str, list[str]], int]:
    """Writes a line for each file; returns the files with each remark, and how many could not be read."""
    remarks: dict[str, list[str]] = {}
    num_broken = 0
    is_json = options.format == 'jsonl'
    with progress_bar(len(files), 'recordings', is_shown=options.output is not None) as bar:
        for first in range(0, len(files), _TOGETHER):
            part = files[first : first + _TOGETHER]
            lines = [''] * len(part)
            waveforms = {}
            for i, file in enumerate(part):
                try:
                    waveforms[i] = transcriber.read(file)
                except UserError as error:
                    num_broken += 1
                    note(str(error), is_error=True)
                    if is_json:
                        lines[i] = to_json({'file': file, 'text': None, 'error': str(error)})
            transcripts = transcriber([*waveforms.values()], beam_size=options.beam_size)
            for i, transcript in zip(waveforms, transcripts, strict=True):
                for remark in transcript.remarks:
                    remarks.setdefault(remark, []).append(part[i])
                lines[i] = to_json({'file': part[i], **asdict(transcript)}) if is_json else transcript.text
            write(lines)
            bar.update(len(part))
    return remarks, num_broken


_RIFF = np.frombuffer(b'RIFF', '<i2') / 32768  # the first two samples, if a WAV file is taken for raw ones


@dataclass(frozen=True)
class DetectOptions(OfCheckpoint):
    """Find a trigger word in recordings, or listen for it in a stream.

    One line for each hit, as soon as it is heard: `seconds<TAB>confidence`, with the file's name before if there are
    several.

    The file - is standard input: raw samples, mono, 16 bits (s16le), at the run's features.sample_rate, such as
      arecord -q -t raw -f S16_LE -c 1 -r 8000 | flax-transformer detect RUN -
    """

    threshold: float | None = None  # least score of a hit, from 0 to 1; None: the run's hits.threshold
    format: Literal['text', 'jsonl'] = 'text'  # jsonl: {"file": ..., "seconds": ..., "confidence": ...} for each hit


def detect(argv: list[str]) -> int:
    options = parse('detect', DetectOptions, argv, first='RUN FILE ...', task='trigger_word', most=None)
    run, *files = positional(argv)
    if not files or ('-' in files and len(files) > 1):
        got = ' '.join(files) or 'no recording'
        raise UserError(f'detect: got {got}; expected recordings, or - alone for a stream on standard input')
    if files == ['-'] and sys.stdin.isatty():
        raise UserError('detect: standard input is a terminal; expected raw samples (--help has an example)')
    from flax_transformer.data.audio.reading import read_audio
    from flax_transformer.tasks.trigger_word.detector import Detector

    detector = Detector.from_run(run, step=options.step, threshold=options.threshold)
    if files == ['-']:
        _write_hits(detector.stream(_standard_input(detector)), '-', options.format, is_named=False)
        return 0
    failed = 0
    for file in files:
        try:
            audio = read_audio(file, detector.sample_rate)
        except BadInput as error:  # other files may be sound
            note(str(error), is_error=True)
            failed += 1
            continue
        for remark in audio.remarks:
            note(f'{file}: {remark}')
        _write_hits(detector(audio.samples), file, options.format, is_named=len(files) > 1)
    return 2 if failed else 0


def _standard_input(detector: 'Detector') -> Iterator[np.ndarray]:
    from flax_transformer.data.audio.reading import pcm_chunks

    note(f'listening for raw samples, mono, 16 bits, {detector.sample_rate:,} Hz')
    total = 0
    for number, chunk in enumerate(pcm_chunks(sys.stdin.buffer, say=note)):
        if not number and np.array_equal(chunk[:2], _RIFF):
            raise BadInput('standard input starts as a WAV file does; expected raw samples: name the file instead of -')
        total += len(chunk)
        yield chunk
    if total < (frame := detector.samples_per_output):
        note(f'the stream held {total:,} samples, less than a frame of {frame:,}: nothing was heard')


def _write_hits(hits: 'Iterable[Hit]', file: str, form: str, *, is_named: bool) -> None:
    name = f'{" ".join(file.split())}\t' if is_named else ''
    for hit in hits:
        fields = {'file': file, 'seconds': round(hit.seconds, 3), 'confidence': round(hit.confidence, 4)}
        line = to_json(fields) if form == 'jsonl' else f'{name}{hit.seconds:.2f}\t{hit.confidence:.4f}'
        print(line, flush=True)
