"""Settings of every test: CPU, float32 products, no silent broadcasting; and where real corpora lie."""

import ctypes
import fcntl
import gc
import io
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ.setdefault('JAX_NUM_CPU_DEVICES', '8')
# Tiny models: compiling takes longer than running, so compile with little effort, and the same thing once.
_COMPILED = tempfile.TemporaryDirectory(prefix='flax_transformer_tests_')
os.environ.setdefault('JAX_DISABLE_MOST_OPTIMIZATIONS', '1')
os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', _COMPILED.name)
if 'PYTEST_XDIST_WORKER' not in os.environ:  # workers share their parent's
    os.environ['XDG_STATE_HOME'] = os.environ['XDG_CACHE_HOME'] = _COMPILED.name
os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0.3')
# Compiles a step in one piece. jaxlib 0.10's older emitters take a third of the time; later ones lack them, and XLA
# aborts at a flag that it does not know.
_flags = '--xla_cpu_parallel_codegen_split_count=1'
_flags += ' --xla_cpu_use_fusion_emitters=false' if version('jaxlib').startswith('0.10.') else ''
os.environ.setdefault('XLA_FLAGS', _flags)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts jobs in the background so
    signal.signal(signal.SIGINT, signal.default_int_handler)

import numpy as np
import pytest

from flax_transformer.config import (
    Config,
    DataConfig,
    DecodingConfig,
    OptimizerConfig,
    TokenizerConfig,
    TrainingConfig,
    TransformerConfig,
)
from flax_transformer.engine.runs.trust import remember

TESTS = Path(__file__).parent
ROOT = TESTS.parent
# Scripts that need torch, librosa and gensim.
collect_ignore = ['make_marian_fixture.py', 'make_mel_fixture.py', 'make_word_vectors_fixture.py']


def pytest_collection() -> None:
    """Not where the process only gives tests to others, which needs no JAX."""
    import jax

    jax.config.update('jax_numpy_rank_promotion', 'raise')
    jax.config.update('jax_default_matmul_precision', 'highest')


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as slow those cases of parametrized tests that `slow_cases` names."""
    for item in items:
        slow = item.get_closest_marker('slow_cases')
        if slow and item.callspec.id in slow.args:
            item.add_marker('slow')


def pytest_collection_finish() -> None:
    """Takes what was imported out of the garbage collector's sight, and lets it run less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


@pytest.fixture(scope='module', autouse=True)
def programs_of_a_module_are_let_go() -> Iterator[None]:
    """They come to gigabytes; glibc returns their memory only when asked."""
    yield
    if resident() < MANY_PROGRAMS:
        return
    import jax

    jax.clear_caches()
    gc.collect()
    if sys.platform == 'linux':
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(autouse=True)
def signals_are_handled_as_before() -> Iterator[None]:
    """A handler that a test left behind would fail other tests, and whatever these start inherits an ignored signal."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    changed = {number.name for number, handler in before.items() if signal.getsignal(number) != handler}
    for number, handler in before.items():
        if number.name in changed:
            signal.signal(number, handler)
    assert not changed, f'the test left other handlers of {", ".join(sorted(changed))} than there were'


MANY_PROGRAMS = 2e9  # bytes: less is kept, since programs are shared and letting go of them takes time


def resident() -> float:
    """Returns this process's bytes of memory; infinity where there is no /proc."""
    try:
        return int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')
    except FileNotFoundError:
        return float('inf')


def corpus(*path: str) -> Path:
    """A file below $FLAX_TRANSFORMER_DATA; the test is skipped, saying so, where it is absent."""
    root = os.environ.get('FLAX_TRANSFORMER_DATA')
    if not root:
        pytest.skip('FLAX_TRANSFORMER_DATA is not set: no real corpora here')
    file = Path(root, *path)
    if not file.exists():
        pytest.skip(f'{"/".join(path)} is not below FLAX_TRANSFORMER_DATA')
    return file


def copy_corpus(folder: Path, *, pairs: int = 2000, seed: int = 0) -> None:
    """Writes train, validation and test files of lines whose translation is the line itself."""
    rng = np.random.default_rng(seed)
    letters = np.array(list('abcdefgh'))
    for split, count in (('train', pairs), ('validation', 50), ('test', 50)):
        lines = [' '.join(rng.choice(letters, rng.integers(2, 8))) for _ in range(count)]
        for language in ('in', 'out'):
            (folder / f'{split}.{language}').write_text(''.join(f'{line}\n' for line in lines), encoding='utf-8')


