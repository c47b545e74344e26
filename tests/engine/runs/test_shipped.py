"""Models that come with the package stand wherever a run does."""

import shutil
from pathlib import Path

import pytest

from flax_transformer.cli import main
from flax_transformer.engine.runs import run_directory
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.tasks.api import read_run_config


@pytest.fixture
def model(copy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run as the model `everyday` of the package, from a folder that has none of that name."""
    folder = tmp_path / 'package' / 'everyday'
    assert main(['average', str(copy_run), str(folder), '--best', '1', '--int8']) == 0
    (folder / 'README.md').write_text('# everyday: copies letters\n\nLicense: any.\n', encoding='utf-8')
    monkeypatch.setattr(run_directory, 'shipped_models', lambda: {'everyday': folder})
    monkeypatch.setattr('flax_transformer.cli.shipped.shipped_models', lambda: {'everyday': folder})
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_model_goes_by_its_name(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert split_reference('everyday@last') == (model, 'last')
    assert read_run_config('everyday').task == 'translation'
    capsys.readouterr()
    assert main(['models']) == 0
    assert main(['models', 'everyday']) == 0
    assert capsys.readouterr().out == 'everyday: copies letters\n# everyday: copies letters\n\nLicense: any.\n'
    assert main(['models', 'everydy']) == 2
    assert 'expected one of everyday. Did you mean everyday?' in capsys.readouterr().err


def test_a_run_of_that_name_hides_it_and_says_so(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(model, 'everyday')
    run_directory._note_hidden.cache_clear()
    assert split_reference('everyday') == (Path('everyday'), None)
    assert 'the run in this folder, not the model of that name' in capsys.readouterr().err
