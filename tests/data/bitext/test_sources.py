"""A corpus by its name: every form, what wildcards stand for, and the place of each pair."""

import gzip
import re

import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig
from flax_transformer.data.bitext.sources import open_corpus, read_corpus
from flax_transformer.data.lines import CHUNK


@pytest.fixture
def config(tmp_path):
    return DataConfig(root=str(tmp_path / 'root'))


@pytest.fixture
def lay(tmp_path):
    """A function that writes files below the root, from their names and lines."""

    def lay(files):
        for name, lines in files.items():
            path = tmp_path / 'root' / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = ''.join(f'{line}\n' for line in lines).encode()
            path.write_bytes(gzip.compress(content) if path.suffix == '.gz' else content)

    return lay


def both(pairs):
    return list(zip(pairs.sources, pairs.targets, strict=True))


PARTS = {
    'news.1.en': ['one', 'two'],
    'news.1.de': ['eins', 'zwei'],
    'news.10.en': ['ten'],
    'news.10.de': ['zehn'],
    'news.2.en': ['three'],
    'news.2.de': ['drei'],
}
IN_ORDER = [('one', 'eins'), ('two', 'zwei'), ('ten', 'zehn'), ('three', 'drei')]


@pytest.mark.parametrize('name', ['news.*.{lang}', 'news.*.en,news.*.de', 'n?ws.*.{lang}', 'news.[12]*.{lang}'])
def test_files_of_a_wildcard_are_read_in_the_order_of_their_names(lay, config, name):
    lay(PARTS)
    assert both(read_corpus(name, config)) == IN_ORDER


def test_files_belong_together_by_what_the_wildcard_stands_for_and_not_by_their_order(lay, config):
    """`a-b/en` sorts behind `a/en` as a path, and `a-b.de` before `a.de`."""
    lay({'a/en': ['a'], 'a-b/en': ['a-b'], 'a.de': ['A'], 'a-b.de': ['A-B']})
    assert both(read_corpus('*/en,*.de', config)) == [('a', 'A'), ('a-b', 'A-B')]


def test_a_path_falls_back_to_the_same_compressed(lay, config):
    lay({'a.en.gz': ['one'], 'a.de.gz': ['eins'], 'b.tsv.gz': ['one\teins']})
    assert [both(read_corpus(name, config)) for name in ('a.{lang}', 'a.en,a.de', 'b.tsv')] == [[('one', 'eins')]] * 3
    lay({'a.en': ['plain'], 'a.de': ['schlicht']})
    assert both(read_corpus('a.{lang}', config)) == [('plain', 'schlicht')]


def test_two_stars_stand_for_folders_none_included(lay, config):
    lay({'x.en': ['top'], 'x.de': ['oben'], 'b/c/x.en': ['deep'], 'b/c/x.de': ['tief']})
    assert sorted(both(read_corpus('**/x.{lang}', config))) == [('deep', 'tief'), ('top', 'oben')]


def test_parts_on_one_side_alone_are_named(lay, config, tmp_path):
    lay({**PARTS, 'news.3.en': ['more'], 'news.4.de': ['mehr']})
    with pytest.raises(UserError, match='matches 4 files') as caught:
        open_corpus('news.*.{lang}', config)
    folder = tmp_path / 'root'
    assert str(caught.value).endswith(f'on one alone: {folder / "news.3.en"}, {folder / "news.4.de"}')


