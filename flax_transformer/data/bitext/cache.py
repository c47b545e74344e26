"""A corpus as ids on disk: made once, on all cores, and memory-mapped, so that it may be larger than memory.

Each corpus has a folder in the cache, named by a hash of what decides its ids: its name, the tokenizer, the slots. It
appears once it is complete, and is made again if one of the text files has changed.

    source.ids source.offsets target.ids target.offsets    as in tokenized.Side
    numbers                                                 each pair's number in the corpus
    source.text source.text_offsets target.text ...         UTF-8, if segmentations are redrawn in each epoch
    meta.json                                               counts, sizes, the fingerprint of the ids

Each process first checks all of it: training would not notice an altered array.
"""

import contextlib
import hashlib
import json
import mmap
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import lock, open_regular, own_partial, read_limited, sha256_of, written_whole
from flax_transformer.common.json_text import parse_json
from flax_transformer.common.quiet import Say
from flax_transformer.data.lines import Listed, stat, unchanged
from flax_transformer.text.tokenizer import Tokenizer

from .corpus import Corpus, Pairs
from .robust import GRAMMAR_DIGEST, with_changed_copies
from .terms import Terms
from .tokenized import Chosen, Side, TokenizedPairs, choose, offsets, tags_of

META_FILE = 'meta.json'
_FORMAT = 1  # another format gets another folder
_SIDES = ('source', 'target')
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32}


@dataclass(frozen=True)
class PreparedPairs(TokenizedPairs):
    fingerprint: str = ''  # a hash of the ids and their order
    files: tuple[Listed, ...] = ()  # the text's
    folder: Path | None = None

    def __reduce__(self) -> tuple[Callable[..., 'PreparedPairs'], tuple[Path | None, str]]:
        """Another process maps the same files."""
        return _mapped_again, (self.folder, self.fingerprint)


@dataclass(frozen=True)
class Settings:
    source_slots: int
    target_slots: int
    target_language: str | None = None  # its tag begins each source
    keep_text: bool = False
    robust: float = 0.0  # share of changed copies
    terms: float = 0.0  # share of sources with terms


def find_cached(
    corpus: Corpus, tokenizer: Tokenizer, settings: Settings, cache: Path, *, say: Say = lambda text: None
) -> PreparedPairs | None:
    """The corpus, if the cache holds it undamaged and its text is the same; else None."""
    folder = cache / _key(corpus, tokenizer, settings)
    try:
        meta = parse_json(read_limited(folder / META_FILE))
        files = unchanged(meta['files'], corpus.files)
        if files is None:
            return None
        # Sizes first: a sparse file is hashed for hours.
        sizes = {name: (folder / name).stat().st_size for name in meta['sizes']}
        if sizes != meta['sizes'] or _fingerprint(folder, sizes) != meta['fingerprint']:
            say(f'the cache of {corpus.name} in {folder} is damaged: it is not what was written')
            return None
        pairs = _mapped(folder, {**meta, 'files': files})
        if files != meta['files']:
            with contextlib.suppress(OSError):  # a shared cache may be read-only
                _write_meta(folder, {**meta, 'files': files})
        return pairs
    except (OSError, ValueError, LookupError, TypeError, ZeroDivisionError):
        return None  # missing, or too damaged to say how


def cached_pairs(
    corpus: Corpus,
    tokenizer: Tokenizer,
    settings: Settings,
    cache: Path,
    *,
    say: Say = lambda text: None,
    progress: Callable[[int], None] = lambda pairs: None,
) -> PreparedPairs:
    """The corpus from the cache, tokenized first if it is not there: by one process, while others wait."""
    cached = find_cached(corpus, tokenizer, settings, cache)
    if cached is not None:
        return cached
    folder = cache / _key(corpus, tokenizer, settings)
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix('.lock'), say):
        cached = find_cached(corpus, tokenizer, settings, cache, say=say)
        if cached is not None:
            return cached
        partial = folder.with_suffix('.partial')
        shutil.rmtree(partial, ignore_errors=True)  # left by a process that was killed
        partial.mkdir()
        try:
            meta = _write(partial, corpus, tokenizer, settings, progress)
            if folder.exists():
                say(f'{corpus.name} or its cache has changed; tokenized again')
                shutil.rmtree(folder)
            partial.rename(folder)
            return _mapped(folder, meta)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _key(corpus: Corpus, tokenizer: Tokenizer, settings: Settings) -> str:
    known = {name: value for name, value in vars(settings).items() if value or name not in ('robust', 'terms')}
    parts = [_FORMAT, corpus.name, corpus.settings, known, tokenizer.digest]
    if settings.robust:
        parts.append(GRAMMAR_DIGEST)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _write(
    folder: Path, corpus: Corpus, tokenizer: Tokenizer, settings: Settings, progress: Callable[[int], None]
) -> dict[str, Any]:
    before = [stat(file) for file in corpus.files]
    counts = dict.fromkeys(('pairs', 'blank', 'too_long', 'read'), 0)
    tags = tags_of(tokenizer, settings.target_language)
    vocab_size = max(tokenizer.vocab_size, tokenizer.target_vocab_size)
    terms = Terms(corpus.pairs(), tokenizer, settings.terms) if settings.terms else None
    with ThreadPoolExecutor(1) as background:
        digests = background.submit(lambda: [sha256_of(file) for file in corpus.files])
        arrays = _Arrays(folder)
        for pairs in corpus.pairs():
            numbers = np.arange(counts['read'], counts['read'] + len(pairs))
            counts['read'] += len(pairs)
            progress(len(pairs))
            if settings.robust:
                pairs, numbers = with_changed_copies(pairs, numbers, settings.robust)
            slots = settings.source_slots, settings.target_slots
            sources = terms.marked(pairs, numbers, slots[0] - len(tags[0])) if terms else None
            chosen = choose(pairs, tokenizer, *slots, tags=tags, sources=sources)
            _append(arrays, pairs, chosen, numbers=numbers, settings=settings, vocab_size=vocab_size)
            counts['pairs'] += int(chosen.kept.sum())
            counts['blank'] += chosen.left_out[0]
            counts['too_long'] += chosen.left_out[1]
        digests = digests.result()

    if not counts['pairs']:
        raise UserError(
            f'no pair of {corpus.name} is left to train on: {counts["blank"]} have a blank side, {counts["too_long"]} '
            'are longer than data.source_length or data.target_length; raise these'
        )
    if before != [stat(file) for file in corpus.files]:
        raise UserError(f'{corpus.name} was changed while it was read; start again when it is whole')

    listed = [{**entry, 'sha256': digest} for entry, digest in zip(before, digests, strict=True)]
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    hashed = {'fingerprint': _fingerprint(folder, sizes), 'sizes': sizes}
    meta = {'corpus': corpus.name, **counts, 'files': listed, **hashed}
    _write_meta(folder, meta)
    return meta


