"""Manifests: recordings with transcripts, listed by a table, by JSON lines, or by how a folder is laid out."""

import math
import os
import posixpath
import re
import tarfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import BadInput, UserError, nearest
from flax_transformer.common.files import read_at_most
from flax_transformer.common.json_text import parse_json
from flax_transformer.common.quiet import Say, duration
from flax_transformer.data.lines import broken_file, content_suffix, open_binary, read_lines
from flax_transformer.data.named_files import matching_files, named_paths, path_below

from .reading import Audio, Header, Source, read_audio, read_header

_SLACK = 0.1  # seconds by which a segment may reach beyond its recording: manifests round
PATHS = ('path', 'file', 'audio', 'audio_filepath', 'file_name')  # names of columns
TEXTS = ('text', 'transcript', 'transcription', 'sentence')
SPEAKERS = ('speaker', 'speaker_id', 'client_id')
ARCHIVES = ('.tar', '.tar.gz', '.tgz', '.tar.xz', '.tar.bz2')
MOST_UNPACKED = 1 << 30  # bytes of a compressed archive's files that are held in memory
MOST_FAULTS = 10  # listed in a message
_AUDIO = ('.aif', '.aiff', '.flac', '.mp3', '.oga', '.ogg', '.opus', '.wav')


class Utterance(NamedTuple):
    source: Source
    text: str
    speaker: str  # '' if the manifest has none
    seconds: float  # the recording's length by its header, or the segment's
    rate: int  # Hz
    columns: dict[str, str]  # its whole row
    place: str  # its file and line, such as 'index.tsv:12'
    segment: tuple[float, float] | None = None  # its begin in the recording, and its length, in seconds


def read_manifest(spec: str, root: Path, *, say: Say) -> list[Utterance]:
    """The utterances that `spec` names, in the manifest's order (docs/how-to/audio.md lists the forms of a spec).

    Raises one UserError for all that are missing, damaged or cut off by their headers, and for a manifest without the
    columns that it needs. `say` gets the number, duration and rates, and what is odd.
    """
    location, _, wanted = spec.partition('#')
    path, _, conditions = location.partition('?')
    rows = list(_all_rows(path, root))
    if not rows:
        raise UserError(f'{path} lists no recordings; expected at least one')
    for condition in conditions.split('&') if conditions else ():
        rows = _selected(rows, condition, path)
    names = _columns_of(rows)
    other = next((name for name in names if name not in PATHS), 'words')
    remedy = nearest(wanted, names) if wanted else f'; or name it after #, as in {path}#{other}'
    text = _column_among((wanted,) if wanted else TEXTS, names, path, remedy)
    speaker = next((name for name in SPEAKERS if name in names), '')

    utterances = []
    faults = []
    for row, source in zip(rows, _sources(rows), strict=True):
        try:
            if text not in row.columns:
                raise BadInput(f'{row.place}: got the columns {", ".join(row.columns)}; expected {text}, a string')
            header = _header(row, source)
            segment = _segment(row, header.seconds)
        except UserError as error:
            faults.append(str(error))
            continue
        said = row.columns[text].strip()
        who = row.columns.get(speaker, '').strip()
        seconds = segment[1] if segment else header.seconds
        utterances.append(Utterance(source, said, who, seconds, header.rate, row.columns, row.place, segment))
    _raise_faults(faults, len(rows), 'recordings')
    _describe(utterances, spec, say)
    return utterances


def manifest_paths(spec: str, root: Path) -> Iterator[Path]:
    return named_paths(re.split('[?#]', spec)[0], root)


def open_audio(utterance: Utterance, rate: int) -> np.ndarray:
    """Samples at `rate` Hz, float32 [T] in -1..1. Raises BadInput with the utterance's place."""
    return _read(utterance, rate).samples


