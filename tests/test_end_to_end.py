"""The whole way: text files -> training -> a run directory -> translations and scores."""

import contextlib
import io
import json
import re
import runpy
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import ROOT, copy_config

from flax_transformer import Config, Translator, train
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.config import CheckConfig, CorpusConfig, DataConfig
from flax_transformer.data.lines import read_lines
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer


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
        'training_sample.jsonl',
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


def test_a_moved_run_directory_suffices(copy_run: Path, copy_folder: Path, tmp_path: Path, monkeypatch, capsys) -> None:
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


def test_translate_gives_a_line_for_a_line(copy_run: Path, call_command: Callable) -> None:
    text = 'a b c\n\n  \nd e\u2028f\r\nh g\n\na'
    code, out, _ = call_command('translate', copy_run, '--decoding.beam-width', '1', text=text)
    lines = out.split('\n')
    assert code == 0
    assert len(lines) == 8
    assert lines[-1] == ''
    assert [lines[i] for i in (0, 1, 2, 4, 5)] == ['a b c', '', '  ', 'h g', '']


def without_validation(config: Config) -> Config:
    """Quicker: nothing but steps and checkpoints."""
    return replace(config, data=replace(config.data, validation=''))


def test_a_corpus_that_changed_is_refused_on_resume(copy_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'corpus'
    shutil.copytree(copy_folder, folder)
    train(without_validation(copy_config(folder, steps=5)), tmp_path / 'run')
    for language in ('in', 'out'):
        file = folder / f'train.{language}'
        file.write_text(file.read_text() + 'a b c\n')
    with pytest.raises(UserError, match=r'is not what .* was trained on'):
        train(without_validation(copy_config(folder, steps=6)), tmp_path / 'run')


def test_train_py_is_the_train_command() -> None:
    positional, rest = runpy.run_path(str(ROOT / 'train.py'))['positional'], ['--seed', '1']
    for given in (['--config', 'c.py', *rest], ['--config=c.py', *rest], ['c.py', *rest]):
        assert positional(given) == ['c.py', *rest]
    assert positional([*rest, '--config', 'c.py']) == ['c.py', *rest]


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
        decoding=replace(config.decoding, beam_width=1),
        check=CheckConfig(before_training=False),  # lines that are their own translation, two corpora alike
        data=data,
        optimizer=replace(config.optimizer, ema_decay=0.9, schedule='inverse_sqrt'),
    )


@pytest.fixture(scope='module')
def mixture_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that has learned when to write capitals, and what it told. Read it only."""
    folder = tmp_path_factory.mktemp('mixture')
    config = mixture_config(folder)
    training = replace(config.training, steps=60, evaluate_every=60, sample_translations=2)
    with contextlib.redirect_stderr(io.StringIO()) as told:
        train(replace(config, training=training), folder / 'run')
    return folder / 'run', told.getvalue()


@pytest.mark.slow
def test_each_corpus_of_a_mixture_has_its_own_loss(mixture_run: tuple[Path, str]) -> None:
    records = read_metrics(mixture_run[0])
    for record in records:
        names = {name for name in record if name.startswith('nll/')}
        # The corpus without a validation set has no loss there, and lends its name to no other.
        assert names == {'nll/copy', 'nll/capitals'} | ({'nll/plain'} if record['kind'] == 'train' else set())
        losses = [record[name] for name in names]
        assert min(losses) <= record['nll'] <= max(losses)
    assert {record['kind'] for record in records} == {'train', 'validation'}


@pytest.mark.slow
def test_the_samples_of_an_evaluation_are_translated_into_the_languages_of_their_sets(
    mixture_run: tuple[Path, str],
) -> None:
    _, told = mixture_run
    for name in ('reference', 'translation'):
        lower, upper = re.findall(rf'^  {name} +(.+)$', told, re.MULTILINE)
        assert lower.islower()
        assert upper.isupper()


@pytest.mark.slow
def test_one_model_translates_into_the_language_that_is_asked_for(
    mixture_run: tuple[Path, str], monkeypatch, call_command: Callable
) -> None:
    run, _ = mixture_run
    monkeypatch.setattr(SentencePieceTokenizer, 'sample_flat', lambda *_, **__: pytest.fail('drawn while translating'))
    code, out, _ = call_command('translate', run, '--decoding.target-language', 'up', text='a b c d\n')
    assert (code, out.isupper()) == (0, True)
    assert Translator.from_run(run)(['a b c d'])[0].text.islower()  # data.target_language