def copy_config(folder: Path, **training: Any) -> Config:
    """A model that learns to copy in seconds."""
    settings = {
        'steps': 250,
        'tokens_per_step': 512,
        'log_every': 10,
        'evaluate_every': 125,
        'checkpoint_every': 125,
        'sample_translations': 0,  # each needs a compilation of the search
        'draw_attention': False,
        'calibrate_on': 0,
    }
    return Config(
        model=TransformerConfig(
            vocab_size=20, d_model=32, num_heads=4, d_ff=64, num_encoder_layers=1, num_decoder_layers=1
        ),
        tokenizer=TokenizerConfig(byte_fallback=False),
        data=DataConfig(
            source_language='in',
            target_language='out',
            train='train.{lang}',
            validation='validation.{lang}',
            test='test.{lang}',
            root=str(folder),
            source_length=32,
            target_length=32,
            block_size=256,
        ),
        # No schedule that depends on the steps: every test that trains this model compiles the same step.
        optimizer=OptimizerConfig(schedule='inverse_sqrt', learning_rate=1e-2, warmup_steps=25),
        training=TrainingConfig(**settings | training),
        decoding=DecodingConfig(beam_width=2, batch_tokens=128),  # batches of 1 line or 8: few programs
    )


@pytest.fixture(scope='session')
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test session share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if 'PYTEST_XDIST_WORKER' in os.environ else own


@pytest.fixture(scope='session', autouse=True)
def programs_are_shared(shared_folder: Path) -> None:
    from sharing import share_first_parameters, share_searches, share_trainers, share_translators

    share_trainers()
    share_first_parameters()
    share_searches()
    share_translators({shared_folder, TESTS / 'golden'})


@pytest.fixture(scope='session')
def copy_folder(shared_folder: Path) -> Path:
    """A corpus of lines to copy. Read it only."""
    return made_once(shared_folder / 'corpus', copy_corpus)


@pytest.fixture(scope='session')
def copy_run(copy_folder: Path, shared_folder: Path) -> Path:
    """A run directory that has learned to copy. Read it only."""
    from flax_transformer import train

    return made_once(shared_folder / 'copy', lambda run: train(copy_config(copy_folder), run))


@pytest.fixture(scope='session')
def texts_folder(shared_folder: Path) -> Path:
    """A folder with train.tsv, validation.tsv and test.tsv of labeled texts. Read it only."""
    from tiny_classification import write_texts

    return made_once(shared_folder / 'texts', write_texts)


@pytest.fixture(scope='session')
def tiny_classifier(texts_folder: Path, shared_folder: Path) -> Path:
    """A run directory that has learned their labels. Read it only."""
    from tiny_classification import tiny_config

    from flax_transformer import train

    return made_once(shared_folder / 'tiny_classifier', lambda run: train(tiny_config(texts_folder), run))


@pytest.fixture(scope='session')
def tiny_detector(shared_folder: Path) -> Path:
    """A run directory that has learned to hear rising melodies, not too well. Read it only."""
    from tiny_trigger_word import tiny_config

    from flax_transformer import train

    return made_once(shared_folder / 'tiny_detector', lambda run: train(tiny_config(), run))


@pytest.fixture(scope='session')
def tiny_transcriber(shared_folder: Path) -> Path:
    """A run directory that has learned touch-tones. Read it only."""
    from tiny_speech import tiny_config

    from flax_transformer import train

    return made_once(shared_folder / 'tiny_transcriber', lambda run: train(tiny_config(), run))


@pytest.fixture
def call_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """A function that runs a command on standard input: (exit code, standard output, standard error)."""
    from flax_transformer.cli import main

    def call(*argv: object, text: str | bytes = '') -> tuple[int, str, str]:
        output, content = io.BytesIO(), text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(io.BytesIO(content)))
        monkeypatch.setattr(sys, 'stdout', io.TextIOWrapper(output, encoding='utf-8', write_through=True))
        code = main([str(arg) for arg in argv])
        sys.stdout.flush()
        return code, output.getvalue().decode(), capsys.readouterr().err

    return call


def made_once(folder: Path, make: Callable[[Path], Any]) -> Path:
    """The folder, which whichever process comes first makes while the others wait."""
    with folder.with_suffix('.lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            being_made = folder.with_suffix('.being_made')
            being_made.mkdir()
            make(being_made)
            being_made.rename(folder)
            remember(folder)  # a run that was moved asks
    return folder
