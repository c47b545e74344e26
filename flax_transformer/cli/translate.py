"""`flax-transformer translate RUN < lines > translations`."""

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import BinaryIO

from flax_transformer.cli.options import note, parse, progress_bar, read_run_config
from flax_transformer.config import DecodingConfig
from flax_transformer.errors import UserError

DESCRIPTION = """Translate standard input to standard output: N lines in, N lines out, in order, blank for blank.
A line ends at the line feed alone."""

CHUNK = 2048  # lines that are read, translated and written together; bounds memory


@dataclass(frozen=True)
class TranslateOptions:
    step: int | None = None  # the checkpoint; None: the best by validation loss, or training.average_last's mean
    decoding: DecodingConfig = field(default_factory=DecodingConfig)


def main(argv: list[str]) -> None:
    options = parse(
        'translate',
        TranslateOptions,
        argv,
        first='RUN',
        description=DESCRIPTION,
        default=lambda run: TranslateOptions(decoding=read_run_config(run).decoding),
    )
    from flax_transformer.translator import Translator

    translator = Translator.from_run(argv[0], step=options.step, **asdict(options.decoding))
    num_truncated = num_split = 0
    with progress_bar(None, 'line') as bar:
        for chunk in chunks(sys.stdin.buffer):
            for translation in translator(chunk, progress=bar.update):
                sys.stdout.buffer.write(translation.text.encode('utf-8') + b'\n')
                num_truncated += translation.truncated
                num_split += translation.split
            sys.stdout.buffer.flush()
    if num_truncated:
        note(
            f'{num_truncated} translations were cut at --decoding.max-extra-tokens {options.decoding.max_extra_tokens}'
        )
    if num_split:
        note(f'{num_split} lines were longer than --decoding.max-source-tokens and were translated in parts')


def chunks(stream: BinaryIO) -> Iterator[list[str]]:
    """Lists of up to CHUNK lines of UTF-8, ended by "\\n" alone.

    Raises UserError for other bytes, with the line, once the lines before it are given out.
    """
    chunk: list[str] = []
    for number, line in enumerate(stream, start=1):
        try:
            chunk.append(line.decode('utf-8-sig' if number == 1 else 'utf-8').removesuffix('\n').removesuffix('\r'))
        except UnicodeDecodeError as error:
            yield chunk
            got = error.object[error.start]
            raise UserError(
                f'input line {number}: byte 0x{got:02x} is not valid UTF-8; expected UTF-8, for example '
                f'from `iconv -f LATIN1 -t UTF-8`. The {number - 1} lines before it are translated'
            ) from None
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
