"""The house: rooms import lower floors only, and nothing is imported in a circle."""

import ast
import functools
import graphlib
import importlib.util
import json
import re
from pathlib import Path

import pytest
from conftest import ROOT

import flax_transformer

PACKAGE = Path(flax_transformer.__file__).parent

# Floor of each room. A room imports itself and rooms on strictly lower floors, inside functions too.
FLOORS = {
    'common': 0,
    'plots': 1,  # draws arrays, for whatever trains, translates or teaches
    'ops': 1,  # what the layers of every model are made of
    'audio': 2,  # waveforms to features
    'transformer': 2,
    'rnn': 2,
    'decoding': 2,
    'text': 2,
    'engine': 2,
    'data': 3,  # corpora become batches for the models and tokenizers below
    'cost': 3,
    'huggingface': 3,  # reads and writes folders; what makes a run of one stands in interop
    'tasks': 4,
    'interop': 5,
    'server': 5,
    'cli': 6,
}
FACES = ('__init__.py', '__main__.py', 'config.py')  # the only files outside of rooms; they hand names on
FILES = sorted(file for file in PACKAGE.rglob('*.py') if file.relative_to(PACKAGE).parts[0] in FLOORS)
NAMES = [str(file.relative_to(PACKAGE)) for file in FILES]


def _module_of(node: ast.ImportFrom, file: Path) -> str:
    """The absolute name of what is imported from: inside a folder imports are relative, to elsewhere absolute."""
    folder = '.'.join(file.relative_to(PACKAGE.parent).parent.parts)
    if node.level:
        assert node.level == 1, f'{file}, line {node.lineno}: only imports from the own folder are relative'
        return f'{folder}.{node.module}' if node.module else folder
    return node.module


@functools.cache
def imported(file: Path) -> set[str]:
    """Modules of the package that a file imports anywhere, such as 'engine.devices.sharding'."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f'{_module_of(node, file)}.{alias.name}' for alias in node.names]
        else:
            continue
        found |= {name.removeprefix('flax_transformer.') for name in names if name.startswith('flax_transformer')}
    return found


def test_the_house_has_these_rooms_and_three_files() -> None:
    entries = [entry for entry in PACKAGE.iterdir() if entry.name not in ('__pycache__', 'configs', 'models')]
    assert {entry.name for entry in entries if entry.is_dir()} == set(FLOORS)
    assert {entry.name for entry in entries if entry.is_file()} <= {*FACES, 'py.typed'}


def test_a_file_imports_its_own_room_and_lower_floors() -> None:
    for file in FILES:
        own = file.relative_to(PACKAGE).parts[0]
        rooms = {name.partition('.')[0] for name in imported(file)} - {own}
        assert not rooms - set(FLOORS), f'{file}: the faces are for users: inside, a module is imported from its room'
        higher = {room: FLOORS[room] for room in rooms if FLOORS[room] >= FLOORS[own]}
        assert not higher, f'{file}: {own} is on floor {FLOORS[own]} and imports {higher}'


def test_the_transformer_can_be_copied_out_with_ops_and_common() -> None:
    files = [file for room in ('transformer', 'ops', 'common') for file in (PACKAGE / room).rglob('*.py')]
    rooms = {name.partition('.')[0] for file in files for name in imported(file)}
    assert rooms == {'transformer', 'ops', 'common'}


def circle_in(folder: Path) -> str:
    """A circle of imports among a folder's files and subfolders; '' if there is none."""
    neighbors = {entry.stem for entry in folder.iterdir()} - {'__init__', '__pycache__'}
    prefix = list(folder.relative_to(PACKAGE).parts)
    depth = len(prefix)
    graph: dict[str, set[str]] = {name: set() for name in neighbors}
    for file in folder.rglob('*.py'):
        own = file.relative_to(folder).with_suffix('').parts[0]
        if own in neighbors:
            paths = [name.split('.') for name in imported(file)]
            graph[own] |= {path[depth] for path in paths if path[:depth] == prefix and path[depth:]} & neighbors - {own}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return ' imports '.join(reversed(error.args[1]))
    return ''


