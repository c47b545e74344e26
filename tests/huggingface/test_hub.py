"""Models by their names on Hugging Face's hub, which a server on this machine stands in for."""

import importlib.util
import io
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import fairseq_folders
import jax
import local_hub
import numpy as np
import pytest
import t5_folders
from conftest import ROOT

from flax_transformer import Translator
from flax_transformer.cli import main
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.engine.runs.run_directory import imported_run
from flax_transformer.huggingface.folder import read_folder
from flax_transformer.server.directions import Directions
from flax_transformer.tasks.translation.loading import load_run

MARIAN = ROOT / 'tests' / 'fixtures' / 'marian'
NAMES = {'NllbTokenizer': 'some/nllb', 'M2M100Tokenizer': 'some/m2m', 'MBart50Tokenizer': 'some/mbart'}

if any(importlib.util.find_spec(name) is None for name in ('huggingface_hub', 'safetensors')):
    pytest.skip('huggingface_hub and safetensors are not installed', allow_module_level=True)


@pytest.fixture(scope='module')
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local_hub.Hub]:
    folder = tmp_path_factory.mktemp('models')
    with local_hub.serving() as (hub, address), pytest.MonkeyPatch.context() as patch:
        for module in [name for name in sys.modules if name.startswith('huggingface_hub')]:
            patch.delitem(sys.modules, module)  # it reads its variables when it is imported
        patch.setenv('HF_ENDPOINT', address)
        patch.setenv('HF_HOME', str(folder / 'hf'))
        hub.models['some/marian'] = shutil.copytree(MARIAN, folder / 'marian')
        (folder / 'marian' / 'README.md').write_text('---\nlanguage: de\nlicense: cc-by-4.0\n---\n')
        for kind, name in NAMES.items():
            hub.models[name] = fairseq_folders.write_folder(folder / kind, kind)
        hub.models['some/madlad'] = t5_folders.write_folder(folder / 'madlad', 'MADLAD-400')
        yield hub


