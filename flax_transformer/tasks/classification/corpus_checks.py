"""What is wrong with labeled texts, before the first step."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.common.errors import nearest
from flax_transformer.data.audit import characters
from flax_transformer.data.audit.characters import bits_of_characters, lay_out
from flax_transformer.data.audit.report import Finding, Report, findings_of, sorted_report
from flax_transformer.data.held_out import held_out_rows
from flax_transformer.data.repeats import NO_KEY, contradictions, keys_of, repeated_pairs
from flax_transformer.tasks.classification.config import ClassificationConfig, ClassificationDataConfig
from flax_transformer.tasks.classification.kinds import FEW_EXAMPLES, IMBALANCE, KINDS
from flax_transformer.tasks.classification.reading import Examples, chosen, read_examples
from flax_transformer.tasks.classification.run import Run
from flax_transformer.tasks.classification.vocabulary import Vocabulary

_MEMORIZED = 0.9  # share of a test set in the training data at which its score means nothing
CORPORA = ('train', 'validation', 'test')
Corpora = dict[str, Examples]  # train, and perhaps the others


@dataclass(frozen=True)
class LabelledExample:
    place: str
    label: str
    text: str


def read_corpora(data: ClassificationDataConfig, names: Iterable[str] = CORPORA) -> Corpora:
    """The examples of those corpora, of `names`, that the config has."""
    corpora = {name: read_examples(source, data) for name in names if (source := getattr(data, name))}
    if data.held_out:
        whole = corpora['train']
        is_held_out = held_out_rows(data.train, data.held_out, whole.texts, labels=whole.labels)
        corpora |= {'train': chosen(whole, ~is_held_out), 'validation': chosen(whole, is_held_out)}
    return corpora


def report_of(config: ClassificationConfig, workdir: Path | None, **_: Any) -> Report:
    """What is wrong with the config's corpora; `workdir` is a run, whose vocabulary decides what is too long."""
    vocabulary = None if workdir is None else Run(workdir).read_tokenizer()
    return audit(read_corpora(config.data), config, vocabulary)


def audit(corpora: Corpora, config: ClassificationConfig, vocabulary: Vocabulary | None = None) -> Report:
    """What is wrong with the corpora. KINDS lists what is looked for.

    Args:
      vocabulary: counts the tokens; None: words are counted, at most as many.
    """
    findings = [*_of_labels(corpora), *_between(corpora)]
    for name, examples in corpora.items():
        findings += _of_texts(name, examples, config.data.max_length, vocabulary)
    counts = {name: len(examples.texts) for name, examples in corpora.items()}
    return sorted_report(findings, counts, kinds=KINDS, unit='texts')


def _finding(
    kind: str, name: str, examples: Examples, indices: Iterable[int], detail: str = '', *, are_texts: bool = True
) -> Iterator[Finding]:
    """The finding for some texts of a corpus, or for the labels that they show, if there are any."""
    indices, total = list(indices), len(examples.texts) if are_texts else 0
    shown = (LabelledExample(examples.places[i], examples.labels[i], examples.texts[i]) for i in indices)
    return findings_of(KINDS[kind], name, len(indices), total, shown, detail)


def _of_labels(corpora: Corpora) -> Iterator[Finding]:
    train = corpora['train']
    counts = Counter(train.labels)
    if len(counts) == 1:
        yield from _finding('one_label', 'train', train, range(len(train.labels)), f'the label is {train.labels[0]!r}')
    for name, examples in corpora.items():
        if _is_swapped(examples):
            yield from _finding('swapped_columns', name, examples, range(len(examples.texts)))
            return  # what else there is to say of the labels is about texts
        kind = 'unknown_test_label' if name == 'test' else 'unknown_label'
        unknown = [i for i, label in enumerate(examples.labels) if label not in counts]
        yield from _finding(kind, name, examples, unknown, _unknown([examples.labels[i] for i in unknown], counts))
        if examples.types is not None and len(set(examples.types)) > 1:
            yield from _mixed_types(name, examples)
    if len(counts) > 2 and counts[train.labels[0]] == 1 and sorted(counts.values())[1] > 1:
        yield from _finding('header', 'train', train, [0])
    yield from _similar(train, counts)
    few = sorted((label for label in counts if counts[label] < FEW_EXAMPLES), key=lambda label: counts[label])
    first = {label: i for i, label in reversed(list(enumerate(train.labels)))}
    detail = ', '.join(f'{label!r} ({counts[label]})' for label in few[:20])
    yield from _finding('few_examples', 'train', train, [first[label] for label in few], detail, are_texts=False)
    (most, many), (least, rare) = counts.most_common()[0], counts.most_common()[-1]
    if many >= IMBALANCE * rare:
        detail = f'{most!r} has {many:,} texts, {least!r} {rare:,}'
        yield from findings_of(KINDS['imbalance'], 'train', many, len(train.labels), detail=detail)


