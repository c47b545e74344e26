"""Bad input at the command line: an exit code, one message that says what to do, no traceback, nothing written."""

import re
from pathlib import Path

import pytest

from flax_transformer.cli import COMMANDS, main
from flax_transformer.common.config_files import load_config
from flax_transformer.tasks.translation.run import Run

CONFIG = """
from flax_transformer.config import Config, DataConfig, TrainingConfig, TransformerConfig


def get_config():
    return Config(
        model=TransformerConfig(
            vocab_size=280, d_model=8, num_heads=2, d_ff=8, num_encoder_layers=1, num_decoder_layers=1
        ),
        data=DataConfig(
            train='good.{lang}', validation='', test='', root='ROOT', source_length=16, target_length=16
        ),
        training=TrainingConfig(steps=1, tokens_per_step=128),
    )
"""
NEW = ('--workdir', 'new')


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory with a config and corpora, good and bad."""
    files = {
        'mine.py': CONFIG.replace('ROOT', str(tmp_path)),
        'good.en': 'one two three\nfour five\n',
        'good.de': 'eins zwei drei\nvier fünf\n',
        'short.de': 'eins\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding='utf-8')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv('FLAX_TRANSFORMER_DATA', raising=False)
    monkeypatch.setenv('GLIBC_TUNABLES', 'glibc.malloc.hugetlb=1')  # without, train has a word about it
    return tmp_path


@pytest.fixture
def refuse(capsys):
    """A function that runs a command and returns its exit code and its message, unwrapped, without tyro's frame."""

    def run(*argv):
        try:
            code = main(list(argv))
        except SystemExit as stopped:  # tyro's way out
            code = stopped.code
        output = capsys.readouterr()
        assert 'Traceback' not in output.out + output.err
        message = ' '.join(re.sub(r'[│╭╮╰╯─]|-{5,}', ' ', output.err).split())
        assert message.count('flax-transformer: ') + message.count('For full helptext') == 1, output.err
        return code, message

    return run


def assert_says(message, *parts):
    for part in parts:
        assert part in message


def test_an_unknown_command_names_the_nearest_and_lists_all(refuse):
    code, message = refuse('translat')
    assert code == 2
    assert re.search(r"no command 'translat'\. Did you mean [\w, ]*\btranslate\b", message)
    assert_says(message, 'usage: flax-transformer', *COMMANDS)


OF_A_CONFIG = ('check', 'clean', 'prepare', 'train')  # the commands whose first argument is a config
OF_EITHER = ('plan', 'show')  # a config or a run
OF_NEITHER = ('completion', 'configs', 'help', 'models')


@pytest.mark.parametrize('command', [name for name in COMMANDS if name not in (*OF_NEITHER, 'serve')])
def test_a_missing_first_argument_is_told_with_the_usage(refuse, folder, command):
    code, message = refuse(command, '--workdir', 'new')
    others = {
        'detect': 'RUN FILE ...',
        'distill': 'TEACHER ... NAME.py',
        'import-huggingface': 'FOLDER',
        'new': 'MY_CONFIG.py',
        'compare': 'RUN|FILE RUN|FILE',
        'plot': 'KIND NAME ...',
    }
    first = 'CONFIG' if command in OF_A_CONFIG + OF_EITHER else others.get(command, 'RUN')
    assert code == 2
    assert_says(message, f'expected {first} first', f'flax-transformer {command} {first} [--field value ...]')
    assert not (folder / 'new').exists()


def test_no_arguments_print_the_usage_and_fail(capsys):
    assert main([]) == 2
    assert 'usage: flax-transformer' in capsys.readouterr().out


BAD_TRAINING = {
    'unknown option': (['mine.py', '--nope', '1'], ['Unrecognized', '--nope', '1']),
    'typo in a field': (['mine.py', '--model.num-head', '2'], ['--model.num-heads INT']),
    'out of range': (['mine.py', '--model.num-heads', '7'], ['d_model=8', 'num_heads=7']),
    'wrong type': (['mine.py', '--model.num-heads', 'four'], ['--model.num-heads', "'four'"]),
    'wrong word': (['mine.py', '--model.positions', 'sine'], ["'sine'", '--model.positions']),
    'missing config': (['number_wrds'], ["config 'number_wrds'", 'Did you mean number_words']),
    'missing file': (['mine.py', '--data.train', 'bad.{lang}'], ['bad.en does not exist', '--data.root']),
    'missing validation': (['mine.py', '--data.validation', 'bad.{lang}'], ['bad.en does not exist']),
    'unequal counts': (['mine.py', '--data.train', 'good.en,short.de'], ['good.en', 'short.de']),
    'vocabulary too big': (['mine.py', '--model.vocab-size', '5000'], ['--model.vocab-size']),
    'seed too large': (['mine.py', '--seed', '99999999999999999999'], ['seed=99999999999999999999: expected']),
    'too many devices': (['mine.py', '--parallel.num-devices', '99'], ['num_devices=99']),
}


@pytest.mark.parametrize(('argv', 'parts'), BAD_TRAINING.values(), ids=BAD_TRAINING)
def test_bad_training_commands_say_what_to_do_and_write_nothing(refuse, folder, argv, parts):
    before = sorted(folder.iterdir())
    code, message = refuse('train', *argv, *NEW)
    assert code == 2
    assert_says(message, *parts)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(('run', 'what'), [('none', 'none does not exist'), ('.', '. has no config.json')])
def test_a_missing_run_is_told(refuse, run, what):
    code, message = refuse('translate', run)
    assert code == 2
    assert_says(message, what, 'flax-transformer train')


@pytest.mark.parametrize(
    ('argv', 'parts'),
    [
        (('evaluate', 'old', '--source', 'good.en'), ['--source and --reference']),
        (('evaluate', 'old'), ['old has no test set', '--source and --reference']),
        (('evaluate', 'old', '--source', 'good.en', '--reference', 'good.de', '--output', 'good.de'), ['good.de']),
        (('translate', 'old', '--decoding.beam', '2'), ['--decoding.beam-width INT']),
    ],
)
def test_bad_commands_of_a_run_say_what_to_do(refuse, argv, parts):
    Run('old').open(load_config('mine.py'))
    code, message = refuse(*argv)
    assert code == 2
    assert_says(message, *parts)


def test_a_run_of_a_later_version_is_told_by_name(refuse, folder):
    Run('old').open(load_config('mine.py'))
    file = folder / 'old' / 'config.json'
    file.write_text(file.read_text().replace('"schema_version": 2', '"schema_version": 3'))
    for command in COMMANDS.keys() - {'import-huggingface', 'new', *OF_NEITHER}:  # which read no run
        first = ('mine.py', '--workdir') if command in OF_A_CONFIG else ('schedule',) if command == 'plot' else ()
        code, message = refuse(command, *first, 'old')
        assert code == 2
        assert_says(message, 'config.json: schema_version=3', 'upgrade flax_transformer')


@pytest.mark.parametrize(
    'argv', [('translate', 'old'), ('evaluate', 'old', '--source', 'good.en', '--reference', 'good.de')]
)
def test_a_run_without_a_model_is_told(refuse, argv):
    Run('old').open(load_config('mine.py'))
    code, message = refuse(*argv)
    assert code == 2
    assert_says(message, 'old/checkpoints holds no checkpoint yet', 'train')
    assert [file.name for file in Path('old').iterdir()] == ['config.json']
