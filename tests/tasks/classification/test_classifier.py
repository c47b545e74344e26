"""Classifier: labels for lines, whatever the lines and their company."""

from pathlib import Path

import pytest

from flax_transformer import Classifier


@pytest.fixture(scope='module')
def classifier(tiny_classifier: Path) -> Classifier:
    return Classifier.from_run(tiny_classifier)


def test_it_tells_good_from_bad(classifier: Classifier, texts_folder: Path) -> None:
    labels, texts = zip(
        *(line.split('\t') for line in (texts_folder / 'test.tsv').read_text().splitlines()), strict=True
    )
    found = classifier(texts)
    assert [each.label for each in found] == list(labels)
    assert all(each.probability > 0.9 and not each.flags for each in found)
