"""What all notebooks share: a badge for Colab, in the README too, and the cell that installs.

`python notebooks/parts.py` writes them.

All come from one field of pyproject.toml, `Repository` in `[project.urls]`. Without it there is no badge, and the cell
installs the checkout that the notebook is in, or a wheel next to it.
"""

import tomllib
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from run import HASH, source_hash

HERE = Path(__file__).parent
BADGE, INSTALL = 'badge', 'install'  # ids of the cells
_IS_INSTALL = "find_spec('flax_transformer')"
README, FIRST = HERE.parent / 'README.md', 'train_your_own.ipynb'  # what the badge of the README opens
COLAB = 'https://colab.research.google.com'
GITHUB = 'https://github.com/'

_INSTALL = """\
# Installs flax_transformer where it is missing, as on Colab. No GPU is needed; to get one there, or a TPU, choose
# Runtime > Change runtime type before you run this cell.
import importlib.util
import os
import shutil
import subprocess
import sys
{imports}
if importlib.util.find_spec('flax_transformer') is None:
{places}
    # JAX uses a GPU or TPU only by a plugin of its own version, so the plugin is upgraded with it.
    plugins = {{'jax_cuda12_plugin': 'jax[cuda12]', 'jax_cuda13_plugin': 'jax[cuda13]', 'libtpu': 'jax[tpu]'}}
    jax_too = [name for plugin, name in plugins.items() if importlib.util.find_spec(plugin)]
    if not jax_too and shutil.which('nvidia-smi'):
        jax_too = ['jax[cuda12]']
    packages = [{package}, *jax_too]
    subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', *packages], check=True)
    if 'jax' in sys.modules:
        raise SystemExit('Installed. An older JAX is loaded: restart (Runtime > Restart session), then run this again.')

IS_SMALL = os.environ.get('FLAX_TRANSFORMER_NOTEBOOKS') == 'small'  # tests run the cells below with fewer steps
%matplotlib inline"""
_DEVICES = """

import jax

print('JAX runs on', *sorted({device.device_kind for device in jax.devices()}))"""
_COUNTS_DEVICES = ('scaling.ipynb',)  # says itself on what it runs, once it has asked for its devices
_LOCAL = """\
    # A clone that contains this notebook, or a wheel uploaded next to it.
    places = [folder for folder in (Path('.'), Path('..')) if (folder / 'pyproject.toml').exists()]
    places += sorted(Path('.').glob('flax_transformer-*.whl'))
    if not places:
        raise SystemExit('Upload the wheel of flax_transformer: `python -m build --wheel` in a clone makes it.')"""


def repository() -> str | None:
    """The repository's address; None: not known yet."""
    project = tomllib.loads((HERE.parent / 'pyproject.toml').read_text('utf-8'))['project']
    return project.get('urls', {}).get('Repository', '').rstrip('/') or None


def install_source(url: str | None, name: str = FIRST) -> str:
    """The source of the cell that installs the package and says on what JAX runs."""
    says = '' if name in _COUNTS_DEVICES else _DEVICES
    if url is None:
        package = "f'{places[0].resolve()}[notebooks]'"
        return _INSTALL.format(imports='from pathlib import Path\n', places=_LOCAL, package=package) + says
    lines = f'    package = "flax-transformer[notebooks] @ git+{url}"'
    return _INSTALL.format(imports='', places=lines.replace('"', "'"), package='package') + says


def badge_source(url: str | None, name: str) -> str | None:
    """The badge that opens a notebook on Colab, which knows GitHub; None: there is none."""
    if url is None or not url.startswith(GITHUB):
        return None
    place = f'{COLAB}/github/{url.removeprefix(GITHUB)}/blob/main/notebooks/{name}'
    return f'[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({place})'


def with_parts(notebook: NotebookNode, name: str, url: str | None) -> NotebookNode:
    """A copy of a notebook with the badge as its first cell and the install cell as its first cell of code."""
    cells = [cell for cell in notebook.cells if cell.id != BADGE]
    source, badge = install_source(url, name), badge_source(url, name)
    first = next(number for number, cell in enumerate(cells) if cell.cell_type == 'code')
    if cells[first].id == INSTALL or _IS_INSTALL in cells[first].source:
        cells[first] = NotebookNode(cells[first], id=INSTALL, source=source)
        if HASH in cells[first].metadata:  # it computes nothing where the package is installed: no need to run it again
            cells[first].metadata = {HASH: source_hash(source)}
    else:
        cells.insert(first, nbformat.v4.new_code_cell(source, id=INSTALL))
    if badge is not None:
        cells.insert(0, nbformat.v4.new_markdown_cell(badge, id=BADGE))
    return NotebookNode(notebook, cells=cells)


def readme_with_badge(text: str, url: str | None) -> str:
    """The README with a badge above its table of notebooks; without one if there is no address."""
    paragraphs = [each for each in text.split('\n\n') if not each.startswith('[![Open in Colab]')]
    badge = badge_source(url, FIRST)
    if badge is not None:
        table = next(number for number, each in enumerate(paragraphs) if each.startswith('| notebook |'))
        paragraphs.insert(table, badge)
    return '\n\n'.join(paragraphs)


def main() -> None:
    text = README.read_text('utf-8')
    if text != (text := readme_with_badge(text, repository())):
        README.write_text(text, 'utf-8')
        print(f'{README}: written')
    for file in sorted(HERE.glob('*.ipynb')):
        before = nbformat.read(file, as_version=4)
        after = with_parts(before, file.name, repository())
        if after != before:
            nbformat.write(after, file)
            print(f'{file}: written')


if __name__ == '__main__':
    main()
