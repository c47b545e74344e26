"""Short help, all help, versions, quiet, and completion."""

import dataclasses
import subprocess
import sys

import pytest

import flax_transformer
from flax_transformer.cli import COMMANDS, main
from flax_transformer.cli.completion import bash, fish, options_of_command, zsh
from flax_transformer.cli.help import options_of, short_help
from flax_transformer.cli.options import note, progress_bar
from flax_transformer.common import quiet
from flax_transformer.config import CorpusConfig, RecurrentConfig
from flax_transformer.engine.devices.multihost import say
from flax_transformer.tasks.recipes import package_recipes

WITHOUT_OPTIONS = ('completion', 'help')


def output_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    try:
        code = main(list(argv))
    except SystemExit as stopped:
        code = stopped.code
    assert code == 0
    return capsys.readouterr().out


def configs() -> list[type]:
    """The config of every task."""
    return [recipe.config for recipe in package_recipes()]


def test_every_field_of_every_config_has_a_text() -> None:
    silent = [
        option.name
        for kind in (*configs(), CorpusConfig, RecurrentConfig)
        for option in options_of(kind)
        if not option.text
    ]
    assert not silent


@pytest.mark.parametrize('command', [name for name in COMMANDS if name not in WITHOUT_OPTIONS])
def test_every_option_of_a_command_has_a_text(command: str) -> None:
    listed = options_of_command(command)
    assert all(option.text for option in listed)
    assert len({option.flag for option in listed}) == len(listed)


@pytest.mark.parametrize('command', [name for name in COMMANDS if name not in WITHOUT_OPTIONS])
def test_short_help_fits_two_screens_and_names_the_rest(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = output_of(capsys, command, '--help').splitlines()
    assert lines[0].startswith(f'usage: flax-transformer {command} ')
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    if len(options_of_command(command)) > 30:
        assert '--help-all lists' in lines[-1]
    assert output_of(capsys, 'help', command).splitlines() == lines


def test_short_help_shows_the_values_of_a_config(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, 'train', 'multi30k_en_de', '-h')
    line = next(line for line in text.splitlines() if '--training.steps ' in line)
    assert '(5000)' in text[text.index(line) :][:160]
    assert '--model.pad-row' not in text
    assert '--model.pad-row' in output_of(capsys, 'train', 'multi30k_en_de', '--help-all')


@pytest.mark.parametrize(
    ('command', 'shown', 'left_out'),
    [
        ('check', '--data.train ', ['--optimizer.learning-rate ', '--model.d-model ']),
        ('clean', '--data.train ', ['--optimizer.learning-rate ', '--model.d-model ']),
        ('compare', '--data.test ', ['--data.train ']),
    ],
)
def test_a_command_shows_only_the_fields_that_it_reads(command: str, shown: str, left_out: list[str], capsys) -> None:
    assert shown in (text := output_of(capsys, command, '-h'))
    assert not any(name in text for name in left_out)


def test_a_field_that_is_on_by_default_is_shown_as_what_turns_it_off() -> None:
    @dataclasses.dataclass
    class Options:
        is_on: bool = True  # one
        is_off: bool = False  # two

    text = short_help('prog command', 'About.', Options)
    assert any(line.split() == ['--no-is-on', 'do', 'not', 'one'] for line in text.splitlines())
    assert '--is-off' in text


def test_the_version_is_that_of_the_package_and_starts_no_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert f'flax-transformer {flax_transformer.__version__}, jax ' in output_of(capsys, '--version')
    script = "import sys; from flax_transformer.cli import main; main(['--version']); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == 'False'


def test_quiet_leaves_out_notes_and_bars_but_not_errors(capsys, monkeypatch) -> None:
    monkeypatch.delenv(quiet.VARIABLE, raising=False)

    def command(_: list[str]) -> None:
        note('a note')
        say('a word')
        assert progress_bar(1, 'lines').disable == quiet.is_quiet()
        raise flax_transformer.UserError('a mistake')

    monkeypatch.setattr(sys.stderr, 'isatty', lambda: True)
    monkeypatch.setattr('flax_transformer.cli.quality.score', command)
    for argv in (['score', '-q'], ['--quiet', 'score']):
        assert main(argv) == 2
        assert capsys.readouterr().err == 'flax-transformer: a mistake\n'
        assert not quiet.is_quiet()
    assert main(['score']) == 2
    assert 'a note' in capsys.readouterr().err


@pytest.fixture(scope='module')
def complete(tmp_path_factory: pytest.TempPathFactory):
    """A function that presses tab after some words, in a bash, and returns what is offered."""
    folder = tmp_path_factory.mktemp('completion')
    (folder / 'script').write_text(bash())
    (folder / 'my_config.py').write_text('')
    (folder / 'my_run').mkdir()

    def offered(*words: str) -> list[str]:
        quoted = ' '.join(f"'{word}'" for word in ('flax-transformer', *words))
        lines = f"""source ./script
        COMP_WORDS=({quoted}) COMP_CWORD={len(words)}
        _flax_transformer && printf '%s\\n' "${{COMPREPLY[@]}}"
        complete -p flax-transformer >&2"""
        done = subprocess.run(['bash', '-c', lines], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
        assert '-F _flax_transformer flax-transformer' in done.stderr
        return done.stdout.split()

    return offered


def test_bash_completes_commands_options_values_configs_and_files(complete) -> None:
    assert complete('tra') == ['train', 'translate', 'transcribe']
    assert complete('train', 'multi30k_m') == ['multi30k_multilingual']
    assert {'my_config.py', 'my_run'} == set(complete('train', 'my_'))
    assert complete('translate', 'my_run', '--decoding.beam') == ['--decoding.beam-width']
    assert complete('train', 'x', '--training.ste') == ['--training.steps']
    assert complete('train', 'x', '--optimizer.name', 'ada') == ['adam', 'adamw', 'adafactor']
    assert complete('plan', 'x', '--format', '') == ['text', 'json']
    assert complete('completion', 'f') == ['fish']
    assert complete('analyse', 'my_run', '--wid') == ['--widths']  # an earlier name
    assert complete('translate', 'my_run', '--input', 'my_c') == ['my_config.py']
    assert set(complete('translate', 'my_run', '--input', '')) == {'my_config.py', 'my_run', 'script'}


def test_completion_knows_the_fields_of_every_task_and_model(complete) -> None:
    assert complete('train', 'number_words_rnn', '--model.hid') == ['--model.hidden-size']
    assert 'convolution' in complete('train', 'rt_polarity', '--model.encoder', '')
    assert {'plain', 'additive'} <= set(complete('train', 'x', '--model.attention', ''))
    assert complete('train', 'x', '--model.d-m') == ['--model.d-model']


def test_scripts_of_the_other_shells_name_every_command_and_option() -> None:
    assert zsh().startswith('autoload -U +X bashcompinit')
    assert zsh().endswith('complete -o filenames -F _flax_transformer flax-transformer\n')
    lines = fish().splitlines()
    assert all(line.startswith('complete -c flax-transformer -n ') for line in lines)
    assert any("from train' -l optimizer.name " in line and "-x -a 'adam adamw" in line for line in lines)
    assert all(line.replace("\\'", '').count("'") % 2 == 0 for line in lines)


def test_completion_needs_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'flax_transformer.server.app', None)
    monkeypatch.delitem(sys.modules, 'flax_transformer.cli.serve', raising=False)
    assert options_of_command('serve') == []


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['completion', 'bsh']) == 2
    assert "got 'bsh'" in capsys.readouterr().err
    assert 'bash-completion' in output_of(capsys, 'completion', '--help')
