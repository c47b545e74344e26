"""Manifests: recordings with transcripts, in files or in a tar archive next to them."""

import io
import os
import posixpath
import tarfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from flax_transformer.common.errors import BadInput, UserError, nearest
from flax_transformer.common.files import open_regular
from flax_transformer.data.audio.reading import Audio, Header, read_audio, read_header
from flax_transformer.data.audio.rows import PATHS, Row, Spec, column_among, raise_faults, read_rows
from flax_transformer.data.lines import broken_file

SUFFIXES = ('.tar', '.tar.gz', '.tgz', '.tar.xz', '.tar.bz2')
MOST_UNPACKED = 1 << 30  # bytes of a compressed archive's files that are held in memory
TEXTS = ('text', 'transcript', 'transcription', 'sentence')  # names of columns
SPEAKERS = ('speaker', 'speaker_id', 'client_id')
Say = Callable[[str], None]


class Source(NamedTuple):
    """A recording's bytes: a file, a part of a file, or memory."""

    path: Path
    name: str  # messages show it; 'recordings.tar:a/b.wav' in an archive
    start: int = 0
    size: int | None = None  # bytes; None: all
    content: bytes | None = None  # unpacked from a compressed archive

    def open(self) -> BinaryIO:
        """The recording's bytes. Raises BadInput if the file is not there."""
        if self.content is not None:
            return io.BytesIO(self.content)
        opened = open_regular(self.path)
        if self.size is None:
            return opened
        with opened:
            opened.seek(self.start)
            return io.BytesIO(opened.read(self.size))


def members_of(archive: Path, wanted: Collection[str]) -> dict[str, Source]:
    """The files of an archive that are wanted, by name; those that it lacks are left out.

    Raises BadInput for a damaged archive, UserError for a compressed one with too much in it.
    """
    spellings: dict[str, list[str]] = {}  # a member may be called a.wav and ./a.wav
    for name in wanted:
        spellings.setdefault(posixpath.normpath(name), []).append(name)
    is_plain = archive.name.endswith('.tar')
    found: dict[str, Source] = {}
    held = 0
    try:
        with tarfile.open(archive, 'r:' if is_plain else 'r|*') as opened:
            for member in opened:
                names = spellings.get(posixpath.normpath(member.name), [])
                if not names or not member.isreg() or member.issparse():
                    continue
                source = Source(archive, f'{archive}:{names[0]}', member.offset_data, member.size)
                if not is_plain:
                    held += member.size
                    if held > MOST_UNPACKED:
                        raise UserError(
                            f'{archive} is compressed, and its recordings take more than {MOST_UNPACKED / 2**30:g} GiB '
                            f'of memory; unpack it where it is: tar -xf {archive} -C {archive.parent}'
                        )
                    source = source._replace(content=opened.extractfile(member).read())
                found |= dict.fromkeys(names, source)
    except (tarfile.TarError, *broken_file()) as error:
        raise BadInput(f'{archive} could not be read: {error}; expected a whole tar archive') from None
    return found


class Utterance(NamedTuple):
    """A recording and what is said in it."""

    source: Source
    text: str
    speaker: str  # '' if the manifest has none
    seconds: float  # by the recording's header
    rate: int  # Hz
    columns: dict[str, str]  # its whole row
    place: str  # its file and line, such as 'index.tsv:12'


def read_manifest(spec: str, root: Path, *, say: Say) -> list[Utterance]:
    """The utterances that `spec` names, in the manifest's order.

    A spec is one of

        train.tsv      a header, then a row for each recording: path or file; text or transcript; speaker, if known
        train.jsonl    the same as JSON objects
        train-clean-5  a folder in LibriSpeech's layout: SPEAKER/CHAPTER/*.trans.txt, with the recordings next to them

    and, of the first two, a selection of rows and the text's column: `index.tsv?split=train&speaker!=lucas,theo#digit`.
    Paths start at the manifest's folder; what is not there is looked for in the only tar archive next to it.

    The header of each recording is read. Raises one UserError for all that are missing, damaged or cut off, and for a
    manifest without the columns that it needs. `say` gets the number, duration and rates, and what is odd.
    """
    parts = Spec.parsed(spec)
    rows = read_rows(parts, root)
    names = list(dict.fromkeys(name for row in rows for name in (*row.columns, *row.not_text)))
    other = next((name for name in names if name not in PATHS), 'words')
    remedy = nearest(parts.text, names) if parts.text else f'; or name it after #, as in {parts.path}#{other}'
    text = column_among((parts.text,) if parts.text else TEXTS, names, parts.path, remedy)
    speaker = next((name for name in SPEAKERS if name in names), '')
    utterances, faults = [], []
    for row, (source, reason) in zip(rows, _sources(rows), strict=True):
        try:
            said, who = row.cell(text).strip(), row.columns.get(speaker, '').strip()
            header = _header(row, source, reason)
        except UserError as error:
            faults.append(str(error))
            continue
        utterances.append(Utterance(source, said, who, header.seconds, header.rate, row.columns, row.place))
    raise_faults(faults, len(rows), 'recordings')
    _describe(utterances, spec, say)
    return utterances