def read_all(utterances: Iterable[Utterance], rate: int, *, say: Say) -> list[np.ndarray]:
    """The samples of all utterances. Each remark is said once, with how many it is true of.

    Raises one UserError for all that cannot be read.
    """
    sounds = []
    faults = []
    remarks = {}
    for utterance in utterances:
        try:
            audio = _read(utterance, rate)
        except UserError as error:
            faults.append(str(error))
            continue
        sounds.append(audio.samples)
        for remark in audio.remarks:
            remarks.setdefault(remark, []).append(utterance.place)
    _raise_faults(faults, len(sounds) + len(faults), 'recordings')
    for remark, places in remarks.items():
        first = '' if len(places) == len(sounds) else f' (the first: {places[0]})'
        say(f'{len(places):,} of {len(sounds):,} recordings: {remark}{first}')
    return sounds


def _read(utterance: Utterance, rate: int) -> Audio:
    try:
        return read_audio(utterance.source, rate, segment=utterance.segment)
    except BadInput as error:
        raise BadInput(f'{utterance.place}: {error}') from None


class _Row(NamedTuple):
    place: str
    folder: Path  # its path starts here
    name: str  # the path
    columns: dict[str, str]


def _columns_of(rows: list[_Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.columns))


def _raise_faults(faults: list[str], total: int, what: str) -> None:
    if faults:
        more = f'\nand {len(faults) - MOST_FAULTS:,} more' if len(faults) > MOST_FAULTS else ''
        listed = '\n'.join(faults[:MOST_FAULTS])
        raise UserError(f'{len(faults):,} of {total:,} {what} cannot be used; correct or remove them:\n{listed}{more}')


def _column_among(names: tuple[str, ...], columns: Iterable[str], place: str, remedy: str = '') -> str:
    for name in names:
        if name in columns:
            return name
    wanted = names[0] if len(names) == 1 else f'one of {", ".join(names)}'
    raise UserError(f'{place}: got the columns {", ".join(columns) or "(none)"}; expected {wanted}{remedy}')


def _selected(rows: list[_Row], condition: str, path: str) -> list[_Row]:
    parts = re.fullmatch(r'([^=!]+)(!?=)(.*)', condition)
    if not parts:
        raise UserError(
            f'{path}: got the condition {condition!r}; expected COLUMN=VALUE or COLUMN!=VALUE, several joined by &'
        )
    column, sign, values = parts.groups()
    known = _columns_of(rows)
    if column not in known:
        hint = nearest(column, known)
        raise UserError(f'{path}: no column is named {column!r}; expected one of {", ".join(known)}.{hint}')
    among = values.split(',')
    kept = [row for row in rows if (row.columns.get(column, '') in among) == (sign == '=')]
    if not kept:
        seen = list(dict.fromkeys(row.columns.get(column, '') for row in rows))
        listed = ', '.join(map(repr, seen[:8])) + ', ...' * (len(seen) > 8)
        raise UserError(f'{path}: {condition} leaves no recording; the column has {listed}')
    return kept


def _all_rows(path: str, root: Path) -> Iterator[_Row]:
    folder = path_below(path, root)
    if folder.is_dir():
        tables = [file for file in sorted(folder.iterdir()) if content_suffix(file) in ('.tsv', '.jsonl')]
        if len(tables) == 1:
            yield from _all_rows(str(tables[0].absolute()), root)
        else:
            yield from _librispeech_rows(folder) if any(folder.rglob('*.trans.txt')) else _rows_by_name(folder)
        return
    if content_suffix(Path(path)) not in ('.tsv', '.jsonl'):
        matching_files(path, root)  # if nothing is there, says where it was looked for
        raise UserError(
            f'{path!r}: expected a .tsv file with a header (path, text, speaker), a .jsonl file with those keys, or a '
            "folder in LibriSpeech's layout, or of WORD/*.wav"
        )
    for file in matching_files(path, root):
        yield from _file_rows(file)


def _file_rows(file: Path) -> Iterator[_Row]:
    lines = dict(enumerate(read_lines(file), start=1))
    names = []
    if content_suffix(file) == '.tsv':
        names = [name.strip() for name in lines.pop(1, '').split('\t')]
        repeated, count = next(iter(Counter(filter(None, names)).most_common(1)), ('', 0))
        if count > 1:
            raise UserError(f'{file}:1: {count} columns are named {repeated}; expected one: rename the others')
        _column_among(PATHS, names, f'{file}:1')
    faults = []
    for number, line in lines.items():
        if not line.strip():
            continue
        place = f'{file}:{number}'
        try:
            columns = _cells(line, names, place) if names else _members(line, place)
            path = columns[_column_among(PATHS, columns, place)]
        except UserError as error:
            faults.append(str(error))
            continue
        yield _Row(place, file.parent, path, columns)
    _raise_faults(faults, len(lines), 'rows')


