"""Runs notebooks from a clean kernel and stores their outputs: `python notebooks/run.py [FILE ...]`.

By default it runs all that are stored with outputs.

Each code cell keeps a hash of the source that its outputs come from, so that a test finds outputs of other code.
Times, speeds and the folder of the run are left out of the outputs, since they differ each time. Nothing is stored if
a cell fails, warns or names another folder of this machine, or if the notebook takes more than LIMIT. Prints the CPU
time of each kernel.
"""

import hashlib
import os
import re
import resource
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HASH = 'source_sha256'  # in the metadata of a code cell
HERE = Path(__file__).parent
LIMIT = 600  # seconds of CPU time: 5 minutes of two cores
# What a line of training says about time.
_TIMES = re.compile(r' (?:\w+/s [\d,.]+|data wait \d+%|elapsed [\d:]+|left [\d:]+)')


def run(file: Path) -> None:
    """Replaces a notebook by itself with the outputs of a run in an empty folder."""
    notebook = nbformat.read(file, as_version=4)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    os.environ.pop('FLAX_TRANSFORMER_NOTEBOOKS', None)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=1800, record_timing=False, resources={'metadata': {'path': folder}}).execute()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if seconds > LIMIT:
        raise SystemExit(f'{file} is not stored: it took {seconds:.0f} s of CPU time, expected at most {LIMIT}')
    for cell in notebook.cells:
        if cell.cell_type == 'code':
            cell.outputs = [cleaned(output, folder) for output in _joined(cell.outputs)]
            _check(file, cell.outputs)
            cell.metadata = {HASH: source_hash(cell.source)}
    notebook.metadata.language_info = {'name': 'python'}  # not which version ran it
    nbformat.write(notebook, file)
    print(f'{file}: {seconds:.0f} s of CPU time')


def source_hash(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def cleaned(output: nbformat.NotebookNode, folder: str) -> nbformat.NotebookNode:
    """An output without times, speeds and the folder that it ran in."""
    if 'text' in output:
        text = output.text.replace(f'{folder}/', '').replace(folder, '.')
        output.text = _TIMES.sub('', text)
    return output


def _joined(outputs: list) -> list:
    """Outputs whose neighboring pieces of one stream are one piece; where a stream breaks is chance."""
    found: list = []
    for output in outputs:
        if found and 'text' in output and output.get('name') == found[-1].get('name'):
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def _check(file: Path, outputs: list) -> None:
    """Ends the program if outputs are not fit to be stored."""
    for output in outputs:
        text = str({name: value for name, value in output.get('data', {}).items() if name != 'image/png'})
        text += output.get('text', '')
        places = [str(HERE.parent.absolute()), sys.prefix, tempfile.gettempdir(), str(Path.home())]
        if output.get('name') == 'stderr' or any(place in text for place in places):
            raise SystemExit(f'{file} is not stored: a cell wrote {text!r}')


if __name__ == '__main__':
    stored = (file for file in sorted(HERE.glob('*.ipynb')) if HASH in file.read_text('utf-8'))
    for each in map(Path, sys.argv[1:]) if sys.argv[1:] else stored:
        run(each)
