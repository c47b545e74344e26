"""What is wrong with a text that word vectors are to learn from."""

from collections import Counter
from pathlib import Path
from typing import Any

from flax_transformer.data.audit.kinds import read_kinds
from flax_transformer.data.audit.report import Finding, Report, Rows, findings_of, sorted_report
from flax_transformer.data.repeats import keys_of, repeated

from .config import EmbeddingsConfig
from .corpus import Vocabulary, lines_of_words, texts_of
from .run import Run

_MARKS = '.,;:!?)"'

KINDS = read_kinds(__file__)


def report_of(config: EmbeddingsConfig, workdir: Path | None, **_: Any) -> Report:
    """`workdir` is a run, whose vocabulary is used; None: that of the text."""
    vocabulary = None if workdir is None else Run(workdir).read_vocabulary()
    findings = []
    read = {}
    for name, text in texts_of(config.data).items():
        lines = [' '.join(words) for words in lines_of_words(text, config.tokenizer)]
        counts = Counter(word for line in lines for word in line.split())
        if vocabulary is None:
            size = config.model.vocab_size
            vocabulary = Vocabulary.of(counts, min_count=config.tokenizer.min_count, size=size)
        findings += _of_lines(name, lines) + _of_words(name, counts, vocabulary)
        read[name] = len(lines)
    return sorted_report(findings, read, kinds=KINDS, unit='lines')


def _of_lines(name: str, lines: list[str]) -> list[Finding]:
    places = [f'line {number}' for number in range(1, len(lines) + 1)]
    rows = Rows(name, places, {'source': lines, 'target': [''] * len(lines)})
    alone = (row for row, line in enumerate(lines) if line and ' ' not in line)
    return rows.findings(KINDS['alone'], alone) + rows.findings(KINDS['repeated'], repeated(keys_of(lines)))


def _of_words(name: str, counts: Counter[str], vocabulary: Vocabulary) -> list[Finding]:
    attached = [word for word in counts if word in vocabulary.ids and len(word) > 1 and word[-1] in _MARKS]
    examples = ({'place': '', 'source': word, 'target': ''} for word in attached)
    findings = findings_of(KINDS['punctuation'], name, len(attached), len(vocabulary), examples)
    total = counts.total()
    rare = total - sum(counts[word] for word in vocabulary.words)
    findings += findings_of(KINDS['rare'], name, rare, total)
    if len(vocabulary) < 2:
        detail = f'{len(counts):,} different words, {len(vocabulary)} of them kept'
        findings.append(Finding(KINDS['no_words'], 'error', name, len(vocabulary), 0, (), detail))
    return findings
