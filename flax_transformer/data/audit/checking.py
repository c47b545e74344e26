"""The audit of parallel text: every corpus is read once, the corpora are compared, and the findings are weighed."""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable

import numpy as np

from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.repeats import contradictions, pair_keys, repeated, shared

from .alignment import shifted_stretches
from .config import CheckConfig, Vocabulary
from .kinds import KINDS, MEMORIZED
from .language import is_language
from .pairs import shown
from .parts import Part, open_all, read_part
from .report import EXAMPLES, Finding, Report, findings_of, sorted_report


def audit(
    data: DataConfig,
    check: CheckConfig,
    vocabulary: Vocabulary,
    parts: list[Part] | None = None,
    *,
    processes: int = 1,
    progress: Callable[[int], object] | None = None,
) -> Report:
    """What is wrong with the training, validation and test corpora. KINDS lists what is looked for.

    Each corpus is read once to its end (and again as far as the examples reach). Memory: 28 bytes a pair, twice that
    while pairs are compared, and the first 65,536 pairs of one corpus. What the corpora show is added to `parts`.
    """
    if parts is None:
        parts = open_all(data)  # all of them first: a wrong name is reported before the training corpus is read
    for part in parts:
        read_part(part, data, check, vocabulary, processes, progress)
        _find_shifts(part)
    training = [part for part in parts if part.role == 'train']
    _compare_training(training)
    _compare_held_out(training, [part for part in parts if part.role != 'train'])
    findings = _vocabulary_findings(check, vocabulary, training)
    for part in parts:
        findings += _findings(part, check)
    made = tuple(part.name for part in parts if part.is_made)
    return sorted_report(findings, {part.name: len(part) for part in parts}, made, kinds=KINDS)


def _find_shifts(part: Part) -> None:
    stretches = shifted_stretches(part.lengths)
    sides = {1: 'after', -1: 'before'}
    for stretch in stretches:
        part.add('shifted', range(stretch.first, stretch.last + 1))
    part.details['shifted'] = '; '.join(
        f'from pair {first + 1:,} to about {last + 1:,} each source fits the target one line {sides[offset]} it'
        for first, last, offset in stretches[:EXAMPLES]
    )


def _compare_training(training: list[Part]) -> None:
    for languages in dict.fromkeys(part.languages for part in training):
        group = [part for part in training if part.languages == languages]
        sources, targets, exact = np.concatenate([part.keys for part in group], axis=1)
        for kind, rows in (('duplicate', repeated(exact)), ('contradiction', contradictions(sources, targets))):
            first = 0
            for part in group:
                part.add(kind, rows[(rows >= first) & (rows < first + len(part))] - first)
                first += len(part)


def _compare_held_out(training: list[Part], held_out: list[Part]) -> None:
    """Held-out sentences in the training data, language by language, and test pairs that a validation set has."""
    for part in held_out:
        part.add('leaked', _rows_in(part, training))
    for part in training:
        part.add('leaked', _rows_in(part, held_out))  # only for `clean`
    for test in held_out:
        if test.role != 'test':
            continue
        for part in (*training, *held_out):
            if part.languages != test.languages or part is test:
                continue
            rows = shared(pair_keys(*test.keys[:2]), pair_keys(*part.keys[:2]))
            if part.role == 'validation':
                test.add('validation_is_test', rows)
            elif len(rows) >= MEMORIZED * len(test):
                test.add('test_is_training', rows)


def _rows_in(part: Part, others: list[Part]) -> np.ndarray:
    """The rows with a sentence that others have in the same language, on either side."""
    rows = [np.zeros(0, np.int64)]
    for keys, language in zip(part.keys, part.languages, strict=False):
        for other in others:
            for other_keys, other_language in zip(other.keys, other.languages, strict=False):
                if other_language == language:
                    rows.append(shared(keys, other_keys))
    return np.unique(np.concatenate(rows))


