"""The site of a model translates in a headless Chromium as the translator does."""

import json
import os
import shutil
from pathlib import Path

import pytest
from conftest import TESTS

from benchmarks.web_equality import open_in_chromium, translate_in_chromium
from flax_transformer import Translator
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.interop.learning_history import learning_history
from flax_transformer.interop.onnx_export import export_onnx
from flax_transformer.ops.int8 import from_int8

RUN, MARIAN = TESTS / 'golden' / 'number_words', TESTS / 'fixtures' / 'marian'
# npm's package onnxruntime-web, in a folder node_modules.
MODULES = Path(os.environ.get('FLAX_TRANSFORMER_NODE_MODULES', TESTS.parent / 'node_modules'))
LAST = 1000  # the step of its checkpoint
LINES = ['seven', 'nine hundred and ninety-nine', '', 'five hundred and eighty-six\n\n  forty-two ', 'x' * 90]
TEXTS = ["I'll be staying in a motel.", "I don't feel safe here.", 'ﬁne ½ ①  x', '日本 y']

BROKEN = [
    ['encoder/positions/0', 'decoder/positions/0'],
    [f'decoder/cross_heads/{head}' for head in range(4)],
    ['encoder/residuals/0'],
]
# Uses the site's page in a frame as a reader would.
READER = b"""<!doctype html><iframe src="index.html"></iframe><script type="module">
const part = (id) => document.querySelector('iframe').contentDocument.getElementById(id);
const text = (id) => part(id)?.textContent;
const until = async (isSo) => { while (!isSo()) await new Promise((resume) => setTimeout(resume, 50)); };
const change = (id, value, event = 'change') => {
  part(id).value = value;
  part(id).dispatchEvent(new Event(event));
};
await until(() => text('learned-step'));
change('source', 'forty-two', 'input');
await until(() => text('target') === 'zweiundvierzig' && part('query').children.length && text('reading'));
change('language', 'de');
change('checkpoint', 1, 'input');
await until(() => text('reading').includes('wird geschrieben') && part('inside').ariaBusy === 'false');
const pieces = part('query').querySelectorAll('label');
pieces[1].click();
const reading = text('reading');
pieces[0].dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
pieces[0].dispatchEvent(new MouseEvent('mouseenter'));
const keptChoice = text('reading') === reading;
part('maps').querySelectorAll('input')[1].click();
part('heads').click();
await until(() => part('chips').children.length === 1);
part('maps').querySelectorAll('input')[2].click();
const off = text('chips');
const isOtherOff = part('heads').checked;
part('next').querySelector('li:nth-child(2) button').click();
await until(() => part('chips').children.length === 2);
part('chips').firstChild.click();
await until(() => part('chips').children.length === 1);
const ids = ['said', 'learned', 'learned-step', 'whole', 'broken'];
const seen = { keptChoice, off, isOtherOff, ...Object.fromEntries(ids.map((id) => [id, text(id)])) };
seen.strips = part('vectors').querySelectorAll('canvas').length / part('vectors').tBodies[0].rows.length;
seen.cells = part('learned-map').rows.length;
fetch('results', { method: 'POST', body: JSON.stringify(seen) });
</script>"""


def run_with_checkpoints(folder: Path, count: int) -> Path:
    """A copy of the trained run whose checkpoint is there several times."""
    shutil.copytree(RUN, folder)
    (last,) = (folder / 'checkpoints').iterdir()
    for step in range(1, count):
        shutil.copytree(last, folder / 'checkpoints' / str(step))
    return folder


def test_a_runtime_that_is_not_there_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    pytest.importorskip('onnx')
    monkeypatch.chdir(tmp_path)
    assert main(['export', str(RUN), 'site', '--format', 'web']) == 2
    assert 'npm install onnxruntime-web' in capsys.readouterr().err


def test_a_history_has_what_each_checkpoint_translates(tmp_path: Path) -> None:
    with pytest.raises(UserError, match='keep-last'):
        learning_history(RUN, 'five')
    with pytest.raises(UserError, match='nothing does not exist'):
        learning_history(tmp_path / 'nothing', 'five')
    with pytest.raises(UserError, match='empty line'):
        learning_history(RUN, ' ')
    run = run_with_checkpoints(tmp_path / 'run', 14)
    with (run / 'metrics.jsonl').open('a') as metrics:
        metrics.write('{"kind": "train", "step": 7, "loss": NaN}\n')
    history = json.loads(learning_history(run, 'forty-two'))
    checkpoints = history['checkpoints']
    assert [own['step'] for own in checkpoints] == [2, 4, 6, 8, 10, 12, LAST]
    assert {own['text'] for own in checkpoints} == {'zweiundvierzig'}
    assert 7 not in [step for _, step, _ in history['losses']]  # JSON has no NaN
    assert len(checkpoints[0]['weights']) == len(history['target'])
    assert sum(checkpoints[0]['weights'][0]) == pytest.approx(1, abs=0.01 * len(history['source']))  # rounded


@pytest.mark.slow
def test_the_browser_gives_the_translators_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip('onnx')
    if not shutil.which('chromium') or not (MODULES / 'onnxruntime-web').exists():
        pytest.skip(f'needs Chromium, and ONNX Runtime for the web in {MODULES} (npm install onnxruntime-web)')
    site = tmp_path / 'site'
    monkeypatch.chdir(MODULES.parent)
    history = ['--history', str(run_with_checkpoints(tmp_path / 'run', 2)), 'forty-two']
    assert main(['export', str(RUN), str(site), '--format', 'web', *history]) == 0
    seen = open_in_chromium(site, READER, {}, seconds=100)
    assert seen.get('learned') == 'zweiundvierzig', seen
    assert seen['learned-step'].startswith(f'Schritt {LAST}, Verlust ')
    assert seen['said'] == 'Schon vorhin übersetzt.'
    assert seen['keptChoice']
    assert 'ohne Kopf 1 der Decoder-Schicht 1' in seen['off']
    assert not seen['isOtherOff']
    assert seen['whole'] == 'zweiundvierzig' != seen['broken']
    assert (seen['strips'], seen['cells']) == (4, 1 + len(Translator.from_run(RUN)('forty-two').token_ids))
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
    translator = Translator.from_run(RUN, literals='ignored').with_params(from_int8(rounded))
    expected = ['\n'.join(line.text for line in translator(text.split('\n'))) for text in LINES]
    assert found.get('texts') == expected, found

    marian = Translator.from_marian(MARIAN, weights='int8', literals='ignored')
    export_onnx(marian, tmp_path / 'marian', runtime=MODULES / 'onnxruntime-web')
    found = translate_in_chromium(tmp_path / 'marian', TEXTS, 'en', '', seconds=100)
    rounded = Translator.from_marian(MARIAN, literals='ignored').with_params(from_int8(marian.weights))
    assert found.get('texts') == [line.text for line in rounded(TEXTS)], found

    weights = site / 'weights.bin.gz'
    weights.write_bytes(weights.read_bytes()[:-1] + b'?')
    damaged = translate_in_chromium(site, LINES, 'en', 'de', seconds=100)
    assert damaged['failed'] == ['damaged', 'weights.bin.gz']
    weights.unlink()
    missing = translate_in_chromium(site, LINES, 'en', 'de', seconds=100)
    assert missing['failed'] == ['missing', 'weights.bin.gz']
