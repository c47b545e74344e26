"""`prepare CONFIG` does once what training begins with."""

from pathlib import Path

import pytest
from conftest import copy_corpus

from benchmarks.measuring import write_config
from flax_transformer.cli import main
from flax_transformer.data.bitext import cache
from flax_transformer.tasks.translation.run import Run


def test_training_goes_on_from_what_was_prepared(tmp_path: Path, monkeypatch, capsys) -> None:
    copy_corpus(tmp_path)
    write_config(tmp_path / 'tiny.py', 'conftest.copy_config(HERE, steps=2, evaluate_every=2)')
    run = tmp_path / 'run'
    arguments = [str(tmp_path / 'tiny.py'), '--workdir', str(run)]
    assert main(['prepare', *arguments]) == 0
    assert f'{run} is prepared' in capsys.readouterr().err
    names = {'config.json', 'tokenizer', 'tokenizer.sha256', 'data_cache', 'data_files.json', 'lock'}
    assert {file.name for file in run.iterdir()} == names
    digest = Run(run).read_tokenizer().digest

    monkeypatch.setattr(cache, '_write', lambda *_: pytest.fail('tokenized a second time'))
    assert main(['prepare', *arguments]) == 0
    assert main(['train', *arguments]) == 0
    assert Run(run).read_tokenizer().digest == digest
    assert 'the run is in' in capsys.readouterr().out.lower()


def test_a_file_that_has_changed_since_a_run_began_is_an_error_of_the_check(tmp_path: Path, capsys) -> None:
    copy_corpus(tmp_path)
    write_config(tmp_path / 'tiny.py', 'conftest.copy_config(HERE)')
    arguments = [str(tmp_path / 'tiny.py'), '--workdir', str(tmp_path / 'run')]
    assert main(['prepare', *arguments]) == 0
    assert main(['check', *arguments]) == 0
    assert ': changed: ' not in capsys.readouterr().out
    with (tmp_path / 'train.out').open('r+b') as file:
        file.write(b'h')
    assert main(['check', *arguments]) == 2
    out = capsys.readouterr().out
    assert 'error: files: changed: 1 of 4' in out
    assert f'{tmp_path / "train.out"}\n      has other bytes, though as many' in out


@pytest.mark.parametrize(
    ('command', 'is_forced'),
    [('prepare', True), ('train', False), pytest.param('train', True, marks=pytest.mark.slow)],
)
def test_a_damaged_corpus_stops_before_anything_is_written_unless_told_not_to(
    command: str, is_forced: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_corpus(tmp_path)
    lines = (tmp_path / 'train.out').read_text().splitlines()
    (tmp_path / 'train.out').write_text(''.join(f'{line}\n' for line in [*lines[1:], lines[0]]))
    write_config(tmp_path / 'tiny.py', 'conftest.copy_config(HERE, steps=1, evaluate_every=1)')
    run = tmp_path / 'run'
    arguments = [str(tmp_path / 'tiny.py'), '--workdir', str(run)]
    assert main([command, *arguments]) == 2
    message = capsys.readouterr().err
    assert 'the corpora are damaged' in message
    assert 'error: train: shifted: ' in message
    assert '--check.no-before-training' in message
    assert not run.exists()
    assert not is_forced or main([command, *arguments, '--check.no-before-training']) == 0