def _is_swapped(examples: Examples) -> bool:
    texts, labels = set(examples.texts), set(examples.labels)
    if 2 * len(texts) <= len(labels):
        return True
    phrases = sum(' ' in label for label in labels)
    return len(labels) == len(examples.labels) > 1 and phrases > len(labels) / 2 and not any(' ' in t for t in texts)


def _unknown(labels: list[str], known: Counter[str]) -> str:
    counts = Counter(labels).most_common(10)
    shown = ', '.join(f'{label!r} ({count:,}){nearest(label, known)}' for label, count in counts)
    return f'{shown}; training has {", ".join(map(repr, sorted(known)[:20]))}'


def _mixed_types(name: str, examples: Examples) -> Iterator[Finding]:
    counts = Counter(examples.types).most_common()
    firsts = [examples.types.index(kind) for kind, _ in counts]
    rarer = [i for i, kind in enumerate(examples.types) if kind != counts[0][0]]
    detail = ', '.join(
        f'{count:,} {kind} (first: {examples.places[i]})' for (kind, count), i in zip(counts, firsts, strict=True)
    )
    yield from _finding('mixed_types', name, examples, rarer, detail)


def _similar(train: Examples, counts: Counter[str]) -> Iterator[Finding]:
    alike: dict[str, list[str]] = {}
    for label in sorted(counts):
        alike.setdefault(''.join(label.casefold().split()), []).append(label)
    groups = [group for group in alike.values() if len(group) > 1]
    shown = [train.labels.index(label) for group in groups for label in group]
    detail = '; '.join(', '.join(f'{label!r} ({counts[label]:,})' for label in group) for group in groups)
    yield from _finding('similar_labels', 'train', train, shown, detail, are_texts=False)


def _of_texts(name: str, examples: Examples, max_length: int, vocabulary: Vocabulary | None) -> Iterator[Finding]:
    texts = lay_out(examples.texts)
    bits = bits_of_characters()[texts.codes]
    blank = [i for i, text in enumerate(examples.texts) if not text.strip()]
    yield from _finding('blank', name, examples, blank)
    if vocabulary is None:
        lengths = [len(text.split()) for text in examples.texts]
    else:
        lengths = list(map(len, vocabulary.encode(examples.texts)))
    long = [i for i, length in enumerate(lengths) if length > max_length]
    detail = f'the longest has {max(lengths):,}; data.max_length={max_length}'
    yield from _finding('too_long', name, examples, long, detail)
    keys, labels = keys_of(examples.texts), keys_of(examples.labels)
    yield from _finding('contradiction', name, examples, contradictions(keys, labels))
    yield from _finding('duplicate', name, examples, repeated_pairs(keys, labels, np.zeros(len(keys), np.uint32)))
    yield from _finding('quoted', name, examples, characters.quoted_rows(examples.labels, examples.texts))
    yield from _finding('mojibake', name, examples, characters.lines_with_mojibake(texts))
    yield from _finding('control', name, examples, characters.lines_with_controls(texts, bits))
    yield from _finding('entity', name, examples, characters.lines_with_entities(texts))


def _between(corpora: Corpora) -> Iterator[Finding]:
    """Texts that several corpora have."""
    keys = {name: keys_of(examples.texts) for name, examples in corpora.items()}
    for name, examples in corpora.items():
        if name == 'train':
            continue
        leaked = np.flatnonzero(np.isin(keys[name], keys['train']) & (keys[name] != NO_KEY))
        is_memorized = name == 'test' and len(leaked) >= _MEMORIZED * len(examples.texts)
        yield from _finding('test_is_training' if is_memorized else 'leaked', name, examples, leaked)
    if {'validation', 'test'} <= keys.keys():
        shared = np.isin(keys['test'], keys['validation']) & (keys['test'] != NO_KEY)
        yield from _finding('validation_is_test', 'test', corpora['test'], np.flatnonzero(shared))
