"""The commands of docs/how-to/launch.md: parsed by the shell, and as our own options.

The recipes: tests/test_examples.py.
"""

import re
import shlex
import subprocess

import pytest
from conftest import ROOT

from flax_transformer.cli.options import parse
from flax_transformer.cli.train import TrainOptions, train_options

TEXT = (ROOT / 'docs' / 'how-to' / 'launch.md').read_text(encoding='utf-8')
SHELL = re.findall(r'```sh\n(.*?)```', TEXT, flags=re.S)


def commands() -> list[list[str]]:
    """Every `flax-transformer train ...`, wherever it stands."""
    found = re.findall(r'flax-transformer train (.*)', '\n'.join(SHELL))
    known = {'my_config.py': 'number_words'}
    return [[known.get(word, word) for word in shlex.split(each)] for each in found]


@pytest.mark.parametrize('script', SHELL)
def test_the_shell_parses(script: str) -> None:
    subprocess.run(['bash', '-n'], input=script, text=True, check=True, capture_output=True)


def test_our_own_options_parse() -> None:
    assert len(commands()) == 4
    for argv in commands():
        default = lambda name, argv=argv: train_options(name, argv)
        options = parse('train', TrainOptions, argv, first='CONFIG', description='', default=default)
        assert options.config.parallel.strategy in ('pmap', 'mesh')
    assert options.config.parallel.coordinator == 'node0:9911'
    assert options.config.parallel.process_id == 1