def test_no_folder_has_a_circle_of_imports() -> None:
    """Imports inside functions and under TYPE_CHECKING count: who reads one file of a circle has to read them all."""
    circles = {str(folder): circle_in(folder) for folder in {file.parent for file in FILES}}
    assert not {folder: circle for folder, circle in circles.items() if circle}


def code_of(file: Path) -> str:
    """The Python in a file: a module, the cells of a notebook, or the blocks of a document."""
    text = file.read_text(encoding='utf-8')
    if file.suffix == '.ipynb':
        cells = [cell['source'] for cell in json.loads(text)['cells'] if cell['cell_type'] == 'code']
        return re.sub(r'^[%!].*', '', '\n\n'.join(map(''.join, cells)), flags=re.M)
    return '\n\n'.join(re.findall(r'```python\n(.*?)```', text, flags=re.S)) if file.suffix == '.md' else text


@pytest.mark.parametrize('suffix', ['py', 'ipynb', 'md'])
def test_whatever_is_imported_of_us_exists(suffix: str) -> None:
    """Inside functions, too, and in documents and notebooks: nothing else looks there."""
    folders = ('flax_transformer', 'tests', 'benchmarks', 'configs', 'examples', 'docs', 'notebooks')
    files = [file for folder in folders for file in (ROOT / folder).rglob(f'*.{suffix}')]
    for file in [*files, *ROOT.glob(f'*.{suffix}')]:
        for node in ast.walk(ast.parse(code_of(file))):
            if not isinstance(node, ast.ImportFrom):
                continue
            name = _module_of(node, file) if file.is_relative_to(PACKAGE) else node.module
            if name.partition('.')[0] == 'flax_transformer':
                module = importlib.import_module(name)
                for alias in node.names:
                    is_module = hasattr(module, '__path__') and importlib.util.find_spec(f'{name}.{alias.name}')
                    is_there = hasattr(module, alias.name) or is_module
                    assert is_there, f'{file}, line {node.lineno}: {name} has no {alias.name}'


def test_no_task_imports_another() -> None:
    folders = {folder.name for folder in (PACKAGE / 'tasks').iterdir() if folder.is_dir()}
    for file in (PACKAGE / 'tasks').rglob('*/*.py'):
        own = file.relative_to(PACKAGE / 'tasks').parts[0]
        others = {name.split('.')[1] for name in imported(file) if name.startswith('tasks.')} & folders - {own}
        assert not others, f'{file} imports {others}'


def test_preparing_data_imports_no_translator() -> None:
    seen, waiting = set(), ['tasks.translation.preparation']
    while waiting:
        module = waiting.pop()
        file = PACKAGE / f'{module.replace(".", "/")}.py'
        if module not in seen and file.is_file():
            seen.add(module)
            names = imported(file)
            waiting += [*names, *(name.rpartition('.')[0] for name in names)]
    assert 'tasks.translation.run' in seen
    assert not {module for module in seen if 'inference' in module or module.startswith(('decoding.beam', 'interop'))}


def test_nothing_private_of_jax_is_imported() -> None:
    """But for the key-value store of several processes, which has no public name; pyproject.toml bounds jax for it."""
    private = {name for name, file in zip(NAMES, FILES, strict=True) if 'jax._src' in file.read_text('utf-8')}
    assert private == {'engine/devices/multihost.py'}
    assert '"jax>=0.10.1,<0.' in (PACKAGE.parent / 'pyproject.toml').read_text('utf-8')


def test_long_files_are_listed() -> None:
    """Seen with `pytest -s`: a file may be long if it is one idea, and its author should know that it is."""
    lengths = {name: len(file.read_text('utf-8').splitlines()) for name, file in zip(NAMES, FILES, strict=True)}
    for name, length in sorted(lengths.items(), key=lambda item: -item[1]):
        if length > 300:
            print(f'{length:5} lines: {name}')
