"""What `data.held_out` takes out: as many as asked, the same ones each time, and nothing that training has, too."""

import copy
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.data.audio.corpus import Corpus, Recording
from flax_transformer.data.audit.cleaning import clean
from flax_transformer.data.audit.config import CheckConfig, Vocabulary
from flax_transformer.data.bitext.config import CorpusConfig, DataConfig
from flax_transformer.data.bitext.sources import open_training, read_corpus, read_validation
from flax_transformer.data.held_out import held_out_rows, repeated_or_empty
from flax_transformer.tasks.classification.config import ClassificationDataConfig
from flax_transformer.tasks.classification.corpus_checks import read_corpora
from flax_transformer.tasks.embeddings.config import EmbeddingsConfig, EmbeddingsModelConfig, TextConfig
from flax_transformer.tasks.embeddings.corpus import texts_of
from flax_transformer.tasks.speech import examples
from flax_transformer.tasks.speech.config import SpeechDataConfig
from flax_transformer.tasks.trigger_word.config import TriggerWordDataConfig
from flax_transformer.tasks.trigger_word.scenes import Clip, split
from flax_transformer.text.tokenizer import TokenizerConfig

TEXTS = [f'text {number}' for number in range(100)]


def test_equal_texts_stay_together_and_a_longer_corpus_keeps_what_was_held_out() -> None:
    rows = held_out_rows('x', 10, [*TEXTS, *TEXTS])
    assert sum(rows) == 10
    assert (rows[:100] == rows[100:]).all()
    held_out = {text for text, is_out in zip(TEXTS, held_out_rows('x', 5, TEXTS), strict=True) if is_out}
    more = held_out_rows('x', 6, TEXTS[::-1])
    assert held_out < {text for text, is_out in zip(TEXTS[::-1], more, strict=True) if is_out}
    assert not held_out_rows('x', 4, [' ', *TEXTS])[0]
    assert held_out_rows('x', 2, ['A b', 'a  B', *'cde']).tolist()[:2] in ([False, False], [True, True])


def test_pairs_that_share_a_side_with_one_another_are_a_group() -> None:
    sources, targets = [*'aabcdefg'], [*'xyyzuvwt']  # the first three hang together: a-x, a-y, b-y
    for count in (1, 2, 3, 4):
        rows = held_out_rows('x', count, sources, targets)
        assert sum(rows) == count
        assert not rows[:3].any()
    with pytest.raises(UserError, match='cannot hold out 6 of 8 examples, but 5 at most'):
        held_out_rows('x', 6, sources, targets)


def test_each_label_gives_its_share_and_keeps_a_text() -> None:
    labels = [*'a' * 50, *'b' * 40, *'c' * 9, 'd']
    rows = held_out_rows('x', 20, TEXTS, labels=labels)
    counts = {label: sum(rows[i] for i in range(100) if labels[i] == label) for label in 'abcd'}
    assert counts == {'a': 10, 'b': 8, 'c': 2, 'd': 0}
    assert sum(held_out_rows('x', 96, TEXTS, labels=labels)) == 96
    with pytest.raises(UserError, match='but 96 at most'):
        held_out_rows('x', 97, TEXTS, labels=labels)
    assert repeated_or_empty([*'abac']) == ['a', '', 'a', '']


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    """Three corpora of the same 60 pairs: aligned packed files in two parts, a table, and JSON."""
    pairs = [(f'source {number}', f'target {number}') for number in range(60)]
    for part, own in enumerate((pairs[:25], pairs[25:])):
        for side, language in enumerate(('en', 'de')):
            text = ''.join(f'{pair[side]}\n' for pair in own)
            (tmp_path / f'{part}.{language}.gz').write_bytes(gzip.compress(text.encode()))
    (tmp_path / 'pairs.tsv').write_text(''.join(f'{source}\t{target}\n' for source, target in pairs))
    (tmp_path / 'pairs.jsonl').write_text(''.join(f'{{"en": "{s}", "de": "{t}"}}\n' for s, t in pairs))
    return tmp_path


def test_every_form_of_a_corpus_is_split_alike_and_places_are_those_of_the_files(corpora: Path) -> None:
    found = []
    for name in ('*.{lang}.gz', 'pairs.tsv', 'pairs.jsonl'):
        data = DataConfig(train=name, held_out=6, root=str(corpora))
        (corpus,) = data.corpora
        assert corpus.has_validation
        train, held_out = open_training(corpus, data)
        both = train.read(), held_out.read()
        assert sorted(both[0].sources + both[1].sources) == sorted(read_corpus(name, data).sources)
        assert read_validation(corpus, data) == both[1]
        found.append(both)
        assert held_out.settings != train.settings or held_out.name != train.name
        if name == '*.{lang}.gz':
            next(held_out.records())  # the train part still knows where its last pair is
            assert Path(train.place(len(both[0]) - 1, 1).partition(',')[0]).name == '1.de.gz'
        if name == 'pairs.tsv':
            for part, pairs in ((train, both[0]), (held_out, both[1])):
                copy.copy(part).read()
                lines = [int(source.split()[1]) + 1 for source in pairs.sources]
                assert [part.place(i, 0).rpartition(' ')[2] for i in range(len(lines))] == list(map(str, lines))
    assert found[0] == found[1] == found[2]
    assert len(found[0][1]) == 6


