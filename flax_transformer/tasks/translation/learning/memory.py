"""A memory of corrected translations, in a file to which lines are only added."""

import collections
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import naming_damage, open_regular, read_limited, write_whole
from flax_transformer.common.installing import install_command
from flax_transformer.common.json_text import parse_json
from flax_transformer.data.audit.language import certain_language, is_language
from flax_transformer.tasks.translation.run import SAMPLE
from flax_transformer.text.languages import name_of
from flax_transformer.text.tokenizer import as_text

MOST_PAIRS = 10_000  # of a project
SAMPLED = 400  # pairs of a model's training that its run keeps
_MOST_CHARACTERS = 2000  # of a side
_LONGER = 3.0  # times as many characters as the other side, and _MARGIN more, is no translation of a sentence
_MARGIN = 40
_LANGUAGE = '{http://www.w3.org/XML/1998/namespace}lang'  # an attribute, of TMX
_LIKE = 0.6  # similarity from which an entry is shown


def memory_file(folder: Path, project: str) -> Path:
    """Where the memory of a project is."""
    return folder / f'{quote(project, safe=" ")}.jsonl'


def learned_file(memory: Path) -> Path:
    """Where what was learned from a memory is kept, with its pairs."""
    return memory.with_suffix('.learned.npz')


class Pair(NamedTuple):
    """A source and the translation that a user wants."""

    source: str
    target: str
    source_language: str
    target_language: str
    who: str = ''
    when: int = 0  # seconds since 1970
    number: int = 0  # of its entry, from 1

    @property
    def key(self) -> tuple[str, str, str]:
        return self.source, self.source_language, self.target_language


class Match(NamedTuple):
    """A pair whose source is like a line, and how much, 0 to 1."""

    similarity: float
    pair: Pair


class Memory:
    """The pairs of a project.

    Every entry, a pair or the number of one that is taken back, makes a version: the number of entries until then.
    """

    def __init__(self, file: Path) -> None:
        """Raises UserError if the file is damaged, but for a last line that was being written."""
        self.file = file
        self._entries: list[Pair | int] = []
        self._by_key: dict[tuple[str, str, str], collections.Counter[str]] = {}
        self._sources: dict[tuple[str, str], list[tuple[Pair, list[str]]]] = {}  # words, by languages
        self.read()

    @property
    def version(self) -> int:
        return len(self._entries)

    def read(self) -> None:
        """Reads what another process has added."""
        self._end = 0  # of the last whole line, in bytes
        self._entries.clear()
        self._by_key.clear()
        if not self.file.exists():
            return
        with naming_damage(self.file, 'restore it from a backup'), open_regular(self.file) as opened:
            for line in opened:
                if line.endswith(b'\n'):
                    self._end += len(line)
                    entry = parse_json(line)
                    taken_back = entry.get('taken_back')
                    self._enter(int(taken_back) if taken_back else Pair(**entry, number=self.version + 1))

    def _enter(self, entry: Pair | int) -> None:
        self._entries.append(entry)
        self._sources.clear()
        if isinstance(entry, Pair):
            # The newest of those that were given equally often is the last.
            translations = self._by_key.setdefault(entry.key, collections.Counter())
            count = translations.pop(entry.target, 0)
            translations[entry.target] = count + 1
            return
        pair = self.pair(entry)
        translations = self._by_key[pair.key]
        translations[pair.target] -= 1
        if not translations[pair.target]:
            del translations[pair.target]
        if not translations:
            del self._by_key[pair.key]

    def pair(self, number: int) -> Pair:
        """Raises UserError if no entry of this number is a pair, or it was taken back."""
        entry = self._entries[number - 1] if 0 < number <= self.version else None
        if not isinstance(entry, Pair):
            raise UserError(f'{number}: no pair of {self.file.stem} has this number')
        return entry

    def pairs(self, version: int | None = None) -> list[Pair]:
        """The pairs that were there at a version, in order, without those taken back until then."""
        entries = self._entries[:version]
        taken_back = {entry for entry in entries if isinstance(entry, int)}
        return [entry for entry in entries if isinstance(entry, Pair) and entry.number not in taken_back]

    def add(self, pairs: Sequence[Pair]) -> list[int]:
        """Adds pairs, all or none; returns their numbers, 0 for one that is known already.

        Raises UserError, with the pair's place among them, for one that cannot be a translation.
        """
        cleaned = [_checked(pair, place) for place, pair in enumerate(pairs, start=1)]
        held = {(pair.key, pair.target, pair.who) for pair in self.pairs()}
        most = MOST_PAIRS - len(held)
        new = []
        numbers = []
        for pair in cleaned:
            # Saying it a million times makes it no truer.
            known = (pair.key, pair.target, pair.who)
            numbers.append(0 if known in held else self.version + len(new) + 1)
            if known not in held:
                held.add(known)
                new.append(pair._replace(when=pair.when or int(time.time()), number=numbers[-1]))
        if len(new) > most:
            raise UserError(f'{len(new)} more pairs: {self.file.stem} may have {max(most, 0)} more of {MOST_PAIRS}')
        self._append(list(map(_record, new)))
        for pair in new:
            self._enter(pair)
        return numbers

    def take_back(self, number: int) -> None:
        """Raises UserError if there is no such pair."""
        self.pair(number)
        if number in (entry for entry in self._entries if isinstance(entry, int)):
            raise UserError(f'{number}: this pair was taken back already')
        self._append([{'taken_back': number}])
        self._enter(number)

    def forget(self, numbers: Sequence[int]) -> None:
        """Removes pairs, and that they ever were, from the file; the numbers and versions of later ones change."""
        gone = {self.pair(number).number for number in numbers}
        kept = [pair for pair in self.pairs() if pair.number not in gone]
        lines = [json.dumps(_record(pair)) + '\n' for pair in kept]
        learned_file(self.file).unlink(missing_ok=True)  # it has their texts, too
        write_whole(self.file, ''.join(lines))
        self.read()

    def _append(self, records: Sequence[dict[str, Any]]) -> None:
        if not records:
            return
        text = ''.join(f'{json.dumps(record)}\n' for record in records).encode()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.file, 'ab') as opened:
            opened.truncate(self._end)  # after it is what a process wrote when it was killed
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        self._end += len(text)

    def exact(self, line: str, languages: tuple[str, str]) -> str | None:
        """The translation that users want of a line: the one given most often, the newest of several."""
        # A copy: another thread may add some meanwhile.
        translations = dict(self._by_key.get((line.strip(), *languages), {}))
        if not translations:
            return None
        most = max(translations.values())
        return next(text for text in reversed(translations) if translations[text] == most)

    def near(self, line: str, languages: tuple[str, str], count: int = 3) -> list[Match]:
        """The pairs whose sources are most like a line, by the edit distance of their words; the best first."""
        try:
            from rapidfuzz import process
            from rapidfuzz.distance import Levenshtein
        except ImportError as error:
            raise UserError(f'a memory needs the package {error.name}: {install_command("learn")}') from None
        if languages not in self._sources:
            newest = {pair.source: pair for pair in self.pairs() if pair.key[1:] == languages}
            self._sources[languages] = [(pair, pair.source.split()) for pair in newest.values()]
        pairs = self._sources[languages]
        words = [words for _, words in pairs]
        how = {'scorer': Levenshtein.normalized_similarity, 'score_cutoff': _LIKE, 'limit': count}
        return [Match(similarity, pairs[i][0]) for _, similarity, i in process.extract(line.split(), words, **how)]


