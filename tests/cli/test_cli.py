"""Bad input at the command line: an exit code, one message that says what to do, no traceback, nothing written."""

import dataclasses
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from flax_transformer.cli import COMMANDS, main
from flax_transformer.cli.help import texts_of as comments_of
from flax_transformer.cli.lines import chunks
from flax_transformer.cli.plan import PlanOptions
from flax_transformer.cli.show import ShowOptions
from flax_transformer.cli.train import TrainOptions
from flax_transformer.common.config_files import load_config
from flax_transformer.common.errors import UserError
from flax_transformer.config import Config
from flax_transformer.tasks.translation.run import Run

CHECKOUT = ROOT
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
        'typo.py': CONFIG.replace('d_ff', 'd_fff'),
        'other.py': 'config = 1\n',
        'good.en': 'one two three\nfour five\n',
        'good.de': 'eins zwei drei\nvier fünf\n',
        'short.de': 'eins\n',
        'empty.en': '',
        'empty.de': '',
        'blank.en': 'one\n\n',
        'blank.de': ' \nzwei\n',
        'cut.en.gz': 'not gzip',
        'cut.de.gz': 'not gzip',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding='utf-8')
    (tmp_path / 'latin.de').write_bytes('eins\nfünf\n'.encode('latin-1'))
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


@pytest.mark.parametrize(('command', 'near'), [('tran', 'train'), ('translat', 'translate'), ('eval', 'evaluate')])
def test_an_unknown_command_names_the_nearest_and_lists_all(refuse, command, near):
    code, message = refuse(command)
    assert code == 2
    assert re.search(rf"no command '{command}'\. Did you mean [\w, ]*\b{near}\b", message)
    assert_says(message, 'usage: flax-transformer', *COMMANDS)


OF_A_CONFIG = ('check', 'clean', 'prepare', 'train')  # the commands whose first argument is a config
OF_EITHER = ('plan', 'show')  # a config or a run
OF_NEITHER = ('completion', 'help')


@pytest.mark.parametrize('command', [name for name in COMMANDS if name not in OF_NEITHER])
@pytest.mark.parametrize('argv', [(), ('--workdir', 'new')], ids=['nothing', 'an option'])
def test_a_missing_first_argument_is_told_with_the_usage(refuse, folder, command, argv):
    code, message = refuse(command, *argv)
    others = {
        'detect': 'RUN FILE ...',
        'import-marian': 'FOLDER',
        'new': 'MY_CONFIG.py',
        'compare': 'RUN|FILE RUN|FILE',
        'plot': 'KIND NAME ...',
    }
    first = 'CONFIG' if command in OF_A_CONFIG + OF_EITHER else others.get(command, 'RUN')
    assert code == 2
    assert_says(message, f'expected {first} first', f'flax-transformer {command} {first} [--field value ...]')
    assert not (folder / 'new').exists()


@pytest.mark.parametrize('config', [(), ('mine.py',)], ids=['alone', 'of a config'])
@pytest.mark.parametrize(
    ('command', 'options'), [('train', TrainOptions), ('plan', PlanOptions), ('show', ShowOptions)]
)
def test_help_gives_every_field_with_its_comment(capsys, command, options, config):
    with pytest.raises(SystemExit) as stopped:
        main([command, *config, '--help-all'])
    assert stopped.value.code == 0
    shown = ''.join(re.sub('[│╭╮╰╯─]', ' ', capsys.readouterr().out).split())
    expected = {name: comment for name, comment in comments_of(options).items() if name != 'config'}
    for field in dataclasses.fields(Config):
        comments = comments_of(field.type) if dataclasses.is_dataclass(field.type) else {}
        expected |= {f'{field.name}.{name}': comment for name, comment in comments.items()}
    del expected['data.mixture']  # of tables: in config files only
    expected['seed'] = comments_of(Config)['seed']
    assert len(expected) > 90
    assert all(expected.values())
    for name, comment in expected.items():
        comment = ''.join(comment.split())
        option = f'--{name.replace("_", "-")}'
        at = re.search(rf'{re.escape(option)}(?![-a-z])', shown)
        assert at, name
        assert comment.rstrip('.').lower() in shown[at.end() :][:500].lower(), name
    assert ('(default:1)' in shown[shown.find('--training.steps') :][:150]) == bool(config)


def test_no_arguments_print_the_usage_and_fail(capsys):
    assert main([]) == 2
    assert 'usage: flax-transformer' in capsys.readouterr().out


