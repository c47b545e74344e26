"""The command `score`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flax_transformer.common.errors import UserError

from .lines import CHUNK, LineWriter, to_json
from .options import ToTranslate, open_translator, parse, positional, progress_bar

FIELDS = ('score', 'log_prob', 'num_tokens', 'tokens', 'token_log_probs', 'quality', 'word_quality')  # in JSON


@dataclass(frozen=True)
class ScoreOptions(ToTranslate):
    """Score given translations with a model: a line each, `score log-probability tokens`.

    The score is normalized as in a search with these fields. Several RUNs vote as an ensemble.
    """

    source: Path | None = None  # a text file, one sentence per line
    target: Path | None = None  # its translations, line by line
    output: Path | None = None  # a file to write instead of standard output
    format: Literal['text', 'jsonl'] = 'text'  # jsonl: an object per line, with tokens and their log-probabilities
    alignment: bool = False  # add word alignments by attention, as the last column or in JSON


def main(argv: list[str]) -> None:
    options = parse('score', ScoreOptions, argv, task='translation', most=None)
    if options.source is None or options.target is None:
        raise UserError('score compares two files: give --source and --target')

    from flax_transformer.data.bitext.text_files import read_text_files
    from flax_transformer.tasks.translation.inference.result import pharaoh

    pairs = read_text_files(options.source, options.target)
    translator = open_translator(positional(argv), options)
    with LineWriter(options.output) as writer, progress_bar(len(pairs), 'lines') as bar:
        for first in range(0, len(pairs), CHUNK):
            part = slice(first, first + CHUNK)
            scored = translator.score(pairs.sources[part], pairs.targets[part], alignment=options.alignment)
            lines = []
            for translation in scored:
                links = pharaoh(translation.alignment or ())
                if options.format == 'jsonl':
                    record = {key: getattr(translation, key) for key in FIELDS}
                    if options.alignment:
                        record['alignment'] = links
                    lines.append(to_json(record))
                else:
                    numbers = f'{translation.score:.6f} {translation.log_prob:.6f} {translation.num_tokens}'
                    lines.append(f'{numbers}\t{links}' if options.alignment else numbers)
            writer.write(lines)
            bar.update(len(scored))
