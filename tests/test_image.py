"""The Dockerfile copies, installs and runs what is there. No container engine is needed: it is read."""

import re
import tomllib

from conftest import ROOT

TEXT = (ROOT / 'Dockerfile').read_text(encoding='utf-8')
LINES = TEXT.replace('\\\n', ' ').splitlines()
PROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text(encoding='utf-8'))['project']


def values(instruction: str) -> list[str]:
    return [line.partition(' ')[2] for line in LINES if line.startswith(f'{instruction} ')]


def test_it_copies_only_what_its_context_holds() -> None:
    patterns = (ROOT / '.dockerignore').read_text(encoding='utf-8').splitlines()
    assert '*' in patterns
    admitted = {line[1:] for line in patterns if line.startswith('!')}
    copied = {name for line in values('COPY') if '--from' not in line for name in line.split()[:-1]}
    assert copied == admitted
    assert all((ROOT / name).exists() for name in admitted)


def test_it_installs_the_lock_and_runs_as_a_user() -> None:
    install = next(line for line in values('RUN') if ' install ' in line)
    assert '--constraint requirements.lock' in install
    (line,) = [line for line in LINES if line.startswith('#') and 'EXTRA=' in line]
    named = re.search(r'EXTRA=(\w+) .*; (\w+), (\w+), or several', line).groups()
    assert {*named} <= PROJECT['optional-dependencies'].keys()
    assert values('USER') == ['1000']
    assert values('ENTRYPOINT') == ['["flax-transformer"]']
    assert 'flax-transformer' in PROJECT['scripts']
    base = {line.split()[0] for line in values('FROM')}
    assert len(base) == 1, 'a virtual environment works with the Python that made it'
