"""Manifests: recordings with transcripts, in files or in a tar archive next to them."""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flax_transformer.common.errors import BadInput, UserError, nearest
from flax_transformer.common.quiet import Say, duration

from .archive import SUFFIXES, Source, members_of
from .reading import Audio, read_audio, read_header
from .rows import PATHS, Row, Spec, column_among, raise_faults, read_rows
from .wav import Header

_SLACK = 0.1  # seconds by which a segment may reach beyond its recording: manifests round
TEXTS = ('text', 'transcript', 'transcription', 'sentence')  # names of columns
SPEAKERS = ('speaker', 'speaker_id', 'client_id')


class Utterance(NamedTuple):
    """A recording and what is said in it."""

    source: Source
    text: str
    speaker: str  # '' if the manifest has none
    seconds: float  # the recording's length by its header, or the segment's
    rate: int  # Hz
    columns: dict[str, str]  # its whole row
    place: str  # its file and line, such as 'index.tsv:12'
    segment: tuple[float, float] | None = None  # where it begins in the recording and how long it is, in seconds


def read_manifest(spec: str, root: Path, *, say: Say) -> list[Utterance]:
    """The utterances that `spec` names, in the manifest's order.

    docs/how-to/audio.md lists the forms of a spec, such as `index.tsv?split=train&speaker!=lucas,theo#digit`. Paths
    start at the manifest's folder; what is not there is looked for in its folder clips (Common Voice), then in the only
    tar archive next to it. `offset` and `duration`, in seconds, make an utterance a segment of its recording.

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
    utterances = []
    faults = []
    for row, source in zip(rows, _sources(rows), strict=True):
        try:
            said = row.cell(text).strip()
            who = row.columns.get(speaker, '').strip()
            header = _header(row, source)
            segment = _segment(row, header.seconds)
        except UserError as error:
            faults.append(str(error))
            continue
        seconds = segment[1] if segment else header.seconds
        utterances.append(Utterance(source, said, who, seconds, header.rate, row.columns, row.place, segment))
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
    found = []
    faults = []
    remarks = {}
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
        return read_audio(utterance.source, rate, segment=utterance.segment)
    except BadInput as error:
        raise BadInput(f'{utterance.place}: {error}') from None


def _sources(rows: list[Row]) -> list[Source | str]:
    """Where the recording of each row is, or why it was not found."""
    missing: dict[Path, set[str]] = {}
    files = list(map(_file, rows))
    for row, file in zip(rows, files, strict=True):
        if file is None:
            missing.setdefault(row.folder, set()).add(row.name)
    archived = {folder: _archived(folder, names) for folder, names in missing.items()}
    found = []
    for row, file in zip(rows, files, strict=True):
        members, reason = archived.get(row.folder, ({}, ''))
        found.append(Source(file, str(file)) if file else members.get(row.name, reason))
    return found


def _file(row: Row) -> Path | None:
    """What a row names, itself or in the folder where Common Voice keeps its clips; None if it is not there."""
    for path in (row.path, row.folder / 'clips' / row.name):
        # False for a name that is too long, where Path raises. A FIFO is there, and refused when it is opened.
        if os.path.exists(path) and not os.path.isdir(path):
            return path
    return None


def _archived(folder: Path, names: set[str]) -> tuple[dict[str, Source | str], str]:
    """The recordings of the only archive in a folder, and the reason why others are missing."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    archives = [file for file in files if file.name.endswith(SUFFIXES) and file.is_file()]
    if len(archives) == 1:
        return members_of(archives[0], names), f'neither there nor in {archives[0].name}'
    if archives:
        listed = ', '.join(archive.name for archive in archives)
        return {}, f'not there, and {folder} has several archives, expected one: {listed}'
    return {}, f'not there, nor is there an archive ({", ".join(SUFFIXES)}) in {folder}'


def _header(row: Row, source: Source | str) -> Header:
    if isinstance(source, str):
        if os.path.isdir(row.path):
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


def _segment(row: Row, whole: float) -> tuple[float, float] | None:
    """Where a row's segment begins in a recording of `whole` seconds, and how long it is; None if it is all of it.

    This is NeMo's rule; but a duration without an offset that is longer than the recording is in another unit, or a
    guess.
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
    """Says how much there is, at which rates, and what is odd."""
    seconds = sum(utterance.seconds for utterance in utterances)
    speakers = {utterance.speaker for utterance in utterances} - {''}
    by = f' of {len(speakers):,} speakers' if speakers else ''
    rates = Counter(utterance.rate for utterance in utterances)
    at = ', '.join(f'{rate:,} Hz' + f' ({count:,})' * (len(rates) > 1) for rate, count in sorted(rates.items()))
    parts = sum(utterance.segment is not None for utterance in utterances)
    segments = f' ({parts:,} are segments, by offset and duration)' if parts else ''
    say(f'{spec}: {len(utterances):,} recordings{by}{segments}, {duration(seconds)} at {at}')
    places: dict[tuple[str, tuple[float, float] | None], str] = {}
    repeated = []
    for utterance in utterances:
        first = places.setdefault((utterance.source.name, utterance.segment), utterance.place)
        if first != utterance.place:
            repeated.append(f'{utterance.place} as {first}')
    if repeated:
        say(f'{spec}: {len(repeated):,} recordings are listed again (the first: {repeated[0]})')
