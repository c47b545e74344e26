"""The commands in the documents, in the headers of configs, examples and benchmarks, and in the help of commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from conftest import ROOT

PAGES = sorted([*(ROOT / 'docs').rglob('*.md'), *ROOT.glob('*.md'), ROOT / 'benchmarks' / 'README.md'])
FENCED = re.compile(r'^( *)```(\w*)\n(.*?)^\1```', re.M | re.S)
INLINE = re.compile(r'`([^`\n]+)`')
PROGRAMS = ('flax-transformer', 'python', 'make')
# Code with indented lines that are commands. Those of shell scripts are read by test_examples.py.
CODE = [
    *(file for folder in ('configs', 'examples', 'benchmarks') for file in (ROOT / folder).glob('*.py')),
    *(ROOT / 'flax_transformer' / 'cli').glob('*.py'),
]
INDENTED = re.compile(rf'^ +((?:{"|".join(PROGRAMS)}) .*)', re.M)
FILLED = {
    'speech RUN': 'speech runs/digits',
    'trigger RUN': 'trigger runs/amelia',
    'export-huggingface CONFIG': 'export-huggingface marian_base',
    'CONFIG': 'number_words',
    'COMMAND': 'train',
    'NAME': 'ablations/pre_norm',
    'SEED': '3',
    'N': '3',
    'PYTHON': 'python',
    '$JAX_PROCESS_ID': '0',
    '$JAX_COORDINATOR_ADDRESS': 'node0:9911',
}
OPERATORS = ('|', '&&', ';')


def blocks(language: str) -> list[tuple[Path, str]]:
    """Returns the fenced blocks of a language, with their pages."""
    texts = ((page, page.read_text(encoding='utf-8')) for page in PAGES)
    return [(page, block) for page, text in texts for _, kind, block in FENCED.findall(text) if kind == language]


def lines() -> dict[str, Path]:
    """Returns every line of a shell, and where it stands first."""
    found: dict[str, Path] = {}
    for page, block in [*blocks('sh'), *blocks('console')]:
        for line in block.replace('\\\n', ' ').splitlines():
            if line.strip() and not line.startswith('#'):
                found.setdefault(line.strip(), page)
    for page in PAGES:
        for text in INLINE.findall(FENCED.sub('', page.read_text(encoding='utf-8'))):
            if text.split()[0] in PROGRAMS:
                found.setdefault(text, page)
    for file in CODE:
        for line in INDENTED.findall(file.read_text(encoding='utf-8').replace('\\\n', ' ')):
            if not re.match(r'\w+ =', line):
                found.setdefault(line.strip(), file)
    return found


def filled(line: str) -> str:
    """Returns the line with words for what is meant to be filled in."""
    return re.sub(rf'(?<!\S)({"|".join(map(re.escape, FILLED))})(?!\S)', lambda found: FILLED[found[1]], line)


def commands(line: str) -> Iterator[list[str]]:
    """Yields the simple commands of a line, filled in."""
    line = filled(line)
    line = re.sub(r'\$\(\(.*?\)\)|\$\w+|\{\}', '3', line)
    if '[--' in line or line.endswith(']'):  # a usage: everything is given
        line = re.sub(r'[][]', ' ', line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars='|&;<>')
    lexer.whitespace_split = True
    words: list[str] = []
    skips = False
    for word in [*lexer, ';']:
        if word in OPERATORS:
            yield from _simple(words)
            words = []
        elif skips or word in ('<', '>', '>>'):
            skips = not skips
        elif word != '...':
            words.append(word)


def _simple(words: list[str]) -> Iterator[list[str]]:
    """Yields the command, or the one that it hands on to another program."""
    handed_on = next((word for word in words if 'flax-transformer ' in word), None)
    if handed_on:
        yield from commands(handed_on)
    elif 'flax-transformer' in words:
        yield words[words.index('flax-transformer') :]
    elif words:
        yield [words[0].removeprefix('.venv/bin/'), *words[1:]]
