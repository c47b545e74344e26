"""Install commands work from where they are read."""

import importlib.metadata
from pathlib import Path

import pytest
from conftest import ROOT

from flax_transformer.common import installing
from flax_transformer.common.installing import install_command

REQUIRED = ['jax>=0.10', 'matplotlib>=3.8; extra == "plots"', "jax[cuda12]; extra == 'cuda'"]


def test_in_a_clone_the_command_names_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert install_command('plots') == f"pip install -e '{ROOT}[plots]'"
    monkeypatch.chdir(ROOT)
    assert install_command('plots') == "pip install -e '.[plots]'"


def test_elsewhere_it_names_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, '__file__', str(tmp_path / 'flax_transformer/common/installing.py'))
    monkeypatch.setattr(importlib.metadata, 'requires', lambda name: REQUIRED)
    assert install_command('plots') == "pip install 'matplotlib>=3.8'"
    assert install_command('cuda') == "pip install 'jax[cuda12]'"