def test_a_fault_is_where_it_is_in_the_file(corpora: Path) -> None:
    with (corpora / 'pairs.tsv').open('a') as file:
        file.write('alone\n')
    data = DataConfig(train='pairs.tsv', held_out=6, root=str(corpora))
    with pytest.raises(UserError, match='line 61: there is no target'):
        open_training(*data.corpora, data)[0].read()


def test_clean_keeps_what_training_holds_out(corpora: Path) -> None:
    data = DataConfig(train='pairs.tsv', held_out=6, root=str(corpora))
    (cleaned,), _ = clean(data, CheckConfig(), Vocabulary(100, TokenizerConfig()), corpora / 'out')
    assert cleaned.kept + sum(cleaned.rejected.values()) == 60


def test_each_corpus_of_a_mixture_has_its_own_and_two_validation_sets_are_refused(corpora: Path) -> None:
    parts = (CorpusConfig('one', 'pairs.tsv', held_out=3), CorpusConfig('two', 'pairs.jsonl', 'pairs.tsv'))
    data = DataConfig(mixture=parts, root=str(corpora))
    assert [len(read_validation(corpus, data)) for corpus in data.corpora] == [3, 60]
    for wrong in (
        lambda: replace(data, held_out=3),
        lambda: CorpusConfig('one', 'pairs.tsv', 'pairs.tsv', held_out=3),
        lambda: DataConfig(train='pairs.tsv', validation='pairs.tsv', held_out=3),
        lambda: DataConfig(held_out=3),  # the generated corpus has a validation set
        lambda: DataConfig(train='pairs.tsv', held_out=-1),
        lambda: ClassificationDataConfig(validation='valid.tsv', held_out=3),
        lambda: SpeechDataConfig(validation='valid.tsv', held_out=3),
        lambda: TextConfig(validation='valid.txt', held_out=3),
        lambda: TriggerWordDataConfig(validation=('valid.tsv',), held_out=3),
        lambda: EmbeddingsConfig(model=EmbeddingsModelConfig(method='glove'), data=TextConfig(held_out=3)),
    ):
        with pytest.raises(UserError, match='held_out'):
            wrong()


def test_texts_with_labels_and_lines_of_words_are_split(tmp_path: Path) -> None:
    (tmp_path / 'train.tsv').write_text(''.join(f'{number % 2}\t{text}\n' for number, text in enumerate(TEXTS)))
    found = read_corpora(ClassificationDataConfig(held_out=10, root=str(tmp_path)))
    assert [*found] == ['train', 'validation']
    assert sorted(found['train'].texts + found['validation'].texts) == sorted(TEXTS)
    assert sorted(found['validation'].labels) == ['0'] * 5 + ['1'] * 5
    (tmp_path / 'train.txt').write_text('\n'.join([*TEXTS, *TEXTS]) + '\n')
    texts = texts_of(TextConfig(held_out=10, root=str(tmp_path)))
    train, validation = (list(texts[name].lines()) for name in ('train', 'validation'))
    assert sorted(train + validation) == sorted([*TEXTS, *TEXTS])
    assert len(validation) == 10
    assert not set(train) & set(validation)


def test_segments_of_a_recording_and_copies_of_a_clip_stay_together() -> None:
    known = [Recording(text, '', f'x:{i}', 1) for i, text in enumerate('aabbccddee' * 2)]
    files = [f'/some/folder/{i // 2}.wav' for i in range(20)]
    corpus = Corpus('x', known, lambda i: np.array([i]), files)
    rest, held_out = examples.split(corpus, 4)
    places = {recording.place for recording in held_out.recordings}
    assert len(places) == held_out.count == 4
    assert rest.count == 16
    assert not {int(place[2:]) // 2 for place in places} & {int(each.place[2:]) // 2 for each in rest.recordings}
    moved = replace(corpus, files=[file.replace('some', 'another') for file in files])
    assert {recording.place for recording in examples.split(moved, 4)[1].recordings} == places
    clips = [Clip(np.full(3, i // 2, np.float32), 'ab'[i // 20], 0, 3, f'{i}') for i in range(40)]
    rest, held_out = split(clips, TriggerWordDataConfig(held_out=8))
    assert [len(rest), len(held_out)] == [32, 8]
    assert {clip.text for clip in held_out} == {'a', 'b'}
    assert not {clip.samples[0] for clip in held_out} & {clip.samples[0] for clip in rest}
