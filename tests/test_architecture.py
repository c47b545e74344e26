"""The house: a file imports strictly lower floors, and none has grown too large to read."""

import ast
from pathlib import Path

import pytest

import flax_transformer

PACKAGE = Path(flax_transformer.__file__).parent

# Floor by module; a folder is one module, its files may import each other.
FLOORS = {
    'errors': 0,
    'checks': 1,
    'config': 3,
    'int8': 0,
    'dense': 1,
    'dropout': 0,
    'attention': 2,
    'layers': 2,
    'losses': 1,
    'schedules': 1,
    'freezing': 1,
    'tokenizer': 1,
    'json_files': 1,
    'marian_tokenizer': 2,
    'decoding': 1,
    'segments': 1,
    'interruption': 1,
    'segmentation': 0,
    'manifest': 1,
    'locks': 1,
    'reporting': 3,
    'whole_writes': 1,
    'board': 2,
    'spikes': 1,
    'profiling': 1,
    'improvement': 1,
    'full_disk': 1,
    'chips': 0,
    'config_json': 4,
    'flops': 4,
    'config_files': 4,
    'blocks': 4,
    'encoder': 5,
    'optimizer': 4,
    'data': 4,
    'sharding': 1,
    'rendezvous': 1,
    'processes': 4,
    'parallel': 5,
    'accumulation': 6,
    'program': 10,
    'decoder': 5,
    'run_directory': 5,
    'model': 6,
    'train_state': 7,
    'checkpoints': 8,
    'interop': 9,
    'training': 9,
    'loop': 10,
    'non_finite': 5,
    'search': 4,
    'batching': 1,
    'ngrams': 1,
    'metrics': 1,
    'alignment': 1,
    'mbr': 1,
    'compilation_cache': 1,
    'translation': 2,
    'candidates': 4,
    'runner': 6,
    'forward': 7,
    'loading': 9,
    'translator': 10,
    'ctranslate2_translator': 11,
    'hlo': 0,
    'topologies': 1,
    'plan': 11,
    'summary': 11,
    'export_loader': 0,
    'export': 11,
    'search_errors': 11,
    'evaluation': 11,
    'preparation': 5,
    'validation': 12,
    'averaging': 10,
    'curves': 6,
    'run_data': 13,
    'experiment': 14,
    'visualize': 11,
    'cli': 15,
}
FILES = sorted(file for file in PACKAGE.rglob('*.py') if file != PACKAGE / '__init__.py')


def module_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix('.py')


def imported_modules(file: Path) -> set[str]:
    """Modules of the package that a file imports anywhere, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f'{file}: imports are absolute here'
            names = (
                [f'{node.module}.{alias.name}' for alias in node.names]
                if node.module == 'flax_transformer'
                else [node.module]
            )
        else:
            continue
        found |= {name.split('.')[1] for name in names if name.startswith('flax_transformer.')}
    return found


def test_every_module_has_a_floor() -> None:
    assert {module_of(file) for file in FILES} == set(FLOORS)


@pytest.mark.parametrize('file', FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_file_imports_strictly_lower_floors(file: Path) -> None:
    own = module_of(file)
    others = imported_modules(file) - {own}
    higher = {name: FLOORS[name] for name in others if FLOORS[name] >= FLOORS[own]}
    assert not higher, f'{file.name} is on floor {FLOORS[own]} and imports {higher}'


def test_training_never_imports_translation() -> None:
    for name in ('training', 'loop', 'checkpoints', 'train_state'):
        assert not imported_modules(PACKAGE / f'{name}.py') & {'translator', 'evaluation'}


@pytest.mark.parametrize('file', FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_no_file_is_over_some_300_lines(file: Path) -> None:
    assert len(file.read_text(encoding='utf-8').splitlines()) <= 300
