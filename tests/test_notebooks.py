"""The notebooks run from a clean kernel, with fewer steps; what is stored is of the stored code, and fit to read."""

import re
import sys
from pathlib import Path

import nbformat
import pytest
from conftest import ROOT
from nbclient import NotebookClient
from nbformat import NotebookNode

sys.path.insert(0, str(ROOT / 'notebooks'))
import parts
from run import source_hash

NOTEBOOKS = sorted((ROOT / 'notebooks').glob('*.ipynb'))
NEED_CORPORA = ('sentiment.ipynb', 'speech.ipynb', 'words.ipynb')  # without them their cells show something else
STORED = [file for file in NOTEBOOKS if 'source_sha256' in file.read_text('utf-8')]
MAX_SIZE = 2_000_000  # bytes; code hosts do not show larger ones


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == 'code']


def kinds(cell: NotebookNode) -> list[str]:
    """What a cell shows: streams by name, and the richest form of each value."""
    shown = [output.get('name') or ('image/png' in output.get('data', {}) and 'picture') for output in cell.outputs]
    return sorted(set(filter(None, shown)))


@pytest.mark.slow
@pytest.mark.parametrize('file', NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_and_shows_what_is_stored(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('JAX_PLATFORMS', 'cpu')
    monkeypatch.setenv('FLAX_TRANSFORMER_NOTEBOOKS', 'small')
    monkeypatch.delenv('JAX_NUM_CPU_DEVICES', raising=False)
    monkeypatch.delenv('FLAX_TRANSFORMER_DATA', raising=False)
    notebook = nbformat.read(file, as_version=4)
    stored = [kinds(cell) for cell in code_cells(notebook)]
    NotebookClient(notebook, timeout=300, resources={'metadata': {'path': str(tmp_path)}}).execute()
    found = [kinds(cell) for cell in code_cells(notebook)]
    assert not any('stderr' in each for each in found)
    if file in STORED and file.name not in NEED_CORPORA:
        assert found == stored


def test_stored_outputs_come_from_the_stored_code() -> None:
    """Cells without outputs, or all with a hash of the source that was run: `python notebooks/run.py`."""
    for file in NOTEBOOKS:
        cells = code_cells(nbformat.read(file, as_version=4))
        if file not in STORED:
            assert not any(cell.outputs or cell.execution_count for cell in cells), file
            continue
        assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), file
        for cell in cells:
            assert cell.metadata.source_sha256 == source_hash(cell.source), cell.source
            assert not [each for each in cell.outputs if each.output_type == 'error' or each.get('name') == 'stderr']


def test_stored_outputs_are_small_and_name_no_place_of_this_machine() -> None:
    for file in STORED:
        assert file.stat().st_size < MAX_SIZE, file
        for output in (output for cell in code_cells(nbformat.read(file, as_version=4)) for output in cell.outputs):
            text = str({**output, 'data': {**output.get('data', {}), 'image/png': ''}})
            assert not re.search(r'/(home|root|tmp|work|Users)/|tokens/s|elapsed|\bleft \d+:', text), text


def test_the_install_cells_are_as_parts_writes_them() -> None:
    for file in NOTEBOOKS:
        notebook = nbformat.read(file, as_version=4)
        found = parts.with_parts(notebook, file.name, parts.repository())
        assert found == notebook, f'{file.name}: run python notebooks/parts.py'


def test_an_address_gives_badges_and_an_install_cell() -> None:
    notebook = nbformat.read(STORED[0], as_version=4)
    url = 'https://github.com/somebody/something'
    badge, *_ = parts.with_parts(notebook, 'attention.ipynb', url).cells
    place = 'github/somebody/something/blob/main/notebooks/attention.ipynb'
    assert f'https://colab.research.google.com/{place}' in badge.source
    installing = parts.install_source(url)
    assert f"'flax-transformer[notebooks] @ git+{url}'" in installing
    for source in (installing, parts.install_source(None)):
        compile(source.replace('%matplotlib inline', ''), 'cell', 'exec')
    again = parts.with_parts(parts.with_parts(notebook, 'a.ipynb', url), 'a.ipynb', url)
    assert [cell.id for cell in again.cells].count('badge') == 1
    install = next(cell for cell in again.cells if cell.id == 'install')
    assert install.metadata.source_sha256 == source_hash(install.source), 'an address asks for no new run'
    assert parts.badge_source('https://example.org/x', 'a.ipynb') is None
    assert [cell.id for cell in parts.with_parts(again, 'a.ipynb', None).cells].count('badge') == 0


def test_an_address_gives_the_readme_a_badge() -> None:
    readme = parts.README.read_text('utf-8')
    assert readme == parts.readme_with_badge(readme, parts.repository()), 'run python notebooks/parts.py'
    url = 'https://github.com/somebody/something'
    badge = parts.badge_source(url, 'train_your_own.ipynb')
    found = parts.readme_with_badge(parts.readme_with_badge(readme, url), url)
    assert found.count(f'\n\n{badge}\n\n| notebook | about |') == found.count('Open in Colab') == 1
    assert parts.readme_with_badge(found, None) == parts.readme_with_badge(readme, None)
