"""Classifier: labels for lines, whatever the lines and their company."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from flax_transformer import Classifier
from flax_transformer.common.errors import UserError
from flax_transformer.tasks.api import load_run
from flax_transformer.tasks.classification.config import ClassificationConfig, ClassifierConfig, VocabularyConfig
from flax_transformer.tasks.classification.run import Run
from flax_transformer.tasks.classification.vocabulary import UNK_ID, Vocabulary, words_and_punctuation


@pytest.fixture(scope='module')
def classifier(tiny_classifier: Path) -> Classifier:
    return Classifier.from_run(tiny_classifier)


def test_it_tells_good_from_bad(classifier: Classifier, texts_folder: Path) -> None:
    labels, texts = zip(
        *(line.split('\t') for line in (texts_folder / 'test.tsv').read_text().splitlines()), strict=True
    )
    found = classifier(texts)
    assert [each.label for each in found] == list(labels)
    assert all(each.probability > 0.8 and not each.flags for each in found)


def test_a_line_gets_the_same_numbers_in_any_company(classifier: Classifier) -> None:
    """To the bit: alone, among many, among lines of other lengths."""
    lines = ['good', 'a film', 'the plot is dull , poor', 'is was ' * 7, 'fine ' * 90, '']
    crowd = [f'{line} bad' for line in lines * 12]
    found = classifier([*lines, *crowd, *lines])
    assert found[: len(lines)] == found[-len(lines) :] == [classifier(line) for line in lines]
    np.testing.assert_array_equal(
        classifier.probabilities(lines), [list(each.probabilities.values()) for each in found[: len(lines)]]
    )
    assert list(classifier.stream(iter(lines), chunk=4)) == found[: len(lines)]
    assert classifier([]) == []


def test_an_empty_line_gets_the_shares_of_the_training_data(classifier: Classifier, tiny_classifier: Path) -> None:
    for text in ('', ' \t', b'  '):
        found = classifier(text)
        assert found.flags == ('empty',)
        counts = Run(tiny_classifier).read_labels().counts
        assert tuple(found.probabilities.values()) == pytest.approx(np.array(counts) / sum(counts))


def test_what_was_cut_unknown_or_replaced_is_flagged(classifier: Classifier) -> None:
    assert classifier('good ' * 16).flags == ()
    assert classifier('good ' * 16 + 'bad').flags == ('truncated',)
    assert classifier('good ' * 16 + 'bad').probabilities == classifier('good ' * 16).probabilities
    assert classifier('xx yy').flags == ('unknown',)
    assert classifier('xx good').flags == ()
    assert classifier(b'good \xff').flags == classifier('good \ud800').flags == ('replaced',)
    assert classifier('Good FILM').flags == ()  # lower-cased
    with pytest.raises(TypeError, match='got a line of type int'):
        classifier([3])


def test_parameters_that_are_no_numbers_are_reported(classifier: Classifier, tiny_classifier: Path) -> None:
    config, params, vocabulary, labels, _ = load_run(tiny_classifier)
    broken = jax.tree.map(lambda x: x * np.nan, params)
    with pytest.raises(UserError, match='computes no numbers'):
        Classifier(config.model, broken, vocabulary, labels, max_length=16)(['good'])


def test_logits_are_divided_by_the_temperature_of_the_checkpoint(tiny_classifier: Path, tmp_path: Path) -> None:
    """For a mean of checkpoints by their geometric mean; by 1 in a run that has none."""
    run = Path(shutil.copytree(tiny_classifier, tmp_path / 'run'))
    config, params, vocabulary, labels, temperature = load_run(f'{run}@60')
    lines = ['the plot is dull']
    plain = Classifier(config.model, params, vocabulary, labels, max_length=16).probabilities(lines)
    expected = plain ** (1 / temperature)
    found = Classifier.from_run(f'{run}@60').probabilities(lines)
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-5)
    both = [load_run(f'{run}@{which}').temperature for which in ('30', '60')]
    assert load_run(f'{run}@average').temperature == pytest.approx(np.sqrt(both[0] * both[1]))
    for file in run.glob('checkpoints/*/metrics/metrics'):
        file.write_text('{"validation_accuracy": 1.0}')
        (file.parents[1] / 'manifest.json').unlink()
    assert (1 in both, load_run(run).temperature) == (False, 1)


def test_punctuation_is_a_word_of_its_own_unless_the_vocabulary_is_of_words(tmp_path: Path) -> None:
    spaced = "« Où va-t-il ? » ' It's 1,000.50 at 10:30 ' ... हिन्दी , e\u0301te\u0301"  # marks are parts of words
    assert words_and_punctuation("«Où va-t-il ?»'It's 1,000.50 at 10:30'... हिन्दी, e\u0301te\u0301") == spaced.split()
    for algorithm, expected in (('words_and_punctuation', ['aspen', '?']), ('words', ['<unk>'])):
        Vocabulary.learn(['Aspen ?'], VocabularyConfig(algorithm=algorithm), 10).save(tmp_path / algorithm)
        found = Vocabulary.load(tmp_path / algorithm)
        assert found.tokens(found.encode(['Aspen?'])[0]) == expected


def test_a_checkpoint_can_be_chosen(tiny_classifier: Path) -> None:
    chosen = [Classifier.from_run(f'{tiny_classifier}@{which}')('the plot is dull') for which in ('30', 'last')]
    assert chosen[0].probability < chosen[1].probability
    with pytest.raises(UserError, match='names a checkpoint, and so does step=60'):
        Classifier.from_run(f'{tiny_classifier}@30', step=60)


@pytest.mark.parametrize('file', ['labels.json', 'tokenizer/words.txt'])
def test_a_run_without_a_file_or_with_a_damaged_one_is_refused(
    file: str, tiny_classifier: Path, tmp_path: Path
) -> None:
    run = tmp_path / 'run'
    shutil.copytree(tiny_classifier, run)
    content = (run / file).read_text()
    (run / file).write_text(content[: len(content) // 2])
    with pytest.raises(UserError, match=r'damaged'):
        Classifier.from_run(run)
    (run / file).unlink()
    with pytest.raises(UserError, match=rf'{file} is missing'):
        Classifier.from_run(run)


def test_labels_that_are_counted_without_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / 'labels.json').write_text('{"names": ["a"], "counts": [Infinity]}')
    with pytest.raises(UserError, match=r'labels.json is damaged \(cannot convert float infinity'):
        Run(tmp_path).read_labels()


def test_pieces_instead_of_words(texts_folder: Path, tmp_path: Path) -> None:
    texts = [line.split('\t')[1] for line in (texts_folder / 'train.tsv').read_text('utf-8').splitlines()]
    for algorithm in ('bpe', 'unigram'):
        vocabulary = Vocabulary.learn(texts, VocabularyConfig(algorithm), 285)
        vocabulary.save(tmp_path / algorithm)
        loaded = Vocabulary.load(tmp_path / algorithm)
        assert loaded.encode(['Good films', '']) == vocabulary.encode(['good films', ''])
        assert loaded.encode(['', ' ']) == [[], []]
        assert (loaded.size, loaded.digest) == (285, vocabulary.digest)
        assert UNK_ID not in loaded.encode(['über'])[0]  # spelled in bytes


def test_ngrams_are_tokens(tmp_path: Path) -> None:
    vocabulary = Vocabulary.learn(['not a good film', 'not good', 'a good film'], VocabularyConfig(ngrams=3), 100)
    vocabulary.save(tmp_path)
    for each in (vocabulary, Vocabulary.load(tmp_path)):
        (ids,) = each.encode(['Not a good play'])
        assert each.tokens(ids) == ['not', 'a', 'not a', 'good', 'a good', 'not a good', '<unk>']  # no unknown pairs
    with pytest.raises(UserError, match=r"ngrams=2 needs .* got algorithm='bpe'"):
        VocabularyConfig('bpe', ngrams=2)
    with pytest.raises(UserError, match=r"expected model.encoder='average' or 'linear', got 'recurrent'"):
        ClassificationConfig(model=ClassifierConfig(encoder='recurrent'), tokenizer=VocabularyConfig(ngrams=2))
