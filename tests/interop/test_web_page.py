"""The site of a model translates in a headless Chromium as the translator does."""

import json
import os
import shutil
from pathlib import Path

import pytest
from conftest import TESTS

from benchmarks.web_equality import translate_in_chromium
from flax_transformer import Translator
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.interop.learning_history import learning_history
from flax_transformer.interop.onnx_export import export_onnx
from flax_transformer.ops.int8 import from_int8

RUN, MARIAN = TESTS / 'golden' / 'number_words', TESTS / 'fixtures' / 'marian'
# npm's package onnxruntime-web, in a folder node_modules.
MODULES = Path(os.environ.get('FLAX_TRANSFORMER_NODE_MODULES', TESTS.parent / 'node_modules'))
LINES = ['seven', 'nine hundred and ninety-nine', '', 'five hundred and eighty-six\n\n  forty-two ', 'x' * 90]
TEXTS = ["I'll be staying in a motel.", "I don't feel safe here.", 'ﬁne ½ ①  x', '日本 y']

BROKEN = [
    ['encoder/positions/0', 'decoder/positions/0'],
    [f'decoder/cross_heads/{head}' for head in range(4)],
    ['encoder/residuals/0'],
]


def test_a_runtime_that_is_not_there_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    pytest.importorskip('onnx')
    monkeypatch.chdir(tmp_path)
    assert main(['export', str(RUN), 'site', '--format', 'web']) == 2
    assert 'npm install onnxruntime-web' in capsys.readouterr().err


def test_a_history_has_what_each_checkpoint_translates(tmp_path: Path) -> None:
    with pytest.raises(UserError, match='keep-last'):
        learning_history(RUN, 'five')
    run = tmp_path / 'run'
    shutil.copytree(RUN, run)
    (last,) = (run / 'checkpoints').iterdir()
    for step in range(1, 14):
        shutil.copytree(last, run / 'checkpoints' / str(step))
    history = json.loads(learning_history(run, 'forty-two'))
    checkpoints = history['checkpoints']
    assert [own['step'] for own in checkpoints] == [2, 4, 6, 8, 10, 12, int(last.name)]
    assert {own['text'] for own in checkpoints} == {'zweiundvierzig'}
    assert len(checkpoints[0]['weights']) == len(history['target'])
    assert sum(checkpoints[0]['weights'][0]) == pytest.approx(1, abs=0.01 * len(history['source']))  # rounded


@pytest.mark.slow
def test_the_browser_gives_the_translators_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip('onnx')
    if not shutil.which('chromium') or not (MODULES / 'onnxruntime-web').exists():
        pytest.skip(f'needs Chromium, and ONNX Runtime for the web in {MODULES} (npm install onnxruntime-web)')
    site = tmp_path / 'site'
    monkeypatch.chdir(MODULES.parent)
    assert main(['export', str(RUN), str(site), '--format', 'web']) == 0
    five, expected = Translator.from_run(RUN)(['five', 'forty-two'])
    forced = list(five.token_ids[:-1])
    changes = [{}, *({'broken': broken} for broken in BROKEN), {'forced': forced}]
    inspections = [{'sentence': 'forty-two', **change} for change in changes]
    found = translate_in_chromium(site, LINES, 'en', 'de', seconds=200, inspections=inspections)
    whole, *broken, continued = found.get('inspected', [found])
    assert whole == expected.text
    assert whole not in broken
    assert continued.startswith(five.text)

    rounded = Translator.from_run(RUN, weights='int8').weights
    translator = Translator.from_run(RUN, literals='translated').with_params(from_int8(rounded))
    expected = ['\n'.join(line.text for line in translator(text.split('\n'))) for text in LINES]
    assert found.get('texts') == expected, found

    marian = Translator.from_marian(MARIAN, weights='int8', literals='translated')
    export_onnx(marian, tmp_path / 'marian', runtime=MODULES / 'onnxruntime-web')
    found = translate_in_chromium(tmp_path / 'marian', TEXTS, 'en', '', seconds=100)
    rounded = Translator.from_marian(MARIAN, literals='translated').with_params(from_int8(marian.weights))
    assert found.get('texts') == [line.text for line in rounded(TEXTS)], found

    weights = site / 'weights.bin.gz'
    weights.write_bytes(weights.read_bytes()[:-1] + b'?')
    damaged = translate_in_chromium(site, LINES, 'en', 'de', seconds=100)
    assert damaged['failed'] == ['damaged', 'weights.bin.gz']
    weights.unlink()
    missing = translate_in_chromium(site, LINES, 'en', 'de', seconds=100)
    assert missing['failed'] == ['missing', 'weights.bin.gz']
