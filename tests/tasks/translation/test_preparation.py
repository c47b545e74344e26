"""What a run is prepared from: lines for the tokenizer, corpora as ids, validation sets; faults come first."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
from conftest import copy_config
from hypothesis import given, settings
from hypothesis import strategies as st

from flax_transformer.common.errors import UserError
from flax_transformer.config import CheckConfig, Config, CorpusConfig, DataConfig
from flax_transformer.data.bitext import cache
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.bitext.packing import join_rows
from flax_transformer.data.bitext.sources import open_training
from flax_transformer.tasks.translation import training
from flax_transformer.tasks.translation.preparation import (
    EvenSample,
    check_tokenizer,
    prepare,
    prepare_run,
    train_tokenizer,
)
from flax_transformer.tasks.translation.run import SAMPLE, Run
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import Tokenizer


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=9), st.integers(1, 150))
def test_an_even_sample_has_all_where_they_are_few_else_at_least_half_of_what_it_may(sizes: list, most: int) -> None:
    sample = EvenSample(most)
    for size in sizes:
        numbers = range(sample.total, sample.total + size)
        sample.add(Pairs([f's{n}' for n in numbers], [f't{n}' for n in numbers]))
    total, (sources, targets) = sum(sizes), sample.sides
    step = int(sources[1][1:]) if len(sources) > 1 else total
    numbers = range(0, total, step)
    assert sources == [f's{n}' for n in numbers]
    assert targets == [f't{n}' for n in numbers]
    assert (sample.total, min(total, most / 2) <= len(sources) <= most) == (total, True)


TEXTS = {'en': 'one two three', 'de': 'öins zwäi drüi', 'el': 'ένα δύο τρία', 'ru': 'один два три'}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Texts in four languages: 40 pairs each, and 5 for validation, of which one is blank."""
    for split, count in (('train', 40), ('validation', 5)):
        for language, text in TEXTS.items():
            lines = [' '.join(text.split() * (1 + i % 2)) for i in range(count)]
            lines[4] = '' if language == 'de' else lines[4]
            (tmp_path / f'{split}.{language}').write_text(''.join(f'{line}\n' for line in lines), encoding='utf-8')
    return tmp_path


def mixture(folder: Path, **data: object) -> Config:
    config = copy_config(folder)
    corpora = (
        CorpusConfig('en-de', 'train.{lang}', 'validation.{lang}', source_language='en', target_language='de'),
        CorpusConfig('en-el', 'train.{lang}', source_language='en', target_language='el'),
        CorpusConfig('ru-el', 'train.{lang}', 'validation.{lang}', source_language='ru', target_language='el'),
    )
    values = {
        'train': DataConfig.train,
        'validation': DataConfig.validation,
        'mixture': corpora,
        'target_language': 'de',
        'language_tags': True,
        'bpe_dropout': 0.3,
        'test': '',
        **data,
    }
    # Three lines over and over, blank sides: the check of corpora has tests of its own.
    config = replace(config, check=CheckConfig(before_training=False))
    return replace(config, model=replace(config.model, vocab_size=70), data=replace(config.data, **values))


def tokenizer_of(config: Config) -> Tokenizer:
    return train_tokenizer(config, [open_training(corpus, config.data)[0] for corpus in config.data.corpora])


def test_the_tokenizer_learns_from_every_corpus_and_has_its_languages(folder: Path) -> None:
    config = mixture(folder)
    tokenizer = tokenizer_of(config)
    assert tokenizer.vocab_size == 70
    for text in TEXTS.values():
        assert tokenizer.unk_id not in tokenizer.encode([text])[0]
    assert list(tokenizer.languages) == ['de', 'el']
    plain = replace(config, data=replace(config.data, mixture=config.data.mixture[1:], language_tags=False))
    plain = replace(plain, data=replace(plain.data, target_language='el'))
    other = tokenizer_of(plain)
    assert other.languages == {}
    assert other.unk_id in other.encode([TEXTS['de']])[0]  # it saw none of that


def test_each_set_is_tokenized_with_its_tag_and_validation_is_never_drawn(folder: Path, monkeypatch) -> None:
    config, said, drawn = mixture(folder), [], []
    monkeypatch.setattr(SentencePieceTokenizer, 'sample_flat', lambda *_, **__: drawn.append(0))
    prepared = prepare(config, None, folder / 'cache', say=said.append)
    tokenizer = prepared.tokenizer
    assert [each.name for each in prepared.validation] == ['en-de', 'ru-el']
    for each, source in zip(prepared.validation, ('en', 'ru'), strict=True):
        lines = (folder / f'validation.{source}').read_text().splitlines()
        if each.name == 'en-de':
            del lines[4]  # its translation is blank
        expected = tokenizer.encode(lines, target_language=each.tag)
        got = each.tokenized.source
        assert [got.sentence(i).tolist() for i in range(len(each.tokenized))] == expected
    for pairs, target in zip(prepared.corpora, ('de', 'el', 'el'), strict=True):
        assert pairs.source.ids[0] == tokenizer.tag_id(target)
        assert pairs.text is not None
    assert [len(pairs) for pairs in prepared.corpora] == [39, 40, 40]
    assert drawn == []
    assert said[0].endswith('validation.{lang}: 5 pairs en-de')
    assert 'en-de (train.{lang}): 39 of 40 pairs are trained on' in said[2]
    assert said[3].strip() == 'left out: 1 pairs with a blank side'
    calibrated = MagicMock()
    monkeypatch.setattr(training, 'FEWEST', 1)
    monkeypatch.setattr(training, 'calibrate', calibrated)
    monkeypatch.setattr(training.Translator, 'from_run', lambda path: path)
    monkeypatch.setattr(training, 'say', lambda text: None)
    calibrated().num_sentences = 1
    training._calibrate(MagicMock(), replace(config, training=replace(config.training, calibrate_on=1)), prepared)
    ((languages, *_),) = calibrated.call_args.args[1]
    assert languages == {'source_language': 'en', 'target_language': 'de'}


