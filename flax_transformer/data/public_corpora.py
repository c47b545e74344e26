"""Public corpora: Multi30k and Tatoeba, downloaded, checked and put where configs look for them.

Multi30k (Elliott et al. 2016, 2017; Barrault et al. 2018) has 29,000 image captions in en, de, fr and cs. Tatoeba has
everyday sentences and their translations, from the project's weekly exports, which are split without leaks.
"""

import gzip
import hashlib
import json
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from flax_transformer.common import __version__
from flax_transformer.common.errors import UserError, nearest
from flax_transformer.common.files import sha256_of, written_whole
from flax_transformer.text.languages import THREE_LETTERS

from .lines import compressing, each_line

BLOCK = 1 << 16  # bytes read at a time
TRIES = 4  # a file is asked for again if its connection breaks
TIMEOUT = 30.0  # seconds without a byte
MOST = 1 << 32  # bytes of a file; an answer without an end would fill the disk
_LOST = (urllib.error.URLError, TimeoutError, ConnectionError, ssl.SSLError, HTTPException)
Progress = Callable[[int], object]  # called with the number of new bytes
MULTI30K_COMMIT = 'a3d2e0d26b56f3846f66a952536ffed4e401d05a'
MULTI30K_URL = f'https://raw.githubusercontent.com/multi30k/dataset/{MULTI30K_COMMIT}/data/task1/raw'
MULTI30K_TOKENIZED_URL = f'https://raw.githubusercontent.com/multi30k/dataset/{MULTI30K_COMMIT}/data/task1/tok'
MULTI30K_LICENSE = (
    'Multi30k states no license; its README speaks of non-commercial research and education. '
    'Please cite Elliott et al. 2016 (W16-3210) and 2017 (W17-4718), Barrault et al. 2018'
)
# SHA-256 of the files in that commit. The tokenized form, not compressed, is lower-cased, normalized and tokenized by
# Moses' scripts; most published scores are of it.
_SUMS = json.loads(Path(__file__).with_name('multi30k.json').read_text())
MULTI30K_FILES = _SUMS['files']
MULTI30K_TOKENIZED = _SUMS['tokenized']
TATOEBA_URL = 'https://downloads.tatoeba.org/exports/per_language'
TATOEBA_LICENSE = (
    'Tatoeba is licensed under CC BY 2.0 FR (some sentences CC0): name "Tatoeba, tatoeba.org" where you use it'
)
HELD_OUT = 2000  # sources in dev and in test, but at most one in twenty of all
# Tatoeba names languages by ISO 639-3, mostly as NLLB-200 does; the others go by those three letters here too.
_TWO_LETTERS = """
ar be bg ca cs da de el en eo es et eu fa fi fr he hi hr hu id is it ja ko la lt lv mk mr nb nl pl pt ro ru sk sl sr sv
th tr uk vi zh
"""
CODES = {two: THREE_LETTERS.get(two, '') for two in _TWO_LETTERS.split()} | {'ar': 'ara', 'la': 'lat', 'zh': 'cmn'}


class Downloaded(NamedTuple):
    url: str
    bytes: int
    modified: str | None  # the date that its server gives
    sha256: str


class Unreachable(UserError):
    """A file that its server does not hand out, or a server that does not answer."""


def download(url: str, file: Path, *, sha256: str | None = None, progress: Progress = lambda count: None) -> Downloaded:
    """Downloads a file, unless it is there with this checksum. Raises Unreachable; UserError for another checksum."""
    if sha256 is not None and file.exists():
        digest = sha256_of(file)
        if digest != sha256:
            raise UserError(f'{file} is not what {url} is: got SHA-256 {digest}, expected {sha256}; move it away')
        return Downloaded(url, file.stat().st_size, None, digest)

    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + '.partial')
    modified = _fetch(url, partial, progress)
    size = partial.stat().st_size
    digest = sha256_of(partial)
    if sha256 not in (None, digest):
        partial.unlink()
        raise UserError(
            f'{url} is not the file that was expected: got SHA-256 {digest} ({size:,} bytes), expected {sha256}; '
            'a proxy or a login page may have answered'
        )
    partial.replace(file)
    return Downloaded(url, size, modified, digest)


