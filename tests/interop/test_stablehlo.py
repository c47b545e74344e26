"""An export translates as the translator does, in a process that can import neither Flax nor this package."""

import ast
import importlib.metadata
import json
import os
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TESTS
from drawn_params import drawn

from flax_transformer import Translator
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.config import DecodingConfig, TransformerConfig
from flax_transformer.interop import export_loader, huggingface_runs
from flax_transformer.interop.ctranslate2 import CTranslate2Translator
from flax_transformer.interop.stablehlo import PLATFORMS, export_run, lower, with_fixed_shapes
from flax_transformer.ops.int8 import Raised
from flax_transformer.tasks.translation.inference import programs
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.transformer.model import parameter_shapes

HERE = TESTS
PAGE = HERE.parent / 'docs' / 'how-to' / 'export.md'
RUN, MARIAN = HERE / 'golden' / 'number_words', HERE / 'fixtures' / 'marian'
NUMBERS = [['seven', 'nine hundred and ninety-nine', 'five hundred and eighty-six']]
TEXTS = [['the house is small', 'x y z', 'no', 'it is a very long line of words, this one: 1 2 3 4']]
# What the loader says that it needs is there; nothing else can be imported.
PROCESS = """
import json, runpy, sys
for name in sys.argv[4:]:
    sys.modules[name] = None
translate = runpy.run_path(sys.argv[1] + '/load.py')['load'](sys.argv[1])
found = [[list(best) for best in translate(lines)] for lines in json.loads(sys.argv[2])]
exec(sys.argv[3], {})
print(json.dumps(found))
"""


@pytest.fixture(scope='module')
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of a trained model, weights beside it."""
    folder = tmp_path_factory.mktemp('exports') / 'exported'
    assert main(['export', str(RUN), str(folder)]) == 0
    return folder


@pytest.fixture(scope='module')
def exported_marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of a model from Marian, weights inside, that takes phrases."""
    folder = tmp_path_factory.mktemp('exports') / 'marian'
    marian = Translator.from_marian(MARIAN, beam_width=2, max_tokens=12, literals='ignored')
    export_run(marian, folder, weights='inside', platforms=['cpu'], phrases=True)
    return folder