def test_who_stops_the_calibration_still_has_pairs_of_the_training(folder: Path, monkeypatch) -> None:
    stopped = MagicMock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(training, '_calibrate', stopped)
    with pytest.raises(KeyboardInterrupt):
        training._finish(Run(folder), mixture(folder), None)
    assert len((folder / SAMPLE).read_text(encoding='utf-8').splitlines()) == 119  # one side is blank


def test_training_batches_mix_by_the_weights_with_the_tags_of_their_corpora(folder: Path) -> None:
    config = mixture(folder)
    weights = (1.0, 0.5, 2.5)
    corpora = tuple(replace(each, weight=w) for each, w in zip(config.data.mixture, weights, strict=True))
    config = replace(config, data=replace(config.data, mixture=corpora))
    prepared = prepare(config, None, folder / 'cache', say=lambda _: None)
    plan = training.TrainingData(config, prepared).plan
    rows = join_rows([plan.rows(block) for block in range(8)])
    counts = np.bincount(rows.corpora, minlength=3).tolist()
    assert counts == pytest.approx([8 * 119 * weight / 4 for weight in weights], abs=1)
    tags = [prepared.tokenizer.tag_id(language) for language in ('de', 'el', 'el')]
    assert all(rows.source.sentence(i)[0] == tags[corpus] for i, corpus in enumerate(rows.corpora))


def test_a_fault_in_a_validation_set_comes_before_any_corpus_is_tokenized(folder: Path, monkeypatch) -> None:
    (folder / 'validation.ru').write_text('\n' * 5)
    monkeypatch.setattr(cache, 'cached_pairs', lambda *_, **__: pytest.fail('tokenized'))
    with pytest.raises(UserError, match=r'each of the 5 pairs of validation\.\{lang\} has a blank side'):
        prepare(mixture(folder), None, folder / 'cache', say=lambda _: None)


def test_the_tokenizer_of_another_model_is_refused_by_field(folder: Path) -> None:
    config = mixture(folder)
    tokenizer = tokenizer_of(config)
    for part, name, value in (('model', 'vocab_size', 71), ('model', 'eos_id', 61), ('tokenizer', 'unk_id', 62)):
        other = replace(config, **{part: replace(getattr(config, part), **{name: value})})
        with pytest.raises(UserError, match=f'{part}.{name}={value}, but the tokenizer has {name} '):
            check_tokenizer(other, tokenizer)
    check_tokenizer(config, tokenizer)


# The cache of a run.


def digest_of(run: Path, config: Config) -> list[str]:
    return [pairs.fingerprint for pairs in prepare_run(config, Run(run)).corpora]


def test_a_fault_after_all_was_tokenized_keeps_that_and_the_run_can_begin_again(folder: Path, monkeypatch) -> None:
    config = mixture(folder)
    learned = replace(config.model, positions='learned', max_length=90)
    decoding = replace(config.decoding, max_source_tokens=32)
    with (folder / 'validation.ru').open('a') as russian, (folder / 'validation.el').open('a') as greek:
        russian.write('один ' * 99 + '\n')
        greek.write('ένα\n')
    with pytest.raises(UserError, match='leave it out of the set'):
        digest_of(folder / 'run', replace(config, model=learned, decoding=decoding))
    assert [file.name for file in (folder / 'run').iterdir()] == ['data_cache']
    monkeypatch.setattr(cache, '_write', lambda *_: pytest.fail('tokenized a second time'))
    assert len(digest_of(folder / 'run', config)) == 3


def test_runs_share_a_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = mixture(folder, cache=str(folder / 'shared'))
    first = digest_of(folder / 'one', config)
    monkeypatch.setattr(cache, '_write', lambda *_: pytest.fail('tokenized a second time'))
    assert digest_of(folder / 'two', replace(config, seed=7)) == first
    for name in ('one', 'two'):
        assert not (folder / name / 'data_cache').exists()


def test_terms_need_a_vocabulary_with_their_marks(folder: Path, tmp_path: Path) -> None:
    data = DataConfig(train='train.{lang}', validation='', test='', root=str(folder), terms=0.5)
    config = copy_config(folder)
    config = replace(config, data=data, model=replace(config.model, vocab_size=40))
    prepared = prepare(config, None, tmp_path / 'cache', say=lambda text: None)
    assert len(prepared.tokenizer.marks) == 3
    plain = train_tokenizer(replace(config, data=replace(data, terms=0.0)), [open_training(data.corpora[0], data)[0]])
    with pytest.raises(UserError, match='add_marks'):
        prepare(config, plain, tmp_path / 'cache', say=lambda text: None)