def _cells(line: str, names: list[str], place: str) -> dict[str, str]:
    cells = line.split('\t')
    if len(cells) != len(names):
        raise BadInput(f'{place}: got {len(cells)} cells; expected {len(names)}, as in the header')
    return dict(zip(names, cells, strict=True))


def _members(line: str, place: str) -> dict[str, str]:
    try:
        row = parse_json(line.encode())
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise BadInput(f'{place}: expected a JSON object with a path and a text')
    # Python reads NaN, too, which stands for a missing text.
    return {
        name: str(value)
        for name, value in row.items()
        if isinstance(value, str) or (type(value) in (int, float) and math.isfinite(value))
    }


def _librispeech_rows(folder: Path) -> Iterator[_Row]:
    for file in sorted(folder.rglob('*.trans.txt')):
        present = {
            audio.stem: audio.name
            for audio in sorted(file.parent.iterdir(), key=lambda audio: (audio.suffix.lower() == '.flac', audio.name))
            if audio.suffix.lower() in _AUDIO  # not the .txt or .json that is often next to a recording
        }
        for number, line in enumerate(read_lines(file), start=1):
            name, _, text = line.strip().partition(' ')
            if name:
                columns = {'path': f'{name}.flac', 'text': text.strip(), 'speaker': name.partition('-')[0]}
                yield _Row(f'{file}:{number}', file.parent, present.get(name, columns['path']), columns)


def _rows_by_name(folder: Path) -> Iterator[_Row]:
    """Recordings with a .txt of the same name, or in a folder that is named after what is said."""
    files = [file for file in sorted(folder.rglob('*')) if file.suffix.lower() in _AUDIO]
    if not files:
        raise UserError(
            f'{folder} has no recordings in it or below; expected WORD/*.wav, *.wav and *.txt, a table (path, text), '
            "or LibriSpeech's layout, SPEAKER/CHAPTER/*.trans.txt"
        )
    for file in files:
        text = file.with_suffix('.txt')
        said = file.parent.name if file.parent != folder else ''
        if text.is_file():
            said = ' '.join(read_lines(text))
        name = str(file.relative_to(folder))
        yield _Row(str(file), folder, name, {'path': name, 'text': said})


def _sources(rows: list[_Row]) -> list[Source | str]:
    files = list(map(_file, rows))
    missing: dict[Path, set[str]] = {}
    for row, file in zip(rows, files, strict=True):
        if file is None:
            missing.setdefault(row.folder, set()).add(row.name)
    archived = {folder: _archived(folder, names) for folder, names in missing.items()}
    return [
        Source(file, str(file)) if file else archived[row.folder][row.name]
        for row, file in zip(rows, files, strict=True)
    ]


def _file(row: _Row) -> Path | None:
    for path in (row.folder / row.name, row.folder / 'clips' / row.name):  # Common Voice keeps them there
        # False for a name that is too long, where Path raises. A FIFO is there, and refused when it is opened.
        if os.path.exists(path) and not os.path.isdir(path):
            return path
    return None


def _archived(folder: Path, names: set[str]) -> dict[str, Source | str]:
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    archives = [file for file in files if file.name.endswith(ARCHIVES) and file.is_file()]
    listed = ', '.join(archive.name for archive in archives)
    if len(archives) == 1:
        return dict.fromkeys(names, f'neither there nor in {listed}') | _members_of(archives[0], names)
    reason = f'not there, nor is there an archive ({", ".join(ARCHIVES)}) in {folder}'
    if archives:
        reason = f'not there, and {folder} has several archives, expected one: {listed}'
    return dict.fromkeys(names, reason)


