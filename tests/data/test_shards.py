"""Pieces of files divided among shards: each piece has one, all have about as many, outputs are whole or absent."""

import gzip
import random
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
import zstandard

from flax_transformer.cli.lines import CHUNK
from flax_transformer.common.errors import BadInput, UserError
from flax_transformer.data import shards
from flax_transformer.data.lines import SUFFIXES, compressing, open_binary
from flax_transformer.data.shards import Shard, dealt, find_input, pieces, shares, written_piece


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch) -> None:
    monkeypatch.setattr(shards, 'PIECE', 3)


def owners(num_pieces: list[int], count: int) -> list[list[int]]:
    """The shard of each piece of files whose sizes are as their numbers of pieces."""
    divided = shares([1000 * each for each in num_pieces], count)
    return [list(islice(dealt(share), each)) for share, each in zip(divided, num_pieces, strict=True)]


def test_a_piece_is_translated_in_the_batches_of_the_whole_file() -> None:
    assert 8192 % CHUNK == 0


@pytest.mark.parametrize('count', [1, 2, 7, 64])
def test_shards_have_equal_parts_of_one_large_file_and_of_many_small_ones(count: int) -> None:
    rng = random.Random(count)
    mixed = [rng.randint(1, 200) for _ in range(40)]
    for num_pieces in ([640], [640] * 3, [7] * 100, [1] * 640, mixed, [9000, *[1] * 900]):
        found = owners(num_pieces, count)
        loads = Counter(number for file in found for number in file)
        mean = sum(num_pieces) / count
        assert set(loads) == set(range(1, count + 1))
        assert max(loads.values()) <= mean + 2
        readers = sum(len(set(file)) for file in found)
        assert readers <= len(num_pieces) + count, 'a file smaller than a share has one or two shards'


def test_an_empty_file_has_a_shard() -> None:
    assert [len(share) for share in shares([0, 0, 0], 2)] == [1, 2, 1]
    assert shares([0], 5)[0].keys() == set(range(1, 6))


@pytest.mark.parametrize('text', ['0/64', '65/64', '0/0', '3', 'a/b', '1/2/3', '-1/4', '', '3/', '1.0/2', '٣/٤'])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r'--shard .*(expected|numbered from 1)'):
        Shard.parse(text)


def test_files_are_named_below_the_folder_that_they_share(tmp_path: Path) -> None:
    for name in ('b/10', 'b/9', 'a/9', 'a/.hidden'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('x\n')
    (tmp_path / 'a' / 'folder').mkdir()
    assert [file.name for file in find_input(f'{tmp_path}/*/*')] == ['a/9', 'b/10', 'b/9']
    assert [file.name for file in find_input(f'{tmp_path}/b/*')] == ['10', '9']
    assert [(file.name, file.size) for file in find_input(f'{tmp_path}/b/9')] == [('9', 2)]
    (tmp_path / 'b' / '[9]').write_text('')
    assert [file.name for file in find_input(f'{tmp_path}/b/[9]')] == ['[9]']  # a file, not a pattern
    with pytest.raises(UserError, match='no file matches'):
        find_input(f'{tmp_path}/c/*')
    with pytest.raises(UserError, match=r'is a folder'):
        find_input(f'{tmp_path}/a')


@pytest.mark.parametrize(
    ('content', 'expected'),
    [(b'', [0]), (b'a', [1]), (b'\n\n\n', [3]), (b'a\n\nb\nc', [3, 1]), (b'\xef\xbb\xbfa\r\n' * 7, [3, 3, 1])],
)
def test_pieces_hold_every_byte_of_the_file(tmp_path: Path, content: bytes, expected: list[int]) -> None:
    (tmp_path / 'in').write_bytes(content)
    found = list(pieces(tmp_path / 'in'))
    assert [len(piece) for piece in found] == expected
    assert b''.join(line for piece in found for line in piece) == content


@pytest.mark.parametrize('suffix', ['.gz', '.zst'])
def test_damage_is_named_with_file_and_line_after_the_pieces_before_it(tmp_path: Path, suffix: str) -> None:
    rng = random.Random(0)
    text = b''.join(b'%d\n' % rng.getrandbits(256) for _ in range(9000))
    file = tmp_path / f'in{suffix}'
    whole = gzip.compress(text) if suffix == '.gz' else zstandard.compress(text)
    file.write_bytes(whole[: len(whole) * 9 // 10])
    found = []
    with pytest.raises(BadInput, match=rf'in{suffix} could not be read: .*(end|middle).* \(after line \d+\)') as raised:
        found.extend(pieces(file))
    number = int(str(raised.value).partition('after line ')[2].rstrip(')'))
    assert 6000 < number < 9000
    assert len(found) == number // 4096 * 4096 // 3
    assert text.startswith(b''.join(line for piece in found for line in piece))


@pytest.mark.parametrize('suffix', [*SUFFIXES, '.txt'])
def test_outputs_are_compressed_as_the_input_is_and_can_be_joined(tmp_path: Path, suffix: str) -> None:
    for number in range(2):
        with written_piece(tmp_path / f'a{suffix}.{number}', suffix) as opened:
            opened.write(b'piece %d\n' % number)
            assert not (tmp_path / f'a{suffix}.{number}').exists()
    parts = sorted(tmp_path.glob(f'a{suffix}.*'))
    (tmp_path / f'joined{suffix}').write_bytes(b''.join(part.read_bytes() for part in parts))
    with open_binary(tmp_path / f'joined{suffix}') as opened:
        assert opened.read() == b'piece 0\npiece 1\n'
    with (tmp_path / 'again').open('wb') as plain, compressing(plain, suffix) as opened:
        opened.write(b'piece 1\n')
    assert (tmp_path / 'again').read_bytes() == parts[1].read_bytes()


def test_two_processes_may_write_a_piece_at_once_and_a_killed_one_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / '.a.0.killed.partial').write_bytes(b'ha')
    with written_piece(tmp_path / 'a.0', '') as first:
        first.write(b'whole\n')
        with written_piece(tmp_path / 'a.0', '') as second:
            second.write(b'who')
            assert list(tmp_path.glob('a.*')) == []
            second.write(b'le\n')
        assert (tmp_path / 'a.0').read_bytes() == b'whole\n'
    assert (tmp_path / 'a.0').read_bytes() == b'whole\n'
    assert [file.name for file in tmp_path.iterdir()] == ['a.0']
