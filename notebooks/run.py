"""Runs notebooks from a clean kernel and stores their outputs: `python notebooks/run.py [FILE ...]`, by default all
that are stored with outputs.

Each code cell keeps a hash of the source that its outputs come from, so that a test finds outputs of other code.
Nothing is stored if a cell fails, warns, or names a folder of this machine. Prints the CPU time of each kernel.
"""

import hashlib
import resource
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HASH = 'source_sha256'  # in the metadata of a code cell
HERE = Path(__file__).parent


def run(file: Path) -> None:
    """Replaces a notebook by itself with the outputs of a run in an empty folder."""
    notebook = nbformat.read(file, as_version=4)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=1800, record_timing=False, resources={'metadata': {'path': folder}}).execute()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    for cell in notebook.cells:
        if cell.cell_type == 'code':
            cell.outputs = _joined(cell.outputs)
            _check(file, cell.outputs, folder)
            cell.metadata = {HASH: hashlib.sha256(cell.source.encode()).hexdigest()}
    notebook.metadata.language_info = {'name': 'python'}  # not which version ran it
    nbformat.write(notebook, file)
    print(f'{file}: {after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.0f} s of CPU time')


def _joined(outputs: list) -> list:
    """Outputs whose neighbouring pieces of one stream are one piece; where a stream breaks is chance."""
    found: list = []
    for output in outputs:
        if found and 'text' in output and output.get('name') == found[-1].get('name'):
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def _check(file: Path, outputs: list, folder: str) -> None:
    """Ends the program if outputs are not fit to be stored."""
    for output in outputs:
        text = str({name: value for name, value in output.get('data', {}).items() if name != 'image/png'})
        text += output.get('text', '')
        places = [place for place in (folder, str(HERE.parent.absolute()), sys.prefix) if place in text]
        if output.get('name') == 'stderr' or places:
            raise SystemExit(f'{file} is not stored: a cell wrote {text!r}')


if __name__ == '__main__':
    stored = (file for file in sorted(HERE.glob('*.ipynb')) if HASH in file.read_text('utf-8'))
    for each in map(Path, sys.argv[1:]) if sys.argv[1:] else stored:
        run(each)