BAD_TRAINING = {
    'unknown option': (['mine.py', '--nope', '1'], ['Unrecognized', '--nope', '1']),
    'typo in a field': (['mine.py', '--model.num-head', '2'], ['--model.num-head', 'Perhaps', '--model.num-heads INT']),
    'out of range': (['mine.py', '--model.num-heads', '7'], ['d_model=8 is not divisible by num_heads=7', 'change']),
    'negative': (['mine.py', '--training.steps', '-1'], ['steps=-1: expected at least 1']),
    'wrong type': (['mine.py', '--model.num-heads', 'four'], ['--model.num-heads', "'four'", 'INT']),
    'wrong word': (['mine.py', '--model.positions', 'sine'], ["'sine'", '--model.positions', "'interleaved'"]),
    'no value': (['mine.py', '--seed'], ['--seed', 'Expected 1 value']),
    'fields together': (['mine.py', '--training.tokens-per-step', '100'], ['not a multiple of', 'nearest is 96']),
    'missing config': (['number_wrds'], ["config 'number_wrds'", 'Did you mean number_words']),
    'missing config file': (['none/mine.py'], ["config 'none/mine.py': no such file", 'number_words']),
    'typo in a config': (['typo.py'], ['typo.py, line ', "'d_fff'", 'Did you mean d_ff']),
    'config without get_config': (['other.py'], ['other.py has no function get_config()']),
    'missing folder': (['mine.py', '--data.root', '/none'], ['/none/good.en does not exist', '--data.root']),
    'missing file': (['mine.py', '--data.train', 'bad.{lang}'], ['bad.en does not exist', '--data.root']),
    'missing validation': (['mine.py', '--data.validation', 'bad.{lang}'], ['bad.en does not exist']),
    'unequal counts': (
        ['mine.py', '--data.train', 'good.en,short.de'],
        ['good.en has 2 lines', 'short.de has 1', 'expected equal counts'],
    ),
    'invalid UTF-8': (['mine.py', '--data.train', 'good.en,latin.de'], ['latin.de, line 2: byte 0xfc', 'iconv']),
    'empty corpus': (
        ['mine.py', '--data.train', 'empty.{lang}'],
        ['empty.en', 'empty.de); expected at least one', 'at least one'],
    ),
    'blank corpus': (['mine.py', '--data.train', 'blank.{lang}', '--model.vocab-size', '268'], ['2 have a blank side']),
    'broken archive': (['mine.py', '--data.train', 'cut.{lang}.gz'], ['cut.en.gz could not be read']),
    'over-long corpus': (
        ['mine.py', '--data.source-length', '2'],
        ['no pair', '2 are longer than 2 source', 'raise data.source_length'],
    ),
    'name of no form': (['mine.py', '--data.train', 'good'], ["corpus 'good'", 'expected a path with {lang}']),
    'unknown language': (
        ['mine.py', '--data.train', 'number_words:train', '--data.source-language', 'xx'],
        ["no language 'xx'"],
    ),
    'unknown split': (['mine.py', '--data.train', 'number_words:trian'], ['Did you mean train']),
    'unprepared TFDS': (
        ['mine.py', '--data.train', 'tfds:wmt14_translate/de-en:train'],
        ['not prepared', 'Prepare it once', 'flax-transformer prepare tfds:wmt14_translate/de-en:train'],
    ),
    'vocabulary too big': (
        ['mine.py', '--model.vocab-size', '5000'],
        ['vocab_size=5000 is more', '--model.vocab-size'],
    ),
    'vocabulary too small': (['mine.py', '--model.vocab-size', '50'], ['vocab_size=50 is less', '--model.vocab-size']),
    'unknown TFDS': (['mine.py', '--data.train', 'tfds:wmt14_translat/de-en:train'], ['wmt14_translate']),
    'seed too large': (['mine.py', '--seed', '99999999999999999999'], ['seed=99999999999999999999: expected']),
    'negative seed': (['mine.py', '--seed', '-1'], ['seed=-1: expected']),
    'too many devices': (['mine.py', '--parallel.num-devices', '99'], ['num_devices=99', 'ask for fewer']),
}


@pytest.mark.parametrize(('argv', 'parts'), BAD_TRAINING.values(), ids=BAD_TRAINING)
def test_bad_training_commands_say_what_to_do_and_write_nothing(refuse, folder, argv, parts):
    before = sorted(folder.iterdir())
    code, message = refuse('train', *argv, *NEW)
    assert code == 2
    assert_says(message, *parts)
    assert sorted(folder.iterdir()) == before


def test_a_workdir_that_holds_another_run_is_refused_with_both_values_and_left_alone(refuse, folder):
    Run('old').open(load_config('mine.py'))
    before = (folder / 'old' / 'config.json').read_bytes()
    code, message = refuse('train', 'mine.py', '--workdir', 'old', '--model.d-ff', '16')
    assert code == 2
    assert_says(message, 'old holds a run of another config', 'model.d_ff: 8 there, 16 here', 'another --workdir')
    assert [file.name for file in (folder / 'old').iterdir()] == ['config.json']
    assert (folder / 'old' / 'config.json').read_bytes() == before


