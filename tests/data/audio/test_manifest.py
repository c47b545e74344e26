"""Manifests in every form, selections of their rows, recordings in archives, and everything that may be wrong."""

import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from wav_files import tone, wav_bytes

from flax_transformer.common.errors import UserError
from flax_transformer.data.audio import manifest
from flax_transformer.data.audio.manifest import Utterance, open_audio, read_all, read_manifest

HEADER = 'file\tdigit\tspeaker\tsplit\n'
ROWS = [(f'clips/{digit}_{who}.wav', str(digit), who) for who in ('ann', 'bob') for digit in range(3)]
TABLE = HEADER + ''.join(
    f'{file}\t{digit}\t{who}\t{"test" if digit == "0" else "train"}\n' for file, digit, who in ROWS
)


def clip(file: str) -> bytes:
    """A recording that is different for each name."""
    return wav_bytes(tone(0.1 + 0.01 * len(file), hz=300 + 10 * sum(map(ord, file))))


def write(folder: Path, *, leave_out: str = '') -> None:
    (folder / 'clips').mkdir()
    (folder / 'index.tsv').write_text(TABLE)
    for file, *_ in ROWS:
        if file != leave_out:
            (folder / file).write_bytes(clip(file))


def write_tar(file: Path, *, mode: str, prefix: str = '') -> None:
    with tarfile.open(file, mode) as archive:
        for name, *_ in ROWS:
            member = tarfile.TarInfo(prefix + name)
            member.size = len(clip(name))
            archive.addfile(member, io.BytesIO(clip(name)))


def read(spec: str, folder: Path) -> tuple[list[Utterance], list[str]]:
    said: list[str] = []
    return read_manifest(spec, folder, say=said.append), said


def test_a_table_lists_recordings_in_its_order(tmp_path: Path) -> None:
    write(tmp_path)
    utterances, said = read('index.tsv#digit', tmp_path)
    assert [(each.text, each.speaker) for each in utterances] == [row[1:] for row in ROWS]
    first = utterances[0]
    assert first.columns == {'file': 'clips/0_ann.wav', 'digit': '0', 'speaker': 'ann', 'split': 'test'}
    assert first.place == f'{tmp_path}/index.tsv:2'
    assert (first.rate, first.seconds) == (8000, 0.25)
    assert said == ['index.tsv#digit: 6 recordings of 2 speakers, 1.5 s at 8,000 Hz']
    np.testing.assert_allclose(open_audio(first, 8000), tone(0.25, hz=300 + 10 * sum(map(ord, ROWS[0][0]))), atol=1e-4)


@pytest.mark.parametrize(
    ('conditions', 'expected'),
    [
        ('split=train&speaker!=ann', ['1bob', '2bob']),
        ('digit=0,2&speaker=ann', ['0ann', '2ann']),
        ('digit!=0,1', ['2ann', '2bob']),
    ],
)
def test_conditions_select_rows(conditions: str, expected: list[str], tmp_path: Path) -> None:
    write(tmp_path)
    utterances, _ = read(f'index.tsv?{conditions}#digit', tmp_path)
    assert [each.text + each.speaker for each in utterances] == expected


def test_json_lines_are_the_same(tmp_path: Path) -> None:
    write(tmp_path)
    rows = [{'audio_filepath': file, 'text': digit, 'duration': 0.5, 'more': []} for file, digit, _ in ROWS]
    (tmp_path / 'index.jsonl').write_text('\n'.join(map(json.dumps, rows)) + '\n')
    utterances, _ = read('index.jsonl?duration=0.5', tmp_path)
    assert [each.text for each in utterances] == [row[1] for row in ROWS]
    assert utterances[0].speaker == ''
    assert utterances[0].columns['duration'] == '0.5'


def test_a_folder_in_librispeechs_layout(tmp_path: Path) -> None:
    for name in ('7-1-0000', '7-1-0001', '12-4-0000'):
        speaker, chapter, _ = name.split('-')
        folder = tmp_path / 'dev' / speaker / chapter
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f'{name}.wav').write_bytes(clip(name))
        (folder / f'{name}.txt').write_text('no sound')
        with (folder / f'{speaker}-{chapter}.trans.txt').open('a') as file:
            file.write(f'{name} SAID IN {name}\n')
    utterances, said = read('dev', tmp_path)
    assert [(each.speaker, each.text) for each in utterances] == [
        ('12', 'SAID IN 12-4-0000'), ('7', 'SAID IN 7-1-0000'), ('7', 'SAID IN 7-1-0001')
    ]  # fmt: skip
    assert 'dev: 3 recordings of 2 speakers' in said[0]


