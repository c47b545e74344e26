"""The command `trim`."""

from dataclasses import dataclass
from pathlib import Path

from flax_transformer.common.errors import UserError

from .options import OfCheckpoint, parse


@dataclass(frozen=True)
class TrimOptions(OfCheckpoint):
    """Make a smaller, faster run with only the pieces that your texts use, equal on such texts."""

    languages: tuple[str, ...] = ()  # keep these of an imported model; none given: all
    text: tuple[Path, ...] = ()  # files of lines, perhaps compressed
    output: Path | None = None  # the run directory to make


def main(argv: list[str]) -> None:
    options = parse('trim', TrimOptions, argv, task='translation')
    if options.output is None or not options.text:
        raise UserError('trim: expected --text FILE ... and --output RUN')

    from absl import logging

    from flax_transformer.data.lines import read_lines
    from flax_transformer.tasks.translation.vocabulary_change import trim_run

    logging.set_verbosity(logging.FATAL)  # Orbax warns
    lines = [line for file in options.text for line in read_lines(file)]
    old, new = trim_run(argv[0], options.output, lines, options.languages, step=options.step)
    print(f'{old.tokenizer.vocab_size:,} pieces became {new.tokenizer.vocab_size:,}: {options.output}')
