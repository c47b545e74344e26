"""Linear classifiers of word pairs, for `rt_polarity.py`; run by an interpreter that has scikit-learn.

python linear_sentiment.py FOLD writes a line of JSON per model: its share of right answers on FOLD/test.tsv.

`naive_bayes` is multinomial naive Bayes on words and pairs of words, each counted once a sentence, add-one smoothed;
`nbsvm` is a linear SVM (C = 1, squared hinge) on the same features times their log-count ratios, with weights drawn to
their mean by beta = 1/4 (Wang and Manning 2012). Neither stops early: both learn from train.tsv and validation.tsv.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.svm import LinearSVC

BETA = 0.25


def read(*files: Path) -> tuple[list[str], np.ndarray]:
    """Texts and labels, 0 and 1."""
    rows = [line.split('\t') for file in files for line in file.read_text(encoding='utf-8').split('\n')[:-1]]
    return [text for _, text in rows], np.array([int(label) for label, _ in rows])


def naive_bayes(train, labels, test):
    return MultinomialNB(alpha=1.0).fit(train, labels).predict(test)


def nbsvm(train, labels, test):
    counts = [np.asarray(train[labels == each].sum(axis=0)).ravel() + 1 for each in (1, 0)]
    ratios = np.log(counts[0] / counts[0].sum()) - np.log(counts[1] / counts[1].sum())
    svm = LinearSVC(C=1.0).fit(train.multiply(ratios).tocsr(), labels)
    weights = svm.coef_.ravel()
    weights = (1 - BETA) * np.abs(weights).mean() + BETA * weights
    return (test.multiply(ratios).tocsr() @ weights + svm.intercept_[0] > 0).astype(int)


def main() -> None:
    fold = Path(sys.argv[1])
    texts, labels = read(fold / 'train.tsv', fold / 'validation.tsv')
    test_texts, test_labels = read(fold / 'test.tsv')
    words = CountVectorizer(ngram_range=(1, 2), binary=True, token_pattern=r'\S+', lowercase=False)
    train, test = words.fit_transform(texts).astype(float), words.transform(test_texts).astype(float)
    for model in (naive_bayes, nbsvm):
        started = time.process_time()
        accuracy = float((model(train, labels, test) == test_labels).mean())
        print(json.dumps({'model': model.__name__, 'accuracy': accuracy, 'seconds': time.process_time() - started}))


if __name__ == '__main__':
    main()