@pytest.mark.parametrize(('name', 'mode'), [('a.tar', 'w'), ('a.tar.xz', 'w:xz'), ('a.tgz', 'w:gz')])
def test_recordings_in_an_archive_are_those_of_the_folder(name: str, mode: str, tmp_path: Path) -> None:
    (tmp_path / 'index.tsv').write_text(TABLE)
    write_tar(tmp_path / name, mode=mode, prefix='./')
    utterances, _ = read('index.tsv#digit', tmp_path)
    assert [(each.text, each.speaker) for each in utterances] == [row[1:] for row in ROWS]
    for each, (file, *_) in zip(utterances, ROWS, strict=True):
        with each.source.open() as opened:
            assert opened.read() == clip(file)
        assert (each.source.content is None) == (name == 'a.tar'), 'a plain archive is not held in memory'


def test_each_spelling_of_a_path_finds_the_archives_recording(tmp_path: Path) -> None:
    file = ROWS[0][0]
    write_tar(tmp_path / 'a.tar', mode='w')
    (tmp_path / 'index.tsv').write_text(f'path\ttext\n{file}\tone\n./{file}\ttwo\n')
    utterances, said = read('index.tsv', tmp_path)
    assert [utterance.text for utterance in utterances] == ['one', 'two']
    assert 'index.tsv: 1 recordings are listed again' in said[1]


def test_files_in_the_folder_come_before_those_of_the_archive(tmp_path: Path) -> None:
    write(tmp_path, leave_out=ROWS[2][0])
    write_tar(tmp_path / 'a.tar', mode='w')
    utterances, _ = read('index.tsv#digit', tmp_path)
    assert [each.source.path.name for each in utterances[1:4]] == ['1_ann.wav', 'a.tar', '0_bob.wav']


def test_a_compressed_archive_of_too_much_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / 'index.tsv').write_text(TABLE)
    write_tar(tmp_path / 'a.tar.gz', mode='w:gz')
    monkeypatch.setattr(manifest, 'MOST_UNPACKED', 5 * len(clip(ROWS[0][0])))
    with pytest.raises(UserError, match=r'tar -xf .*a.tar.gz'):
        read('index.tsv#digit', tmp_path)
    read('index.tsv?split=test#digit', tmp_path)  # what is not selected is not held


def broken(folder: Path) -> None:
    """A table of 18 recordings: six are sound, three are damaged, nine are missing."""
    write(folder)
    damaged = {'b_empty.wav': b'', 'c_text.wav': b'no audio', 'd_cut.wav': wav_bytes(tone())[:-1001]}
    for name, content in damaged.items():
        (folder / name).write_bytes(content)
    lines = [f'{name}\tx\tann\ttrain\n' for name in (*damaged, *(f'missing_{index}.wav' for index in range(9)))]
    (folder / 'index.tsv').write_text(TABLE + ''.join(lines))


def test_all_broken_files_are_named_up_to_ten(tmp_path: Path) -> None:
    pytest.importorskip('soundfile')
    broken(tmp_path)
    with pytest.raises(UserError) as caught:
        read('index.tsv#digit', tmp_path)
    first, *lines = str(caught.value).split('\n')
    assert '12 of 18' in first
    assert len(lines) == 11
    place = f'{tmp_path}/index.tsv'
    for number, name in enumerate(('b_empty', 'c_text', 'd_cut', 'missing_0')):
        assert re.match(rf'{place}:{number + 8}: .*\b{name}\.wav\b', lines[number])
    assert lines[10] == 'and 2 more'


