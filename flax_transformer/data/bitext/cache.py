"""A corpus as ids on disk: made once, by all cores, and read through memory maps, so that it may be larger than memory.

A corpus lies in a folder of the cache that is named by what makes its ids: its name, the tokenizer, the slots. It
appears there whole or not at all. Sizes, times and checksums of its text files are kept with it: where a file has
changed, it is made again.

    source.ids source.offsets target.ids target.offsets    as in data.tokenized.Side
    numbers                                                 of each pair, its number in the corpus
    source.text source.text_offsets target.text ...         UTF-8, where segmentations are drawn anew in each epoch
    meta.json                                               counts, checksums, the fingerprint of the ids
"""

import contextlib
import fcntl
import hashlib
import json
import mmap
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import sha256_of, write_whole
from flax_transformer.data.bitext.corpus import Corpus, Pairs
from flax_transformer.data.bitext.tokenized import Chosen, Side, TokenizedPairs, choose
from flax_transformer.data.file_listing import Listed, stat, unchanged
from flax_transformer.text.tokenizer import Tokenizer

META_FILE = 'meta.json'
_FORMAT = 1  # of the files; another one is another folder
Say = Callable[[str], None]


@dataclass(frozen=True)
class PreparedPairs(TokenizedPairs):
    """TokenizedPairs that are mapped from the cache."""

    numbers: np.ndarray = None  # [pairs] uint32, of each pair its number in the corpus, from 0
    text: tuple[Side, Side] | None = None  # UTF-8 bytes of source and target, where they are kept
    fingerprint: str = ''  # of the ids and their order
    files: tuple[Listed, ...] = ()  # that the text came from
    maps: tuple[mmap.mmap, ...] = ()

    def release(self) -> None:
        """Gives back the memory of pages that were read; they stay in the system's cache as long as there is room."""
        if hasattr(mmap, 'MADV_DONTNEED'):
            for each in self.maps:
                each.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class Settings:
    """What beside the text decides the ids."""

    source_slots: int
    target_slots: int
    target_language: str | None = None  # whose tag begins each source
    keep_text: bool = False


def find_cached(corpus: Corpus, tokenizer: Tokenizer, settings: Settings, cache: Path) -> PreparedPairs | None:
    """The corpus as it was prepared before; None where it was not, or from other text."""
    folder = cache / _key(corpus, tokenizer, settings)
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, ZeroDivisionError):  # not there, or damaged
        meta = json.loads((folder / META_FILE).read_text(encoding='utf-8'))
        files = unchanged(meta['files'], corpus.files)
        if files is not None:
            pairs = _mapped(folder, {**meta, 'files': files})
            if files != meta['files']:
                with contextlib.suppress(OSError):  # another's cache, perhaps, that may only be read
                    _write_meta(folder, {**meta, 'files': files})
            return pairs
    return None


def cached_pairs(
    corpus: Corpus,
    tokenizer: Tokenizer,
    settings: Settings,
    cache: Path,
    *,
    say: Say = lambda text: None,
    progress: Callable[[int], None] = lambda pairs: None,
) -> PreparedPairs:
    """The corpus from the cache, where it is tokenised first if it is not there yet.

    Several processes may ask at once: one prepares, the others wait for it. Raises UserError for faulty text, and where
    no pair is left to train on.
    """
    found = find_cached(corpus, tokenizer, settings, cache)
    if found is not None:
        return found
    folder = cache / _key(corpus, tokenizer, settings)
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix('.lock'), say):
        found = find_cached(corpus, tokenizer, settings, cache)
        if found is not None:
            return found
        partial = folder.with_suffix('.partial')
        shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
        partial.mkdir()
        try:
            meta = _write(partial, corpus, tokenizer, settings, progress)
            if folder.exists():
                say(f'{corpus.name}, or what it was tokenised to, has changed: it was tokenised again')
                shutil.rmtree(folder)
            partial.rename(folder)
            return _mapped(folder, meta)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _key(corpus: Corpus, tokenizer: Tokenizer, settings: Settings) -> str:
    parts = [_FORMAT, corpus.name, corpus.settings, vars(settings), tokenizer.digest]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _write(
    folder: Path, corpus: Corpus, tokenizer: Tokenizer, settings: Settings, progress: Callable[[int], None]
) -> dict[str, Any]:
    """Writes the files of a corpus into a folder; returns their meta.json."""
    before = [stat(file) for file in corpus.files]
    counts = {'pairs': 0, 'blank': 0, 'too_long': 0, 'read': 0}
    tag = tokenizer.tag_id(settings.target_language)
    with ThreadPoolExecutor(1) as background, _Files(folder, settings.keep_text, tokenizer.vocab_size) as files:
        checksums = background.submit(lambda: [sha256_of(file) for file in corpus.files])
        for pairs in corpus.pairs():
            chosen = choose(pairs, tokenizer, settings.source_slots, settings.target_slots, tag=tag)
            files.write(pairs, chosen, counts['read'])
            counts['pairs'] += int(chosen.kept.sum())
            counts['blank'] += chosen.left_out[0]
            counts['too_long'] += chosen.left_out[1]
            counts['read'] += len(pairs)
            progress(len(pairs))
        checksums = checksums.result()
    if not counts['pairs']:
        raise UserError(
            f'no pair of {corpus.name} is left to train on: {counts["blank"]} have a blank side, {counts["too_long"]} '
            f'are longer than {settings.source_slots} source or {settings.target_slots} target tokens; raise '
            'data.source_length and data.target_length'
        )
    if before != [stat(file) for file in corpus.files]:
        raise UserError(f'{corpus.name} was changed while it was read; start again when it is whole')
    listed = [{**stat, 'sha256': checksum} for stat, checksum in zip(before, checksums, strict=True)]
    meta = {'corpus': corpus.name, **counts, 'files': listed, 'fingerprint': files.fingerprint()}
    meta['sizes'] = {file.name: file.stat().st_size for file in folder.iterdir()}
    _write_meta(folder, meta)
    return meta


