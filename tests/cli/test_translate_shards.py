"""`translate --shard`: all shards together give what one translation gives, whatever kills or repeats them."""

import gzip
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import zstandard
from conftest import TESTS
from translators import translate_by

from flax_transformer.cli import main
from flax_transformer.data import shards
from flax_transformer.data.lines import open_binary
from flax_transformer.tasks.translation.inference.result import Translation
from flax_transformer.tasks.translation.inference.translator import Translator

RUN = TESTS / 'golden' / 'number_words'
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `in` of input files, as the working directory's; pieces are 8 lines."""
    lines = [' '.join('abcdefgh'[i % 8 : i % 8 + 1 + i % 5]) for i in range(40)]
    text = ''.join(f'{line}\n' for line in lines).encode()
    (tmp_path / 'in').mkdir()
    for name, content in {
        'part-1.zst': zstandard.compress(b'\xef\xbb\xbf' + text),
        'part-2': b'',
        'part-3': text[:-1].replace(b'\n', b'\r\n', 5),  # the last line has no end
        'part-4.gz': gzip.compress(b'\n\n'),
        'part-5': ''.join(f'{line}\n' for line in lines[:16]).encode(),
    }.items():
        (tmp_path / 'in' / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shards, 'PIECE', 8)
    return tmp_path / 'in'


class UpperCase:
    """In place of a Translator."""

    source_language = 'in'

    def __init__(self) -> None:
        self.params = {'kernel': np.zeros(2, np.float32)}
        self.calls = 0

    def __call__(self, lines: list[str | bytes], prefixes: list[str] | None = None, **_: object) -> list[Translation]:
        self.calls += 1
        texts = [line.decode('utf-8', 'replace') if isinstance(line, bytes) else line for line in lines]
        both = [Translation(text.upper(), 0.0, 0.0, 1) for text in texts]
        return [Translation(one.text, 0.0, 0.0, 1, n_best=(one, one)) for one in both]


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> UpperCase:
    """What `translate` gets instead of a model."""
    found = UpperCase()
    translate_by(found, monkeypatch)
    return found


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """A function that translates a shard: (exit code, standard error)."""

    def run(
        shard: str, *argv: object, run: Path = RUN, input: str = 'in/part-*', output: str = 'out'
    ) -> tuple[int, str]:
        files = ('--shard', shard, '--input', input, '--output', output)
        code = main(['translate', str(run), *map(str, (*files, *argv))])
        return code, capsys.readouterr().err

    return run


def joined(name: str, output: str = 'out') -> str:
    """The lines of the translation of an input file, put together as the documents say."""
    suffix = Path(name).suffix
    whole = Path(f'joined{suffix}')
    with whole.open('wb') as file:
        subprocess.run(f'cat {output}/{name}.??????', shell=True, stdout=file, check=True)
    return text_of(whole)


def text_of(file: Path) -> str:
    with open_binary(file) as opened:
        return opened.read().decode('utf-8-sig').replace('\r', '')


def outputs(folder: str = 'out') -> dict[str, tuple[int, bytes]]:
    """Each output's inode and content."""
    return {file.name: (file.stat().st_ino, file.read_bytes()) for file in Path(folder).iterdir()}


def contents(folder: str = 'out') -> dict[str, bytes]:
    return {name: content for name, (_, content) in outputs(folder).items()}


