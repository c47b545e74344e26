"""TensorFlow Datasets are read without TensorFlow, and what is not prepared says at once how to prepare it."""

import json
import re
import shlex
import shutil
import sys
import time

import pytest
import tensorflow_datasets as tfds
from without_tensorflow import finders

from flax_transformer.cli import prepare
from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig
from flax_transformer.data.bitext.sources import open_corpus, read_corpus

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


@pytest.fixture(autouse=True)
def _without_tensorflow(monkeypatch):
    monkeypatch.setattr(sys, 'meta_path', finders())
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


def test_a_prepared_builder_is_read_without_its_code(root, tmp_path):
    folder = tmp_path / 'tensorflow_datasets' / 'no_code' / 'some_config' / '1.0.0'
    folder.mkdir(parents=True)
    for file in (root / 'tensorflow_datasets' / 'tiny_translate' / '1.0.0').iterdir():
        content = file.read_bytes()
        if file.suffix == '.json':
            content = content.replace(b'tiny_translate', b'no_code')
        (folder / file.name.replace('tiny_translate', 'no_code')).write_bytes(content)
    assert 'no_code' not in tfds.list_builders(with_community_datasets=False)
    config = DataConfig(root=str(tmp_path))
    assert both(read_corpus('tfds:no_code/some_config:train', config)) == sorted(PAIRS['train'])


@pytest.mark.parametrize('spelling', ['pythonClassName', 'python_class_name'])
def test_a_prepared_builder_that_asks_for_a_foreign_class_is_refused(root, tmp_path, monkeypatch, spelling):
    """TFDS would import the module that the data set brings."""
    (tmp_path / 'evil.py').write_text(f'open({str(tmp_path / "ran")!r}, "w")')
    monkeypatch.syspath_prepend(tmp_path)
    folder, link = tmp_path / 'elsewhere', tmp_path / 'tensorflow_datasets' / 'tiny_translate' / '1.0.0'
    shutil.copytree(root / 'tensorflow_datasets' / 'tiny_translate' / '1.0.0', folder)
    link.parent.mkdir(parents=True)
    link.symlink_to(folder)
    features = json.loads((folder / 'features.json').read_text())
    features['translation' if 'translation' in features else 'featuresDict'] = {
        'features': {'en': {spelling: 'evil.Text', 'text': {}}}
    }
    (folder / 'features.json').write_text(json.dumps(features))
    with pytest.raises(UserError, match=r'asks for the class evil\.Text'):
        read_corpus('tfds:tiny_translate:train', DataConfig(root=str(tmp_path)))
    assert not (tmp_path / 'ran').exists()


def test_a_language_that_is_not_there_is_told_with_those_that_are(root, refused):
    message = refused('tfds:tiny_translate:train', root, target_language='fr')
    assert "has no language 'fr'; it has de, en" in message


def test_a_split_is_read_in_chunks_and_each_pair_has_its_place(root, monkeypatch):
    monkeypatch.setattr('flax_transformer.data.tfds_builders.CHUNK', 2)
    part = open_corpus('tfds:tiny_translate:train[:3]', DataConfig(root=str(root)))
    assert [len(pairs) for pairs in part.pairs()] == [2, 1]
    assert part.place(2, 1) == 'tfds:tiny_translate:train[:3], example 3 (de)'


def test_source_and_target_follow_the_languages_of_the_config(root):
    config = DataConfig(root=str(root), source_language='de', target_language='en')
    assert both(read_corpus('tfds:tiny_translate:validation', config)) == [('drei', 'three')]


FORM = 'expected tfds:NAME/CONFIG:SPLIT'


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        ('tiny_translate', FORM),
        ('tiny_translate:train:test', FORM),
        ('a/../../b:train', FORM),
        ('tiny_translate:test', r"split 'test' is not prepared .*\(prepared: train, validation\)"),
        ('tiny_translate:train+test[:1]', "split 'test' is not prepared"),
        ('tiny_tranlate:train', 'no such builder.*Did you mean tiny_translate'),
        ('wmt14_translate/de-xx:train', "wmt14_translate has no config 'de-xx'"),
        ('tiny_translate:train[1:1]', 'is empty|incompatible'),
        ('tiny_translate:train[::2]', 'Error parsing split'),
    ],
)
def test_a_name_that_cannot_be_read_is_refused_at_once(root, refused, name, message):
    assert re.search(message, refused(f'tfds:{name}', root).removeprefix(f"corpus 'tfds:{name}'"))


def test_one_prepared_in_another_format_is_told_the_remedy(root, refused, tmp_path):
    folder = tmp_path / 'tensorflow_datasets' / 'tiny_translate' / '1.0.0'
    folder.mkdir(parents=True)
    for file in (root / 'tensorflow_datasets' / 'tiny_translate' / '1.0.0').iterdir():
        (folder / file.name).write_bytes(file.read_bytes().replace(b'"array_record"', b'"tfrecord"'))
    message = refused('tfds:tiny_translate:train', tmp_path)
    assert f'is prepared in {folder.parent} in another format than array_record' in message
    assert message.endswith(f'\n  flax-transformer prepare tfds:tiny_translate:train --root {tmp_path}')
