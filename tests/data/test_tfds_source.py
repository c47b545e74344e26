"""TensorFlow Datasets are read without TensorFlow, and what is not prepared says at once how to prepare it."""

import http.server
import io
import json
import re
import shlex
import socket
import subprocess
import sys
import tarfile
import threading
import time
from importlib.machinery import PathFinder

import pytest
import requests
import tensorflow_datasets as tfds
from conftest import corpus

from flax_transformer.cli import prepare
from flax_transformer.config import DataConfig
from flax_transformer.data.corpus import CHUNK
from flax_transformer.data.sources import open_corpus, read_corpus
from flax_transformer.data.text_files import read_lines
from flax_transformer.data.tfds_source import prepare_tfds
from flax_transformer.errors import UserError

PAIRS = {
    'train': [('one', 'eins'), ('two bridges', 'zwei Brücken'), ('a\u2028b', 'ä\u2028ö'), (' you 你好 ', ' du ')],
    'validation': [('three', 'drei')],
}


class TinyTranslate(tfds.core.GeneratorBasedBuilder):
    """A translation builder of five pairs; TFDS registers it as tiny_translate."""

    VERSION = tfds.core.Version('1.0.0')

    def _info(self):
        features = tfds.features.Translation(languages=('de', 'en'))
        return tfds.core.DatasetInfo(builder=self, description='Five pairs.', features=features)

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(split) for split in PAIRS}

    def _generate_examples(self, split):
        for key, (english, german) in enumerate(PAIRS[split]):
            yield key, {'en': english, 'de': german}


class Multi30kTranslate(tfds.core.GeneratorBasedBuilder):
    """The German and English sides of Multi30k."""

    VERSION = tfds.core.Version('1.0.0')

    def _info(self):
        features = tfds.features.Translation(languages=('de', 'en'))
        return tfds.core.DatasetInfo(builder=self, description='Multi30k.', features=features)

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(split) for split in MULTI30K}

    def _generate_examples(self, split):
        german, english = (read_lines(corpus('multi30k', MULTI30K[split].format(lang))) for lang in ('de', 'en'))
        yield from enumerate({'de': de, 'en': en} for de, en in zip(german, english, strict=True))


MULTI30K = {'train': 'train.{}.gz', 'validation': 'val.{}'}


class WithoutTensorFlow(PathFinder):
    """Finds what Python finds, but TensorFlow, as if it were not installed: importing it raises."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split('.')[0] == 'tensorflow' else super().find_spec(name, path, target)


@pytest.fixture(autouse=True)
def _without_tensorflow(monkeypatch):
    finders = [WithoutTensorFlow if finder is PathFinder else finder for finder in sys.meta_path]
    monkeypatch.setattr(sys, 'meta_path', finders)
    yield
    assert 'tensorflow' not in sys.modules


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    """A data root below which tiny_translate is prepared."""
    root = tmp_path_factory.mktemp('root')
    tfds.disable_progress_bar()
    folder = root / 'tensorflow_datasets'
    tfds.builder('tiny_translate', data_dir=folder, file_format='array_record').download_and_prepare()
    return root


@pytest.fixture
def refused():
    """A function that returns what read_corpus has against a name; it must not take as long as a download's retries."""

    def refusal(name, root, **fields):
        start = time.perf_counter()
        with pytest.raises(UserError) as caught:
            read_corpus(name, DataConfig(root=str(root), **fields))
        assert time.perf_counter() - start < 5  # TFDS was imported above
        return str(caught.value)

    return refusal


def both(pairs):
    return sorted(zip(pairs.sources, pairs.targets, strict=True))


@pytest.mark.parametrize('split', PAIRS)
def test_a_prepared_builder_is_read_without_tensorflow(root, split):
    pairs = read_corpus(f'tfds:tiny_translate:{split}', DataConfig(root=str(root)))
    assert sorted(zip(pairs.sources, pairs.targets, strict=True)) == sorted(PAIRS[split])
    assert 'tensorflow' not in sys.modules


def test_source_and_target_follow_the_languages_of_the_config(root):
    config = DataConfig(root=str(root), source_language='de', target_language='en')
    pairs = read_corpus('tfds:tiny_translate:validation', config)
    assert (pairs.sources, pairs.targets) == (['drei'], ['three'])


