"""TensorFlow Datasets are read without TensorFlow, and what is not prepared says at once how to prepare it."""

import re
import shlex
import sys
import time

import pytest
import tensorflow_datasets as tfds

from flax_transformer.cli import prepare
from flax_transformer.config import DataConfig
from flax_transformer.data.sources import read_corpus
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


class NoTensorFlow:
    """An importer of TensorFlow that fails, also where it is installed."""

    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == 'tensorflow':
            raise ModuleNotFoundError("No module named 'tensorflow'", name=name)


@pytest.fixture(autouse=True)
def _without_tensorflow(monkeypatch):
    monkeypatch.setattr(sys, 'meta_path', [NoTensorFlow(), *sys.meta_path])
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
        assert time.perf_counter() - start < 20
        return str(caught.value)

    return refusal


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
