"""`prepare CONFIG` does once what training begins with."""

import sys
from pathlib import Path

import pytest
from conftest import copy_config, copy_corpus

from flax_transformer.cli import main
from flax_transformer.config_json import to_json
from flax_transformer.data import cache
from flax_transformer.run_directory import RunDirectory

CONFIG = """from flax_transformer.config_json import from_json
from pathlib import Path

def get_config():
    return from_json(Path(__file__).with_name('config.json').read_text())
"""


def test_training_goes_on_from_what_was_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_corpus(tmp_path)
    (tmp_path / 'config.json').write_text(to_json(copy_config(tmp_path, steps=2, evaluate_every=2)))
    (tmp_path / 'tiny.py').write_text(CONFIG)
    run = tmp_path / 'run'
    arguments = [str(tmp_path / 'tiny.py'), '--workdir', str(run)]
    assert main(['prepare', *arguments]) == 0
    assert f'{run} is prepared' in capsys.readouterr().err
    assert {file.name for file in run.iterdir()} == {'config.json', 'tokenizer', 'data_cache'}
    digest = RunDirectory(run).read_tokenizer().digest

    monkeypatch.setattr(cache, '_write', lambda *_: pytest.fail('tokenised a second time'))
    assert main(['prepare', *arguments]) == 0
    assert main(['train', *arguments]) == 0
    assert RunDirectory(run).read_tokenizer().digest == digest
    assert 'the run is in' in capsys.readouterr().out.lower()


def test_preparing_needs_a_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['prepare']) == 2
    assert 'expected CONFIG first' in capsys.readouterr().err
    assert 'tensorflow' not in sys.modules