def test_the_order_is_the_same_every_time(root):
    config = DataConfig(root=str(root))
    assert read_corpus('tfds:tiny_translate:train', config) == read_corpus('tfds:tiny_translate:train', config)


@pytest.mark.parametrize('builder', ['wmt14_translate/de-en', 'tiny_translate'])
def test_an_unprepared_builder_fails_at_once_with_the_command_that_prepares_it(tmp_path, refused, builder):
    message = refused(f'tfds:{builder}:train', tmp_path)
    assert "split 'train' is not prepared" in message
    assert 'prepared: nothing' in message
    command = shlex.split(message.split('\n')[1])
    assert command == ['flax-transformer', 'prepare', f'tfds:{builder}:train', '--root', str(tmp_path)]
    assert not (tmp_path / 'tensorflow_datasets').exists()


def test_the_command_that_is_told_prepares_it(tmp_path, refused):
    command = shlex.split(refused('tfds:tiny_translate:train', tmp_path).split('\n')[1])
    prepare.main(command[2:])
    assert len(read_corpus('tfds:tiny_translate:train', DataConfig(root=str(tmp_path)))) == len(PAIRS['train'])


def test_a_split_that_is_not_there_is_told_with_those_that_are(root, refused):
    assert re.search(
        r"split 'test' is not prepared .*\(prepared: train, validation\)", refused('tfds:tiny_translate:test', root)
    )


def test_a_language_that_is_not_there_is_told_with_those_that_are(root, refused):
    message = refused('tfds:tiny_translate:train', root, target_language='fr')
    assert "has no language 'fr'; it has de, en" in message


@pytest.mark.parametrize('name', ['tfds:tiny_translate', 'tfds:tiny_translate:train:test', 'tfds:'])
def test_a_name_of_another_form_is_told_the_form(tmp_path, refused, name):
    assert 'expected tfds:NAME/CONFIG:SPLIT' in refused(name, tmp_path)


@pytest.mark.parametrize(
    ('name', 'near'), [('tiny_tranlate', 'tiny_translate'), ('wmt14_translat/de-en', 'wmt14_translate')]
)
def test_an_unknown_builder_is_told_with_the_nearest(tmp_path, refused, name, near):
    message = refused(f'tfds:{name}:train', tmp_path)
    assert 'no such builder' in message
    assert f'Did you mean {near}' in message


def test_an_unknown_config_of_a_builder_is_told(tmp_path, refused):
    assert 'wmt14_translate/de-xx' in refused('tfds:wmt14_translate/de-xx:train', tmp_path)


def test_a_builder_of_a_real_corpus_is_prepared_and_read_back(tmp_path):
    files = {
        split: [corpus('multi30k', name.format(lang)) for lang in ('en', 'de')] for split, name in MULTI30K.items()
    }
    name = 'tfds:multi30k_translate:train'
    prepare.main([name, '--root', str(tmp_path)])
    config = DataConfig(root=str(tmp_path))
    for split, sides in files.items():
        pairs = read_corpus(f'tfds:multi30k_translate:{split}', config)
        assert both(pairs) == sorted(zip(*map(read_lines, sides), strict=True))
    # Slices, and the place of each pair after several chunks.
    part = open_corpus(f'{name}[:35%]', config)
    whole = read_corpus(name, config)
    assert part.read().sources == whole.sources[: round(0.35 * len(whole))]
    sizes = [len(pairs) for pairs in part.pairs()]
    assert sizes == [CHUNK, CHUNK, round(0.35 * len(whole)) - 2 * CHUNK]
    assert part.place(CHUNK, 1) == f'{name}[:35%], example {CHUNK + 1} (de)'
    written = [file.stat().st_mtime_ns for file in part.files]
    prepare.main([name, '--root', str(tmp_path)])
    assert [file.stat().st_mtime_ns for file in part.files] == written


@pytest.mark.parametrize(('split', 'count'), [('train[:2]', 2), ('train[50%:]', 2), ('train[1:]+validation', 4)])
def test_a_split_may_be_cut_and_joined(root, split, count):
    assert len(read_corpus(f'tfds:tiny_translate:{split}', DataConfig(root=str(root)))) == count


@pytest.mark.parametrize('split', ['train[:2', 'train[5:]', 'train[1:1]', 'train[::2]', 'train+'])
def test_a_split_that_cannot_be_cut_so_is_refused_at_once(root, refused, split):
    assert refused(f'tfds:tiny_translate:{split}', root).startswith(f"corpus 'tfds:tiny_translate:{split}'")


