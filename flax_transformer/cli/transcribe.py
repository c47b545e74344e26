"""`flax-transformer transcribe RUN FILE ...`."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flax_transformer.cli.lines import LineWriter, to_json
from flax_transformer.cli.options import note, parse, positional, progress_bar
from flax_transformer.common.errors import UserError

if TYPE_CHECKING:
    from flax_transformer.tasks.speech.result import Transcript
    from flax_transformer.tasks.speech.transcriber import Transcriber

DESCRIPTION = """Write down what is said in recordings: N files in, N lines out, in order. WAV of any rate and channels;
FLAC, OGG and MP3 by the package soundfile. RUN is a run directory or one of its checkpoints: RUN@12000, RUN@last,
RUN@best, RUN@average. Options come last. A file that cannot be read gives an empty line, a message, and in the end the
exit code 2."""

CHUNK = 16  # files that are read, transcribed and written together
NAMED = 3  # files with a remark; --format jsonl gives each one its own


@dataclass(frozen=True)
class TranscribeOptions:
    output: Path | None = None  # a file to write instead of standard output
    format: Literal['text', 'jsonl'] = 'text'  # jsonl: an object per line, with scores and the times of each word
    beam_size: int = 1  # 1: the most probable unit of each frame; more: prefixes that a search keeps
    step: int | None = None  # the checkpoint; None: the best, or training.average_last's mean


@dataclass
class _Remarks:
    of: dict[str, list[str]] = field(default_factory=dict)  # the files with each remark
    broken: int = 0  # files that could not be read


def main(argv: list[str]) -> int:
    options = parse('transcribe', TranscribeOptions, argv, DESCRIPTION, task='speech', most=None)
    files = positional(argv)[1:]
    if not files:
        raise UserError(f'transcribe: got nothing after {argv[0]}, expected recordings: transcribe RUN FILE ...')
    from flax_transformer.tasks.speech.transcriber import Transcriber

    transcriber = Transcriber.from_run(argv[0], step=options.step)
    with LineWriter(options.output) as writer:
        remarks = _transcribe(transcriber, files, options, writer.write)
    for remark, odd in remarks.of.items():
        some = ', '.join(odd[:NAMED]) + (', ...' if len(odd) > NAMED else '')
        note(f'{len(odd)} of {len(files)} recordings: {remark} ({some})')
    if remarks.broken:
        note(f'{remarks.broken} of {len(files)} recordings could not be read')
    return 2 if remarks.broken else 0


def _transcribe(
    transcriber: 'Transcriber', files: list[str], options: TranscribeOptions, write: Callable[[list[str]], None]
) -> _Remarks:
    """Writes a line for each file."""
    remarks = _Remarks()
    with progress_bar(len(files), 'recordings', is_shown=options.output is not None) as bar:
        for first in range(0, len(files), CHUNK):
            some = files[first : first + CHUNK]
            waveforms = [_waveform(transcriber, file) for file in some]
            read = [each for each in waveforms if not isinstance(each, UserError)]
            found = iter(transcriber(read, beam_size=options.beam_size))
            lines = []
            for file, waveform in zip(some, waveforms, strict=True):
                if isinstance(waveform, UserError):
                    remarks.broken += 1
                    note(str(waveform))
                    lines.append(_line(file, None, str(waveform), options))
                else:
                    transcript = next(found)
                    for remark in transcript.remarks:
                        remarks.of.setdefault(remark, []).append(file)
                    lines.append(_line(file, transcript, None, options))
            write(lines)
            bar.update(len(some))
    return remarks


def _waveform(transcriber: 'Transcriber', file: str) -> Any:
    """The recording, or the error that says why it cannot be read."""
    try:
        return transcriber.read(file)
    except UserError as error:
        return error


def _line(file: str, transcript: 'Transcript | None', error: str | None, options: TranscribeOptions) -> str:
    if options.format == 'text':
        return '' if transcript is None else transcript.text
    if transcript is None:
        return to_json({'file': file, 'text': None, 'error': error})
    return to_json({'file': file, **asdict(transcript)})