@pytest.mark.parametrize('workdir', ['.', 'good.en'], ids=['folder', 'file'])
def test_a_workdir_that_is_no_run_is_refused_and_left_alone(refuse, folder, workdir):
    before = {file: file.read_bytes() for file in folder.iterdir()}
    code, message = refuse('train', 'mine.py', '--workdir', workdir)
    assert code == 2
    assert_says(message, f'{workdir} exists and is not a run directory', 'another --workdir')
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


def test_a_workdir_below_a_file_is_told_in_one_line(refuse):
    code, message = refuse('train', 'mine.py', '--workdir', 'good.en/new')
    assert code == 1
    assert_says(message, 'Not a directory', 'good.en/new')


@pytest.fixture
def full_disk(monkeypatch):
    """A disk on which files can be made but hold nothing."""

    opened = Path.open

    def opened_full(path, mode='r', *rest, **more):
        if path.suffix == '.partial':  # what is written whole or not at all
            path.touch()
            path = Path('/dev/full')
        return opened(path, mode, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, 'open', opened_full)
        yield patch


def test_a_full_disk_is_told_in_one_line_with_the_file(refuse, full_disk):
    code, message = refuse('train', 'mine.py', *NEW)
    assert code == 1
    assert_says(message, 'No space left on device', 'new/')


def test_after_a_full_disk_the_same_command_goes_on(refuse, full_disk):
    refuse('train', 'mine.py', *NEW)
    full_disk.undo()
    Run('new').check(load_config('mine.py'))


@pytest.mark.parametrize('command', ['translate', 'evaluate'])
@pytest.mark.parametrize(('run', 'what'), [('none', 'none does not exist'), ('.', '. has no config.json')])
def test_a_missing_run_is_told(refuse, command, run, what):
    code, message = refuse(command, run)
    assert code == 2
    assert_says(message, what, 'expected a run directory', 'flax-transformer train')


@pytest.mark.parametrize('given', ['--source', '--reference'])
def test_only_one_of_source_and_reference_is_refused(refuse, given):
    Run('old').open(load_config('mine.py'))
    code, message = refuse('evaluate', 'old', given, 'good.en')
    assert code == 2
    assert_says(message, 'got one of --source and --reference, expected both or neither')


def test_a_run_without_a_test_set_asks_for_files(refuse):
    Run('old').open(load_config('mine.py'))
    code, message = refuse('evaluate', 'old')
    assert code == 2
    assert_says(message, 'old has no test set', 'give --source and --reference')


@pytest.mark.parametrize('command', ['translate', 'evaluate'])
def test_a_typo_in_a_field_of_a_runs_command_names_the_nearest(refuse, command):
    Run('old').open(load_config('mine.py'))
    code, message = refuse(command, 'old', '--decoding.beam', '2')
    assert code == 2
    assert_says(message, '--decoding.beam', '--decoding.beam-width INT')


def test_a_run_of_a_later_version_is_told_by_name(refuse, folder):
    Run('old').open(load_config('mine.py'))
    file = folder / 'old' / 'config.json'
    file.write_text(file.read_text().replace('"schema_version": 2', '"schema_version": 3'))
    for command in COMMANDS.keys() - {'import-marian', 'new', *OF_NEITHER}:  # which read no run
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


def test_lines_before_an_invalid_one_are_given_out_first():
    stream = io.BytesIO('one\ntwo\u2028half\r\n'.encode() + b'\xe4\nfour\n')
    reader = chunks(stream)
    assert next(reader) == ['one', 'two\u2028half']
    with pytest.raises(
        UserError, match=r'input line 3: byte 0xe4 is not valid UTF-8.*iconv.*The lines written so far are kept'
    ):
        next(reader)


@pytest.mark.parametrize(
    ('content', 'lines'),
    [('', []), ('a', ['a']), ('a\n\nb\n', ['a', '', 'b']), ('\n', ['']), ('a\rb\x85c\n', ['a\rb\x85c'])],
)
def test_input_lines_end_at_the_line_feed_alone(content, lines):
    assert [line for chunk in chunks(io.BytesIO(content.encode())) for line in chunk] == lines


def test_the_launcher_exits_with_two_and_no_traceback(folder):
    command = [sys.executable, str(CHECKOUT / 'train.py'), '--config', 'mine.py', *NEW, '--model.nope', '1']
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert '--model.nope' in done.stderr
    assert 'Traceback' not in done.stdout + done.stderr
    assert not (folder / 'new').exists()