def test_a_joined_split_that_is_not_there_is_named(root, refused):
    assert "split 'test' is not prepared" in refused('tfds:tiny_translate:train+test[:1]', root)


def test_one_prepared_in_another_format_is_told_the_remedy(root, refused, tmp_path):
    folder = tmp_path / 'tensorflow_datasets' / 'tiny_translate' / '1.0.0'
    folder.mkdir(parents=True)
    for file in (root / 'tensorflow_datasets' / 'tiny_translate' / '1.0.0').iterdir():
        (folder / file.name).write_bytes(file.read_bytes().replace(b'"array_record"', b'"tfrecord"'))
    message = refused('tfds:tiny_translate:train', tmp_path)
    assert f'is prepared in {folder.parent} in another format than array_record' in message
    assert message.endswith(f'\n  flax-transformer prepare tfds:tiny_translate:train --root {tmp_path}')


# WMT: the builder is TFDS's own; only the archives are small.


def archive(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode='w:gz') as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def sgm(*lines):
    segments = ''.join(f'<seg id="{number}">{line}</seg>\n' for number, line in enumerate(lines, 1))
    return f'<srcset setid="newstest2014">\n<doc docid="a">\n{segments}</doc>\n</srcset>\n'


EUROPARL = 'http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz'
WMT14 = {
    EUROPARL: archive(
        {'training/europarl-v7.de-en.de': 'eins\nzwei Brücken\n', 'training/europarl-v7.de-en.en': 'one\ntwo bridges\n'}
    ),
    'http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz': archive(
        {'commoncrawl.de-en.de': 'drei\n\n', 'commoncrawl.de-en.en': 'three\nno pair\n'}
    ),
    'http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz': archive(
        {'training/news-commentary-v9.de-en.de': 'vier\n', 'training/news-commentary-v9.de-en.en': 'four\n'}
    ),
    'http://data.statmt.org/wmt19/translation-task/dev.tgz': archive(
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

PREPARE_AND_READ = """
import json, sys
from importlib.machinery import PathFinder
class WithoutTensorFlow(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split('.')[0] == 'tensorflow' else super().find_spec(name, path, target)
sys.meta_path[:] = [WithoutTensorFlow if finder is PathFinder else finder for finder in sys.meta_path]
from flax_transformer.cli import prepare
from flax_transformer.config import DataConfig
from flax_transformer.data import read_corpus
name, root, *others = sys.argv[1:]
prepare.main([f'{name}:train', '--root', root])
names = [f'{name}:{split}' for split in ('train', 'validation', 'test')] + others
corpora = [read_corpus(name, DataConfig(root=root)) for name in names]
assert 'tensorflow' not in sys.modules
json.dump([sorted(zip(pairs.sources, pairs.targets)) for pairs in corpora], open(f'{root}/read.json', 'w'))
"""


def test_wmt_is_prepared_and_read_from_the_files_of_its_download(root, tmp_path):
    """Nothing of TFDS is replaced: the archives lie where it keeps downloads, and are found there.

    The process has no TensorFlow, nor the code of the second builder, which was prepared before.
    """
    from tensorflow_datasets.core.download import resource

    folder = tmp_path / 'tensorflow_datasets'
    folder.mkdir()
    (folder / 'tiny_translate').symlink_to(root / 'tensorflow_datasets' / 'tiny_translate')
    builder = tfds.builder('wmt14_translate/de-en', data_dir=folder, file_format='array_record')
    for url, content in WMT14.items():
        file = folder / 'downloads' / builder.name / resource.get_dl_fname(url, builder.url_infos[url].checksum)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        resource.write_info_file(
            url=url,
            path=file,
            dataset_name=builder.name,
            original_fname=url.rpartition('/')[2],
            url_info=builder.url_infos[url],
        )
    command = [sys.executable, '-W', 'error', '-c', PREPARE_AND_READ, NAME, str(tmp_path), 'tfds:tiny_translate:train']
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f'{NAME}:train is prepared in {folder / "wmt14_translate" / "de-en" / "1.0.0"}' in done.stderr
    read = [[tuple(pair) for pair in pairs] for pairs in json.loads((tmp_path / 'read.json').read_text())]
    assert read == [*WMT14_PAIRS.values(), sorted(PAIRS['train'])]


@pytest.fixture
def server(monkeypatch):
    """A proxy that answers for every server: the archives above, and 404 for all else."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            content = WMT14.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header('Content-Length', str(len(content or b'')))
            self.end_headers()
            self.wfile.write(content or b'')

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.01})
        thread.start()
        for variable in ('http_proxy', 'HTTP_PROXY'):
            monkeypatch.setenv(variable, f'http://127.0.0.1:{server.server_port}')
        for variable in ('no_proxy', 'NO_PROXY'):
            monkeypatch.delenv(variable, raising=False)
        yield
        server.shutdown()
        thread.join()


@pytest.fixture
def _any_checksum(monkeypatch):
    """TFDS forgets the checksums of the true archives."""
    from tensorflow_datasets.core.download import checksums

    infos = tfds.builder_cls('wmt14_translate').url_infos
    monkeypatch.setattr(checksums, 'get_all_url_infos', dict)
    for url in list(infos):
        monkeypatch.delitem(infos, url)


@pytest.mark.usefixtures('server', '_any_checksum')
def test_wmt_is_downloaded_prepared_and_read(tmp_path):
    """All that is replaced is the content of the archives, and so the checksums that TFDS knows of them."""
    prepare_tfds(f'{NAME}:train', tmp_path)
    for split, pairs in WMT14_PAIRS.items():
        assert both(read_corpus(f'{NAME}:{split}', DataConfig(root=str(tmp_path)))) == pairs
    turned = DataConfig(root=str(tmp_path), source_language='de', target_language='en')
    assert read_corpus(f'{NAME}:validation', turned).sources == ['fünf']


@pytest.mark.usefixtures('server')
def test_a_download_that_is_not_what_it_was_is_told(tmp_path):
    with pytest.raises(UserError, match=rf"corpus '{NAME}:train' could not be prepared: Artifact .* wrong checksum"):
        prepare_tfds(f'{NAME}:train', tmp_path)


@pytest.mark.usefixtures('server')
def test_a_file_that_the_server_lacks_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(WMT14, EUROPARL, None)
    with pytest.raises(UserError, match=r'could not be prepared: Failed to get url .*europarl-v7.tgz.* HTTP code: 404'):
        prepare_tfds(f'{NAME}:train', tmp_path)


@pytest.mark.usefixtures('server', '_any_checksum')
def test_files_that_must_be_downloaded_by_hand_are_told(tmp_path):
    name = 'tfds:wmt14_translate/cs-en:train'
    folder = tmp_path / 'tensorflow_datasets' / 'downloads' / 'manual'
    with pytest.raises(UserError, match=f'could not be prepared: Manual directory {folder} does not exist or is empty'):
        prepare_tfds(name, tmp_path)
    folder.mkdir(parents=True)
    (folder / 'other').touch()
    with pytest.raises(UserError, match=r'could not be prepared: For czeng_10, you must manually download'):
        prepare_tfds(name, tmp_path)


@pytest.mark.usefixtures('server', '_any_checksum')
def test_a_broken_download_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(WMT14, EUROPARL, b'not an archive')
    with pytest.raises(UserError, match=r'could not be prepared: Error while extracting .*statmt'):
        prepare_tfds(f'{NAME}:train', tmp_path)


def test_without_a_network_a_download_is_given_up_in_seconds(tmp_path, monkeypatch, refused):
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
    assert "split 'train' is not prepared" in refused(f'{NAME}:train', tmp_path)


def test_a_server_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    patience = []

    def get(self, url, timeout=None, **_):
        patience.append(timeout)
        raise requests.ReadTimeout('no answer', request=requests.Request('GET', url))

    monkeypatch.setattr(requests.Session, 'get', get)
    with pytest.raises(UserError, match=r'europarl-v7\.tgz was not downloaded: no answer\. Run the command again'):
        prepare_tfds(f'{NAME}:train', tmp_path)
    assert patience == [(10, 60)]


def test_tfds_is_left_as_it_was(tmp_path, monkeypatch):
    from tensorflow_datasets.core.download import downloader, extractor

    before = extractor.tf, downloader.MAX_RETRIES, downloader._open_with_requests
    test_a_server_that_does_not_answer_is_given_up(tmp_path, monkeypatch)
    assert (extractor.tf, downloader.MAX_RETRIES, downloader._open_with_requests) == before
