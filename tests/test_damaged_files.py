"""Damaged files are read, or refused by a sentence: a little of what `benchmarks/fuzz_files.py` does at length."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from damage import SECRET, damage, make_outside, write_folder
from strange_files import GOLDEN, READERS, is_refusal

from flax_transformer.common.errors import UserError
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.runs.learning_curves import table
from flax_transformer.huggingface.folder import read_folder
from flax_transformer.huggingface.weights import read_tensors
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.sentencepiece_model import open_model

QUICK = ('run_files', 'sentencepiece', 'marian', 'pickles', 'shards', 'cache', 'batch')


@pytest.mark.parametrize('name', QUICK)
@pytest.mark.slow_cases('marian', 'pickles')
def test_a_damaged_folder_is_read_or_refused(name: str, tmp_path: Path, capsys) -> None:
    outside = make_outside(tmp_path / 'outside')
    READERS[name].make(tmp_path / 'sound')
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for number in range(16):
            rng = random.Random(f'{name} {number}')
            write_folder(tmp_path / 'here', tmp_path / 'sound')
            how = damage(tmp_path / 'here', outside, rng)
            signal.alarm(300)
            try:
                READERS[name].read(tmp_path / 'here')
            except Exception as error:
                if not is_refusal(error):
                    pytest.fail(f'{number}: {how}: {error!r}')
                print(error)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert SECRET not in ''.join(capsys.readouterr())


@pytest.mark.slow
@pytest.mark.parametrize('name', READERS)
def test_many_damaged_folders_are_read_or_refused(name: str) -> None:
    count = 300 if READERS[name].needs_jax else 2000  # a restored checkpoint takes a tenth of a second
    command = [sys.executable, ROOT / 'benchmarks' / 'fuzz_files.py', '--mutations', str(count), '--reader', name]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {'PYTHONPATH': str(ROOT)}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])['mutations'] == count


def make_run(folder: Path) -> Run:
    READERS['run_files'].make(folder)
    return Run(folder)


def make_sparse(file: Path) -> None:
    file.write_bytes(b'')
    os.truncate(file, 1 << 40)


@pytest.mark.parametrize('name', ['config.json', 'tokenizer/tokenizer.json', 'tokenizer/sentencepiece.model'])
def test_a_file_of_a_terabyte_without_content_is_not_read(name: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / 'run')
    make_sparse(run.path / name)
    with pytest.raises(UserError, match=r'larger than [\d,]+ bytes|is damaged'):
        run.read_matching_tokenizer(run.read_config())


def test_metrics_that_are_none_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / 'run')
    expected = table([run])
    records = (
        {'kind': 'validation', 'step': 1, 'loss': 'low', 'bleu_signature': '\x1b[31mred'},
        {'kind': 'train', 'step': '7'},
        {'kind': 'train', 'step': 10**400, 'loss': 1},
        {'kind': 'train', 'step': -1, 'loss': 1},
        {'kind': ['train'], 'step': 1},
        {'kind': 'validation', 'step': 1, 'accuracy': 10**400},
        [],
    )
    with (run.path / 'metrics.jsonl').open('a') as opened:
        opened.writelines(json.dumps(record) + '\n' for record in records)
    assert table([run]) == expected
    make_sparse(run.path / 'metrics.jsonl')
    with pytest.raises(UserError, match='larger than'):
        read_metrics(run.path)


def test_a_model_that_would_give_invalid_text_later_is_no_model() -> None:
    sound = (GOLDEN / 'tokenizer' / 'sentencepiece.model').read_bytes()
    open_model(sound)
    piece = sound.index(b'hundred')
    with pytest.raises(ValueError, match='is not a SentencePiece model'):
        open_model(sound[:piece] + b'\xff' + sound[piece + 1 :])
    with pytest.raises(ValueError, match='is not a SentencePiece model'):
        open_model(b'')


@pytest.mark.parametrize(
    ('file', 'changes', 'message'),
    [
        ('config.json', {'decoder_layers': 2**62}, 'num_decoder_layers=4611686018427387904'),
        ('config.json', {'d_model': 2**40, 'encoder_attention_heads': 2}, '2,147,483,648'),
        ('config.json', {'architectures': 5}, 'architectures=5: expected'),
        ('tokenizer_config.json', {'model_max_length': 'long'}, 'settings cannot be read'),
        ('tokenizer_config.json', {'pad_token': 5}, 'settings cannot be read'),
        ('generation_config.json', {'bad_words_ids': 5}, 'settings cannot be read'),
    ],
)
def test_a_setting_of_another_type_is_refused(file: str, changes: dict, message: str, tmp_path: Path) -> None:
    READERS['marian'].make(tmp_path / 'here')
    content = tmp_path / 'here' / file
    content.write_text(json.dumps((json.loads(content.read_text()) if content.exists() else {}) | changes))
    with pytest.raises(UserError, match=message):
        read_folder(tmp_path / 'here')


def test_weights_that_are_not_as_long_as_their_header_says_are_not_mapped(tmp_path: Path) -> None:
    READERS['marian'].make(tmp_path / 'here')
    file = tmp_path / 'here' / 'model.safetensors'
    size = file.stat().st_size
    for length, message in ((size - 1, 'damaged'), (size + 1, 'damaged'), (1 << 40, 'on the disk')):
        os.truncate(file, length)
        with pytest.raises(UserError, match=message):
            dict(read_tensors(tmp_path / 'here'))
