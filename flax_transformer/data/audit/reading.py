"""A corpus read once, in chunks, by one process or several; then corpora compared by the 25 bytes kept of each pair."""

import copy
import itertools
import multiprocessing
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from flax_transformer.common.signals import signals_blocked
from flax_transformer.data.audit.alignment import Stretch, shifted_stretches
from flax_transformer.data.audit.chunks import Facts, Model, PairFacts, inspect, learn, shown
from flax_transformer.data.audit.config import CheckConfig, Vocabulary
from flax_transformer.data.audit.kinds import REJECTED
from flax_transformer.data.audit.language import is_language, language_of_side
from flax_transformer.data.audit.report import EXAMPLES, Example
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.bitext.corpus import Corpus, Records
from flax_transformer.data.bitext.named_corpora import NumberWords
from flax_transformer.data.repeats import NO_KEY, contradictions, repeated_pairs, shared_pairs

HEAD = 65_536  # first pairs, which teach what the corpus is like
MADE = 1  # chunks read of a corpus that is made: generating all of it takes longer than its check is worth
_MODEL: list[Model] = []  # set in each inspecting process
_MEMORIZED = 0.9  # a test set with this fraction of it in the training data has a meaningless score


@dataclass
class CorpusFacts:
    """What was found in one corpus, and what is kept of its pairs to compare them."""

    name: str
    role: str  # train, validation or test
    corpus: Corpus
    languages: tuple[str, str]
    languages_found: tuple[tuple[str, float] | None, ...] = (None, None)  # each side's, and in what fraction of lines
    pairs: PairFacts | None = None  # None: there are none
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # the first pairs of a kind, and sides
    texts: dict[int, tuple[str, str]] = field(default_factory=dict)  # source and target of the examples
    characters: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return 0 if self.pairs is None else len(self.pairs.exact)

    @property
    def is_made(self) -> bool:
        return isinstance(self.corpus, NumberWords)

    def reject(self, kind: str, indices: np.ndarray) -> None:
        """Marks pairs, for `clean`, as rejected by a kind, if it is one that rejects."""
        if kind in REJECTED:
            unmarked = indices[self.pairs.reasons[indices] == 0]
            self.pairs.reasons[unmarked] = 1 + REJECTED.index(kind)

    def example(self, index: int, side: int) -> Example:
        """A pair of `texts` as an example of a fault on one of its sides."""
        return Example(self.corpus.place(index, side), *self.texts[index])

    def pairs_read(self) -> Iterator[tuple[int, tuple[bytes | None, bytes | None]]]:
        """Reads the corpus again: each pair with its index."""
        # A copy, so that self.corpus still knows the places of what it read last.
        chunks = itertools.islice(copy.copy(self.corpus).records(), MADE if self.is_made else None)
        return enumerate(itertools.chain.from_iterable(zip(*chunk, strict=True) for chunk in chunks))

    def first_seen(self, wanted: set[str]) -> dict[str, tuple[int, int]]:
        """Pair and side in which each of some characters occurs first."""
        wanted, found = wanted & self.characters.keys(), {}
        for index, pair in self.pairs_read() if wanted else ():
            for side, line in enumerate(pair):
                found |= dict.fromkeys((wanted - found.keys()).intersection(shown(line)), (index, side))
            if len(found) == len(wanted):
                break
        return found

    def read_examples(self) -> None:
        """Reads the texts of all examples, and of the first pairs."""
        wanted = {index for each in self.examples.values() for index, _ in each}
        wanted.update(range(min(EXAMPLES, len(self))))
        pairs = itertools.islice(self.pairs_read(), max(wanted, default=-1) + 1)
        self.texts = {index: (shown(source), shown(target)) for index, (source, target) in pairs if index in wanted}


def read_facts(
    facts: CorpusFacts,
    data: DataConfig,
    check: CheckConfig,
    vocabulary: Vocabulary,
    *,
    processes: int = 1,
    progress: Callable[[int], object] | None = None,
) -> None:
    """Reads a corpus to its end and adds what it shows. `processes` inspect a corpus of more than HEAD pairs."""
    records = itertools.islice(facts.corpus.records(), MADE if facts.is_made else None)
    head, count = [], 0
    for chunk in records:
        head.append(chunk)
        count += len(chunk.sources)
        if count >= HEAD:
            break
    if not count:
        return
    model = _model(facts, head, data, check, vocabulary)
    kept: list[PairFacts] = []
    first = 0
    for part in _inspected(itertools.chain(head, records), model, processes if count >= HEAD else 1):
        _add_chunk(facts, part, first)
        kept.append(part.pairs)
        first += len(part.pairs.exact)
        if progress is not None:
            progress(len(part.pairs.exact))
    facts.pairs = PairFacts(*(np.concatenate(arrays, axis=-1) for arrays in zip(*kept, strict=True)))


def _model(
    facts: CorpusFacts, head: list[Records], data: DataConfig, check: CheckConfig, vocabulary: Vocabulary
) -> Model:
    """What the pairs are compared with; finds the languages of the corpus on the way."""
    model = learn(
        head,
        facts.languages if facts.corpus.files else (None, None),  # generated text is in the language asked for
        max_ratio=check.max_length_ratio,
        slots=(data.source_length - data.language_tags, data.target_length),
        tokenizer=vocabulary.tokenizer,
    )
    if all(model.languages):
        sides = ([line for chunk in head for line in chunk[side] if line] for side in (0, 1))
        facts.languages_found = tuple(language_of_side([shown(line) for line in lines]) for lines in sides)
    for found, expected in zip(facts.languages_found, facts.languages, strict=True):
        if found is not None and not (found[1] > 0.5 and is_language(found[0], expected)):
            model = model._replace(languages=(None, None))  # every line would be foreign: reported once for the side
    return model