def _fetch(url: str, file: Path, progress: Progress) -> str | None:
    """Downloads a file, in several tries; returns the date that the server gives it."""
    for attempt in range(TRIES):
        time.sleep(0.2 * attempt)
        try:
            return _fetch_once(url, file, progress)
        except urllib.error.HTTPError as error:
            error.close()
            why = f'the server says {error.code} {error.reason}'
            if error.code < 500:
                break
        except _LOST as error:  # not a full disk, which no further try helps
            why = getattr(error, 'reason', None) or error
            why = getattr(why, 'strerror', None) or why
    raise Unreachable(f'{url} was not downloaded: {why}')


def _fetch_once(url: str, file: Path, progress: Progress) -> str | None:
    headers = {'User-Agent': f'flax_transformer/{__version__}', 'Accept-Encoding': 'identity'}
    request = urllib.request.Request(url, headers=headers)
    # A new opener, for urlopen keeps the proxies of its first call.
    with urllib.request.build_opener().open(request, timeout=TIMEOUT) as response, written_whole(file) as opened:
        expected = getattr(response, 'length', None) or 0  # http.client gives 0 for what is no number
        count = 0
        while block := response.read(BLOCK):
            count += len(block)
            if count > MOST:
                raise Unreachable(f'{url} was not downloaded: it has more than {MOST:,} bytes')
            opened.write(block)
            progress(len(block))
        if count < expected:
            raise ConnectionError(f'the connection ended after {count:,} of {expected:,} bytes')
        return response.headers['Last-Modified']


def prepare_multi30k(
    root: Path, *, mirror: str | None = None, say: Callable[[str], None], progress: Progress = lambda count: None
) -> Path:
    """Downloads the corpus into `root`/multi30k and unpacks what is small; files that are there are only checked."""
    folder = root / 'multi30k'
    for files, url, below in (
        (MULTI30K_FILES, MULTI30K_URL, folder),
        (MULTI30K_TOKENIZED, MULTI30K_TOKENIZED_URL, folder / 'tok_lc'),
    ):
        for name, sha256 in files.items():
            try:
                file = download(f'{mirror or url}/{name}', below / name, sha256=sha256, progress=progress)
            except Unreachable as error:
                raise UserError(
                    f'{error}. Without a network, copy {", ".join(files)} from github.com/multi30k/dataset, '
                    f'data/task1/{url.rpartition("/")[2]}, into {below} and run the command again'
                ) from None
            say(f'{below / name}: {file.bytes:,} bytes, as expected')
            if name.endswith('.gz') and not name.startswith('train'):
                with gzip.open(below / name) as packed, written_whole((below / name).with_suffix('')) as opened:
                    shutil.copyfileobj(packed, opened)
    return folder


class Split(NamedTuple):
    """Sentence pairs of a corpus; in dev and test every translation of a source is a reference."""

    train: list[tuple[str, str]]
    dev: list[tuple[str, list[str]]]
    test: list[tuple[str, list[str]]]


def prepare_tatoeba(
    root: Path,
    source: str,
    target: str,
    *,
    mirror: str | None = None,
    say: Callable[[str], None],
    progress: Progress = lambda count: None,
) -> Path:
    """Downloads the pairs of two languages into `root`/tatoeba_en_de, split, unless the folder is there."""
    folder = root / f'tatoeba_{source}_{target}'
    if folder.exists():
        say(f"{folder} is there already; move it away to download this week's sentences")
        return folder
    exports = folder.with_name(folder.name + '.exports')
    files = _exports(source, target, exports, mirror or TATOEBA_URL, say, progress)
    split = split_pairs(_pairs(*(exports / name for name in files)))
    if not split.dev:
        raise UserError(f'Tatoeba has {len(split.train):,} pairs {source}-{target}: too few to train and test on')
    made = folder.with_name(folder.name + '.partial')
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    _write(made, split, (source, target))
    sources = [file._asdict() for file in files.values()]
    record = {'date': time.strftime('%Y-%m-%d'), 'license': TATOEBA_LICENSE, 'files': sources}
    (made / 'source.json').write_text(json.dumps(record, indent=2) + '\n', encoding='utf-8')
    made.rename(folder)
    shutil.rmtree(exports)
    say(f'{folder}: {len(split.train):,} pairs to train on, {len(split.dev):,} in dev, {len(split.test):,} in test')
    return folder


