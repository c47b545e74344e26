"""Accuracy on rt_polarity over ten folds.

`python benchmarks/rt_polarity.py FOLDER CONFIG [--field value ...] [--linear] [--whole]` prints lines of JSON.

The 10,662 sentences of train.tsv, val.tsv and test.tsv in $FLAX_TRANSFORMER_DATA/rt_polarity are shuffled by a seed and
cut in ten. A fold is tested on one part and trained on the other nine, of whose sentences every tenth chooses the
checkpoint. Each finished fold is a file in FOLDER, named by a hash of the config with the fields given, and is not run
again.

With --whole, as the linear models, a model learns from all nine parts, for as many steps as the config says.

With --linear the same folds go to two linear models of scikit-learn, which our extra `maps` brings. `naive_bayes` is
multinomial naive Bayes on words and pairs of words, each counted once a sentence, add-one smoothed; `nbsvm` is a linear
SVM (C = 1, squared hinge) on the same features times their log-count ratios, with weights drawn to their mean by beta =
1/4 (Wang and Manning 2012). Neither stops early: both learn from train.tsv and validation.tsv.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measuring import run

from flax_transformer.common.config_json import to_json
from flax_transformer.tasks.api import load_config

FOLDS, SEED = 10, 2005  # the year of Pang and Lee's sentences
BETA = 0.25
COMMAND = (sys.executable, '-m', 'flax_transformer', '--quiet')


def write_folds(data: Path, folder: Path) -> None:
    """Writes train, validation and test files of each fold, unless they are there."""
    lines = [
        line for name in ('train', 'val', 'test') for line in (data / f'{name}.tsv').read_text('utf-8').split('\n')
    ]
    lines = np.array([line for line in lines if line], object)
    parts = np.array_split(np.random.default_rng(SEED).permutation(len(lines)), FOLDS)
    for number, part in enumerate(parts):
        rest = np.concatenate([other for other in parts if other is not part])
        splits = {'test': part, 'validation': rest[::FOLDS], 'train': np.delete(rest, np.s_[::FOLDS]), 'whole': rest}
        fold = folder / f'{number}'
        fold.mkdir(parents=True, exist_ok=True)
        for name, chosen in splits.items():
            text = ''.join(f'{line}\n' for line in lines[chosen])
            file = fold / f'{name}.tsv'
            if not file.exists() or file.read_text('utf-8') != text:
                file.write_text(text, encoding='utf-8')


def ours(fold: Path, work: Path, config: str, fields: list[str], *, whole: bool) -> dict[str, Any]:
    """Trains and evaluates one fold with the commands that people use; a killed training is resumed."""
    files = {'train': 'whole' if whole else 'train', 'validation': '' if whole else 'validation', 'test': 'test'}
    data = [
        f'--data.{name}={fold.absolute() / file}.tsv' if file else f'--data.{name}=' for name, file in files.items()
    ]
    _, seconds = run(*COMMAND, 'train', config, '--workdir', work, *data, *fields)
    scores = json.loads(run(*COMMAND, 'evaluate', work, '--json', '--test', fold / 'test.tsv')[0])
    shutil.rmtree(work)
    return {'accuracy': scores['accuracy'], 'macro_f1': scores['macro_f1'], 'cpu_minutes': seconds / 60}


def linear(fold: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the scores of scikit-learn's models."""
    from sklearn.feature_extraction.text import CountVectorizer

    texts, labels = read(fold / 'whole.tsv')
    test_texts, test_labels = read(fold / 'test.tsv')
    words = CountVectorizer(ngram_range=(1, 2), binary=True, token_pattern=r'\S+', lowercase=False)
    train, test = words.fit_transform(texts).astype(float), words.transform(test_texts).astype(float)
    for model in (naive_bayes, nbsvm):
        started = time.process_time()
        accuracy = float((model(train, labels, test) == test_labels).mean())
        yield model.__name__, {'accuracy': accuracy, 'cpu_minutes': (time.process_time() - started) / 60}


def read(file: Path) -> tuple[list[str], np.ndarray]:
    """Returns texts and labels, 0 and 1."""
    rows = [line.split('\t') for line in file.read_text(encoding='utf-8').split('\n')[:-1]]
    return [text for _, text in rows], np.array([int(label) for label, _ in rows])


def naive_bayes(train: Any, labels: np.ndarray, test: Any) -> np.ndarray:
    from sklearn.naive_bayes import MultinomialNB

    return MultinomialNB(alpha=1.0).fit(train, labels).predict(test)


def nbsvm(train: Any, labels: np.ndarray, test: Any) -> np.ndarray:
    from sklearn.svm import LinearSVC

    counts = [np.asarray(train[labels == each].sum(axis=0)).ravel() + 1 for each in (1, 0)]
    ratios = np.log(counts[0] / counts[0].sum()) - np.log(counts[1] / counts[1].sum())
    svm = LinearSVC(C=1.0).fit(train.multiply(ratios).tocsr(), labels)
    weights = svm.coef_.ravel()
    weights = (1 - BETA) * np.abs(weights).mean() + BETA * weights
    return (test.multiply(ratios).tocsr() @ weights + svm.intercept_[0] > 0).astype(int)


def summary(name: str, folds: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean, standard deviation over the folds, and each fold, in per cent."""
    accuracies = [100 * fold['accuracy'] for fold in folds]
    return {
        'model': name,
        'accuracy': round(statistics.mean(accuracies), 2),
        'deviation': round(statistics.stdev(accuracies), 2) if len(folds) > 1 else None,
        'folds': [round(accuracy, 1) for accuracy in accuracies],
        'cpu_minutes_a_fold': round(statistics.mean(fold['cpu_minutes'] for fold in folds), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=Path)
    parser.add_argument('config', nargs='?', help='a config file or a shipped config; the fields after it are its own')
    parser.add_argument('--linear', action='store_true', help="scikit-learn's models, too")
    parser.add_argument('--whole', action='store_true', help='train on all nine parts, without validation')
    parser.add_argument('--folds', type=int, default=FOLDS, help='how many of the ten')
    options, fields = parser.parse_known_args()
    data = Path(os.environ.get('FLAX_TRANSFORMER_DATA', 'data')) / 'rt_polarity'
    write_folds(data, options.folder / 'folds')
    found: dict[str, list[dict[str, Any]]] = {}
    given = [*fields, *['--whole'] * options.whole]
    meant = [to_json(load_config(options.config)), *given] if options.config else []
    model = f'{Path(options.config or "").stem}-{hashlib.sha256(json.dumps(meant).encode()).hexdigest()[:8]}'
    for number in range(options.folds):
        fold = options.folder / 'folds' / f'{number}'
        if options.linear:
            for name, score in linear(fold):
                found.setdefault(name, []).append(score)
        if options.config:
            file = options.folder / f'{model}.{number}.json'
            if not file.exists():
                score = ours(fold, options.folder / f'{model}.{number}', options.config, fields, whole=options.whole)
                file.write_text(json.dumps({'config': options.config, 'fields': given, **score}) + '\n')
            found.setdefault(' '.join([Path(options.config).stem, *given]), []).append(json.loads(file.read_text()))
    for name, folds in found.items():
        print(json.dumps(summary(name, folds)))


if __name__ == '__main__':
    main()