def _findings(part: Part, check: CheckConfig) -> list[Finding]:
    if not len(part):
        return [Finding(KINDS['empty'], 'error', part.name, 0, 0, detail=part.corpus.nothing())]
    missing = part.rows.get('missing_side')
    if missing:
        row, side = min(missing.items())
        part.details['missing_side'] = part.corpus.missing(side, row)
    whole = _of_languages(part)
    first = range(min(EXAMPLES, len(part)) if whole else 0)
    reported = {kind: rows for kind, rows in part.rows.items() if kind != 'leaked' or part.role != 'train'}
    shown_rows = {kind: heapq.nsmallest(EXAMPLES, rows.items()) for kind, rows in reported.items()}
    texts = _texts_of(part, {row for rows in shown_rows.values() for row, _ in rows}.union(first))
    findings = []
    for kind, side, detail in whole:
        examples = [part.example(row, side, texts) for row in first]
        findings += findings_of(KINDS[kind], part.name, len(part), len(part), examples, detail)
    for kind, rows in reported.items():
        about = KINDS[kind]._replace(share=getattr(check, kind, 0.0))
        examples = [part.example(row, side, texts) for row, side in shown_rows[kind]]
        detail = part.details.get(kind, '')
        findings += findings_of(about, part.name, len(rows), len(part), examples, detail)
    return findings


def _texts_of(part: Part, rows: set[int]) -> dict[int, tuple[str, str]]:
    pairs = itertools.islice(part.pairs_again(), max(rows, default=-1) + 1)
    return {row: (shown(pair[0]), shown(pair[1])) for row, pair in enumerate(pairs) if row in rows}


def _of_languages(part: Part) -> list[tuple[str, int, str]]:
    if not all(part.identified):
        return []
    (source, _), (target, _) = part.identified
    first, second = part.languages
    if is_language(source, second) and is_language(target, first) and not is_language(source, first):
        detail = f'source lines are {source}, target lines are {target}; the config says {first} and {second}'
        return [('swapped_corpus', 0, detail)]
    kinds = []
    for side, (language, share) in enumerate(part.identified):
        expected = part.languages[side]
        if share > 0.5 and not is_language(language, expected):
            word = ('source', 'target')[side]
            detail = f'{share:.0%} of the {word} lines looked at are {language}, the config says {expected}'
            kinds.append(('other_language', side, detail))
    return kinds


def _vocabulary_findings(check: CheckConfig, vocabulary: Vocabulary, training: list[Part]) -> list[Finding]:
    findings = []
    total = sum(map(len, training))
    tally = sum((part.characters for part in training), Counter())
    characters = tally.total()
    needed = check.characters_per_piece * vocabulary.size
    if characters < needed and not any(part.is_made for part in training):
        detail = f'{characters:,} characters for model.vocab_size={vocabulary.size:,}; expected {needed:,}'
        findings += findings_of(KINDS['few_pairs'], 'training', total, total, detail=detail)
    uncovered = vocabulary.uncovered(tally)
    if uncovered:
        often = dict(sorted(uncovered.items(), key=lambda item: (-item[1], item[0]))[:EXAMPLES])
        places = _first_places(training, set(often))
        examples = []
        for char, count in often.items():
            times = 'once' if count == 1 else f'{count:,} times'
            examples.append({'place': places[char], 'source': f'U+{ord(char):04X} {char} {times}', 'target': ''})
        about = KINDS['uncovered']
        if vocabulary.config.byte_fallback:
            about = about._replace(severity='note')
        detail = f'{len(uncovered):,} characters, {uncovered.total():,} times in {characters:,}'
        findings += findings_of(about, 'training', len(uncovered), 0, examples, detail)
    return findings


def _first_places(parts: list[Part], characters: set[str]) -> dict[str, str]:
    places: dict[str, str] = {}
    for part in parts:
        wanted = characters & part.characters.keys() - places.keys()
        for row, pair in enumerate(part.pairs_again() if wanted else ()):
            for side, line in enumerate(pair):
                first_here = wanted.intersection(shown(line))
                if first_here:
                    places |= dict.fromkeys(first_here, part.corpus.place(row, side))
                    wanted -= first_here
            if not wanted:
                break
    return places
