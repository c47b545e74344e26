"""What is wrong with a text that word vectors are to learn from."""

from collections import Counter
from pathlib import Path
from typing import Any

from flax_transformer.data.audit.kinds import table
from flax_transformer.data.audit.report import Example, Finding, Report, findings_of, sorted_report
from flax_transformer.tasks.embeddings.config import EmbeddingsConfig
from flax_transformer.tasks.embeddings.corpus import Text, Vocabulary, lines_of_words, texts_of
from flax_transformer.tasks.embeddings.run import Run

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
        'share',
        'lines with a single word, which has no neighbor',
        'leaves them out',
        'put a sentence, paragraph or article on each line',
        _WARNED,
    ),
    (
        'repeated',
        'share',
        'lines that occur before, word for word',
        'learns from each of them',
        'remove them: repeated headings and notices distort what is learned',
        _WARNED,
    ),
    (
        'punctuation',
        'share',
        'different words that end in a punctuation mark',
        'takes `end.` and `end` for two words',
        "say what a word is, as in --tokenizer.pattern '[a-z]+'",
        _WARNED,
    ),
    (
        'rare',
        'share',
        'words of the text that are rarer than tokenizer.min_count or beyond model.vocab_size',
        'leaves them out',
        'raise model.vocab_size, or lower tokenizer.min_count',
        _WARNED,
    ),
)


def report_of(config: EmbeddingsConfig, workdir: Path | None, **_: Any) -> Report:
    """What is wrong with the config's texts; `workdir` is a run, whose vocabulary is then used."""
    known = None if workdir is None else Run(workdir).read_vocabulary()
    findings, read = [], {}
    for name, text in texts_of(config.data).items():
        found, read[name], known = _audit(name, text, config, known)
        findings += found
    return sorted_report(findings, read, kinds=KINDS, unit='lines')


def _audit(
    name: str, text: Text, config: EmbeddingsConfig, known: Vocabulary | None
) -> tuple[list[Finding], int, Vocabulary]:
    """The findings of a text, how many lines it has, and the vocabulary: the one known, else its own."""
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    alone, repeated, lines = [], [], 0
    for number, words in enumerate(lines_of_words(text, config.tokenizer), 1):
        counts.update(words)
        lines = number
        if len(words) == 1:
            alone.append(Example(f'line {number}', words[0]))
        if words:
            key = hash(tuple(words))
            if key in seen:
                repeated.append(Example(f'line {number}', ' '.join(words)))
            seen.add(key)
    vocabulary = known or Vocabulary.of(counts, min_count=config.tokenizer.min_count, size=config.model.vocab_size)
    attached = [word for word in counts if word in vocabulary.ids and len(word) > 1 and word[-1] in _MARKS]
    total = counts.total()
    kept = sum(counts[word] for word in vocabulary.words)
    findings = [
        *findings_of(KINDS['alone'], name, len(alone), lines, alone),
        *findings_of(KINDS['repeated'], name, len(repeated), lines, repeated),
        *findings_of(KINDS['punctuation'], name, len(attached), len(vocabulary), (Example('', w) for w in attached)),
        *findings_of(KINDS['rare'], name, total - kept, total),
    ]
    if len(vocabulary) < 2:
        detail = f'{len(counts):,} different words, {len(vocabulary)} of them kept'
        findings.append(Finding(KINDS['no_words'], 'error', name, len(vocabulary), 0, (), detail))
    return findings, lines, vocabulary
