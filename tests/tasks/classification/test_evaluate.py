"""`flax-transformer evaluate` on a classifier: its scores, in text and in JSON, on test sets that may be read."""

import json
from pathlib import Path

import numpy as np

from flax_transformer import Classifier
from flax_transformer.cli import main

HARD = [
    'pos\tthe film is dull',
    'neg\tlovely',
    'pos\tgood',
    'mixed\tgood plot , bad film',
    'neg\t',
    'neg\tunseen words',
]


def call(capsys, *argv) -> str:
    assert not main(['evaluate', *map(str, argv)])
    return capsys.readouterr().out


def test_the_test_set_of_the_run_is_scored(tiny_classifier: Path, texts_folder: Path, capsys) -> None:
    out = call(capsys, tiny_classifier)
    lines = [line.split('\t') for line in (texts_folder / 'test.tsv').read_text().splitlines()]
    given = [each.label for each in Classifier.from_run(tiny_classifier)([text for _, text in lines])]
    right = np.mean([label == each for (label, _), each in zip(lines, given, strict=True)])
    assert f'test.tsv: {len(lines)} texts\naccuracy           {right:.2%}' in out
    assert 'macro-F1 ' in out
    assert '(15 bins)' in out
    assert 'true  neg  pos\n' in out


def test_hard_texts_are_shown_with_what_was_given(tiny_classifier: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path('hard.tsv').write_text(''.join(f'{line}\n' for line in HARD))
    found = json.loads(call(capsys, tiny_classifier, '--test', 'hard.tsv', '--json', '--examples', 2))
    assert (found['set'], found['num_texts'], found['labels']) == ('hard.tsv', 6, ['neg', 'pos', 'mixed'])
    assert found['confusion'][0][1] >= 1
    assert sum(map(sum, found['confusion'])) == 6
    assert found['confusion'][2][2] == 0  # a label that it cannot give
    assert found['accuracy'] <= 3 / 6
    assert found['flags'] == {'empty': 1, 'truncated': 0, 'unknown': 1}
    first, second = found['most_wrong']
    assert (first['place'], first['label'], first['probability'] > 0.5) == ('hard.tsv:4', 'mixed', True)
    assert second['place'] in ('hard.tsv:1', 'hard.tsv:2')
    out = call(capsys, tiny_classifier, '--test', 'hard.tsv', '--examples', 1)
    assert out.startswith(f'hard.tsv:4: mixed, got {first["given"]} with ')
    assert 'without a token, given the shares of the labels in the training data: 1\n' in out
    assert call(capsys, tiny_classifier, '--test', 'hard.tsv', '--examples', 0).startswith('hard.tsv: 6 texts')


def test_mistakes_are_one_message(tiny_classifier: Path, capsys, tmp_path: Path) -> None:
    (tmp_path / 'empty.tsv').touch()
    for argv, message in {
        (f'{tiny_classifier}@last',): 'got 2 runs, expected one',
        ('--examples', '-1'): '--examples -1: expected at least 0',
        ('--test', f'{tmp_path}/none.tsv'): 'none.tsv does not exist',
        ('--test', f'{tmp_path}/empty.tsv'): 'empty.tsv is empty; expected at least one labeled text',
        ('--data.test', ''): 'has no test set (data.test is empty); give --test FILE',
    }.items():
        assert main(['evaluate', str(tiny_classifier), *argv]) == 2
        assert message in capsys.readouterr().err
