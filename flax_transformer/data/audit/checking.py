"""The audit: every corpus is read once, the corpora are compared, and what was found is weighed."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from flax_transformer.common.files import sha256_of
from flax_transformer.data.audit.chunks import FORMS
from flax_transformer.data.audit.config import CheckConfig, Vocabulary
from flax_transformer.data.audit.kinds import KINDS, Kind
from flax_transformer.data.audit.language import is_language
from flax_transformer.data.audit.reading import CorpusFacts, find_overlaps, read_facts
from flax_transformer.data.audit.report import EXAMPLES, Example, Finding, Report, findings_of, sorted_report
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.bitext.corpus import Corpus, Pairs, Records
from flax_transformer.data.bitext.sources import form_of, open_corpus, open_training, read_corpus
from flax_transformer.data.named_files import data_root


def audit(
    data: DataConfig,
    check: CheckConfig,
    vocabulary: Vocabulary,
    *,
    recorded: dict[str, tuple[int, str]] | None = None,
    processes: int = 1,
    progress: Callable[[int], object] | None = None,
) -> Report:
    """What is wrong with the training, validation and test corpora. KINDS lists what is looked for.

    Each corpus is read once to its end (and again as far as the examples reach). Memory: 25 bytes a pair, twice that
    while pairs are compared, and the first 65,536 pairs of one corpus. More than one of `processes`, which inspect a
    larger one, needs `if __name__ == '__main__':` in the calling script, as multiprocessing always does.

    `recorded` is as in `changed_since`. Raises UserError if a corpus cannot be read at all.
    """
    corpora = list(open_all(data))  # all of them first: a wrong name is reported before the training corpus is read
    return report_on(corpora, data, check, vocabulary, recorded=recorded, processes=processes, progress=progress)


def open_all(data: DataConfig) -> Iterator[CorpusFacts]:
    """The corpora, opened, with nothing read yet."""
    for part in data.corpora:
        languages = (part.source_language, part.target_language)
        train, held_out = open_training(part, data)
        yield CorpusFacts(part.name, 'train', train, languages)
        if part.has_validation:
            name = f'{part.name} validation' if data.mixture else 'validation'
            validation = held_out or _open_held_out(part.validation, data, languages)
            yield CorpusFacts(name, 'validation', validation, languages)
    if data.has_test:
        languages = (data.source_language, data.target_language)
        yield CorpusFacts('test', 'test', _open_held_out(data.test, data, languages), languages)


def _open_held_out(name: str, data: DataConfig, languages: tuple[str, str]) -> Corpus:
    if name.startswith('sacrebleu:'):
        return _InMemory(name, read_corpus(name, data))
    if name.count(',') > 1 and form_of(name, data_root(data.root)) == 'two paths':
        name = ','.join(name.split(',')[:2])  # the first of several references
    return open_corpus(name, data, languages)


class _InMemory(Corpus):
    """A test set from sacrebleu, with its first reference."""

    def __init__(self, name: str, pairs: Pairs) -> None:
        super().__init__(name)
        self._pairs = pairs

    def records(self) -> Iterator[Records]:
        yield Records(*([line.encode() for line in side] for side in (self._pairs.sources, self._pairs.targets)))

    def place(self, index: int, side: int) -> str:
        return f'{self.name}, {("source", "target")[side]} {index + 1}'


def report_on(
    corpora: list[CorpusFacts],
    data: DataConfig,
    check: CheckConfig,
    vocabulary: Vocabulary,
    *,
    recorded: dict[str, tuple[int, str]] | None = None,
    **how: Any,
) -> Report:
    """Reads opened corpora and compares them; reports how serious the findings are. `how` is for `read_facts`."""
    for facts in corpora:
        read_facts(facts, data, check, vocabulary, **how)
    training = [facts for facts in corpora if facts.role == 'train']
    kinds = {name: kind._replace(share=getattr(check, name, 0.0)) for name, kind in KINDS.items()}
    findings = list(changed_since(recorded, [file for facts in training for file in facts.corpus.files]))
    details = find_overlaps(corpora)
    for facts in corpora:
        facts.read_examples()
        findings += _of_sides(facts)
        for kind in kinds:
            if facts.counts[kind]:
                examples = itertools.starmap(facts.example, facts.examples[kind])
                detail = details.get((facts.name, kind)) or _detail(facts, kind)
                findings += findings_of(kinds[kind], facts.name, facts.counts[kind], len(facts), examples, detail)
    findings += _normalization(kinds['normalization'], corpora)
    findings += _vocabulary(check, vocabulary, training)
    made = tuple(facts.name for facts in corpora if facts.is_made)
    return sorted_report(findings, {facts.name: len(facts) for facts in corpora}, made)


def _detail(facts: CorpusFacts, kind: str) -> str:
    """A sentence about the first pair of a kind; '' if there is none."""
    index, side = facts.examples[kind][0]
    if kind == 'missing_side':
        return facts.corpus.missing(side, index)
    if kind == 'invalid_utf8':
        byte = re.search(r'\\x([0-9a-f]{2})', facts.texts[index][side])
        return f'{facts.corpus.place(index, side)}: byte 0x{byte[1]} is not valid UTF-8' if byte else ''
    return ''


def _of_sides(facts: CorpusFacts) -> Iterator[Finding]:
    """Findings about a whole corpus or a whole side."""
    if not len(facts):
        yield Finding(KINDS['empty'], 'error', facts.name, 0, 0, detail=facts.corpus.nothing())
        return
    if not all(facts.languages_found):
        return
    (source, _), (target, _) = facts.languages_found
    first, second = facts.languages
    size = len(facts)
    examples = [tuple(facts.example(i, side) for i in range(min(EXAMPLES, size))) for side in (0, 1)]
    if is_language(source, second) and is_language(target, first) and not is_language(source, first):
        detail = f'source lines are {source}, target lines are {target}; the config says {first} and {second}'
        yield Finding(KINDS['swapped_corpus'], 'error', facts.name, size, size, examples[0], detail)
        return
    for side, (found, share) in enumerate(facts.languages_found):
        expected = facts.languages[side]
        if not is_language(found, expected) and share > 0.5:
            word = ('source', 'target')[side]
            detail = f'{share:.0%} of the {word} lines looked at are {found}, the config says {expected}'
            yield Finding(KINDS['other_language'], 'warning', facts.name, size, size, examples[side], detail)


def _normalization(kind: Kind, corpora: list[CorpusFacts]) -> Iterator[Finding]:
    """The rarer Unicode form of each language, over all corpora: they are trained on and scored together."""
    for language in sorted({language for facts in corpora for language in facts.languages}):
        sides = [(facts, i) for facts in corpora for i in (0, 1) if facts.languages[i] == language]
        counts = {form: sum(facts.counts[f'{form}:{side}'] for facts, side in sides) for form in FORMS}
        rarer = min(FORMS, key=lambda form: (counts[form], form == 'composed'))
        total = sum(len(facts) for facts, _ in sides)
        examples = (facts.example(*each) for facts, side in sides for each in facts.examples.get(f'{rarer}:{side}', []))
        detail = f'{counts["composed"]:,} lines are composed, {counts["decomposed"]:,} decomposed'
        yield from findings_of(kind, f'language {language}', counts[rarer], total, examples, detail)


def _vocabulary(check: CheckConfig, vocabulary: Vocabulary, training: list[CorpusFacts]) -> Iterator[Finding]:
    """Findings where text and vocabulary do not fit each other."""
    total = sum(len(facts) for facts in training)
    tally = sum((facts.characters for facts in training), Counter())
    characters = tally.total()
    needed = check.characters_per_piece * vocabulary.size
    made = any(facts.is_made for facts in training)
    if total and characters < needed and not made:
        detail = f'{characters:,} characters for model.vocab_size={vocabulary.size:,}; expected {needed:,}'
        yield Finding(KINDS['few_pairs'], 'warning', 'training', total, total, detail=detail)
    uncovered = vocabulary.uncovered(tally)
    if uncovered:
        shown = sorted(uncovered.items(), key=lambda item: (-item[1], item[0]))[:EXAMPLES]
        places = {}
        for facts in reversed(training):
            found = facts.first_seen({character for character, _ in shown})
            places |= {character: facts.corpus.place(*where) for character, where in found.items()}
        examples = []
        for character, count in shown:
            times = 'once' if count == 1 else f'{count:,} times'
            examples.append(Example(places[character], f'U+{ord(character):04X} {character} {times}'))
        severity = 'note' if vocabulary.config.byte_fallback else 'warning'
        detail = f'{len(uncovered):,} characters, {uncovered.total():,} times in {characters:,}'
        yield Finding(KINDS['uncovered'], severity, 'training', len(uncovered), 0, tuple(examples), detail)


def changed_since(recorded: dict[str, tuple[int, str]] | None, files: Iterable[Path] = ()) -> Iterator[Finding]:
    """The finding for files that differ from what a run recorded, if any; a new one differs, too.

    `recorded`: absolute path -> (bytes, SHA-256 in hexadecimal) of each file the run began with; None: no run.
    """
    if recorded is None:
        return
    changed = []
    for name, (size, digest) in recorded.items():
        path = Path(name)
        if not path.is_file():
            changed.append(Example(name, 'is no longer there'))
        elif path.stat().st_size != size:
            changed.append(Example(name, f'has {path.stat().st_size:,} bytes, had {size:,}'))
        elif sha256_of(path) != digest:
            changed.append(Example(name, 'has other bytes, though as many'))
    changed += [
        Example(str(file), 'is new') for file in dict.fromkeys(map(Path.absolute, files)) if str(file) not in recorded
    ]
    if changed:
        total = len(recorded.keys() | {example.place for example in changed})
        yield Finding(KINDS['changed'], 'error', 'files', len(changed), total, tuple(changed[:5]))