def load_elsewhere(folder: Path, batches: list[list[str]], documented: str = '') -> tuple[list, str]:
    """What the loader makes of the batches, (text, ids, score) of each line; and what the documents' lines print."""
    said = needs_of_the_loader()
    allowed = {required for name in said for required in closure(name)}
    unsaid = [name for name, owners in importlib.metadata.packages_distributions().items() if not allowed & {*owners}]
    result = subprocess.run(
        [sys.executable, '-c', PROCESS, str(folder), json.dumps(batches), documented, 'flax_transformer', *unsaid],
        cwd=folder.parent,
        env=os.environ | {'PYTHONPATH': '', 'JAX_NUM_CPU_DEVICES': '1'},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    *printed, found = result.stdout.splitlines()
    return json.loads(found), '\n'.join(printed)


def assert_same(found: list, translator: Translator, batches: list[list[str]]) -> None:
    for of_batch, lines in zip(found, batches, strict=True):
        expected = translator(lines)
        assert [tuple(ids) for _, ids, _ in of_batch] == [translation.token_ids for translation in expected]
        assert [text for text, _, _ in of_batch] == [translation.text for translation in expected]
        np.testing.assert_allclose([s for *_, s in of_batch], [t.score for t in expected], atol=1e-5)


def test_the_loader_gives_the_translators_tokens(exported: Path) -> None:
    documented = re.search(r'```python\n(.*?)```', PAGE.read_text('utf-8'), re.S)[1]
    assert len(documented.strip().splitlines()) <= 11  # ten, and a blank one
    found, printed = load_elsewhere(exported, NUMBERS, documented)
    assert_same(found, Translator.from_run(RUN), NUMBERS)
    assert len({len(ids) for batch in found for _, ids, _ in batch}) == 3
    assert printed == 'zweiundvierzig'


@pytest.mark.slow
def test_the_loader_gives_the_tokens_of_a_marian_model_within_its_limit(exported_marian: Path) -> None:
    found, _ = load_elsewhere(exported_marian, TEXTS)
    translator = Translator.from_marian(MARIAN, beam_width=2, max_tokens=12, literals='ignored')
    # Hugging Face strips what it decodes; the tokens are the same.
    found = [[(text.strip(), ids, score) for text, ids, score in batch] for batch in found]
    assert_same(found, translator, TEXTS)
    assert max(len(ids) for batch in found for _, ids, _ in batch) == 12


@pytest.mark.slow
def test_an_export_with_phrases_requires_what_the_translator_does(exported: Path, exported_marian: Path) -> None:
    translator, lines = Translator.from_marian(MARIAN, beam_width=2, max_tokens=12, literals='ignored'), TEXTS[0]
    required = [['no', ['x', 'house']], [], None, None]
    plain, expected = translator(lines), translator(lines, required=required)
    found = export_loader.load(exported_marian)(lines, required)
    assert [tuple(ids) for _, ids, _ in found] == [each.token_ids for each in expected]
    assert [a.token_ids == b.token_ids for a, b in zip(plain, expected, strict=True)] == [False, True, True, True]
    with pytest.raises(ValueError, match='takes no phrases'):
        export_loader.load(exported)(['one'], [['zwei']])
    with pytest.raises(ValueError, match='expected at most 16'):
        export_loader.load(exported_marian)(['no'], [['no ' * 30]])


def needs_of_the_loader() -> set[str]:
    """What its docstring says to install."""
    return set(re.search('pip install ([a-z ]+)`', export_loader.__doc__)[1].split())


def closure(name: str) -> set[str]:
    """A package and all that it requires, without extras."""
    lines = [line for line in importlib.metadata.requires(name) or () if 'extra ==' not in line]
    return {name}.union(*(closure(re.match('[A-Za-z0-9._-]+', line)[0]) for line in lines))


def test_what_the_loader_imports_is_what_it_says() -> None:
    """Nothing else can be imported in the process of `load_elsewhere`."""
    tree = ast.parse(Path(export_loader.__file__).read_text('utf-8'))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names - set(sys.stdlib_module_names) == needs_of_the_loader()


@pytest.mark.slow
def test_an_export_says_how_it_is_called(exported: Path, exported_marian: Path) -> None:
    beside, inside = (json.loads((folder / 'export.json').read_text('utf-8')) for folder in (exported, exported_marian))
    assert beside['format'] == 1
    assert beside['platforms'] == list(PLATFORMS)
    assert beside['jax'] == jax.__version__
    assert [text.partition(':')[0] for text in beside['arguments']] == ['weights', 'source']
    assert [text.partition(':')[0] for text in inside['arguments']] == ['source', 'required']
    assert sorted(beside['sha256']) == sorted(file.name for file in exported.iterdir() if file.name != 'export.json')
    assert 'weights.npz' not in inside['sha256']
    assert all(
        b'StableHLO_v1.13.7' in (folder / 'program.bin').read_bytes() for folder in (exported, exported_marian)
    )  # jax 0.10.0 reads it


def test_a_jax_that_is_too_old_is_named(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, '__version__', '0.9.2')
    with pytest.raises(ValueError, match=r'pip install jax==.* 0\.9\.2'):
        export_loader.load(exported)


@pytest.mark.parametrize('name', ['program.bin', 'source.spm'])
def test_a_damaged_file_is_named(exported: Path, tmp_path: Path, name: str) -> None:
    for file in exported.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    content = bytearray((tmp_path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f'{name} missing or damaged'):
        export_loader.load(tmp_path)


def test_a_pipe_in_place_of_the_description_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / 'export.json')
    with pytest.raises(ValueError, match=r'export\.json missing or damaged'):
        export_loader.load(tmp_path)


def test_a_line_that_is_too_long_is_refused(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, 'stdin', ['one ' * 40])
    with pytest.raises(SystemExit, match='takes at most 32: split it'):
        runpy.run_path(f'{exported}/load.py', run_name='__main__')


@pytest.fixture(scope='module')
def tiny() -> Translator:
    tokenizer = SentencePieceTokenizer.train(['a b c d e f g h'] * 9, vocab_size=20, byte_fallback=False)
    config = TransformerConfig(
        vocab_size=20,
        d_model=8,
        num_heads=2,
        d_ff=8,
        num_encoder_layers=1,
        num_decoder_layers=1,
        positions='learned',
        attention_score='additive',
    )
    return Translator(config, drawn(parameter_shapes(config)), tokenizer)


EVERYTHING = DecodingConfig(
    beam_width=4,
    groups=2,
    coverage_penalty=0.2,
    no_repeat_ngram=2,
    banned_texts=('a b', 'c'),
    min_tokens=3,
    renormalize=True,
    force_eos=True,
    word_reward=0.1,
    weights='int8',
)


@pytest.mark.slow
def test_every_search_knows_neither_batch_nor_length_when_it_is_traced(tiny: Translator) -> None:
    """A Python loop over the output's slots, or a shape that must be a number, shows here."""
    translator = tiny.with_decoding(EVERYTHING)
    program = lower(translator, tiny.model.config, translator.weights, inside=False, platforms=['cpu'])
    tokens = program.out_tree.unflatten(program.out_avals)['tokens']
    assert tuple(map(str, tokens.shape)) == ('b', '4', 's + 50')


def test_eight_bits_are_exported_for_every_processor(tiny: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, 'fastest_int8', lambda: 'uint8')
    small = tiny.with_decoding(DecodingConfig(weights='int8'))
    _, exported = with_fixed_shapes(small)
    is_raised = [f'[{Raised.__name__}]' in str(jax.tree.structure(tree)) for tree in (small.weights, exported)]
    assert is_raised == [True, False]


@pytest.mark.slow
def test_the_precision_is_that_of_the_export_not_of_the_machine(tiny: Translator, tmp_path: Path, monkeypatch) -> None:
    translator = tiny.with_decoding(DecodingConfig(beam_width=1))
    monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    for dtype, expected in ((None, 'float32'), ('bfloat16', 'bfloat16')):
        folder = tmp_path / expected
        export_run(translator, folder, dtype=dtype, platforms=['cpu'])
        program = jax.export.deserialize(bytearray((folder / 'program.bin').read_bytes()))
        assert ('bf16' in program.mlir_module()) == (expected == 'bfloat16')
        assert json.loads((folder / 'export.json').read_text())['dtype'] == expected


@pytest.mark.parametrize(
    ('changes', 'message'),
    [({'search': 'sample'}, 'draws would be the same'), ({'mbr': 'bleu'}, 'compares texts')],
)
def test_what_a_program_cannot_do_is_refused(tiny: Translator, tmp_path: Path, changes: dict, message: str) -> None:
    translator = tiny.with_decoding(replace(tiny.decoding, **changes))
    with pytest.raises(UserError, match=message):
        export_run(translator, tmp_path / 'out')
    assert not any(tmp_path.iterdir())


def test_an_ensemble_and_a_model_that_is_not_ours_are_refused(tiny: Translator, tmp_path: Path) -> None:
    config, params = tiny.model.config, tiny.params
    with pytest.raises(UserError, match='ensemble of 2 models'):
        export_run(Translator([config, config], (params, params), tiny.tokenizer), tmp_path / 'out')
    other = Translator(nn.Dense(20), {}, tiny.tokenizer)
    with pytest.raises(UserError, match='a Dense cannot be exported'):
        export_run(other, tmp_path / 'out')
    with pytest.raises(UserError, match='CTranslate2 cannot do this: a Dense'):
        CTranslate2Translator.of(other)


def test_nothing_is_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(['export', str(RUN), str(tmp_path)]) == 2
    assert f'{tmp_path} exists' in capsys.readouterr().err


def test_parameters_that_are_not_finite_are_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_run(RUN)
    params = jax.tree.map(lambda x: x.at[(0,) * x.ndim].set(jnp.nan), loaded.params)
    expected = 'decoder/'
    with pytest.raises(UserError, match=expected):
        export_run(Translator(loaded.config.model, params, loaded.tokenizer), tmp_path / 'export')
    monkeypatch.setattr(huggingface_runs, 'load_run', lambda *_, **__: loaded._replace(params=params))
    with pytest.raises(UserError, match=expected):
        huggingface_runs.export_huggingface(RUN, tmp_path / 'marian', DecodingConfig(length_penalty='power'))
    assert not list(tmp_path.iterdir())
