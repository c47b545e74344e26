"""What is wrong with a text that word vectors are to learn from."""

from collections import Counter
from pathlib import Path
from typing import Any

from flax_transformer.data.audit.kinds import table
from flax_transformer.data.audit.report import Finding, Report, Rows, findings_of, sorted_report
from flax_transformer.data.repeats import keys_of, repeated

from .config import EmbeddingsConfig
from .corpus import Vocabulary, lines_of_words, texts_of
from .run import Run

_WARNED = 0.1  # share from which on a kind is a warning
_MARKS = '.,;:!?)"'

KINDS = table(
    (
        'no_words',
        'error',
        'fewer than two different words that are frequent enough',
        'stops: there is nothing to learn',
        'name the right file, or lower tokenizer.min_count',
    ),
    (
        'alone',
        'warning',
        'lines with a single word, which has no neighbor',
        'leaves them out',
        'put a sentence, paragraph or article on each line',
        _WARNED,
    ),
    (
        'repeated',
        'warning',
        'lines that occur before, word for word',
        'learns from each of them',
        'remove them: repeated headings and notices distort what is learned',
        _WARNED,
    ),
    (
        'punctuation',
        'warning',
        'different words that end in a punctuation mark',
        'takes `end.` and `end` for two words',
        "say what a word is, as in --tokenizer.pattern '[a-z]+'",
        _WARNED,
    ),
    (
        'rare',
        'warning',
        'words of the text that are rarer than tokenizer.min_count or beyond model.vocab_size',
        'leaves them out',
        'raise model.vocab_size, or lower tokenizer.min_count',
        _WARNED,
    ),
)


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
