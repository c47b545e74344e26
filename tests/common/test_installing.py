"""Install commands work from where they are read, and one module makes them all."""

import importlib.metadata
import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT

from flax_transformer.common.installing import PACKAGE, install_command, pip_install

REQUIRED = ['jax>=0.10', 'matplotlib>=3.8; extra == "plots"', "jax[cuda12]; extra == 'cuda'"]


@pytest.fixture
def comes_from(monkeypatch: pytest.MonkeyPatch):
    """Has the package be installed from an origin, as pip writes it down."""

    def install(origin: dict | None) -> None:
        read_text = lambda name: None if origin is None else json.dumps(origin)
        found = SimpleNamespace(read_text=read_text, requires=REQUIRED)
        monkeypatch.setattr(importlib.metadata, 'distribution', lambda name: found)

    return install


def test_in_a_clone_the_command_names_its_folder(comes_from, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / 'a clone'
    clone.mkdir()
    (clone / 'pyproject.toml').touch()
    comes_from({'url': clone.as_uri(), 'dir_info': {'editable': True}})
    assert install_command('plots') == f"pip install -e '{clone}[plots]'"
    comes_from({'url': clone.as_uri(), 'dir_info': {}})
    assert install_command('plots') == f"pip install '{clone}[plots]'"
    monkeypatch.chdir(clone)
    assert install_command('plots') == "pip install '.[plots]'"


def test_elsewhere_it_names_the_wheel_the_commit_or_the_packages(comes_from, tmp_path: Path) -> None:
    wheel = tmp_path / 'flax_transformer-0.1.0-py3-none-any.whl'
    wheel.touch()
    comes_from({'url': wheel.as_uri(), 'archive_info': {}})
    assert shlex.split(install_command('plots'))[2] == f'{PACKAGE}[plots] @ {wheel.as_uri()}'
    comes_from({'url': 'https://host/x.whl', 'archive_info': {}})
    assert shlex.split(install_command('plots'))[2] == f'{PACKAGE}[plots] @ https://host/x.whl'
    comes_from({'url': 'https://host/x', 'vcs_info': {'vcs': 'git', 'commit_id': '0af'}})
    assert shlex.split(install_command('plots'))[2] == f'{PACKAGE}[plots] @ git+https://host/x@0af'
    for gone in (
        None,
        {'url': (tmp_path / 'no.whl').as_uri(), 'archive_info': {}},
        {'url': 'file:///no', 'dir_info': {}},
    ):
        comes_from(gone)
        assert install_command('plots') == "pip install 'matplotlib>=3.8'"
        assert install_command('cuda') == "pip install 'jax[cuda12]'"


def test_what_only_is_on_the_path_is_a_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, 'distribution', missing)
    monkeypatch.chdir(tmp_path)
    assert install_command('plots') == f"pip install '{ROOT}[plots]'"


def test_no_other_module_writes_such_a_command() -> None:
    assert pip_install('--upgrade', 'sacrebleu[ja]') == "pip install --upgrade 'sacrebleu[ja]'"
    ours = {'common/installing.py', 'interop/export_loader.py'}  # the latter runs without this package
    package = ROOT / 'flax_transformer'
    found = {str(file.relative_to(package)) for file in package.rglob('*.py') if 'pip install' in file.read_text()}
    assert found == ours
