"""Marian models in and out, without torch: a model that transformers wrote, with what it computed (make_marian_fixture).

test_interop_transformers.py compares with transformers itself, in many shapes.
"""

import io
import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from flax_transformer import Translator
from flax_transformer.cli import main
from flax_transformer.config import Config, DecodingConfig, TransformerConfig
from flax_transformer.errors import UserError
from flax_transformer.interop import from_marian, names, to_marian
from flax_transformer.interop.marian import export_marian, import_marian, read_marian
from flax_transformer.interop.settings import read_decoding, read_model, write_decoding, write_model
from flax_transformer.interop.tensors import read_tensors, write_safetensors
from flax_transformer.model import Transformer
from flax_transformer.run_directory import RunDirectory
from flax_transformer.train_state import init_params

FIXTURE = Path(__file__).parent / 'fixtures' / 'marian'
EXPECTED = json.loads((FIXTURE / 'expected.json').read_text(encoding='utf-8'))
SETTINGS = json.loads((FIXTURE / 'config.json').read_text(encoding='utf-8'))
# Sums of float32 in another order; the issue of the shapes says which differences were seen.
CLOSE = {'rtol': 0, 'atol': 1e-4}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the fixture, to spoil."""
    copy = tmp_path / 'marian'
    shutil.copytree(FIXTURE, copy, ignore=shutil.ignore_patterns('*.bin', 'expected.*'))
    return copy


@pytest.fixture(scope='module')
def translator() -> Translator:
    return Translator.from_marian(FIXTURE)


@pytest.fixture(scope='module')
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return import_marian(FIXTURE, tmp_path_factory.mktemp('runs') / 'imported').path


def padded(rows: list[list[int]], pad_id: int) -> np.ndarray:
    return np.array([row + [pad_id] * (max(map(len, rows)) - len(row)) for row in rows], np.int32)


def change(folder: Path, name: str, **values) -> None:
    """Sets fields of a JSON file; None removes one."""
    file = folder / name
    fields = json.loads(file.read_text(encoding='utf-8')) | values
    file.write_text(json.dumps({k: v for k, v in fields.items() if v is not None}), encoding='utf-8')


def test_encoder_output_and_logits_are_those_of_transformers(translator: Translator) -> None:
    expected = np.load(FIXTURE / 'expected.npz')
    source = padded(EXPECTED['ids'], translator.tokenizer.pad_id)
    variables, is_real = {'params': translator.params}, source != translator.tokenizer.pad_id
    # A pad that is written out in a line is masked as any other.
    assert is_real.sum() == sum(map(len, EXPECTED['ids'])) - 1
    memory = translator.model.apply(variables, source, method='encode')
    rows = [i for i, line in enumerate(EXPECTED['lines']) if '<pad>' not in line]
    np.testing.assert_allclose(
        np.asarray(memory)[rows][is_real[rows]], expected['memory'][rows][is_real[rows]], **CLOSE
    )
    logits = translator.model.apply(variables, source, expected['target_in'])
    np.testing.assert_allclose(logits[np.array(rows)], expected['logits'][rows], **CLOSE)


@pytest.mark.parametrize(('name', 'width'), [('greedy', 1), ('beam', 4)])
def test_outputs_are_those_of_transformers(name: str, width: int, translator: Translator) -> None:
    """Of the beam those of its lines that the one rule that differs leaves alone (docs/marian.md)."""
    searching = translator.with_decoding(replace(translator.decoding, beam_width=width))
    found = searching.translate_ids(searching.params, padded(EXPECTED['ids'], translator.tokenizer.pad_id))
    ours = [row[:n].tolist() for row, n in zip(np.asarray(found.tokens)[:, 0], found.lengths[:, 0], strict=True)]
    theirs = [row[: row.index(0) + 1] for row in EXPECTED[name]]
    same = [a == b or '<pad>' in line for a, b, line in zip(ours, theirs, EXPECTED['lines'], strict=True)]
    print(same)
    assert all(same)
