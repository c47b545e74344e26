"""The notebooks run from a clean kernel, in a smaller setting."""

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


def test_notebooks_are_kept_without_outputs() -> None:
    for file in NOTEBOOKS.glob('*.ipynb'):
        for cell in nbformat.read(file, as_version=4).cells:
            assert not cell.get('outputs'), file
            assert cell.get('execution_count') is None, file
