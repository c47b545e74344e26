"""The command `classify`."""

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from flax_transformer.common.errors import visible

from .lines import LineWriter, Record, bar_of_lines, lines_from, read_records, write_record
from .options import OfCheckpoint, note, parse

if TYPE_CHECKING:
    from flax_transformer.tasks.classification.classifier import Classification, Classifier


FLAGS = {
    'empty': 'empty lines, given the shares of the labels in the training data',
    'truncated': "lines cut at the run's data.max_length",
    'unknown': 'lines without a word of the training data',
    'replaced': 'lines that were not valid UTF-8, their invalid bytes read as U+FFFD',
}


@dataclass(frozen=True)
class ClassifyOptions(OfCheckpoint):
    """Label standard input line by line: N lines in, N lines out, `label<TAB>probability`, in order.

    Only a line feed ends a line.
    """

    input: Path | None = None  # a file to read instead of standard input
    output: Path | None = None  # a file to write instead of standard output
    resume: bool = False  # continue after the last whole line of --output
    format: Literal['text', 'jsonl'] = 'text'  # jsonl: an object per line, with all probabilities and flags
    input_format: Literal['text', 'jsonl'] = 'text'  # jsonl: {"text": ...} per line
    invalid: Literal['refuse', 'replace'] = 'refuse'  # a line that is not UTF-8: stop there, or use U+FFFD and a flag


def main(argv: list[str]) -> None:
    options = parse('classify', ClassifyOptions, argv, task='classification')
    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if options.input is None else stack.enter_context(options.input.open('rb'))
        from flax_transformer.tasks.classification.classifier import Classifier

        classifier = Classifier.from_run(argv[0], step=options.step)
        writer = stack.enter_context(LineWriter(options.output, resume=options.resume))
        done = writer.num_before
        lines = lines_from(stream, options, done, classifier, 'classify')
        counts = _classify(classifier, options, lines, writer.write, done)
    for name, count in counts.items():
        note(f'{FLAGS[name]}: {count:,}')


def _classify(
    classifier: 'Classifier',
    options: ClassifyOptions,
    lines: Iterable[list[str | bytes]],
    write: Callable[[list[str]], None],
    done: int,
) -> Counter[str]:
    counts: Counter[str] = Counter()
    with bar_of_lines(options) as bar:
        for records in read_records(lines, options.input_format, done):
            output = []
            for record, labeled in zip(
                records, classifier([r.text for r in records], progress=bar.update), strict=True
            ):
                if record.replaced and 'replaced' not in labeled.flags:
                    labeled = replace(labeled, flags=(*labeled.flags, 'replaced'))
                output.append(_line(record, labeled, options.format))
                counts.update(labeled.flags)
            write(output)
    return counts


def _line(record: Record, labeled: 'Classification', form: str) -> str:
    if form == 'jsonl':
        return write_record(record, asdict(labeled))
    label = ' '.join(labeled.label.split())  # whatever white space it has
    return f'{visible(label)}\t{labeled.probability:.4f}'
