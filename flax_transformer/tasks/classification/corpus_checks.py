"""What is wrong with labeled texts, before the first step."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import nearest
from flax_transformer.data.audit.kinds import MEMORIZED, SHARED, read_kinds
from flax_transformer.data.audit.lines import LINE_CHECKS, quoted_rows, rows_where
from flax_transformer.data.audit.report import Finding, Report, Rows, findings_of, sorted_report
from flax_transformer.data.held_out import held_out_rows
from flax_transformer.data.repeats import contradictions, keys_of, overlaps, pair_keys, repeated

from .config import ClassificationConfig, ClassificationDataConfig
from .reading import Examples, chosen, read_examples
from .run import Run
from .vocabulary import Vocabulary

FEW_EXAMPLES = 10  # fewer are few for a label
IMBALANCE = 10  # examples of the most frequent label for each of the rarest
CORPORA = ('train', 'validation', 'test')
Corpora = dict[str, Examples]  # train, and perhaps the others

_LABELS = read_kinds(__file__, few=FEW_EXAMPLES, imbalance=IMBALANCE)
KINDS = {**_LABELS, **SHARED, 'test_is_training': SHARED['test_is_training']._replace(severity='warning')}


def read_corpora(data: ClassificationDataConfig, names: Iterable[str] = CORPORA) -> Corpora:
    corpora = {name: read_examples(getattr(data, name), data) for name in names if getattr(data, name)}
    if data.held_out:
        whole = corpora['train']
        is_held_out = held_out_rows(data.train, data.held_out, whole.texts, labels=whole.labels)
        corpora |= {'train': chosen(whole, ~is_held_out), 'validation': chosen(whole, is_held_out)}
    return corpora


def report_of(config: ClassificationConfig, workdir: Path | None, **_: Any) -> Report:
    """`workdir` is a run, whose vocabulary decides what is too long."""
    vocabulary = None if workdir is None else Run(workdir).read_tokenizer()
    return audit(read_corpora(config.data), config, vocabulary)


def audit(corpora: Corpora, config: ClassificationConfig, vocabulary: Vocabulary | None = None) -> Report:
    """What is wrong with the corpora; `vocabulary` counts tokens, None: words, at most as many."""
    tables = {
        name: Rows(name, examples.places, {'label': examples.labels, 'text': examples.texts})
        for name, examples in corpora.items()
    }
    findings = _of_labels(corpora, tables)
    for name, examples in corpora.items():
        findings += _of_texts(examples, tables[name], config.data.max_length, vocabulary)
    keys = {name: keys_of(examples.texts) for name, examples in corpora.items()}
    for kind, name, rows in overlaps(keys):
        if kind == 'leaked' and name == 'test' and len(rows) >= MEMORIZED * len(tables[name]):
            kind = 'test_is_training'
        findings += tables[name].findings(KINDS[kind], rows)
    return sorted_report(findings, {name: len(rows) for name, rows in tables.items()}, kinds=KINDS, unit='texts')


def _of_labels(corpora: Corpora, tables: dict[str, Rows]) -> list[Finding]:
    train = corpora['train']
    counts = Counter(train.labels)
    for name, examples in corpora.items():
        if _is_swapped(examples):  # what else there is to say of the labels is about texts
            return tables[name].findings(KINDS['swapped_columns'], range(len(examples.texts)))
    findings = []
    if len(counts) == 1:
        detail = f'the label is {train.labels[0]!r}'
        findings += tables['train'].findings(KINDS['one_label'], range(len(train.labels)), detail)
    for name, examples in corpora.items():
        kind = 'unknown_test_label' if name == 'test' else 'unknown_label'
        unknown = [row for row, label in enumerate(examples.labels) if label not in counts]
        detail = _unknown([examples.labels[row] for row in unknown], counts)
        findings += tables[name].findings(KINDS[kind], unknown, detail)
    few = [label for label, count in reversed(counts.most_common()) if count < FEW_EXAMPLES]
    detail = ', '.join(f'{label!r} ({counts[label]})' for label in few[:20])
    findings += tables['train'].findings(KINDS['few_examples'], map(train.labels.index, few), detail, total=0)
    (most, many), *_, (least, rare) = counts.most_common() * 2
    if many >= IMBALANCE * rare:
        detail = f'{most!r} has {many:,} texts, {least!r} {rare:,}'
        findings += findings_of(KINDS['imbalance'], 'train', many, len(train.labels), detail=detail)
    return findings


def _is_swapped(examples: Examples) -> bool:
    texts = set(examples.texts)
    labels = set(examples.labels)
    if 2 * len(texts) <= len(labels):
        return True
    phrases = sum(' ' in label for label in labels)
    has_one_each = len(labels) == len(examples.labels) > 1
    return has_one_each and phrases > len(labels) / 2 and not any(' ' in text for text in texts)


def _unknown(labels: list[str], known: Counter[str]) -> str:
    counts = Counter(labels).most_common(10)
    shown = ', '.join(f'{label!r} ({count:,}){nearest(label, known)}' for label, count in counts)
    return f'{shown}; training has {", ".join(map(repr, sorted(known)[:20]))}'


def _of_texts(examples: Examples, rows: Rows, max_length: int, vocabulary: Vocabulary | None) -> list[Finding]:
    texts = examples.texts
    encoded = [text.split() for text in texts] if vocabulary is None else vocabulary.encode(texts)
    lengths = list(map(len, encoded))
    too_long = [row for row, length in enumerate(lengths) if length > max_length]
    detail = f'the longest has {max(lengths):,}; data.max_length={max_length}'
    findings = rows.findings(KINDS['too_long'], too_long, detail)
    for kind, check in LINE_CHECKS.items():
        findings += rows.findings(KINDS[kind], rows_where(check, texts))
    findings += rows.findings(KINDS['quoted'], quoted_rows(examples.labels, texts))
    keys = keys_of(texts)
    labels = keys_of(examples.labels)
    findings += rows.findings(KINDS['contradiction'], contradictions(keys, labels))
    return findings + rows.findings(KINDS['duplicate'], repeated(pair_keys(keys, labels)))
