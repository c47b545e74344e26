"""Accuracy on rt_polarity over ten folds: `python benchmarks/rt_polarity.py FOLDER CONFIG [--field value ...]
[--linear PYTHON] [--whole]`; lines of JSON.

The 10,662 sentences of train.tsv, val.tsv and test.tsv in $FLAX_TRANSFORMER_DATA/rt_polarity are shuffled by a seed and
cut in ten. A fold is tested on one part and trained on the other nine, of whose sentences every tenth validates: it
stops training and chooses the checkpoint. Each finished fold is a file in FOLDER, named by a hash of the config with
the fields given, and is not run again.

With --whole, as the linear models, a model learns from all nine parts, for as many steps as the config says.

PYTHON has scikit-learn: it runs `linear_sentiment.py` on the same folds.
"""

import argparse
import hashlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.common.config_json import to_json
from flax_transformer.tasks.find import load_config

FOLDS, SEED = 10, 2005  # the year of Pang and Lee's sentences
HERE = Path(__file__).parent


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
    command = [sys.executable, '-m', 'flax_transformer', '--quiet']
    files = {'train': 'whole' if whole else 'train', 'validation': '' if whole else 'validation', 'test': 'test'}
    data = [
        f'--data.{name}={fold.absolute() / file}.tsv' if file else f'--data.{name}=' for name, file in files.items()
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, 'train', config, '--workdir', str(work), *data, *fields], check=True, stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command, 'evaluate', str(work), '--json', '--test', str(fold / 'test.tsv')],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    scores = json.loads(done.stdout)
    minutes = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 60
    shutil.rmtree(work)
    return {'accuracy': scores['accuracy'], 'macro_f1': scores['macro_f1'], 'cpu_minutes': minutes}


def linear(fold: Path, python: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The scores of scikit-learn's models."""
    done = subprocess.run(
        [python, str(HERE / 'linear_sentiment.py'), str(fold)], check=True, stdout=subprocess.PIPE, text=True
    )
    for line in done.stdout.splitlines():
        score = json.loads(line)
        yield score['model'], {'accuracy': score['accuracy'], 'cpu_minutes': score['seconds'] / 60}


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
    parser.add_argument('--linear', metavar='PYTHON', help='an interpreter with scikit-learn')
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
            for name, score in linear(fold, options.linear):
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
