"""Labeled texts are read from every form of a source, and what cannot be read is reported in one message."""

import gzip
import sys
from pathlib import Path

import pytest
import tensorflow_datasets as tfds
import zstandard
from tfds_downloads import lay, tar
from without_tensorflow import finders

from flax_transformer.common.errors import UserError
from flax_transformer.data.tfds_builders import prepare_tfds
from flax_transformer.tasks.classification.config import ClassificationDataConfig
from flax_transformer.tasks.classification.reading import Examples, read_examples

TEXTS = ['good food', 'nicht übel', 'a\u2028b', 'bad']
LABELS = ['pos', 'pos', 'neg', 'neg']
TABLE = ''.join(f'{label}\t{text}\n' for label, text in zip(LABELS, TEXTS, strict=True)).encode()
JSON = b"""{"label": "pos", "text": "good food"}
{"text": "nicht \\u00fcbel", "label": " pos ", "id": 3}
{"label": "neg", "text": "a\\u2028b"}
{"label": "neg", "text": "bad"}
"""


def read(folder: Path, source: str, content: bytes | None = None) -> Examples:
    if content is not None:
        (folder / source.partition('#')[0]).write_bytes(content)
    return read_examples(source, ClassificationDataConfig(root=str(folder)))


def fault(folder: Path, source: str, content: bytes | None = None) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, source, content)
    return str(caught.value).replace(f'{folder}/', '')


@pytest.mark.parametrize(
    ('source', 'content'),
    [
        ('a.tsv', TABLE),
        ('a.tsv', b'\xef\xbb\xbf' + TABLE.replace(b'\n', b'\r\n')),
        ('a.tsv#3,1', b''.join(b'\t7\t'.join(line.split(b'\t')[::-1]) + b'\n' for line in TABLE.split(b'\n')[:-1])),
        ('a.tsv.gz', gzip.compress(TABLE, mtime=0)),
        ('a.tsv.zst', zstandard.compress(TABLE)),
        ('a.jsonl', JSON),
        ('a.csv', TABLE.replace(b'\t', b',')),
        ('a.csv#3,1', b''.join(b';7;'.join(line.split(b'\t')[::-1]) + b'\r\n' for line in TABLE.split(b'\n')[:-1])),
    ],
)
def test_the_same_examples_come_from_every_kind_of_file(tmp_path: Path, source: str, content: bytes) -> None:
    found = read(tmp_path, source, content)
    assert (found.texts, found.labels) == (TEXTS, LABELS)
    file = tmp_path / source.partition('#')[0]
    assert found.places == [f'{file}:{number}' for number in (1, 2, 3, 4)]


def test_a_folder_has_a_folder_of_files_for_each_label(tmp_path: Path) -> None:
    for name, content in {
        'neg/2.txt': b'\xef\xbb\xbfbad\r\nfilm\r\n',
        'neg/10.txt.gz': gzip.compress(b'worse\n'),
        'pos/1.txt': b'',
        'pos/notes.md': b'no example',
        'README.txt': b'no example',
        '.hidden/1.txt': b'no example',
    }.items():
        (tmp_path / 'films' / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / 'films' / name).write_bytes(content)
    found = read(tmp_path, 'films')
    assert (found.texts, found.labels) == (['worse', 'bad film', ''], ['neg', 'neg', 'pos'])
    assert found.places[1] == str(tmp_path / 'films' / 'neg' / '2.txt')
    assert read(tmp_path, 'films/').texts == found.texts


def test_tabs_after_the_first_and_empty_texts_are_kept_and_blank_lines_are_not(tmp_path: Path) -> None:
    found = read(tmp_path, 'a.tsv', b'\nx\ta\tb\n\r\n y \t\n\n')
    assert (found.texts, found.labels) == (['a\tb', ''], ['x', 'y'])
    assert [place.rpartition(':')[2] for place in found.places] == ['2', '4']


@pytest.mark.parametrize(
    ('source', 'content'),
    [
        ('a.csv', b'\xef\xbb\xbfid,Review,"Sentiment"\r\n1,"Good, ""hot""\nfood",pos\r\n\r\n2,bad,neg\r\n'),
        ('a.csv', b'Kategorie;Text\npos;"Good, ""hot""\nfood"\n\nneg;bad\n'),
        ('a.tsv', b'text\tlabel\nGood, "hot" food\tpos\n\n\nbad\tneg\n'),
        ('a.tsv#1,2', b'label\ttext\npos\tGood, "hot" food\n\n\nneg\tbad\n'),
        ('a.tsv#3,2', b'class\ttext\tstars\n1\tGood, "hot" food\tpos\n\n\n1\tbad\tneg\n'),
    ],
)
def test_a_header_line_names_the_columns_and_is_said(tmp_path: Path, source: str, content: bytes, capsys) -> None:
    found = read(tmp_path, source, content)
    assert (found.labels, found.texts) == (['pos', 'neg'], ['Good, "hot" food', 'bad'])
    assert [place.rpartition(':')[2] for place in found.places] == ['2', '5']
    assert 'header' in capsys.readouterr().err


def test_labels_of_json_may_be_numbers_and_truth_values_and_say_so(tmp_path: Path) -> None:
    rows = ['1', '"1"', '1.0', 'true', '"true"', '0.5', '-3']
    content = ''.join(f'{{"label": {label}, "text": "t"}}\n' for label in rows)
    found = read(tmp_path, 'a.jsonl', content.encode())
    assert found.labels == ['1', '1', '1', 'true', 'true', '0.5', '-3']


