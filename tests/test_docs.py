"""The documents: every page is in the site's table of contents, every link leads somewhere, `make docs` works."""

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT

import flax_transformer

FENCED = re.compile(r'^( *)```.*?^\1```', re.M | re.S)
LINK = re.compile(r'\]\(([^)\s]+)\)')
OTHERS = [ROOT / 'benchmarks' / 'README.md', *(ROOT / 'flax_transformer' / 'models').glob('*/README.md')]
PAGES = sorted([*(ROOT / 'docs').rglob('*.md'), *ROOT.glob('*.md'), *OTHERS])
NOTEBOOKS = sorted((ROOT / 'notebooks').glob('*.ipynb'))
MENTION = re.compile(r'\b((?:docs|notebooks)/[\w/-]+\.(?:md|png|svg|ipynb))\b')


@cache
def text_of(page: Path) -> str:
    """The Markdown of a page, or of a notebook's text cells."""
    text = page.read_text(encoding='utf-8')
    if page.suffix != '.ipynb':
        return text
    return '\n\n'.join(''.join(cell['source']) for cell in json.loads(text)['cells'] if cell['cell_type'] == 'markdown')


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as a code host makes them."""
    headings = re.findall(r'^#+ (.*)$', FENCED.sub('', text_of(page)), re.M)
    return {re.sub(r'[^\w\- ]', '', heading.lower()).strip().replace(' ', '-') for heading in headings}


def entries(page: Path) -> list[Path]:
    """The pages in the tables of contents of a page, and in those of these pages."""
    found = []
    for block in re.findall(r'```\{toctree\}\n(.*?)```', text_of(page), re.S):
        for line in filter(None, block.splitlines()):
            if not line.startswith(':'):
                name = re.sub(r'.*<(.*)>', r'\1', line)
                paths = [page.parent / f'{name}{suffix}' for suffix in ('.md', '.ipynb')]
                found += [path.resolve() for path in paths if path.exists()] or [Path(f'missing: {line} in {page}')]
    return found + [each for path in found if path.suffix == '.md' for each in entries(path)]


def test_the_table_of_contents_names_every_page_and_notebook_once() -> None:
    index = ROOT / 'docs' / 'index.md'
    assert sorted([index, *entries(index)]) == sorted([*PAGES, *NOTEBOOKS])


@pytest.mark.parametrize('page', [*PAGES, *NOTEBOOKS], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in LINK.findall(FENCED.sub('', text_of(page))):
        if not link.startswith(('https://', 'http://')):
            name, _, anchor = link.partition('#')
            to = (page.parent / name).resolve() if name else page
            assert to.exists(), link
            assert not anchor or anchor in anchors(to), link


def test_pages_and_pictures_named_in_the_code_exist() -> None:
    folders = ('flax_transformer', 'tests', 'benchmarks', 'configs', 'examples', 'notebooks')
    files = [
        file for folder in folders for file in (ROOT / folder).rglob('*') if file.suffix in ('.py', '.ipynb', '.sh')
    ]
    named = {name for file in files for name in MENTION.findall(file.read_text(encoding='utf-8'))}
    assert len(named) >= 5
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_page_on_the_paper_names_what_is_in_each_file() -> None:
    text = (ROOT / 'docs' / 'explanation' / 'paper_and_code.md').read_text(encoding='utf-8')
    rows = [line.split(' | ') for line in text.splitlines() if line.startswith('| ') and '.py`' in line]
    assert len(rows) >= 20
    for _, _, files, names in rows:
        code = ''.join(
            (ROOT / 'flax_transformer' / file).read_text(encoding='utf-8') for file in re.findall('`(.+?)`', files)
        )
        defined = {node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert set(re.findall('`(.+?)`', names)) <= defined, files


def test_the_interface_lists_every_public_name() -> None:
    page = (ROOT / 'docs' / 'reference' / 'interface' / 'package.md').read_text(encoding='utf-8')
    listed = set(re.findall(r'^\.\. auto(?:class|function|exception):: (\w+)$', page, re.M))
    assert listed == set(flax_transformer.__all__) - {'__version__'}


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    for module in ('sphinx', 'myst_nb', 'furo'):
        pytest.importorskip(module, reason='the extra docs is not installed')
    command = [sys.executable, '-m', 'sphinx', '-q', '-E', '-W', '--keep-going', '-c', 'docs/site']
    subprocess.run(
        [*command, '-d', str(tmp_path / 'doctrees'), '.', str(tmp_path / 'site')],
        cwd=ROOT,
        env=os.environ | {'PYTHONPATH': str(ROOT)},
        check=True,
        timeout=600,
    )
    page = lambda name: (tmp_path / 'site' / 'docs' / f'{name}.html').read_text(encoding='utf-8')
    assert 'id="import-huggingface"' in page('reference/commands')
    assert '--training.steps' in page('reference/config')
    assert 'num_encoder_layers' in page('reference/config')
    assert '<math' in page('explanation/paper_and_code')
    assert 'https://cdn' not in page('index')
    assert '<span class="eqno">(1)</span>' in page('../notebooks/attention')
    searches = page('reference/interface/decoding')
    assert 'most tokens of a hypothesis' in searches, 'a field of a named tuple has its comment'
    assert not re.search(r'Alias for field|Create new instance|jaxlib', searches)