@pytest.mark.slow
def test_shards_of_a_model_give_the_lines_of_one_translation(
    copy_run: Path, call: Call, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = Translator.from_run(copy_run, beam_width=1)  # once: each new one compiles
    translate_by(translator, monkeypatch)
    names = sorted(file.name for file in files.iterdir())
    Path('all').write_text(''.join(f'{line}\n' for name in names for line in text_of(files / name).splitlines()))
    assert main(['translate', str(copy_run), '--input', 'all', '--output', 'expected']) == 0
    expected = Path('expected').read_text()
    assert expected.startswith('a\n')
    for count in (1, 3):
        for number in range(count, 0, -1):
            assert call(f'{number}/{count}', run=copy_run, output=f'out-{count}')[0] == 0
        assert ''.join(joined(name, f'out-{count}') for name in names) == expected


@pytest.mark.parametrize('count', [1, 2, 9])
def test_all_shards_together_translate_each_line_once(
    translator: UpperCase, call: Call, files: Path, count: int
) -> None:
    for number in range(1, count + 1):
        code, said = call(f'{number}/{count}')
        assert (code, '; 0 were there already' in said) == (0, True)
    for file in files.iterdir():
        lines = text_of(file).splitlines()
        assert joined(file.name) == ''.join(f'{line.upper()}\n' for line in lines)
    assert len(outputs()) == 1 + 5 + 1 + 5 + 1 + 2
    assert translator.calls == 5 + 5 + 1 + 2
    before = outputs()
    assert '0 lines in 0 outputs; 14 were there already' in call('1/1')[1]
    assert outputs() == before


def test_shards_by_machines_that_multiply_otherwise_are_not_mixed(
    translator: UpperCase, call: Call, files: Path
) -> None:
    for uses_int8, expected in ((True, 0), (False, 2), (True, 0)):
        translator.programs = SimpleNamespace(uses_int8=uses_int8)
        code, said = call('1/2', '--decoding.weights', 'auto')
        assert code == expected
        assert ('matrices: int8 there, float32 here' in said) == (expected == 2)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_shard_goes_on_where_it_was(
    translator: UpperCase, call: Call, files: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    call('1/1', output='expected')
    before = signal.getsignal(number)
    translate_lines = UpperCase.__call__

    def stopped(self: UpperCase, lines: list[str], **options: object) -> list[Translation]:
        if self.calls == 13 + 2:
            signal.raise_signal(number)  # to this thread, at once
        return translate_lines(self, lines, **options)

    with monkeypatch.context() as patch:
        patch.setattr(UpperCase, '__call__', stopped)
        code, said = call('1/1')
    assert (code, f'{number.name}: stopped; the same command goes on' in said) == (75, True)
    assert signal.getsignal(number) is before
    kept = outputs()
    assert kept.keys() == {'translate.json', 'part-1.zst.000000', 'part-1.zst.000001'}
    Path('out/.part-1.zst.000002.killed.partial').write_bytes(b'half')
    assert '; 2 were there already' in call('1/1')[1]
    assert kept.items() <= outputs().items()
    assert contents() == contents('expected')


def test_what_differs_from_the_outputs_that_are_there_is_refused(
    translator: UpperCase, call: Call, files: Path
) -> None:
    assert call('1/2')[0] == 0
    before = outputs()
    code, said = call('2/2', '--format', 'jsonl')
    assert (code, 'format: text there, jsonl here' in said, 'another folder' in said) == (2, True, True)
    assert 'decoding.n_best: 1 there, 2 here' in call('2/2', '--decoding.beam-width', 2, '--n-best', 2)[1]
    translator.params['kernel'][1] = 1e-9
    assert 'parameters: ' in call('2/2')[1]
    translator.params['kernel'][1] = 0
    assert 'input part-1.zst: ' in call('2/2', input='in/part-[23]')[1]
    os.utime(files / 'part-3', (0, 0))
    assert '1970-01-01' in call('2/2')[1]
    (files / 'part-3').unlink()
    assert 'input part-3: ' in call('2/2')[1]
    Path('out/translate.json').write_text('{')
    assert 'gone or damaged' in call('2/2')[1]
    assert outputs().keys() == before.keys()


def test_a_damaged_file_is_named_and_the_others_are_translated(translator: UpperCase, call: Call, files: Path) -> None:
    (files / 'part-1.zst').write_bytes((files / 'part-1.zst').read_bytes()[:-9])
    (files / 'part-3').write_bytes(b'a\n' * 9 + b'b \xff c\n')
    code, said = call('1/1', '-q')
    assert code == 2
    assert 'in/part-1.zst could not be read' in said
    assert 'in/part-3, line 10: byte 0xff is not valid UTF-8' in said
    assert 'not translated to the end:\n  part-1.zst\n  part-3' in said
    assert outputs().keys() >= {'part-2.000000', 'part-3.000000', 'part-4.gz.000000', 'part-5.000001'}
    assert 'part-3.000001' not in outputs()
    assert 'part-3, line' not in call('1/1', '--invalid', 'replace')[1]
    assert joined('part-3').count('\n') == 10


def test_records_are_numbered_within_their_file(translator: UpperCase, call: Call, files: Path) -> None:
    (files / 'a.jsonl').write_text(''.join(f'{{"text": "a", "id": {i}}}\n' for i in range(10)))
    options = ('--input-format', 'jsonl', '--decoding.beam-width', 2, '--n-best', 2)
    assert call('1/1', *options, '--format', 'jsonl', input='in/a.jsonl')[0] == 0
    assert [json.loads(line)['id'] for line in joined('a.jsonl').splitlines()] == list(range(10))
    call('1/1', *options, input='in/a.jsonl', output='text')
    assert [line.split(' ||| ')[0] for line in joined('a.jsonl', 'text').splitlines()][-3:] == ['8', '9', '9']
    (files / 'a.jsonl').write_text('"a"\n' * 9 + '{')
    assert 'in/a.jsonl, line 10 is not JSON' in call('1/1', *options, input='in/a.jsonl', output='bad')[1]


@pytest.mark.parametrize(
    'argv',
    [
        '--input in/none-* --output out',
        '--input in/part-* --output in',
        '--input in/part-* --output in/part-2',
        '--input in/part-*',
        '--output out',
        '--input in/part-* --output out --resume',
        '--input in/part-* --output out --alignments x',
        '--input in/part-* --output out --shard 0/2',
    ],
)
def test_unfit_options_are_refused(files: Path, argv: str) -> None:
    assert main(['translate', str(RUN), '--shard', '1/2', *argv.split()]) == 2
    assert not Path('out').exists()
