"""WMT from download to reading, without TensorFlow: the builders are TFDS's own, and only the archives are small."""

import io
import socket
import sys
import time

import pytest
import requests
import tensorflow_datasets.translate  # noqa: F401, registers the builders, which TFDS alone does not without TensorFlow
from tfds_downloads import lay, tar
from without_tensorflow import finders

from flax_transformer.cli import prepare
from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig
from flax_transformer.data.bitext.sources import read_corpus
from flax_transformer.data.tfds_builders import prepare_tfds


@pytest.fixture(autouse=True)
def _without_tensorflow(monkeypatch):
    monkeypatch.setattr(sys, 'meta_path', finders())
    yield
    assert 'tensorflow' not in sys.modules


def sgm(*lines):
    segments = ''.join(f'<seg id="{number}">{line}</seg>\n' for number, line in enumerate(lines, 1))
    return f'<srcset setid="newstest2014">\n<doc docid="a">\n{segments}</doc>\n</srcset>\n'


EUROPARL = 'http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz'
WMT14 = {
    EUROPARL: tar(
        {'training/europarl-v7.de-en.de': 'eins\nzwei Brücken\n', 'training/europarl-v7.de-en.en': 'one\ntwo bridges\n'}
    ),
    'http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz': tar(
        {'training/news-commentary-v9.de-en.de': 'vier\n', 'training/news-commentary-v9.de-en.en': 'four\n'}
    ),
    'http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz': tar(
        {'commoncrawl.de-en.de': 'drei\n\n', 'commoncrawl.de-en.en': 'three\nno pair\n'}
    ),
    'http://data.statmt.org/wmt19/translation-task/dev.tgz': tar(
        {
            'dev/newstest2013.de': 'fünf\n',
            'dev/newstest2013.en': 'five\n',
            'dev/newstest2014-deen-src.de.sgm': sgm('sechs', 'sieben'),
            'dev/newstest2014-deen-ref.en.sgm': sgm('six', 'seven'),
        }
    ),
}
WMT14_PAIRS = {
    'train': [('four', 'vier'), ('one', 'eins'), ('three', 'drei'), ('two bridges', 'zwei Brücken')],
    'validation': [('five', 'fünf')],
    'test': [('seven', 'sieben'), ('six', 'sechs')],
}
NAME = 'tfds:wmt14_translate/de-en'


def test_wmt_is_prepared_and_read_from_the_files_of_its_download(tmp_path, capsys):
    """Nothing of TFDS is replaced: text and SGML in archives that lie where it keeps downloads."""
    folder = tmp_path / 'tensorflow_datasets'
    lay(folder, 'wmt14_translate/de-en', WMT14)
    for split, pairs in WMT14_PAIRS.items():
        prepare.main([f'{NAME}:{split}', '--root', str(tmp_path)])
        read = read_corpus(f'{NAME}:{split}', DataConfig(root=str(tmp_path)))
        assert sorted(zip(read.sources, read.targets, strict=True)) == pairs
    said = capsys.readouterr().err
    assert f'{NAME}:train is prepared in {folder / "wmt14_translate" / "de-en" / "1.0.0"}' in said


def test_a_download_that_is_not_what_it_was_is_told(tmp_path, monkeypatch):
    def get(self, url, **_):
        response = requests.Response()
        response.status_code, response.url, response.raw = 200, url, io.BytesIO(b'another archive')
        return response

    monkeypatch.setattr(requests.Session, 'get', get)
    with pytest.raises(UserError, match=rf"corpus '{NAME}:train' could not be prepared: Artifact .* wrong checksum"):
        prepare_tfds(f'{NAME}:train', tmp_path)


def test_without_a_network_a_download_is_given_up_in_seconds(tmp_path, monkeypatch):
    def no_network(*_, **__):
        raise socket.gaierror(-2, 'Name or service not known')

    pauses = []
    monkeypatch.setattr(socket, 'getaddrinfo', no_network)
    monkeypatch.setattr(time, 'sleep', pauses.append)
    with pytest.raises(UserError) as caught:
        prepare_tfds(f'{NAME}:train', tmp_path)
    assert f'{EUROPARL} was not downloaded: its server cannot be reached. Run the command again' in str(caught.value)
    assert '\n' not in str(caught.value)
    assert 0 < sum(pauses) < 5
    with pytest.raises(UserError, match=r"split 'train' is not prepared"):
        read_corpus(f'{NAME}:train', DataConfig(root=str(tmp_path)))
