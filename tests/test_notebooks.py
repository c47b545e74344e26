"""The notebooks run from a clean kernel, in a smaller setting; stored outputs come from the stored code."""

import hashlib
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / 'notebooks'


@pytest.mark.slow
def test_the_translate_notebook_runs_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('JAX_PLATFORMS', 'cpu')
    monkeypatch.delenv('JAX_NUM_CPU_DEVICES', raising=False)
    notebook = nbformat.read(NOTEBOOKS / 'translate.ipynb', as_version=4)
    smaller = (
        'data=replace(config.data, numbers_train=1500, numbers_held_out=20), '
        'model=replace(config.model, d_model=16, num_heads=2, d_ff=16, num_encoder_layers=1, num_decoder_layers=1), '
        'decoding=replace(config.decoding, beam_width=1, max_extra_tokens=8), '
        'training=replace(config.training, steps=4, evaluate_every=2, checkpoint_every=2)'
    )
    full = "config = load_config('number_words')"
    changed = [cell for cell in notebook.cells if full in cell.source]
    assert len(changed) == 1
    lines = f'from dataclasses import replace\n{full}\nconfig = replace(config, {smaller})'
    changed[0].source = changed[0].source.replace(full, lines)
    NotebookClient(notebook, timeout=300, resources={'metadata': {'path': str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get('outputs', [])]
    assert sum('image/png' in output.get('data', {}) for output in outputs) == 2
    assert any('exact matches: ' in output.get('text', '') for output in outputs)


@pytest.mark.slow
def test_the_sentiment_notebook_runs_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('JAX_PLATFORMS', 'cpu')
    monkeypatch.delenv('JAX_NUM_CPU_DEVICES', raising=False)
    monkeypatch.delenv('FLAX_TRANSFORMER_DATA', raising=False)
    notebook = nbformat.read(NOTEBOOKS / 'sentiment.ipynb', as_version=4)
    changed = [cell for cell in notebook.cells if 'steps = 600' in cell.source]
    assert len(changed) == 1
    changed[0].source = changed[0].source.replace('steps = 600', 'steps = 100')
    NotebookClient(notebook, timeout=300, resources={'metadata': {'path': str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get('outputs', [])]
    assert sum('image/png' in output.get('data', {}) for output in outputs) == 7
    assert not [output for output in outputs if output.get('name') == 'stderr']
    assert any('skipped: rt_polarity' in output.get('text', '') for output in outputs)


@pytest.mark.slow
def test_the_words_notebook_runs_without_its_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('JAX_PLATFORMS', 'cpu')
    monkeypatch.delenv('JAX_NUM_CPU_DEVICES', raising=False)
    monkeypatch.delenv('FLAX_TRANSFORMER_DATA', raising=False)
    notebook = nbformat.read(NOTEBOOKS / 'words.ipynb', as_version=4)
    changed = [cell for cell in notebook.cells if 'steps = 557' in cell.source]
    assert len(changed) == 1
    changed[0].source = changed[0].source.replace('steps = 557', 'steps = 4')
    NotebookClient(notebook, timeout=300, resources={'metadata': {'path': str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get('outputs', [])]
    assert sum('image/png' in output.get('data', {}) for output in outputs) in (3, 4)  # t-SNE needs scikit-learn
    assert not [output for output in outputs if output.get('name') == 'stderr']
    assert sum('skipped: ' in output.get('text', '') for output in outputs) >= 3


def test_stored_outputs_come_from_the_stored_code() -> None:
    """Cells without outputs, or all with a hash of the source that was run: `python notebooks/run.py`."""
    for file in NOTEBOOKS.glob('*.ipynb'):
        cells = [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == 'code']
        if not any('source_sha256' in cell.metadata for cell in cells):
            assert not any(cell.outputs or cell.execution_count for cell in cells), file
            continue
        assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), file
        for cell in cells:
            assert cell.metadata.source_sha256 == hashlib.sha256(cell.source.encode()).hexdigest(), cell.source
            assert not [each for each in cell.outputs if each.output_type == 'error' or each.get('name') == 'stderr']