def _members_of(archive: Path, wanted: Collection[str]) -> dict[str, Source | str]:
    """The Source of each wanted name that the archive has, or why it cannot be read."""
    spellings: dict[str, list[str]] = {}  # a member may be called a.wav and ./a.wav
    for name in wanted:
        spellings.setdefault(posixpath.normpath(name), []).append(name)
    sources = {}
    held = 0
    unpack = f'unpack it where it is: tar -xf {archive} -C {archive.parent}'

    try:
        with (
            open_binary(archive, '.gz' if archive.suffix == '.tgz' else archive.suffix) as file,
            tarfile.open(archive, 'r:', fileobj=file) as opened,
        ):
            while (member := opened.next()) is not None:
                opened.members.clear()  # tarfile would keep every member
                names = spellings.get(posixpath.normpath(member.name), [])
                if not names:
                    continue

                if not member.isreg() or member.issparse():
                    kind = 'sparse' if member.issparse() else 'no regular file'
                    sources |= dict.fromkeys(names, f'{kind} in {archive.name}; {unpack}')
                    continue

                source = Source(archive, f'{archive}:{names[0]}', member.offset_data, member.size)
                if archive.suffix != '.tar':
                    held += member.size
                    if held > MOST_UNPACKED:
                        raise UserError(
                            f'{archive} is compressed, and its recordings take more than {MOST_UNPACKED / 2**30:g} GiB '
                            f'of memory; {unpack}'
                        )
                    source = source._replace(content=read_at_most(file, member.size))
                sources |= dict.fromkeys(names, source)
    except UserError:
        raise
    except (tarfile.TarError, ValueError, OverflowError, RecursionError, *broken_file()) as error:
        raise BadInput(f'{archive} could not be read: {error}; expected a whole tar archive') from None
    return sources


def _header(row: _Row, source: Source | str) -> Header:
    if isinstance(source, str):
        if os.path.isdir(row.folder / row.name):
            raise BadInput(f'{row.place}: {row.name} is a folder, expected a recording')
        raise BadInput(f'{row.place}: {row.name} is {source}')
    try:
        header = read_header(source)
    except BadInput as error:
        raise BadInput(f'{row.place}: {error}') from None
    if header.missing:
        promised = header.seconds + header.missing / header.rate
        raise BadInput(
            f'{row.place}: {source.name} is cut off: it holds {header.seconds:.2f} seconds, and its header promises '
            f'{promised:.2f}'
        )
    return header


def _segment(row: _Row, whole: float) -> tuple[float, float] | None:
    """Where a row's segment begins in a recording of `whole` seconds, and its length; None for all of it.

    NeMo's rule; but a lone duration that is longer than the recording is in another unit, or a guess.
    """
    offset, duration = (_number(row.columns.get(name, '')) for name in ('offset', 'duration'))
    start = offset or 0.0
    end = whole if duration is None else start + duration
    if (offset is None and not start < end) or (start == 0 and end >= whole):
        return None
    if not 0 <= start < end <= whole + _SLACK or start >= whole:
        at = f'offset {start:g}' if duration is None else f'offset {start:g} and duration {duration:g}'
        raise BadInput(f'{row.place}: {at} (seconds); expected a part of the recording, which has {whole:.2f}')
    return start, min(end, whole) - start


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _describe(utterances: list[Utterance], spec: str, say: Say) -> None:
    seconds = sum(utterance.seconds for utterance in utterances)
    speakers = {utterance.speaker for utterance in utterances} - {''}
    by = f' of {len(speakers):,} speakers' if speakers else ''
    rates = Counter(utterance.rate for utterance in utterances)
    at = ', '.join(f'{rate:,} Hz' + f' ({count:,})' * (len(rates) > 1) for rate, count in sorted(rates.items()))
    parts = sum(utterance.segment is not None for utterance in utterances)
    segments = f' ({parts:,} are segments, by offset and duration)' if parts else ''
    say(f'{spec}: {len(utterances):,} recordings{by}{segments}, {duration(seconds)} at {at}')
    places = {}
    repeated = []
    for utterance in utterances:
        first = places.setdefault((utterance.source.name, utterance.segment), utterance.place)
        if first != utterance.place:
            repeated.append(f'{utterance.place} as {first}')
    if repeated:
        say(f'{spec}: {len(repeated):,} recordings are listed again (the first: {repeated[0]})')