@pytest.mark.parametrize(
    ('source', 'content', 'message'),
    [
        (
            'a.tsv',
            b'x\ta\n' + b'none\n' * 8 + b'x\t\xff\n',
            'a.tsv:2: got 1 columns; expected the label in column 1 and the text in column 2, separated by '
            'tabs (and a.tsv:3, a.tsv:4, a.tsv:5, a.tsv:6, a.tsv:7, '
            '...: 8 in all)\na.tsv:10: byte 0xff is not valid UTF-8; convert the file, for example with '
            '`iconv -f LATIN1 -t UTF-8`',
        ),
        ('a.tsv', b'x\ta\n  \tb\n\tc\n', 'a.tsv:2: the label is empty (and a.tsv:3: 2 in all)'),
        ('a.tsv#2,3', b'1\tx\n', 'a.tsv:1: got 2 columns; expected the label in column 2 and the text in column 3'),
        ('a.tsv', b'\xef\xbb\xbf\n\n', 'a.tsv is empty; expected at least one labeled text'),
        ('a.jsonl', b'{\0\0\0"a": 1}\n', 'a.jsonl:1: expected a JSON object with "label" and'),
        ('a.jsonl', b'{"label": "x"}\n', 'a.jsonl:1: expected a JSON object with "label" and "text", the text in'),
        (
            'a.jsonl',
            b'{"label": ["x", "y"], "text": "a"}\n',
            'a.jsonl:1: a list of labels; expected one label for each',
        ),
        ('a.jsonl', b'{"label": null, "text": "a"}\n', 'a.jsonl:1: the label is no text, number, true or false'),
        ('a.jsonl', b'{"label": "\xff", "text": "a"}\n', 'a.jsonl:1: byte 0xff is not valid UTF-8'),
        (
            'a.jsonl',
            b'{"label": "x", "text": "\\ud83d"}\n',
            'a.jsonl:1: half a surrogate pair, which',
        ),
        ('a.csv', b'x,a\ny,"b\n', 'a.csv, line 2: unexpected end of data; expected CSV'),
        ('a.csv', b'x,a\ny\n', 'a.csv:2: got 1 columns; expected the label in column 1'),
        ('a.ods', b'x,a\n', "'a.ods': expected a .tsv or .csv file with label and text in its columns, a .jsonl"),
        ('a.tsv.gz', gzip.compress(TABLE, mtime=0)[:30], 'a.tsv.gz could not be read: Compressed file ended before'),
        ('nothing.tsv', None, 'nothing.tsv does not exist; relative paths start at --data.root'),
        ('a.tsv#1', b'x\ta\n', "corpus 'a.tsv#1': got the columns '1', expected two numbers"),
    ],
)
def test_what_cannot_be_read_is_one_message(tmp_path: Path, source: str, content: bytes | None, message: str) -> None:
    assert fault(tmp_path, source, content).startswith(message)


def test_a_folder_without_the_files_of_a_label_is_refused(tmp_path: Path) -> None:
    (tmp_path / 'films').mkdir()
    (tmp_path / 'films' / '1.txt').write_text('good')
    assert 'films has no folders in it' in fault(tmp_path, 'films')
    (tmp_path / 'films' / 'pos').mkdir()
    assert "pos has no .txt files; expected the texts of the label 'pos' there" in fault(tmp_path, 'films')
    (tmp_path / 'films' / 'pos' / '1.txt').write_bytes(b'caf\xe9')
    assert fault(tmp_path, 'films').startswith('films/pos/1.txt: byte 0xe9 is not valid UTF-8')


REVIEWS = {
    'aclImdb/train/pos/0_9.txt': 'Good food.\n',
    'aclImdb/train/neg/0_2.txt': 'Lacking in taste,<br />\nand cold.',
    'aclImdb/train/unsup/0_0.txt': 'Nobody knows.',
    'aclImdb/test/neg/0_1.txt': 'Bad.',
}


def test_imdb_reviews_are_prepared_by_their_builder_and_read(tmp_path: Path, monkeypatch) -> None:
    """The builder is TFDS's own, and only the archive is small; no TensorFlow."""
    monkeypatch.setattr(sys, 'meta_path', finders())
    tfds.disable_progress_bar()
    url = 'http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz'
    lay(tmp_path / 'tensorflow_datasets', 'imdb_reviews', {url: tar(REVIEWS)})
    assert "split 'train' is not prepared" in fault(tmp_path, 'tfds:imdb_reviews:train')
    prepare_tfds('tfds:imdb_reviews:train', tmp_path)
    found = read(tmp_path, 'tfds:imdb_reviews:train')
    assert sorted(zip(found.labels, found.texts, strict=True)) == [
        ('neg', 'Lacking in taste,<br /> and cold.'),
        ('pos', 'Good food.'),
    ]
    assert found.places[0] == 'tfds:imdb_reviews:train, example 1'
    assert len(read(tmp_path, 'tfds:imdb_reviews:train+test').texts) == 3
    unlabeled = fault(tmp_path, 'tfds:imdb_reviews:unsupervised')
    assert unlabeled == 'tfds:imdb_reviews:unsupervised, example 1: an example without a label'
    assert 'tensorflow' not in sys.modules
