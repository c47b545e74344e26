"""The whole way: text files -> training -> a run directory -> translations and scores."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import copy_config

import flax_transformer
from flax_transformer import Config, Translator, train
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.config import CheckConfig, CorpusConfig, DataConfig, ParallelConfig
from flax_transformer.data.bitext.batches import Place
from flax_transformer.data.lines import read_lines
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

ROOT = Path(flax_transformer.__file__).parents[1]


def parameters(run: Path) -> list[np.ndarray]:
    """The newest checkpoint's parameters."""
    with contextlib.closing(Checkpoints(run / 'checkpoints', read_only=True)) as checkpoints:
        translator = Translator.from_run(run, step=checkpoints.latest())
    return [np.asarray(leaf) for leaf in jax.tree.leaves(translator.params)]


def test_a_small_model_learns_to_copy(copy_run: Path, copy_folder: Path) -> None:
    lines = read_lines(copy_folder / 'test.in')
    translations = Translator.from_run(copy_run)(lines)
    assert np.mean([t.text == line for t, line in zip(translations, lines, strict=True)]) >= 0.95


def test_a_run_directory_holds_what_it_should(copy_run: Path) -> None:
    assert {file.name for file in copy_run.iterdir()} == {
        'config.json',
        'tokenizer',
        'tokenizer.sha256',
        'data_cache',
        'data_files.json',
        'checkpoints',
        'metrics.jsonl',
        'tensorboard',
        'environment.json',
        'lock',
    }
    environment = json.loads((copy_run / 'environment.json').read_text())[0]
    assert environment['versions']['jax'] == jax.__version__
    kinds = {record['kind'] for record in read_metrics(copy_run)}
    assert kinds == {'train', 'validation'}
    losses = [record['loss'] for record in read_metrics(copy_run) if record['kind'] == 'train']
    assert losses[-1] < losses[0] / 2
    assert list((copy_run / 'tensorboard').glob('events*'))