def _add_chunk(facts: CorpusFacts, part: Facts, first: int) -> None:
    """Adds what a chunk shows; `first` is the index of its first pair."""
    for kind, sides in part.found.items():
        facts.counts[kind] += len(sides)
        examples = facts.examples.setdefault(kind, [])
        examples += [(first + line, side) for line, side in sorted(sides.items())[: EXAMPLES - len(examples)]]
    facts.characters.update(part.characters)


def _inspected(chunks: Iterable[Records], model: Model, processes: int) -> Iterator[Facts]:
    """The facts of each chunk, in order, with only a few chunks in memory at a time."""
    if processes <= 1:
        for chunk in chunks:
            yield inspect(chunk, model)
        return
    # Spawned, not forked: JAX may be loaded, and has threads.
    context = multiprocessing.get_context('spawn')
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(model,)) as pool:
        waiting = deque()
        for chunk in chunks:
            with signals_blocked():  # the reading process ends the others
                waiting.append(pool.submit(_inspect_here, tuple(chunk)))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _begin(model: Model) -> None:
    _MODEL[:] = [model]


def _inspect_here(chunk: tuple) -> Facts:
    return inspect(Records(*chunk), _MODEL[0])


def find_overlaps(corpora: list[CorpusFacts]) -> dict[tuple[str, str], str]:
    """Adds what comparing shows to the corpora's counts and examples; returns details by corpus and kind."""
    details = {}
    corpora = [facts for facts in corpora if len(facts)]
    for facts in corpora:
        if stretches := shifted_stretches(facts.pairs.lengths, facts.pairs.ends):
            indices = np.concatenate([np.arange(stretch.first, stretch.last + 1) for stretch in stretches])
            _add(facts, 'shifted', indices, [stretch.first for stretch in stretches])
            details[facts.name, 'shifted'] = '; '.join(map(_described, stretches[:EXAMPLES]))
    _compare_training([facts for facts in corpora if facts.role == 'train'])
    _compare_held_out(corpora)
    return details


def _described(stretch: Stretch) -> str:
    side = 'after' if stretch.offset > 0 else 'before'
    return (
        f'from pair {stretch.first + 1:,} to about {stretch.last + 1:,} each source fits the target one line {side} it'
    )


def _add(facts: CorpusFacts, kind: str, indices: np.ndarray, examples: list[int] | None = None) -> None:
    """Counts pairs, and keeps the first as examples."""
    if len(indices):
        facts.counts[kind] += len(indices)
        first = indices[:EXAMPLES].tolist() if examples is None else examples[:EXAMPLES]
        facts.examples.setdefault(kind, []).extend((index, 0) for index in first)
        facts.reject(kind, indices)


def _compare_training(training: list[CorpusFacts]) -> None:
    """Duplicates and contradictions across training corpora of the same language pair."""
    for languages in sorted({facts.languages for facts in training}):
        group = [facts for facts in training if facts.languages == languages]
        bounds = np.cumsum([0, *map(len, group)])
        sources, targets = np.concatenate([facts.pairs.keys for facts in group], axis=1)
        exact = np.concatenate([facts.pairs.exact for facts in group])
        for kind, indices in (
            ('duplicate', repeated_pairs(sources, targets, exact)),
            ('contradiction', contradictions(sources, targets)),
        ):
            for facts, first, last in zip(group, bounds[:-1], bounds[1:], strict=True):
                _add(facts, kind, indices[(indices >= first) & (indices < last)] - first)


def _compare_held_out(corpora: list[CorpusFacts]) -> None:
    """Held-out sentences in the training data, language by language, and test pairs that a validation set has."""
    training = [facts for facts in corpora if facts.role == 'train']
    held_out = [facts for facts in corpora if facts.role != 'train']
    for facts in held_out:
        _add(facts, 'leaked', _found_in(facts, training))
        if facts.role == 'test':
            for other in training:
                shared = shared_pairs(*facts.pairs.keys, other.pairs.keys) if other.languages == facts.languages else []
                if len(shared) >= _MEMORIZED * len(facts):
                    _add(facts, 'test_is_training', np.asarray(shared))
            for other in held_out:
                if other.role == 'validation' and other.languages == facts.languages:
                    _add(facts, 'validation_is_test', shared_pairs(*facts.pairs.keys, other.pairs.keys))
    for facts in training:
        facts.reject('leaked', _found_in(facts, held_out))


def _found_in(facts: CorpusFacts, others: list[CorpusFacts]) -> np.ndarray:
    """The indices of pairs with a sentence that others have in the same language, on either side."""
    found = np.zeros(len(facts), bool)
    for keys, language in zip(facts.pairs.keys, facts.languages, strict=True):
        for other in others:
            for other_keys, other_language in zip(other.pairs.keys, other.languages, strict=True):
                if other_language == language:
                    found |= np.isin(keys, other_keys) & (keys != NO_KEY)
    return np.flatnonzero(found)