def _write_meta(folder: Path, meta: dict[str, Any]) -> None:
    write_whole(folder / META_FILE, json.dumps(meta, indent=2) + '\n')


class _Files:
    """The files of a corpus while they are written."""

    def __init__(self, folder: Path, keep_text: bool, vocab_size: int) -> None:
        names = ['numbers'] + [f'{side}.{what}' for side in ('source', 'target') for what in ('ids', 'offsets')]
        if keep_text:
            names += [f'{side}.{what}' for side in ('source', 'target') for what in ('text', 'text_offsets')]
        self._keep_text = keep_text
        self._files = {name: (folder / name).open('wb') for name in names}
        self._digests = {name: hashlib.sha256() for name in names}
        self._ends = {name: 0 for name in names if name.endswith('offsets')}
        self._dtype = np.uint16 if vocab_size <= 1 << 16 else np.uint32
        for name in self._ends:
            self._append(name, np.zeros(1, np.int64))

    def write(self, pairs: Pairs, chosen: Chosen, first: int) -> None:
        """Adds the chosen pairs of a chunk whose first pair has the number `first`."""
        kept = np.flatnonzero(chosen.kept)
        self._append('numbers', (kept + first).astype(np.uint32))
        for side, (ids, lengths) in zip(('source', 'target'), chosen.sides, strict=True):
            self._append(f'{side}.ids', ids.astype(self._dtype))
            self._append_lengths(f'{side}.offsets', lengths)
        if self._keep_text:
            for side, lines in (('source', pairs.sources), ('target', pairs.targets)):
                texts = [lines[i].encode('utf-8', 'replace') for i in kept]
                self._append(f'{side}.text', np.frombuffer(b''.join(texts), np.uint8))
                self._append_lengths(f'{side}.text_offsets', np.array([len(text) for text in texts], np.int64))

    def _append_lengths(self, name: str, lengths: np.ndarray) -> None:
        ends = self._ends[name] + np.cumsum(lengths, dtype=np.int64)
        self._append(name, ends)
        self._ends[name] = int(ends[-1]) if len(ends) else self._ends[name]

    def _append(self, name: str, values: np.ndarray) -> None:
        content = values.tobytes()
        self._files[name].write(content)
        self._digests[name].update(content)

    def fingerprint(self) -> str:
        """Of all ids and where the sentences end: what the position in the data is a position in."""
        named = [f'{name} {digest.hexdigest()}' for name, digest in sorted(self._digests.items())]
        return hashlib.sha256('\n'.join(named).encode()).hexdigest()

    def __enter__(self) -> '_Files':
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as all_of_them:  # also where one cannot be: a full disk shows when a file is closed
            for file in self._files.values():
                all_of_them.callback(file.close)


def _mapped(folder: Path, meta: dict[str, Any]) -> PreparedPairs:
    """The arrays of a folder. Raises ValueError where a file is not as long as it was."""
    maps: list[mmap.mmap] = []

    def array(name: str, dtype: Any) -> np.ndarray:
        with (folder / name).open('rb') as file:
            if os.fstat(file.fileno()).st_size != meta['sizes'][name]:
                raise ValueError(f'{folder / name} is damaged')
            maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return np.frombuffer(maps[-1], dtype)

    def side(name: str, what: str, offsets: str) -> Side:
        ends = array(f'{name}.{offsets}', np.int64)
        dtype = {1: np.uint8, 2: np.uint16, 4: np.uint32}[meta['sizes'][f'{name}.{what}'] // int(ends[-1])]
        return Side(array(f'{name}.{what}', dtype), ends)

    has_text = 'source.text' in meta['sizes']
    return PreparedPairs(
        side('source', 'ids', 'offsets'),
        side('target', 'ids', 'offsets'),
        meta['blank'],
        meta['too_long'],
        array('numbers', np.uint32),
        tuple(side(name, 'text', 'text_offsets') for name in ('source', 'target')) if has_text else None,
        meta['fingerprint'],
        tuple(meta['files']),
        tuple(maps),
    )


@contextlib.contextmanager
def _locked(file: Path, say: Say) -> Iterator[None]:
    """Holds the lock of a file, waiting for who holds it; the system frees it when a process dies."""
    with file.open('w') as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say('another process is tokenising this corpus; waiting for it')
            fcntl.flock(opened, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks: the work may be done twice, and the last to end wins
        yield