def _write_meta(folder: Path, meta: dict[str, Any]) -> None:
    file = folder / META_FILE
    with written_whole(file, own_partial(file)) as opened:  # several processes may see new times of the text
        opened.write(json.dumps(meta, indent=2).encode() + b'\n')


def _append(
    arrays: '_Arrays', pairs: Pairs, chosen: Chosen, *, numbers: np.ndarray, settings: Settings, vocab_size: int
) -> None:
    kept = np.flatnonzero(chosen.kept)
    arrays.append('numbers', numbers[kept].astype(np.uint32))
    dtype = np.uint16 if vocab_size <= 1 << 16 else np.uint32
    for side, (ids, lengths), lines in zip(_SIDES, chosen.sides, (pairs.sources, pairs.targets), strict=True):
        arrays.append(f'{side}.ids', ids.astype(dtype))
        arrays.append_lengths(f'{side}.offsets', lengths)
        if settings.keep_text:
            texts = [lines[i].encode('utf-8', 'replace') for i in kept]
            arrays.append(f'{side}.text', np.frombuffer(b''.join(texts), np.uint8))
            arrays.append_lengths(f'{side}.text_offsets', np.array([len(text) for text in texts], np.int64))


class _Arrays:
    """Arrays that grow on disk, each in a file of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends: dict[str, int] = {}

    def append(self, name: str, values: np.ndarray) -> None:
        with (self._folder / name).open('ab') as file:
            file.write(values.tobytes())

    def append_lengths(self, name: str, lengths: np.ndarray) -> None:
        """Adds the ends of sentences to an array of offsets, which begins with 0."""
        ends = self._ends.get(name, 0) + offsets(lengths)
        self.append(name, ends[int(name in self._ends) :])
        self._ends[name] = int(ends[-1])


def _fingerprint(folder: Path, names: Iterable[str]) -> str:
    """A hash of all arrays: a position in the data means nothing in other arrays."""
    names = sorted(names)
    with ThreadPoolExecutor() as threads:
        digests = threads.map(sha256_of, [folder / name for name in names])
        named = [f'{name} {digest}' for name, digest in zip(names, digests, strict=True)]
    return hashlib.sha256('\n'.join(named).encode()).hexdigest()


def _mapped(folder: Path, meta: dict[str, Any]) -> PreparedPairs:
    def array(name: str, dtype: Any) -> np.ndarray:
        with open_regular(folder / name) as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype)

    def side(name: str, what: str, ends_name: str) -> Side:
        ends = array(f'{name}.{ends_name}', np.int64)
        values = array(f'{name}.{what}', np.uint8)
        return Side(values.view(_UNSIGNED[len(values) // int(ends[-1])]), ends)

    has_text = 'source.text' in meta['sizes']
    return PreparedPairs(
        side('source', 'ids', 'offsets'),
        side('target', 'ids', 'offsets'),
        meta['blank'],
        meta['too_long'],
        array('numbers', np.uint32),
        tuple(side(name, 'text', 'text_offsets') for name in _SIDES) if has_text else None,
        meta['fingerprint'],
        tuple(meta['files']),
        folder,
    )


def _mapped_again(folder: Path, fingerprint: str) -> PreparedPairs:
    with contextlib.suppress(OSError, ValueError, LookupError):
        meta = parse_json(read_limited(folder / META_FILE))
        if meta['fingerprint'] == fingerprint:
            return _mapped(folder, meta)
    raise UserError(f'{folder} was removed or changed while training started; start again')


@contextlib.contextmanager
def _locked(file: Path, say: Say) -> Iterator[None]:
    with file.open('w') as opened:
        try:
            lock(opened.fileno())
        except BlockingIOError:
            say('another process is tokenizing this corpus; waiting for it')
            lock(opened.fileno(), is_patient=True)
        except OSError:
            pass  # a system without locks: the work may be done twice, and the last to finish wins
        yield
