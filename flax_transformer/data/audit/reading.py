"""A corpus read once, in chunks, by one process or several, keeping 24 bytes a pair."""

import copy
import itertools
import multiprocessing
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from flax_transformer.common.signals import signals_blocked
from flax_transformer.data.audit.chunks import EXAMPLES, NO_PAIRS, Facts, Hit, Model, PairFacts, inspect, learn, shown
from flax_transformer.data.audit.config import CheckConfig
from flax_transformer.data.audit.kinds import REJECTED
from flax_transformer.data.audit.language import is_language, language_of_side
from flax_transformer.data.audit.vocabulary import Vocabulary
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.bitext.corpus import Corpus, Records

HEAD = 65_536  # first pairs, kept in memory: they teach what the corpus is like, and most examples are among them


@dataclass
class CorpusFacts:
    """What was found in one corpus, and what is kept of its pairs to compare them."""

    name: str
    role: str  # train, validation or test
    corpus: Corpus
    languages: tuple[str, str]
    head: list[Records] = field(default_factory=list)  # its first pairs
    languages_found: tuple[tuple[str, float] | None, ...] = (None, None)  # of each side, with its share of lines
    pairs: PairFacts = NO_PAIRS
    reasons: np.ndarray | None = None  # [pairs] uint8, for clean: the first kind that rejects a pair, from 1; 0: none
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Hit]] = field(default_factory=dict)
    characters: Counter[str] = field(default_factory=Counter)
    first_seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.pairs.exact)

    def reject(self, kind: str, indices: np.ndarray) -> None:
        """Marks pairs, for `clean`, as rejected by a kind, if it is one that rejects."""
        if self.reasons is not None and kind in REJECTED:
            unmarked = indices[self.reasons[indices] == 0]
            self.reasons[unmarked] = 1 + REJECTED.index(kind)

    def place(self, hit: Hit) -> str:
        """File and line of a fault."""
        return self.corpus.place(hit.index, hit.side)

    def texts(self, indices: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Source and target of some pairs. Reads the corpus again if they are not among the first."""
        wanted, found, first = sorted(set(indices)), {}, 0
        again = copy.copy(self.corpus)  # so that self.corpus still knows the places of what it read last
        in_head = not wanted or wanted[-1] < sum(len(chunk.sources) for chunk in self.head)
        for chunk in self.head if in_head else again.records():
            last = first + len(chunk.sources)
            for index in itertools.takewhile(lambda i, last=last: i < last, wanted[len(found) :]):
                found[index] = shown(chunk.sources[index - first]), shown(chunk.targets[index - first])
            first = last
            if len(found) == len(wanted):
                break
        return found


def read_facts(
    facts: CorpusFacts,
    data: DataConfig,
    check: CheckConfig,
    vocabulary: Vocabulary,
    *,
    processes: int,
    keep_reasons: bool,
    progress: Callable[[int], object] | None,
) -> None:
    """Reads a corpus to its end and adds what it shows. `processes` inspect a corpus of more than HEAD pairs."""
    records = iter(facts.corpus.records())
    facts.head, count = _head(records)
    if not count:
        return
    model = _model(facts, data, check, vocabulary)
    kept: list[PairFacts] = []
    reasons: list[np.ndarray] = []
    first = 0
    for part in _inspected(itertools.chain(facts.head, records), model, processes if count >= HEAD else 1):
        _add(facts, part, first)
        kept.append(part.pairs)
        if keep_reasons:
            reasons.append(_reasons(part))
        first += len(part.pairs.exact)
        if progress is not None:
            progress(len(part.pairs.exact))
    facts.pairs = PairFacts(*(np.concatenate(arrays, axis=-1) for arrays in zip(*kept, strict=True)))
    facts.reasons = np.concatenate(reasons) if keep_reasons else None


def _head(records: Iterator[Records]) -> tuple[list[Records], int]:
    """The first chunks, with some HEAD pairs in all, and how many pairs they have."""
    head, count = [], 0
    for chunk in records:
        head.append(chunk)
        count += len(chunk.sources)
        if count >= HEAD:
            break
    return head, count


def _model(facts: CorpusFacts, data: DataConfig, check: CheckConfig, vocabulary: Vocabulary) -> Model:
    """What the pairs are compared with; finds the languages of the corpus on the way."""
    model = learn(
        facts.head,
        facts.languages if facts.corpus.files else (None, None),  # generated text is in the language asked for
        max_ratio=check.max_length_ratio,
        slots=(data.source_length - data.language_tags, data.target_length),
        tokenizer=vocabulary.tokenizer,
        character_coverage=vocabulary.config.character_coverage,
    )
    if all(model.languages):
        sides = ([line for chunk in facts.head for line in chunk[side] if line] for side in (0, 1))
        facts.languages_found = tuple(language_of_side([shown(line) for line in lines]) for lines in sides)
    if not _languages_fit(facts):
        model = model._replace(languages=(None, None))  # every line would be foreign: reported once for the side
    return model


def _languages_fit(facts: CorpusFacts) -> bool:
    """Whether the library finds the configured language in most lines of each side, or has too few to tell."""
    return all(
        found is None or (found[1] > 0.5 and is_language(found[0], expected))
        for found, expected in zip(facts.languages_found, facts.languages, strict=True)
    )


def _add(facts: CorpusFacts, part: Facts, first: int) -> None:
    """Adds what a chunk shows; `first` is the index of its first pair."""
    for kind, lines in part.found.items():
        facts.counts[kind] += len(lines)
        hits = facts.examples.setdefault(kind, [])
        room = EXAMPLES - len(hits)
        hits += [hit._replace(index=first + hit.index) for hit in part.examples[kind][: max(room, 0)]]
    facts.characters.update(part.characters)
    for character, (line, side) in part.first_seen.items():
        facts.first_seen.setdefault(character, (first + line, side))


def _reasons(part: Facts) -> np.ndarray:
    """[pairs] uint8: the first kind that rejects each pair, as in CorpusFacts."""
    reasons = np.zeros(len(part.pairs.exact), np.uint8)
    for number, kind in reversed(list(enumerate(REJECTED, start=1))):
        if kind in part.found:
            reasons[part.found[kind]] = number
    return reasons


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


_MODEL: list[Model] = []  # of an inspecting process


def _begin(model: Model) -> None:
    _MODEL[:] = [model]


def _inspect_here(chunk: tuple) -> Facts:
    return inspect(Records(*chunk), _MODEL[0])
