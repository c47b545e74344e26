"""What others made takes no more memory than is there, and what is no plain text is named; limits are small here."""

import bz2
import gzip
import json
import re
import resource
import struct
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from wav_files import tone, wav_bytes

from flax_transformer.audio.mel import FeatureConfig
from flax_transformer.common.errors import UserError
from flax_transformer.data import lines
from flax_transformer.data.audio import reading
from flax_transformer.data.audio.manifest import open_audio, read_manifest
from flax_transformer.data.audio.reading import Source
from flax_transformer.data.bitext.text_files import AlignedFiles
from flax_transformer.data.lines import lines_of, read_lines


def wav_header(*, rate: int = 16_000, channels: int = 1, size: int) -> bytes:
    return wav_bytes(np.zeros((0, channels), np.float32), rate, width=1, declared=size)


def read_sparse() -> Iterator[str]:
    """What reading each of these files says, in a process that may take little memory."""
    from flax_transformer.tasks.embeddings.corpus import Vocabulary

    def sparse(name: str, size: int, head: bytes = b'') -> Path:
        Path(name).write_bytes(head)
        with open(name, 'r+b') as opened:
            opened.truncate(size)
        return Path(name)

    member = tarfile.TarInfo('x.wav')
    member.size = 20 << 30
    Path('m.tsv').write_text('path\ttext\nx.wav\thi\n')
    sparse('r.tar', (20 << 30) + 1536, member.tobuf(tarfile.GNU_FORMAT))
    with gzip.open('l.txt.gz', 'wb', 1) as out:
        out.writelines(bytes(1 << 20) for _ in range(40))
    Path('pagemap.txt').symlink_to('/proc/self/pagemap')
    manifest = lambda: read_manifest('m.tsv', Path(), say=lambda _: None)
    for read in (
        lambda: Vocabulary.load(sparse('vocabulary.txt', (4 << 30) - 1, b'a 1\n')),
        lambda: Vocabulary.load(Path('pagemap.txt')),
        lambda: read_lines(Path('l.txt.gz')),
        manifest,
        lambda: reading.read_audio(sparse('a.wav', 3 * 10**8, wav_header(rate=768_000, size=3 * 10**8)), 16_000),
        lambda: reading.read_audio(sparse('b.wav', 1 << 25, wav_header(channels=65_535, size=1 << 25)), 16_000),
    ):
        try:
            yield f'read: {type(read()).__name__}'
        except (UserError, MemoryError) as error:
            yield f'{type(error).__name__}: {error}'.replace('\n', ' ')


@pytest.mark.slow
def test_a_bomb_takes_the_memory_of_what_is_there(tmp_path: Path) -> None:
    code = (
        f'import sys; sys.path[:0] = {[str(Path(__file__).parents[up]) for up in (0, 1)]}\n'
        'import scipy.signal, soundfile, test_reading_limits as tests; tests.lines.MOST_LINE = 1 << 24\n'
        'from flax_transformer.tasks.embeddings.corpus import Vocabulary\n'
        'tests.limit(250 << 20); print(*tests.read_sparse(), sep="\\n")'
    )
    done = subprocess.run([sys.executable, '-c', code], cwd=tmp_path, capture_output=True, text=True)
    said = done.stdout.splitlines()
    expected = ['are on the disk', 'larger than', 'a line has', 'are on the disk', 'expected at most', 'read: Audio']
    assert len(said) == len(expected), done.stderr
    assert all(map(re.search, expected, said)), said


def limit(more: int) -> None:
    """Lets this process have so many more bytes of addresses."""
    used = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))


def test_long_lines_make_short_chunks_and_pairs_stay_aligned(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(lines, 'CHUNK_BYTES', 20)
    sides = [f'{"x" * (number % 7)}{number}' for number in range(20)], [str(number) for number in range(19)]
    files = tmp_path / 'a', tmp_path / 'b'
    for file, side in zip(files, sides, strict=True):
        file.write_text(''.join(line + '\n' for line in side))
    assert max(sum(map(len, chunk)) for chunk in lines_of(files[0])) < 30
    records = list(AlignedFiles('', [files]).records())
    assert [line.decode() for chunk in records for line in chunk.sources] == sides[0]
    assert [line and line.decode() for chunk in records for line in chunk.targets] == [*sides[1], None]
    monkeypatch.setattr(lines, 'MOST_LINE', 8)
    (tmp_path / 'c.bz2').write_bytes(bz2.compress(b'short\n' + b'long' * 10))
    with pytest.raises(UserError, match=r'a line has 8 bytes or more.*\(after line 1\)'):
        read_lines(tmp_path / 'c.bz2')


def member(kind: bytes, size: int = 0, name: str = 'x.wav') -> bytes:
    found = tarfile.TarInfo(name)
    found.type, found.size = kind, size
    return found.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (member(b'x') * 5000, 'maximum recursion depth'),
        (member(b'S', name='x.wav'), 'x.wav is sparse in r.tar.*unpack it where it is: tar -xf'),
        (member(b'2'), 'x.wav is no regular file in r.tar'),
    ],
)
@pytest.mark.parametrize('name', ['r.tar', 'r.tar.gz'])
def test_an_archive_that_lies_is_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / 'm.tsv').write_text('path\ttext\nx.wav\thi\n')
    content += bytes(1024)
    (tmp_path / name).write_bytes(content if name == 'r.tar' else gzip.compress(content))
    with pytest.raises(UserError, match=message):
        read_manifest('m.tsv', tmp_path, say=print)


