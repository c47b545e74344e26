"""The corpora of a config as an audit reads them: each once, in chunks, by one process or several."""

import copy
import itertools
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from flax_transformer.common.signals import signals_blocked
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.data.bitext.corpus import Corpus, Records
from flax_transformer.data.bitext.sources import NumberWords, form_of, open_corpus, open_training, sacrebleu_files
from flax_transformer.data.bitext.text_files import AlignedFiles
from flax_transformer.data.named_files import data_root

from .config import CheckConfig, Vocabulary
from .language import is_language, language_of_side
from .pairs import Facts, Model, inspect, learn, shown

HEAD = 65_536  # first pairs, which teach what the corpus is like
MADE = 1  # chunks read of a corpus that is made: generating all of it takes longer than its check is worth


@dataclass
class Part:
    """A corpus: what it shows, and what is kept of its pairs to compare them."""

    name: str
    role: str  # train, validation or test
    corpus: Corpus
    languages: tuple[str, str]
    identified: tuple[tuple[str, float] | None, ...] = (None, None)  # each side's language, and in what share of lines
    rows: dict[str, dict[int, int]] = field(default_factory=dict)  # the pairs that show a kind, and the side that does
    details: dict[str, str] = field(default_factory=dict)  # a sentence about a kind
    characters: Counter[str] = field(default_factory=Counter)
    keys: np.ndarray = field(default_factory=lambda: np.zeros((3, 0), np.uint64))  # [3, pairs]; see Facts
    lengths: np.ndarray = field(default_factory=lambda: np.zeros((2, 0), np.uint16))  # [2, pairs]

    def __len__(self) -> int:
        return self.keys.shape[1]

    @property
    def is_made(self) -> bool:
        return isinstance(self.corpus, NumberWords)

    def pairs_again(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        # A copy, so that self.corpus still knows the places of what it read last.
        chunks = copy.copy(self.corpus).records()
        for chunk in itertools.islice(chunks, MADE if self.is_made else None):
            yield from zip(*chunk, strict=True)

    def add(self, kind: str, rows: Iterable[int]) -> None:
        added = dict.fromkeys(map(int, rows), 0)
        if added:
            self.rows.setdefault(kind, {}).update(added)

    def example(self, row: int, side: int, texts: dict[int, tuple[str, str]]) -> dict[str, str]:
        source, target = texts[row]
        return {'place': self.corpus.place(row, side), 'source': source, 'target': target}


def open_all(data: DataConfig) -> list[Part]:
    parts = []
    for part in data.corpora:
        train, held_out = open_training(part, data)
        parts.append(Part(part.name, 'train', train, part.languages))
        if part.has_validation:
            name = f'{part.name} validation' if data.mixture else 'validation'
            validation = held_out or _open_held_out(part.validation, data, part.languages)
            parts.append(Part(name, 'validation', validation, part.languages))
    if data.has_test:
        languages = (data.source_language, data.target_language)
        parts.append(Part('test', 'test', _open_held_out(data.test, data, languages), languages))
    return parts


def _open_held_out(name: str, data: DataConfig, languages: tuple[str, str]) -> Corpus:
    if name.startswith('sacrebleu:'):
        source, reference, *_ = sacrebleu_files(name)
        return AlignedFiles(name, [(source, reference)])
    if name.count(',') > 1 and form_of(name, data_root(data.root)) == 'two paths':
        name = ','.join(name.split(',')[:2])  # the first of several references
    return open_corpus(name, data, languages)


def read_part(
    part: Part,
    data: DataConfig,
    check: CheckConfig,
    vocabulary: Vocabulary,
    processes: int,
    progress: Callable[[int], object] | None,
) -> None:
    """Reads a corpus to its end and adds what it shows. `processes` inspect a corpus of more than HEAD pairs."""
    chunks = itertools.islice(part.corpus.records(), MADE if part.is_made else None)
    head = []
    count = 0
    for chunk in chunks:
        head.append(chunk)
        count += len(chunk.sources)
        if count >= HEAD:
            break
    if not count:
        return

    model = learn(
        head,
        part.languages if part.corpus.files else None,  # generated text is in the language asked for
        max_ratio=check.max_length_ratio,
        slots=(data.source_length - data.language_tags, data.target_length),
        tokenizer=vocabulary.tokenizer,
    )
    if model.languages is not None:
        lines = ([shown(line) for chunk in head for line in chunk[side] if line] for side in (0, 1))
        part.identified = tuple(map(language_of_side, lines))
        for identified, expected in zip(part.identified, part.languages, strict=True):
            if identified and not (is_language(identified[0], expected) and identified[1] > 0.5):
                model = model._replace(languages=None)  # every line would be foreign: reported once for the side

    keys = []
    lengths = []
    row = 0
    for facts in _inspected(itertools.chain(head, chunks), model, processes if count >= HEAD else 1):
        for kind, rows in facts.rows.items():
            part.rows.setdefault(kind, {}).update((row + i, side) for i, side in rows.items())
        part.characters.update(facts.characters)
        keys.append(facts.keys)
        lengths.append(facts.lengths)
        row += facts.keys.shape[1]
        if progress is not None:
            progress(facts.keys.shape[1])
    part.keys = np.concatenate(keys, axis=1)
    part.lengths = np.concatenate(lengths, axis=1)


def _inspected(chunks: Iterator[Records], model: Model, processes: int) -> Iterator[Facts]:
    if processes <= 1:
        yield from map(partial(inspect, model=model), chunks)
        return
    # Spawned, not forked: JAX may be loaded, and has threads.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context('spawn')) as pool:
        try:
            while some := list(itertools.islice(chunks, 4 * processes)):
                with signals_blocked():  # the reading process ends the others
                    facts = pool.map(partial(inspect, model=model), some)
                yield from facts
        except BrokenProcessPool:
            for process in multiprocessing.active_children():  # the pool waits for them, deaf to its SIGTERM
                process.kill()
            raise