@pytest.fixture
def hub(served: local_hub.Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> local_hub.Hub:
    """With empty caches, in an empty folder, without a terminal."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path / 'hub'))
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    monkeypatch.setattr('sys.stdin', io.TextIOWrapper(io.BytesIO()))
    monkeypatch.chdir(tmp_path)
    served.requests.clear()
    yield served
    served.change = lambda name, content: content


def error_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main([*argv]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    'name', ['some/marian', *(pytest.param(name, marks=pytest.mark.slow) for name in (*NAMES.values(), 'some/madlad'))]
)
@pytest.mark.slow
def test_a_model_is_imported_once_and_known_by_its_name(name: str, hub: local_hub.Hub, capsys) -> None:
    assert 'MB on http://127.0.0.1' in error_of(capsys, 'card', name)
    assert not any('resolve' in request for request in hub.requests)

    assert main(['card', name, '--download']) == 0
    assert f'revision {hub.commit(name)}' in capsys.readouterr().out
    taken = {
        request.rpartition('/')[2] for request in hub.requests if request.startswith('GET ') and 'resolve' in request
    }
    assert 'model.safetensors' in taken
    assert not taken & {'legacy.bin', 'expected.npz', 'tokenizer.json'}

    hub.requests.clear()
    before, run = read_folder(hub.models[name]), load_run(name)
    jax.tree.map(np.testing.assert_array_equal, run.params, before.params)
    assert run.config.model == before.config
    assert run.tokenizer.digest == before.tokenizer.digest
    assert not hub.requests


@pytest.mark.slow
def test_the_license_is_told_and_translations_are_the_folders(hub: local_hub.Hub, capsys, monkeypatch) -> None:
    folder = hub.models['some/marian']
    assert main(['card', 'some/marian', '--download']) == 0
    assert (
        'license: "cc-by-4.0"\nlibrary_name: "flax-transformer"\nbase_model: "some/marian"' in capsys.readouterr().out
    )
    expected = [one.text for one in Translator.from_huggingface(folder)(['thirty'])]
    hub.requests.clear()
    assert [one.text for one in Translator.from_pretrained('some/marian')(['thirty'])] == expected
    shutil.rmtree('cache')
    assert [one.text for one in Translator.from_pretrained('some/marian')(['thirty'])] == expected
    assert not hub.requests


@pytest.mark.slow
def test_an_import_without_a_target_asks_for_one(hub: local_hub.Hub, capsys) -> None:
    assert 'target_language=None: give --to and one of' in error_of(capsys, 'translate', 'some/nllb', '--download')
    assert ('en', 'de') in Directions.load('some/nllb', ParallelConfig()).pairs


@pytest.mark.slow
def test_a_question_at_a_terminal_is_an_option(hub: local_hub.Hub, capsys, monkeypatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr('sys.stdin', Terminal('n\ny\n'))
    assert 'Download it? [y/N]' in error_of(capsys, 'card', 'some/m2m')
    assert main(['card', 'some/m2m']) == 0


def test_a_model_that_an_option_names_is_imported(hub: local_hub.Hub, capsys) -> None:
    Path('text').touch()
    argv = ('some.py', '--source', 'text', '--backward', 'some/nllb')
    assert 'some/nllb is no folder here, but' in error_of(capsys, 'distill', 'everyday', *argv)


def test_a_folder_hides_a_name(hub: local_hub.Hub, capsys) -> None:
    Path('some').mkdir()
    for name in ('some/nllb', 'runs/nllb'):
        assert f'{name} does not exist' in error_of(capsys, 'card', name)
    assert not hub.requests


@pytest.mark.parametrize(
    ('change', 'expected'),
    [
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), 'model.safetensors is damaged: its SHA-256'),
        (lambda content: content[:-100], 'some/mbart: '),
    ],
)
def test_damaged_and_truncated_files_are_refused(
    change, expected: str, hub: local_hub.Hub, capsys, monkeypatch
) -> None:
    monkeypatch.setattr('time.sleep', lambda seconds: None)  # before it tries again
    hub.change = lambda name, content: change(content) if name == 'model.safetensors' else content
    assert expected in error_of(capsys, 'card', 'some/mbart', '--download')
    assert imported_run('some/mbart') is None


def test_what_is_missing_is_named(hub: local_hub.Hub, capsys, tmp_path: Path, monkeypatch) -> None:
    broken = shutil.copytree(hub.models['some/nllb'], tmp_path / 'broken')
    monkeypatch.setitem(hub.models, 'some/broken', broken)
    assert 'Repository Not Found' in error_of(capsys, 'card', 'some/none', '--download')
    spm = (broken / 'sentencepiece.bpe.model').rename(tmp_path / 'sentencepiece.bpe.model')
    assert f'{spm.name} is missing' in error_of(capsys, 'card', 'some/broken', '--download')
    shutil.copy(spm, broken)
    (broken / 'model.safetensors').unlink()
    assert 'has no weights' in error_of(capsys, 'card', 'some/broken', '--download')
    (broken / 'config.json').write_text(json.dumps({'model_type': 'bart'}))
    hub.requests.clear()
    assert "model_type is 'bart'" in error_of(capsys, 'card', 'some/broken', '--download')
    assert not any('vocab' in request for request in hub.requests)


def test_weights_are_taken_once() -> None:
    from flax_transformer.huggingface.hub import _needed

    shards = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors', 'model.safetensors.index.json']
    pickles = ['pytorch_model.bin', 'tf_model.h5', 'onnx/config.json', 'model.fp16.safetensors']
    assert _needed([*shards, *pickles, 'spiece.model', 'tokenizer.json']) == ['spiece.model', *shards]
    assert _needed([*pickles, 'tokenizer.json']) == ['tokenizer.json', 'pytorch_model.bin']