@pytest.mark.parametrize(('channels', 'block'), [(1, 0), (1, 1), (2, 8)])
def test_a_wav_files_block_align_does_not_matter(channels: int, block: int) -> None:
    """Several recorders write it wrong; soundfile reads them so."""
    content = bytearray(wav_bytes(np.stack([tone()] * channels, axis=1)))
    content[32:34] = struct.pack('<H', block)
    found = reading.read_audio(Source(Path(), 'a.wav', content=bytes(content)), 8000)
    np.testing.assert_allclose(found.samples, tone(), atol=1e-4)
    assert 'the WAV header is wrong about the bytes of a frame' in found.remarks


def test_segments_are_read_by_offset_and_duration(tmp_path: Path) -> None:
    """As NeMo's manifests have them; `file_name` and the folder clips are Hugging Face's and Common Voice's."""
    sound = np.concatenate([tone(0.5, hz=300), tone(0.5, hz=600)])
    (tmp_path / 'clips').mkdir()
    (tmp_path / 'clips' / 'a.wav').write_bytes(wav_bytes(sound))
    sizes = [
        {},
        {'offset': 0.5},
        {'offset': 0.25, 'duration': 0.5},
        {'duration': 0.1},
        {'duration': 900},
        {'duration': -1},
    ]
    rows = [{'file_name': 'a.wav', 'text': 'x', **size} for size in sizes]
    (tmp_path / 'm.jsonl').write_text('\n'.join(map(json.dumps, rows)))
    said: list[str] = []
    found = read_manifest('m.jsonl', tmp_path, say=said.append)
    for each, (first, last) in zip(
        found, [(0, 8000), (4000, 8000), (2000, 6000), (0, 800), *[(0, 8000)] * 2], strict=True
    ):
        np.testing.assert_allclose(open_audio(each, 8000), sound[first:last], atol=1e-4)
        assert each.seconds == pytest.approx((last - first) / 8000)
    assert '6 recordings (3 are segments' in said[0]
    (tmp_path / 'm.jsonl').write_text(json.dumps(rows[0] | {'offset': 0.9, 'duration': 0.5}))
    with pytest.raises(UserError, match=r'offset 0.9 and duration 0.5'):
        read_manifest('m.jsonl', tmp_path, say=print)


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (b'PK\3\4rest', 'a zip archive.*OPUS'),
        (gzip.compress(b'a\n', mtime=0), 'compressed'),
        (b'<?xml version="1.0"?>\n<tmx version="1.4">', 'TMX'),
        (b'<srcset setid="x" srclang="en">\n<doc>', 'a segment on each line.*sed -n'),
        (b'# comment\nmsgid ""\nmsgstr ""\n', 'message catalog'),
        (b'\xef\xbb\xbf1\r\n00:00:01,000 --> 00:00:02,000\r\nHi\r\n', 'subtitles'),
        ('a'.encode('utf-16'), 'iconv -f UTF-16'),
    ],
)
def test_a_file_that_is_no_plain_text_is_named_with_a_remedy(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / 'a.txt').write_bytes(content)
    with pytest.raises(UserError, match=rf'a.txt is .*{message}'):
        read_lines(tmp_path / 'a.txt')


@pytest.mark.parametrize(
    ('field', 'message'),
    [
        ({'num_mels': 10**7}, 'expected at most 256'),
        ({'hop_ms': 1e308}, r'numbers below 1e\+100'),
        ({'hop_ms': 2**63}, r'numbers below 9\.22337e\+18'),  # a float field; JAX takes no such integer
        ({'sample_rate': 10**400}, r'numbers below 9\.22337e\+18'),
    ],
)
def test_a_size_is_refused_before_it_takes_memory_or_overflows(field: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        FeatureConfig(**field)
