"""WMT from download to reading, without TensorFlow: the builders are TFDS's own, and only the archives are small."""

import gzip
import io
import socket
import sys
import time
import zipfile

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
SHARED = {
    'http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz': tar(
        {'commoncrawl.de-en.de': 'drei\n\n', 'commoncrawl.de-en.en': 'three\nno pair\n'}
    ),
    'http://data.statmt.org/wmt19/translation-task/dev.tgz': tar(
        {
            'dev/newstest2013.de': 'fünf\n',
            'dev/newstest2013.en': 'five\n',
            'dev/newstest2014-deen-src.de.sgm': sgm('sechs', 'sieben'),
            'dev/newstest2014-deen-ref.en.sgm': sgm('six', 'seven'),
            'dev/newstest2018-deen-src.de.sgm': sgm('acht'),
            'dev/newstest2018-deen-ref.en.sgm': sgm('eight'),
        }
    ),
}
WMT14 = {
    EUROPARL: tar(
        {'training/europarl-v7.de-en.de': 'eins\nzwei Brücken\n', 'training/europarl-v7.de-en.en': 'one\ntwo bridges\n'}
    ),
    'http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz': tar(
        {'training/news-commentary-v9.de-en.de': 'vier\n', 'training/news-commentary-v9.de-en.en': 'four\n'}
    ),
    **SHARED,
}
WMT14_PAIRS = {
    'train': [('four', 'vier'), ('one', 'eins'), ('three', 'drei'), ('two bridges', 'zwei Brücken')],
    'validation': [('five', 'fünf')],
    'test': [('seven', 'sieben'), ('six', 'sechs')],
}
NAME = 'tfds:wmt14_translate/de-en'

TMX = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header/><body>
<tu><tuv xml:lang="en"><seg>nine</seg></tuv><tuv xml:lang="de"><seg>neun</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>ten &amp; ten</seg></tuv><tuv xml:lang="de"><seg>zehn</seg></tuv></tu>
</body></tmx>
"""


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, 'w') as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


WMT19 = {
    'http://www.statmt.org/europarl/v9/training/europarl-v9.de-en.tsv.gz': gzip.compress(b'elf\televen\nno pair\n'),
    'https://s3.amazonaws.com/web-language-models/paracrawl/release3/en-de.bicleaner07.tmx.gz': gzip.compress(
        TMX.encode()
    ),
    'http://data.statmt.org/news-commentary/v14/training/news-commentary-v14.de-en.tsv.gz': gzip.compress(
        'fünf\tfive\n'.encode()
    ),
    'http://data.statmt.org/wikititles/v1/wikititles-v1.de-en.tsv.gz': gzip.compress(b'Titel\tTitle\n'),
    'https://s3-eu-west-1.amazonaws.com/tilde-model/rapid2019.de-en.zip': zipped(
        {'rapid2019.de-en.de': 'schnell\n', 'rapid2019.de-en.en': 'fast\n'}
    ),
    **SHARED,
}
WMT19_PAIRS = {
    'train': [
        ('Title', 'Titel'),
        ('eleven', 'elf'),
        ('fast', 'schnell'),
        ('five', 'fünf'),
        ('nine', 'neun'),
        ('ten & ten', 'zehn'),
        ('three', 'drei'),
    ],
    'validation': [('eight', 'acht')],
}


def test_wmt_is_prepared_and_read_from_the_files_of_its_download(tmp_path, capsys):
    """Nothing of TFDS is replaced: text, SGML, TSV and TMX in archives that lie where it keeps downloads."""
    folder = tmp_path / 'tensorflow_datasets'
    lay(folder, 'wmt14_translate/de-en', WMT14)
    lay(folder, 'wmt19_translate/de-en', WMT19)
    expected = {f'{NAME}:{split}': pairs for split, pairs in WMT14_PAIRS.items()}
    expected |= {f'tfds:wmt19_translate/de-en:{split}': pairs for split, pairs in WMT19_PAIRS.items()}
    for name, pairs in expected.items():
        prepare.main([name, '--root', str(tmp_path)])
        read = read_corpus(name, DataConfig(root=str(tmp_path)))
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


def test_a_server_that_does_not_answer_is_given_up_and_tfds_left_as_it_was(tmp_path, monkeypatch):
    from tensorflow_datasets.core.download import downloader, extractor

    before, patience = (extractor.tf, downloader.MAX_RETRIES, downloader._open_with_requests), []

    def get(self, url, timeout=None, **_):
        patience.append(timeout)
        raise requests.ReadTimeout('no answer', request=requests.Request('GET', url))

    monkeypatch.setattr(requests.Session, 'get', get)
    with pytest.raises(UserError, match=r'europarl-v7\.tgz was not downloaded: no answer\. Run the command again'):
        prepare_tfds(f'{NAME}:train', tmp_path)
    assert patience == [(10, 60)]
    assert (extractor.tf, downloader.MAX_RETRIES, downloader._open_with_requests) == before