def test_a_missing_file_names_the_archives(tmp_path: Path) -> None:
    (tmp_path / 'index.tsv').write_text(TABLE + 'no.wav\tx\tann\ttrain\n')
    write_tar(tmp_path / 'a.tar', mode='w')
    with pytest.raises(UserError, match=r'index.tsv:8: no.wav is neither there nor in a.tar'):
        read('index.tsv#digit', tmp_path)
    write_tar(tmp_path / 'b.tar.gz', mode='w:gz')
    with pytest.raises(UserError, match=r'several archives.*a.tar, b.tar.gz'):
        read('index.tsv#digit', tmp_path)


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / 'index.tsv').write_text(TABLE)
    write_tar(tmp_path / 'a.tar.xz', mode='w:xz')
    content = (tmp_path / 'a.tar.xz').read_bytes()
    for damaged in (content[: len(content) // 2], b'no archive' * 99):
        (tmp_path / 'a.tar.xz').write_bytes(damaged)
        with pytest.raises(UserError, match=r'a.tar.xz could not be read: .*expected a whole tar archive'):
            read('index.tsv#digit', tmp_path)


@pytest.mark.parametrize(
    ('content', 'spec', 'message'),
    [
        (TABLE, 'index.tsv', 'index.tsv#digit'),
        (TABLE, 'index.tsv#digits', r'Did you mean digit\?'),
        (TABLE, 'index.tsv?splitt=test#digit', r"'splitt'.* Did you mean split\?"),
        (TABLE, 'index.tsv?split=dev#digit', r"split=dev .*'test', 'train'"),
        (TABLE, 'index.tsv?split#digit', r"got the condition 'split'"),
        (TABLE.replace('speaker', 'digit'), 'index.tsv#digit', r'index.tsv:1: 2 columns are named digit'),
        (HEADER + '.\t1\tann\ttest\n', 'index.tsv#digit', r'index.tsv:2: . is a folder'),
        (TABLE + 'a.wav\n', 'index.tsv#digit', r'index.tsv:8: got 1 cells'),
        ('', 'index.tsv#digit', r'index.tsv:1: got the columns \(none\)'),
        (HEADER, 'index.tsv#digit', r'index.tsv lists no recordings'),
        (TABLE, 'index.csv', r'index.csv does not exist'),
        (TABLE, 'empty', 'empty has no recordings in it or below'),
    ],
)  # fmt: skip
def test_a_manifest_without_what_it_needs_is_refused(content: str, spec: str, message: str, tmp_path: Path) -> None:
    (tmp_path / 'index.tsv').write_text(content)
    (tmp_path / 'empty').mkdir()
    with pytest.raises(UserError, match=message):
        read(spec, tmp_path)


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (b'{"path": "a.wav"\n', r'1 of 1 rows cannot be used.*\n.*index.jsonl:1: expected a JSON object'),
        (b'[]\n{}\n', r'index.jsonl:2: got the columns \(none\)'),
    ],
)  # fmt: skip
def test_json_lines_that_are_none_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / 'index.jsonl').write_bytes(content)
    with pytest.raises(UserError, match=message):
        read('index.jsonl', tmp_path)


@pytest.mark.parametrize(
    ('second', 'message'),
    [
        ({'text': None}, 'path; expected text'),
        ({'path': None, 'text': 'x'}, 'text; expected one of path'),
        ({'text': float('nan')}, 'path; expected text'),
        ({'text': True}, 'path; expected text'),
    ],
)
def test_each_row_needs_a_text(second: dict, message: str, tmp_path: Path) -> None:
    (tmp_path / 'a.wav').write_bytes(wav_bytes(tone()))
    rows = [{'path': 'a.wav', **second}, {'path': 'a.wav', 'text': ''}]
    (tmp_path / 'index.jsonl').write_text('\n'.join(map(json.dumps, rows)))
    with pytest.raises(UserError, match=rf'1 of 2 (recordings|rows) .*\n.*index.jsonl:1: got the columns {message}'):
        read('index.jsonl', tmp_path)


def test_recordings_that_are_listed_again_are_said_once(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / 'index.tsv').write_text(TABLE + TABLE.removeprefix(HEADER))
    utterances, said = read('index.tsv#digit', tmp_path)
    assert len(utterances) == 12
    assert re.search(r' 6 .* again .*/index.tsv:8 as .*/index.tsv:2', said[1])


def test_remarks_are_said_once_with_their_number(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / ROWS[3][0]).write_bytes(wav_bytes(np.zeros((800, 2))))
    utterances, _ = read('index.tsv#digit', tmp_path)
    said: list[str] = []
    assert len(read_all(utterances, 16_000, say=said.append)) == 6
    mixed, silent, resampled = sorted(said)
    assert re.match('1 of 6 .*2 channels.*index.tsv:5', mixed)
    assert re.match('1 of 6 .*silent.*index.tsv:5', silent)
    assert re.match('6 of 6 .*16,000 Hz', resampled)


def test_recordings_that_have_gone_since_are_named(tmp_path: Path) -> None:
    write(tmp_path)
    utterances, _ = read('index.tsv#digit', tmp_path)
    (tmp_path / ROWS[1][0]).unlink()
    (tmp_path / ROWS[2][0]).write_bytes(b'')
    with pytest.raises(
        UserError,
        match=r'2 of 6 .*\n.*index.tsv:3: .*1_ann.wav does not exist\n',
    ):
        read_all(utterances, 8000, say=print)