def _record(pair: Pair) -> dict[str, Any]:
    record = pair._asdict()
    del record['number']
    return record


def _checked(pair: Pair, place: int) -> Pair:
    """The pair with clean texts. Raises UserError if one cannot be the translation of the other."""
    source, target = (' '.join(as_text(text)[0].split()) for text in (pair.source, pair.target))
    pair = pair._replace(source=source, target=target)
    shown = f'pair {place}, {source[:40]!r}'
    if not source or not target:
        raise UserError(f'{shown}: the {"translation" if source else "source"} is empty')
    shorter, longer = sorted(map(len, (source, target)))
    if longer > _MOST_CHARACTERS:
        raise UserError(f'{shown}: {longer} characters; expected a sentence, of at most {_MOST_CHARACTERS}')
    if longer > _LONGER * shorter + _MARGIN:
        raise UserError(f'{shown}: {len(source)} and {len(target)} characters are no translations of each other')
    for text, language in ((source, pair.source_language), (target, pair.target_language)):
        found, _ = certain_language(text) or (language, 1.0)
        if not is_language(found, language):
            raise UserError(f'{shown}: {text[:40]!r} is in {name_of(found)}; expected {name_of(language)}')
    return pair


def read_sample(run: Path) -> list[Pair]:
    """Pairs of a run's own training. Raises UserError if it keeps none."""
    file = run / SAMPLE
    if not file.exists():
        raise UserError(
            f'{file} is missing: a run of an earlier version keeps no pairs of its training, which learning rehearses; '
            'write some there, as {"source": ..., "target": ..., "source_language": ..., "target_language": ...}'
        )
    with naming_damage(file):
        return [Pair(**parse_json(line)) for line in read_limited(file).splitlines()]


def write_sample(run: Path, pairs: Iterable[Pair]) -> None:
    fields = Pair._fields[:4]
    records = [{name: getattr(pair, name) for name in fields} for pair in pairs]
    write_whole(run / SAMPLE, ''.join(f'{json.dumps(record, ensure_ascii=False)}\n' for record in records))


def read_tmx(text: bytes, languages: tuple[str, str], place: str) -> Iterator[Pair]:
    """Yields the pairs of a translation memory (TMX 1.4) in two languages. Raises UserError if it cannot be read."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise UserError(f'{place}: {error}; expected TMX') from None
    for unit in root.iter('tu'):
        texts = {}
        for variant in unit.iter('tuv'):
            code = variant.get(_LANGUAGE) or variant.get('lang') or ''
            segment = variant.find('seg')
            if segment is not None:
                texts |= {name: ''.join(segment.itertext()) for name in languages if is_language(code.lower(), name)}
        if len(texts) == len(languages):
            yield Pair(*(texts[name] for name in languages), *languages)


def write_tmx(pairs: Sequence[Pair]) -> bytes:
    """Pairs as a translation memory (TMX 1.4)."""
    root = ElementTree.Element('tmx', version='1.4')
    head = 'creationtool=flax-transformer creationtoolversion=1 segtype=sentence o-tmf=none adminlang=en srclang=*all*'
    described = dict(field.split('=') for field in head.split())
    ElementTree.SubElement(root, 'header', described, datatype='plaintext')
    body = ElementTree.SubElement(root, 'body')
    for pair in pairs:
        unit = ElementTree.SubElement(body, 'tu', tuid=str(pair.number))
        for language, text in ((pair.source_language, pair.source), (pair.target_language, pair.target)):
            variant = ElementTree.SubElement(unit, 'tuv', {'xml:lang': language})
            ElementTree.SubElement(variant, 'seg').text = text
    return ElementTree.tostring(root, encoding='utf-8', xml_declaration=True) + b'\n'
