"""sacrebleu's test sets are read where sacrebleu keeps them, and one that is absent is not downloaded unasked."""

import os
import re
import urllib.error

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig
from flax_transformer.data.bitext.sources import read_corpus


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder of sacrebleu's sets; it is not there yet, and there is no network."""
    from sacrebleu import utils
    from sacrebleu.dataset import DATASETS, base

    def no_network(url, path, *_, **__):
        if not os.path.exists(path):
            raise urllib.error.URLError(f'{url} cannot be reached')

    folder = tmp_path / 'sacrebleu'
    monkeypatch.setattr(utils, 'SACREBLEU_DIR', str(folder))
    monkeypatch.setattr(base, 'download_file', no_network)
    for name in ('wmt14', 'wmt21', 'multi30k/2016', 'wmt14/full'):
        monkeypatch.setattr(DATASETS[name], '_outdir', str(folder / name))
        monkeypatch.setattr(DATASETS[name], '_rawdir', str(folder / name / 'raw'))
    return folder


def read(name):
    return read_corpus(name, DataConfig())


def lay(folder, content):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding='utf-8')


SGM = '<srcset setid="newstest2014">\n<doc sysid="ref" docid="a" genre="news" origlang="en">\n{}</doc>\n</srcset>\n'


def sgm(*lines):
    return SGM.format(''.join(f'<seg id="{number}"> {line} </seg>\n' for number, line in enumerate(lines, 1)))


def test_a_set_that_sacrebleu_unpacked_is_read(home):
    """Its own parser turns the downloaded files into text."""
    raw = {
        'raw/wmt14.test-filtered.tgz': 'kept',
        'raw/test/newstest2014-deen-src.en.sgm': sgm('one', 'two\u2028 parts'),
        'raw/test/newstest2014-deen-ref.de.sgm': sgm('eins', 'zwei Teile'),
    }
    lay(home / 'wmt14', raw)
    for _ in range(2):  # made of the raw files, then found as text
        pairs = read('sacrebleu:wmt14/en-de')
        assert (pairs.sources, pairs.targets, pairs.references) == (['one', 'two parts'], ['eins', 'zwei Teile'], ())
    (home / 'wmt14' / 'raw' / 'wmt14.test-filtered.tgz').unlink()
    assert read('sacrebleu:wmt14/en-de') == pairs


def test_all_references_of_a_set_are_read(home, monkeypatch):
    from sacrebleu.dataset import DATASETS

    dataset = DATASETS['wmt14']
    monkeypatch.setitem(dataset.langpairs, 'en-de', [*dataset.langpairs['en-de'], 'another.de.sgm'])
    fields = {'src': 'one\n', 'ref-0': 'eins\n', 'ref-1': 'ein\n', 'docid': 'a\n', 'genre': 'b\n', 'origlang': 'en\n'}
    lay(home / 'wmt14', {f'wmt14.en-de.{field}': text for field, text in fields.items()})
    pairs = read('sacrebleu:wmt14/en-de')
    assert (pairs.sources, pairs.targets, pairs.references) == (['one'], ['eins'], (['ein'],))


@pytest.mark.parametrize('name', ['wmt14', 'wmt21', 'multi30k/2016'])
@pytest.mark.parametrize('folder', ['absent', 'empty'])
def test_an_absent_set_is_told_with_the_command_that_brings_it(home, name, folder):
    if folder == 'empty':
        (home / name).mkdir(parents=True)
    before = list(home.rglob('*'))
    with pytest.raises(UserError, match=f'sacrebleu has no {name} in {re.escape(str(home / name))}') as caught:
        read(f'sacrebleu:{name}/en-de')
    assert str(caught.value).endswith(f'\n  sacrebleu -t {name} -l en-de --echo src > /dev/null')
    assert list(home.rglob('*')) == before


@pytest.mark.parametrize(
    ('name', 'files'),
    [
        ('wmt14', {'wmt14.en-de.src': 'one\n'}),
        ('wmt14', {'raw/wmt14.test-filtered.tgz': ''}),
        ('multi30k/2016', {'raw/x': ''}),
    ],
)
def test_a_set_that_is_there_in_part_and_cannot_be_completed_is_told(home, name, files):
    lay(home / name, files)
    with pytest.raises(UserError, match=f'; remove {re.escape(str(home / name))} and download') as caught:
        read(f'sacrebleu:{name}/en-de')
    assert f'sacrebleu -t {name} -l en-de' in str(caught.value)


def test_sides_of_unequal_length_are_told(home):
    lay(home / 'multi30k/2016', {'multi30k_2016.en-de.src': 'one\ntwo\n', 'multi30k_2016.en-de.ref': 'eins\n'})
    with pytest.raises(UserError, match=r'src has 2 lines, .*ref has 1; expected equal counts'):
        read('sacrebleu:multi30k/2016/en-de')


@pytest.mark.parametrize(
    ('name', 'near'), [('wmt41/en-de', r'wmt1\d'), ('multi30k2016/en-de', 'multi30k/2016'), ('wmt14', None)]
)
def test_an_unknown_set_is_told_the_form_and_the_nearest(home, name, near):
    with pytest.raises(UserError, match='expected sacrebleu:TESTSET/SOURCE-TARGET, as wmt14/en-de') as caught:
        read(f'sacrebleu:{name}')
    assert near is None or re.search(f'Did you mean .*{near}', str(caught.value))
