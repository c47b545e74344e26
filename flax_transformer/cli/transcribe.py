"""The command `transcribe`."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from flax_transformer.common.errors import UserError

from .lines import LineWriter, to_json
from .options import OfCheckpoint, note, parse, positional, progress_bar

if TYPE_CHECKING:
    from flax_transformer.tasks.speech.transcriber import Transcriber


CHUNK = 16  # files that are read, transcribed and written together
NAMED = 3  # files with a remark; --format jsonl gives each one its own


@dataclass(frozen=True)
class TranscribeOptions(OfCheckpoint):
    """Write down what is said in recordings: N files in, N lines out, in order.

    WAV of any rate and channels; FLAC, OGG and MP3 by the package soundfile. RUN is a run directory or one of its
    checkpoints: RUN@12000, RUN@last, RUN@best, RUN@average. Options come last. A file that cannot be read gives an
    empty line, a message, and in the end the exit code 2.
    """

    output: Path | None = None  # a file to write instead of standard output
    format: Literal['text', 'jsonl'] = 'text'  # jsonl: an object per line, with scores and the times of each word
    beam_size: int = 1  # 1: the most probable unit of each frame; more: prefixes that a search keeps


def main(argv: list[str]) -> int:
    options = parse('transcribe', TranscribeOptions, argv, task='speech', most=None)
    files = positional(argv)[1:]
    if not files:
        raise UserError(f'transcribe: got nothing after {argv[0]}, expected recordings: transcribe RUN FILE ...')
    from flax_transformer.tasks.speech.transcriber import Transcriber

    transcriber = Transcriber.from_run(argv[0], step=options.step)
    with LineWriter(options.output) as writer:
        remarks, num_broken = _transcribe(transcriber, files, options, writer.write)
    for remark, odd in remarks.items():
        names = ', '.join([*odd[:NAMED], *['...'] * (len(odd) > NAMED)])
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
        for first in range(0, len(files), CHUNK):
            part = files[first : first + CHUNK]
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