def test_a_header_names_the_columns_of_a_table_and_is_said_once(lay, config, capsys) -> None:
    """In TSV and CSV, by side or by language; without one, the first line is a pair like the others."""
    lay({
        'head.tsv': ['id\tGerman\tEnglish', '1\teins\tone', '2\tzwei'],
        'head.csv': ['"source";target', '"one; ""1""";eins', '', '"two', 'lines";zwei', 'three'],
        'none.csv': ['one,eins', 'source,Quelle'],
        'part.1.tsv': ['de\ten', 'eins\tone'],
        'part.2.tsv': ['zwei\ttwo'],
        'part.3.tsv': ['de\ten', 'drei\tthree'],
    })  # fmt: skip
    assert both(read_corpus('part.*.tsv', config)) == [('one', 'eins'), ('two', 'zwei'), ('three', 'drei')]
    corpus = open_corpus('head.csv', config)
    with pytest.raises(UserError, match=r'head\.csv, row 4: there is no target; expected the source in column 1'):
        corpus.read()
    records = next(corpus.records())
    assert records.sources == [b'one; "1"', b'two lines', b'three']
    assert records.targets == [b'eins', b'zwei', None]
    with pytest.raises(UserError, match=r'head\.tsv, line 3: there is no source'):
        read_corpus('head.tsv', config)
    assert both(read_corpus('none.csv', config)) == [('one', 'eins'), ('source', 'Quelle')]
    assert next(open_corpus('head.tsv', config, ('de', 'en')).records()).sources == [b'eins', b'zwei']
    assert next(open_corpus('head.tsv#2,1', config).records()).sources == [b'German', b'eins', b'zwei']
    said = capsys.readouterr().err
    assert said.count('head.csv: its first line is a header: the source is in column 1, the target in 2') == 1


@pytest.mark.parametrize('name', ['nothing.*.{lang}', 'nothing.*.tsv', 'nothing/*.jsonl.gz'])
def test_a_wildcard_without_a_match_is_told_with_where_paths_start(lay, config, name):
    lay(PARTS)
    with pytest.raises(UserError, match=r'matches no file'):
        open_corpus(name, config)


@pytest.mark.parametrize('name', ['news.3.{lang}', 'news.1.en,news.3.de', 'none.tsv', 'none.jsonl'])
def test_a_missing_file_is_told_when_the_corpus_is_opened(lay, config, name):
    lay(PARTS)
    with pytest.raises(UserError, match=r'does not exist'):
        open_corpus(name, config)


@pytest.mark.parametrize('folder', ['with space', 'a,b', 'a,b,c', 'C#', '[2024]', 'what?', 'ünï'])
def test_paths_may_hold_signs_that_mean_something_in_names(lay, tmp_path, folder):
    lay({f'{folder}/x.en': ['one'], f'{folder}/x.de': ['eins'], f'{folder}/x.tsv': ['one\teins']})
    path = tmp_path / 'root' / folder
    inside = DataConfig(root=str(path))
    for name in ('x.{lang}', 'x.en, x.de', '*.{lang}', 'x.tsv', '*.tsv'):
        assert both(read_corpus(name, inside)) == [('one', 'eins')], name
    for name in (f'{path}/x.{{lang}}', f'{path}/x.tsv', f'{path}/x.tsv#1,2'):
        assert both(read_corpus(name, DataConfig())) == [('one', 'eins')], name


def test_a_tilde_is_the_home_folder(lay, tmp_path, monkeypatch):
    lay({'x.en': ['one'], 'x.de': ['eins'], 'x.tsv': ['one\teins']})
    monkeypatch.setenv('HOME', str(tmp_path / 'root'))
    for root in (None, '~'):
        for name in ('~/x.{lang}', '~/x.en,~/x.de', '~/*.tsv'):
            assert both(read_corpus(name, DataConfig(root=root))) == [('one', 'eins')]
    assert both(read_corpus('x.{lang}', DataConfig(root='~'))) == [('one', 'eins')]
    with pytest.raises(UserError, match='does not exist'):
        read_corpus('~nobody-of-this-name/x.{lang}', DataConfig(root='~nobody-of-this-name'))


def test_further_paths_are_further_references(lay, config):
    lay({'s': ['one', 'two'], 'a': ['eins', 'zwei'], 'b.gz': ['Eins', 'Zwei'], 'c': ['1', '2']})
    pairs = read_corpus('s,a', config)
    assert (pairs.targets, pairs.references) == (['eins', 'zwei'], ())
    pairs = read_corpus('s, a, b.gz,c', config)
    assert (pairs.sources, pairs.targets) == (['one', 'two'], ['eins', 'zwei'])
    assert pairs.references == (['Eins', 'Zwei'], ['1', '2'])
    assert len(pairs) == 2


