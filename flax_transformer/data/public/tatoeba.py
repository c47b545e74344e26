"""Tatoeba: everyday sentences and their translations, from the project's weekly exports, split without leaks."""

import bz2
import gzip
import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.common.files import sha256_of
from flax_transformer.data.public.download import Downloaded, Progress, Unreachable, download

TATOEBA_URL = 'https://downloads.tatoeba.org/exports/per_language'
TATOEBA_LICENCE = (
    'Tatoeba is licensed under CC BY 2.0 FR (some sentences CC0): name "Tatoeba, tatoeba.org" where you use it'
)
HELD_OUT = 2000  # sources in dev and in test, but at most one in twenty of all
# Tatoeba names languages by ISO 639-3; the others go by those three letters here too.
CODES = {
    **{'ar': 'ara', 'be': 'bel', 'bg': 'bul', 'ca': 'cat', 'cs': 'ces', 'da': 'dan', 'de': 'deu', 'el': 'ell'},
    **{'en': 'eng', 'eo': 'epo', 'es': 'spa', 'et': 'est', 'eu': 'eus', 'fa': 'pes', 'fi': 'fin', 'fr': 'fra'},
    **{'he': 'heb', 'hi': 'hin', 'hr': 'hrv', 'hu': 'hun', 'id': 'ind', 'is': 'isl', 'it': 'ita', 'ja': 'jpn'},
    **{'ko': 'kor', 'la': 'lat', 'lt': 'lit', 'lv': 'lvs', 'mk': 'mkd', 'mr': 'mar', 'nb': 'nob', 'nl': 'nld'},
    **{'pl': 'pol', 'pt': 'por', 'ro': 'ron', 'ru': 'rus', 'sk': 'slk', 'sl': 'slv', 'sr': 'srp', 'sv': 'swe'},
    **{'th': 'tha', 'tr': 'tur', 'uk': 'ukr', 'vi': 'vie', 'zh': 'cmn'},
}


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
    """Downloads the pairs of two languages into `root`/tatoeba_en_de, split into train, dev and test.

    Does nothing if the folder is there. Raises UserError if a file does not come, or if there are no pairs.
    """
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
    record = {
        'date': time.strftime('%Y-%m-%d'),
        'licence': TATOEBA_LICENCE,
        'files': [each._asdict() for each in files.values()],
    }
    (made / 'source.json').write_text(json.dumps(record, indent=2) + '\n', encoding='utf-8')
    made.rename(folder)
    shutil.rmtree(exports)
    say(f'{folder}: {len(split.train):,} pairs to train on, {len(split.dev):,} in dev, {len(split.test):,} in test')
    return folder


def _exports(
    source: str, target: str, folder: Path, url: str, say: Callable[[str], None], progress: Progress
) -> dict[str, Downloaded]:
    """The exports of both languages and their links, by name; those in the folder are taken as they are."""
    first, second = (_code(language) for language in (source, target))
    places = [f'{first}/{first}_sentences.tsv.bz2', f'{second}/{second}_sentences.tsv.bz2']
    places += [f'{first}/{first}-{second}_links.tsv.bz2']
    found = {}
    for place in places:
        name = Path(place).name
        file = folder / name
        try:
            known = sha256_of(file) if file.exists() else None
            found[name] = download(f'{url}/{place}', file, sha256=known, progress=progress)
        except Unreachable as error:
            names = ', '.join(places)
            raise UserError(
                f'{error}. Without a network, copy {names} from {TATOEBA_URL} into {folder} and run the command again'
            ) from None
        say(f'{file}: {found[name].bytes:,} bytes, SHA-256 {found[name].sha256}')
    return found


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
    """The linked sentences, by their numbers."""
    linked = sorted((int(row[0]), int(row[1])) for row in _rows(links) if len(row) >= 2)
    texts = []
    for side, file in enumerate((sources, targets)):
        wanted = {link[side] for link in linked}
        texts.append({int(row[0]): row[2].strip() for row in _rows(file) if len(row) >= 3 and int(row[0]) in wanted})
    pairs = ((texts[0].get(one, ''), texts[1].get(other, '')) for one, other in linked)
    return list(dict.fromkeys(pair for pair in pairs if all(pair)))


def _rows(file: Path) -> Iterator[list[str]]:
    try:
        with bz2.open(file, 'rt', encoding='utf-8', newline='\n') as opened:
            for number, line in enumerate(opened, start=1):
                row = line.rstrip('\n').split('\t')
                if not row[0].isdecimal():
                    raise UserError(f'{file}, line {number}: expected a sentence number, got {row[0][:40]!r}')
                yield row
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f'{file} is damaged ({error}); remove it and run the command again') from None


def split_pairs(pairs: list[tuple[str, str]], held_out: int = HELD_OUT) -> Split:
    """Train, dev and test sets such that no sentence of one is in another, ignoring case and punctuation.

    Which sources are held out depends on their text alone, so later exports hold out the same ones.
    """
    of_source: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs:
        of_source.setdefault(_normalized(pair[0]), []).append(pair)
    order = sorted(of_source, key=lambda text: hashlib.sha256(text.encode()).digest())
    count = min(held_out, len(order) // 20)
    taken: set[str] = set()  # targets of the sets so far
    sets = []
    for names in (order[:count], order[count : 2 * count]):
        kept = [name for name in names if not any(_normalized(target) in taken for _, target in of_source[name])]
        sets.append([(of_source[name][0][0], [target for _, target in of_source[name]]) for name in kept])
        taken |= {_normalized(target) for name in kept for _, target in of_source[name]}
    train = [pair for name in order[2 * count :] for pair in of_source[name] if _normalized(pair[1]) not in taken]
    return Split(train, dev=sets[1], test=sets[0])


def _normalized(text: str) -> str:
    return ' '.join(re.findall(r'\w+', text.casefold())) or text


def _write(folder: Path, split: Split, languages: tuple[str, str]) -> None:
    """train.en.gz, dev.en, test.en, the same of the other language, and dev.allrefs.de.tsv, test.allrefs.de.tsv."""
    for side, language in enumerate(languages):
        with (folder / f'train.{language}.gz').open('wb') as raw, gzip.GzipFile('', 'wb', fileobj=raw, mtime=0) as file:
            file.writelines(f'{pair[side]}\n'.encode() for pair in split.train)
    for name, rows in (('dev', split.dev), ('test', split.test)):
        for language, lines in zip(languages, ([row[0] for row in rows], [row[1][0] for row in rows]), strict=True):
            (folder / f'{name}.{language}').write_text(''.join(line + '\n' for line in lines), encoding='utf-8')
        references = ''.join('\t'.join(row[1]) + '\n' for row in rows)
        (folder / f'{name}.allrefs.{languages[1]}.tsv').write_text(references, encoding='utf-8')