def test_a_moved_run_directory_suffices(
    copy_run: Path,
    copy_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Moved elsewhere, without the corpus it was trained on and without a data root, it translates and scores files."""
    moved = tmp_path / 'moved'
    shutil.copytree(copy_run, moved)
    config = Run(moved).read_config()
    gone = replace(config, data=replace(config.data, root=str(tmp_path / 'gone')))
    Run(moved).open(gone)
    monkeypatch.delenv('FLAX_TRANSFORMER_DATA', raising=False)
    monkeypatch.chdir(tmp_path)
    files = ['--source', str(copy_folder / 'test.in'), '--reference', str(copy_folder / 'test.out')]
    assert main(['evaluate', str(moved), *files, '--json']) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores['bleu'] > 90
    assert scores['num_lines'] == 50
    assert 'tok:13a' in scores['bleu_signature']
    assert scores['perplexity'] < 2


def test_evaluate_prints_scores_with_signatures(copy_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['evaluate', str(copy_run), '--examples', '2', '--decoding.beam-width', '1']) == 0
    out = capsys.readouterr().out
    assert out.count('reference ') == 2
    for word in (
        'BLEU',
        'chrF',
        'nrefs:1|case:mixed|eff:no|tok:13a',
        'perplexity',
        'negative log-likelihood',
        'beam 1',
    ):
        assert word in out


def translate(run: Path, text: bytes, *options: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, bytes]:
    """Exit code and output of the translate command on standard input."""
    output = io.BytesIO()
    monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(io.BytesIO(text)))
    monkeypatch.setattr(sys, 'stdout', io.TextIOWrapper(output, write_through=True))
    code = main(['translate', str(run), *options])
    return code, output.getvalue()


def test_translate_gives_a_line_for_a_line(copy_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'a b c\n\n  \nd e\u2028f\r\nh g\n\na'.encode()
    code, out = translate(copy_run, text, '--decoding.beam-width', '1', monkeypatch=monkeypatch)
    lines = out.decode().split('\n')
    assert code == 0
    assert len(lines) == 8
    assert lines[-1] == ''
    assert [lines[i] for i in (0, 1, 2, 4, 5)] == ['a b c', '', '', 'h g', '']


def test_translate_names_the_line_that_is_not_utf8_and_keeps_those_before(
    copy_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = translate(copy_run, b'a b\nc d\n\xff\n', monkeypatch=monkeypatch)
    assert code == 2
    assert out == b'a b\nc d\n'
    assert 'input line 3: byte 0xff' in capsys.readouterr().err


def without_validation(config: Config) -> Config:
    """Quicker: nothing but steps and checkpoints."""
    return replace(config, data=replace(config.data, validation=''))


@pytest.mark.slow  # of the toy task: engine/test_toy_task.py
def test_a_killed_run_goes_on_where_it_was(copy_folder: Path, tmp_path: Path) -> None:
    """SIGKILL in the middle, then the same command: the same parameters as if nothing had happened."""
    config = without_validation(copy_config(copy_folder, steps=30, checkpoint_every=10))
    train(config, tmp_path / 'whole')
    script = tmp_path / 'killed.py'
    script.write_text(
        'import os, signal, sys\n'
        f'sys.path.insert(0, {str(Path(__file__).parent)!r})\n'
        'from conftest import copy_config\n'
        'from dataclasses import replace\n'
        'from pathlib import Path\n'
        'from flax_transformer import train\n'
        'from flax_transformer.engine.monitor.reporter import Reporter\n'
        'def advance(self, step):\n'
        '    if step == 27: os.kill(os.getpid(), signal.SIGKILL)\n'
        'Reporter.advance = advance\n'
        f'config = copy_config(Path({str(copy_folder)!r}), steps=30, checkpoint_every=10)\n'
        "config = replace(config, data=replace(config.data, validation=''))\n"
        f'train(config, {str(tmp_path / "killed")!r})\n'
    )
    killed = subprocess.run([sys.executable, str(script)], capture_output=True, timeout=120)
    assert killed.returncode == -9, killed.stderr.decode()
    with contextlib.closing(Checkpoints(tmp_path / 'killed' / 'checkpoints', read_only=True)) as checkpoints:
        assert checkpoints.latest() in (10, 20)  # the save in the background may not have ended
    train(config, tmp_path / 'killed')
    for ours, expected in zip(parameters(tmp_path / 'killed'), parameters(tmp_path / 'whole'), strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_a_corpus_that_changed_is_refused_on_resume(copy_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'corpus'
    shutil.copytree(copy_folder, folder)
    train(without_validation(copy_config(folder, steps=5)), tmp_path / 'run')
    for language in ('in', 'out'):
        file = folder / f'train.{language}'
        file.write_text(file.read_text() + 'a b c\n')
    with pytest.raises(UserError, match=r'is not what .* was trained on'):
        train(without_validation(copy_config(folder, steps=6)), tmp_path / 'run')


def test_pairs_that_are_left_out_are_reported(
    copy_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / 'corpus'
    shutil.copytree(copy_folder, folder)
    for language, extra in (('in', 'a b\n \n' + 'a b c d ' * 20 + '\n'), ('out', '\nb\na\n')):
        file = folder / f'train.{language}'
        file.write_text(file.read_text() + extra)
    train(without_validation(copy_config(folder, steps=1)), tmp_path / 'run')
    told = capsys.readouterr().err
    assert '2,000 of 2,003 pairs are trained on' in told
    assert 'left out: 2 pairs with a blank side' in told
    assert 'left out: 1 pairs of more than 32 source or 32 target tokens' in told


def test_a_blank_validation_set_is_refused_before_anything_is_written(copy_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'corpus'
    shutil.copytree(copy_folder, folder)
    (folder / 'validation.out').write_text('\n' * 50)
    with pytest.raises(UserError, match=r'each of the 50 pairs of .* has a blank side'):
        train(copy_config(folder, steps=1), tmp_path / 'run')
    assert not (tmp_path / 'run').exists()


def test_a_finished_run_is_not_trained_again(
    copy_run: Path, copy_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_metrics(copy_run)
    train(Run(copy_run).read_config(), copy_run)
    assert 'trained already, to step 250; raise --training.steps' in capsys.readouterr().err
    assert read_metrics(copy_run) == before


def losses_of(config_file: Path, run: Path, *options: str) -> list[float]:
    """Losses by step of a run of train.py in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != 'JAX_NUM_CPU_DEVICES'} | {'JAX_PLATFORMS': 'cpu'}
    command = [sys.executable, str(ROOT / 'train.py'), '--config', str(config_file), '--workdir', str(run), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    devices = json.loads((run / 'environment.json').read_text())[-1]['devices']
    assert devices.startswith(options[1] if options else '1')
    return [record['loss'] for record in read_metrics(run) if record['kind'] == 'train']


@pytest.mark.slow  # of one step, and without a process of its own: test_sharding.py
@pytest.mark.parametrize('strategy', ['pmap', 'mesh'])
def test_eight_devices_give_the_losses_of_one(strategy: str, copy_folder: Path, tmp_path: Path) -> None:
    """50 steps without dropout; the option itself makes the eight simulated devices.

    At the copy task's own rate of 1e-2 training amplifies rounding a thousandfold within 50 steps; at 2e-3 it does not.
    """
    config_file = tmp_path / 'experiment.py'
    config_file.write_text(
        f'import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n'
        'from conftest import copy_config\nfrom dataclasses import replace\nfrom pathlib import Path\n'
        'def get_config():\n'
        f'    config = copy_config(Path({str(copy_folder)!r}), steps=50, log_every=1, evaluate_every=50)\n'
        '    model, optimizer = config.model, config.optimizer\n'
        '    return replace(config, model=replace(model, dropout_rate=0.0), optimizer=replace(optimizer, '
        'learning_rate=2e-3))\n'
    )
    one = losses_of(config_file, tmp_path / 'one')
    eight = losses_of(config_file, tmp_path / 'eight', '--parallel.num-devices', '8', '--parallel.strategy', strategy)
    assert len(one) == 50
    np.testing.assert_allclose(eight, one, rtol=1e-5)


def test_train_py_is_the_train_command(copy_folder: Path) -> None:
    sys.path.insert(0, str(ROOT))
    try:
        from train import positional
    finally:
        sys.path.pop(0)
    assert positional(['--workdir', 'R', '--config', 'c.py', '--seed', '1']) == [
        'c.py',
        '--workdir',
        'R',
        '--seed',
        '1',
    ]
    assert positional(['--config=c.py', '--seed', '1']) == ['c.py', '--seed', '1']
    assert positional(['c.py', '--seed', '1']) == ['c.py', '--seed', '1']


# A mixture: one model that copies, and that writes capitals.


def mixture_config(folder: Path, **changes: Any) -> Config:
    """Lines of letters to themselves and to capitals; only the tag says which. Everything that draws is on."""
    for split, count in (('train', 300), ('validation', 20)):
        lines = [' '.join(np.random.default_rng(i).choice(list('abcdefgh'), 2 + i % 5)) for i in range(count)]
        for language, change in (('in', str), ('low', str), ('up', str.upper)):
            file = folder / f'{split}.{language}'
            file.write_text(''.join(f'{change(line)}\n' for line in lines[: 100 if language == 'up' else None]))
    # Capitals are fewer, so that the corpora do not end together.
    (folder / 'few.in').write_text(''.join((folder / 'train.in').read_text().splitlines(keepends=True)[:100]))
    config = copy_config(folder, **{'steps': 10, 'checkpoint_every': 10, 'evaluate_every': 10, 'log_every': 5})
    train, few = 'train.{lang}', 'few.in,train.up'
    data = replace(
        config.data,
        train=DataConfig.train,
        validation=DataConfig.validation,
        mixture=(
            CorpusConfig('copy', train, 'validation.{lang}', weight=0.5, target_language='low'),
            CorpusConfig('plain', train, weight=0.25, target_language='low'),
            CorpusConfig('capitals', few, 'validation.{lang}', weight=0.5, target_language='up'),
        ),
        target_language='low',
        test='',
        language_tags=True,
        bpe_dropout=0.2,
        block_size=100,
    )
    return replace(
        config,
        model=replace(config.model, vocab_size=37),
        check=CheckConfig(before_training=False),  # lines that are their own translation, two corpora alike
        data=data,
        optimizer=replace(config.optimizer, ema_decay=0.9, schedule='inverse_sqrt'),
    )


@pytest.fixture(scope='module')
def mixture_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that has learned when to write capitals, and what it told. Read it only."""
    folder = tmp_path_factory.mktemp('mixture')
    config = mixture_config(folder)
    training = replace(config.training, steps=120, evaluate_every=120, sample_translations=2)
    with contextlib.redirect_stderr(io.StringIO()) as told:
        train(replace(config, training=training), folder / 'run')
    return folder / 'run', told.getvalue()


def test_each_corpus_of_a_mixture_has_its_own_loss(mixture_run: tuple[Path, str]) -> None:
    records = read_metrics(mixture_run[0])
    for record in records:
        names = {name for name in record if name.startswith('nll/')}
        # The corpus without a validation set has no loss there, and lends its name to no other.
        assert names == {'nll/copy', 'nll/capitals'} | ({'nll/plain'} if record['kind'] == 'train' else set())
        losses = [record[name] for name in names]
        assert min(losses) <= record['nll'] <= max(losses)
    assert {record['kind'] for record in records} == {'train', 'validation'}


def test_the_samples_of_an_evaluation_are_translated_into_the_languages_of_their_sets(
    mixture_run: tuple[Path, str],
) -> None:
    _, told = mixture_run
    for name in ('reference', 'translation'):
        lower, upper = re.findall(rf'^  {name} +(.+)$', told, re.MULTILINE)
        assert lower.islower()
        assert upper.isupper()


def test_one_model_translates_into_the_language_that_is_asked_for(
    mixture_run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = mixture_run
    monkeypatch.setattr(SentencePieceTokenizer, 'sample_flat', lambda *_, **__: pytest.fail('drawn while translating'))
    texts = {}
    for language in ('low', 'up', None):
        options = [] if language is None else ['--decoding.target-language', language]
        code, out = translate(run, b'a b c d\n', *options, monkeypatch=monkeypatch)
        assert code == 0
        texts[language] = out.decode()
    assert texts['low'].islower()
    assert texts['up'].isupper()
    assert texts[None] == texts['low']  # data.target_language
    assert Translator.from_run(run, target_language='up')(['a b c d'])[0].text + '\n' == texts['up']


def test_a_language_the_model_does_not_know_is_refused_with_those_it_knows(
    mixture_run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = translate(mixture_run[0], b'a b\n', '--decoding.target-language', 'upp', monkeypatch=monkeypatch)
    assert (code, out) == (2, b'')
    assert "target_language='upp': expected one of low, up. Did you mean up?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ('strategy', 'algorithm'),
    [
        pytest.param('pmap', 'bpe', marks=pytest.mark.slow),
        pytest.param('mesh', 'unigram', marks=pytest.mark.slow),
    ],
)
def test_resumed_training_equals_uninterrupted_training(strategy: str, algorithm: str, tmp_path: Path) -> None:
    """To the bit, on two devices, with a weighted mixture, drawn segmentations, dropout, a moving average, a stop in
    mid-epoch, and the data tokenized anew; the rate must not depend on the last step."""
    config = mixture_config(tmp_path)
    corpora = tuple(replace(corpus, validation='') for corpus in config.data.mixture)
    drawn = {'bpe_dropout': 0.2} if algorithm == 'bpe' else {'bpe_dropout': 0.0, 'unigram_alpha': 0.2}
    config = replace(
        config,
        data=replace(config.data, mixture=corpora, **drawn),
        tokenizer=replace(config.tokenizer, algorithm=algorithm),
        parallel=ParallelConfig(strategy, 2),
    )
    assert config.model.dropout_rate > 0
    train(config, tmp_path / 'at_once')
    for steps in (3, 10):
        train(replace(config, training=replace(config.training, steps=steps)), tmp_path / 'pieces')
        shutil.rmtree(tmp_path / 'pieces' / 'data_cache')
    (position,) = (tmp_path / 'pieces' / 'checkpoints' / '3' / 'position').glob('metadata')
    place = Place.of(json.loads(position.read_text())['batches']['position'])
    assert place.block * 40 % 100 > 0  # sentences of the smallest corpus
    assert place.row > 0
    for ours, expected in zip(parameters(tmp_path / 'pieces'), parameters(tmp_path / 'at_once'), strict=True):
        np.testing.assert_array_equal(ours, expected)