def open_audio(utterance: Utterance, rate: int) -> np.ndarray:
    """The utterance's samples at `rate` Hz, float32 [T] in -1..1. Raises BadInput with its place."""
    return _read(utterance, rate).samples


def read_all(utterances: Iterable[Utterance], rate: int, *, say: Say) -> list[np.ndarray]:
    """The samples of all utterances, held in memory. Each remark is said once, with how many it is true of.

    Raises one UserError for all that cannot be read.
    """
    found, faults, remarks = [], [], {}
    for utterance in utterances:
        try:
            audio = _read(utterance, rate)
        except UserError as error:
            faults.append(str(error))
            continue
        found.append(audio.samples)
        for remark in audio.remarks:
            remarks.setdefault(remark, []).append(utterance.place)
    raise_faults(faults, len(found) + len(faults), 'recordings')
    for remark, places in remarks.items():
        first = '' if len(places) == len(found) else f' (the first: {places[0]})'
        say(f'{len(places):,} of {len(found):,} recordings: {remark}{first}')
    return found


def _read(utterance: Utterance, rate: int) -> Audio:
    try:
        with utterance.source.open() as opened:
            return read_audio(opened, rate, name=utterance.source.name)
    except OSError as error:
        raise BadInput(f'{utterance.place}: {utterance.source.name} could not be read: {error.strerror}') from None
    except BadInput as error:
        raise BadInput(f'{utterance.place}: {error}') from None


def _sources(rows: list[Row]) -> list[tuple[Source | None, str]]:
    """Where the recording of each row is, or why it is nowhere."""
    missing: dict[Path, set[str]] = {}
    are_there = [os.path.isfile(row.path) for row in rows]  # False for a name that is too long, where Path raises
    for row, is_there in zip(rows, are_there, strict=True):
        if not is_there:
            missing.setdefault(row.folder, set()).add(row.name)
    archived = {folder: _archived(folder, names) for folder, names in missing.items()}
    found = []
    for row, is_there in zip(rows, are_there, strict=True):
        members, reason = archived.get(row.folder, ({}, ''))
        found.append((Source(row.path, str(row.path)), '') if is_there else (members.get(row.name), reason))
    return found


def _archived(folder: Path, names: set[str]) -> tuple[dict[str, Source], str]:
    """The recordings of the only archive in a folder, and the reason why others are missing."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    archives = [file for file in files if file.name.endswith(SUFFIXES) and file.is_file()]
    if len(archives) == 1:
        return members_of(archives[0], names), f'neither there nor in {archives[0].name}'
    if archives:
        listed = ', '.join(archive.name for archive in archives)
        return {}, f'not there, and {folder} has several archives, expected one: {listed}'
    return {}, f'not there, nor is there an archive ({", ".join(SUFFIXES)}) in {folder}'


def _header(row: Row, source: Source | None, reason: str) -> Header:
    if source is None:
        if os.path.isdir(row.path):
            raise BadInput(f'{row.place}: {row.name} is a folder, expected a recording')
        raise BadInput(f'{row.place}: {row.name} is {reason}')
    try:
        with source.open() as opened:
            header = read_header(opened, name=source.name)
    except OSError as error:
        raise BadInput(f'{row.place}: {source.name} could not be read: {error.strerror}') from None
    except UserError as error:
        raise BadInput(f'{row.place}: {error}') from None
    if header.missing:
        promised = header.seconds + header.missing / header.rate
        raise BadInput(
            f'{row.place}: {source.name} is cut off: it holds {header.seconds:.2f} seconds, and its header promises '
            f'{promised:.2f}'
        )
    return header


def _describe(utterances: list[Utterance], spec: str, say: Say) -> None:
    """Says how much there is, at which rates, and what is odd."""
    seconds = sum(utterance.seconds for utterance in utterances)
    speakers = {utterance.speaker for utterance in utterances} - {''}
    by = f' of {len(speakers):,} speakers' if speakers else ''
    rates = Counter(utterance.rate for utterance in utterances)
    at = ', '.join(f'{rate:,} Hz' + f' ({count:,})' * (len(rates) > 1) for rate, count in sorted(rates.items()))
    say(f'{spec}: {len(utterances):,} recordings{by}, {_duration(seconds)} at {at}')
    places: dict[str, str] = {}
    repeated = []
    for utterance in utterances:
        first = places.setdefault(utterance.source.name, utterance.place)
        if first != utterance.place:
            repeated.append(f'{utterance.place} as {first}')
    if repeated:
        say(f'{spec}: {len(repeated):,} recordings are listed again (the first: {repeated[0]})')


def _duration(seconds: float) -> str:
    """Such as 1.5 h, 22 min or 7.3 s."""
    if seconds >= 5400:
        return f'{seconds / 3600:,.1f} h'
    return f'{seconds / 60:.0f} min' if seconds >= 90 else f'{seconds:.1f} s'