def test_columns_of_a_tsv_are_further_references_and_lines_may_have_fewer(lay, config):
    lay({'s': ['one', 'two'], 'all.de.tsv': ['eins\tEins\t\tein', 'zwei'], 'b': ['1', '2']})
    pairs = read_corpus('s,all.de.tsv', config)
    assert both(pairs) == both(open_corpus('s,all.de.tsv', config).read()) == [('one', 'eins'), ('two', 'zwei')]
    assert pairs.references == (['Eins', None], ['ein', None])
    assert read_corpus('s,b,all.de.tsv', config).references == (['eins', 'zwei'], *pairs.references)


def test_a_further_reference_that_is_not_utf8_is_named_with_its_line(lay, config, tmp_path):
    lay({'s': ['one', 'two']})
    (tmp_path / 'root' / 'all.tsv').write_bytes(b'eins\nzwei\tf\xfcnf\n')
    with pytest.raises(UserError, match=r'all\.tsv, line 2: byte 0xfc is not valid UTF-8'):
        read_corpus('s,all.tsv', config)


def test_an_unequal_pair_among_several_is_told_by_itself(lay, config, tmp_path):
    lay({**PARTS, 'news.2.de': []})
    folder = tmp_path / 'root'
    with pytest.raises(UserError, match=re.escape(f'{folder / "news.2.en"} has 1 lines, {folder / "news.2.de"} has 0')):
        read_corpus('news.*.{lang}', config)


def test_the_languages_may_be_turned_or_given(lay, config):
    lay({'x.en': ['one'], 'x.de': ['eins'], 'x.fr': ['un'], 'y.jsonl': ['{"en": "one", "de": "eins", "fr": "un"}']})
    turned = DataConfig(root=config.root, source_language='de', target_language='en')
    for name in ('x.{lang}', 'y.jsonl'):
        assert both(read_corpus(name, turned)) == [('eins', 'one')]
        assert both(read_corpus(name, config, ('fr', 'de'))) == [('un', 'eins')]


def test_nothing_but_empty_files_is_no_corpus(lay, config):
    lay({'x.en': [], 'x.de': [], 'y.tsv': [], 'z.jsonl': []})
    for name in ('x.{lang}', 'y.tsv', 'z.jsonl'):
        with pytest.raises(UserError, match=f'{re.escape(repr(name))} is empty'):
            read_corpus(name, config)


def line_of(form, number):
    return {'tsv': f's{number}\tt{number}', 'jsonl': f'{{"en": "s{number}", "de": "t{number}"}}'}[form]


# Each file's number of lines; among them empty files, and such that end at the border of a chunk.
SIZES = {'p0': 3, 'p1': 0, 'p2': CHUNK, 'p3': 0, 'p4': CHUNK + 1, 'p5': 1, 'p6': 0}


@pytest.mark.parametrize('form', ['aligned', 'tsv', 'jsonl'])
def test_the_place_of_each_pair_is_its_file_and_line(lay, config, tmp_path, form):
    expected = []
    for name, size in SIZES.items():
        numbers = range(1, size + 1)
        suffixes = ('en', 'de') if form == 'aligned' else (form, form)
        if form == 'aligned':
            lay({f'{name}.en': [f's{n}' for n in numbers], f'{name}.de': [f't{n}' for n in numbers]})
        else:
            lay({f'{name}.{form}': [line_of(form, n) for n in numbers]})
        expected += [[f'{tmp_path / "root" / name}.{suffix}, line {n}' for suffix in suffixes] for n in numbers]
    corpus = open_corpus('p*.{lang}' if form == 'aligned' else f'p*.{form}', config)
    for _ in range(2):  # the second time, as the first time
        count = 0
        for pairs in corpus.pairs():
            for index in (count, count + len(pairs) // 2, count + len(pairs) - 1):
                places = [corpus.place(index, side) for side in (0, 1)]
                assert places == expected[index]
                number = places[0].rpartition(' ')[2]
                assert (pairs.sources[index - count], pairs.targets[index - count]) == (f's{number}', f't{number}')
            count += len(pairs)
        assert count == len(expected)
    assert [[corpus.place(index, side) for side in (0, 1)] for index in range(count)] == expected