def _exports(
    source: str, target: str, folder: Path, url: str, say: Callable[[str], None], progress: Progress
) -> dict[str, Downloaded]:
    """The exports of both languages and their links, by name; those in the folder are taken as they are."""
    first = _code(source)
    second = _code(target)
    paths = [f'{code}/{code}_sentences.tsv.bz2' for code in (first, second)]
    paths.append(f'{first}/{first}-{second}_links.tsv.bz2')
    exports = {}
    for path in paths:
        file = folder / Path(path).name
        known = sha256_of(file) if file.exists() else None
        try:
            export = download(f'{url}/{path}', file, sha256=known, progress=progress)
        except Unreachable as error:
            raise UserError(
                f'{error}. Without a network, copy {", ".join(paths)} from {TATOEBA_URL} into {folder} and run the '
                'command again'
            ) from None
        exports[file.name] = export
        say(f'{file}: {export.bytes:,} bytes, SHA-256 {export.sha256}')
    return exports


def _code(language: str) -> str:
    if language in CODES:
        return CODES[language]
    if re.fullmatch('[a-z]{3}', language):
        return language
    raise UserError(
        f'tatoeba: got the language {language!r}, expected one of {", ".join(CODES)}, or three letters of ISO 639-3.'
        f'{nearest(language, CODES)}'
    )


def _pairs(sources: Path, targets: Path, links: Path) -> list[tuple[str, str]]:
    linked = sorted({(int(row[0]), int(row[1])) for row in _rows(links) if len(row) >= 2})
    texts = []
    for side, file in enumerate((sources, targets)):
        wanted = {link[side] for link in linked}
        texts.append({int(row[0]): row[2].strip() for row in _rows(file) if len(row) >= 3 and int(row[0]) in wanted})
    pairs = ((texts[0].get(source, ''), texts[1].get(target, '')) for source, target in linked)
    return list(dict.fromkeys(pair for pair in pairs if all(pair)))


def _rows(file: Path) -> Iterator[list[str]]:
    try:
        for number, line in enumerate(each_line(file), start=1):
            row = line.split('\t')
            if not re.fullmatch(r'\d{1,18}', row[0]):
                raise UserError(f'{file}, line {number}: expected a sentence number, got {row[0][:40]!r}')
            yield row
    except UserError as error:
        raise UserError(f'{file} is damaged ({error}); remove it and run the command again') from None


def split_pairs(pairs: list[tuple[str, str]], held_out: int = HELD_OUT) -> Split:
    """Train, dev and test sets such that no sentence of one is in another, ignoring case and punctuation.

    Which sources are held out depends on their text alone.
    """
    by_source: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs:
        by_source.setdefault(_normalized(pair[0]), []).append(pair)
    order = sorted(by_source, key=lambda text: hashlib.sha256(text.encode()).digest())
    count = min(held_out, len(order) // 20)
    taken: set[str] = set()  # targets of the sets so far
    sets = []
    for names in (order[:count], order[count : 2 * count]):
        groups = [by_source[name] for name in names]
        kept = [group for group in groups if not any(_normalized(target) in taken for _, target in group)]
        sets.append([(group[0][0], [target for _, target in group]) for group in kept])
        taken |= {_normalized(target) for group in kept for _, target in group}
    train = [pair for name in order[2 * count :] for pair in by_source[name] if _normalized(pair[1]) not in taken]
    return Split(train, dev=sets[1], test=sets[0])


def _normalized(text: str) -> str:
    return ' '.join(re.findall(r'\w+', text.casefold())) or text


def _write(folder: Path, split: Split, languages: tuple[str, str]) -> None:
    """train.en.gz, dev.en, test.en, the same of the other language, and dev.allrefs.de.tsv, test.allrefs.de.tsv."""
    for side, language in enumerate(languages):
        with (folder / f'train.{language}.gz').open('wb') as raw, compressing(raw, '.gz') as file:
            file.writelines(f'{pair[side]}\n'.encode() for pair in split.train)
    source, target = languages
    for name, rows in (('dev', split.dev), ('test', split.test)):
        files = {
            f'{name}.{source}': [text for text, _ in rows],
            f'{name}.{target}': [references[0] for _, references in rows],
            f'{name}.allrefs.{target}.tsv': ['\t'.join(references) for _, references in rows],
        }
        for file, lines in files.items():
            (folder / file).write_text(''.join(f'{line}\n' for line in lines), encoding='utf-8')
