"""Every fault of labeled texts is found, one message each, with its place; sound texts have none."""

import json
from pathlib import Path

import pytest

from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.data.audit.report import Finding
from flax_transformer.tasks.classification.config import ClassificationConfig, ClassificationDataConfig
from flax_transformer.tasks.classification.corpus_checks import audit
from flax_transformer.tasks.classification.reading import Examples

CONFIG = ClassificationConfig(data=ClassificationDataConfig(max_length=8))
SOUND = [('pos' if i % 2 else 'neg', f'text number {i}') for i in range(40)]


def examples(rows: list[tuple[str, str]]) -> Examples:
    labels, texts = map(list, zip(*rows, strict=True))
    return Examples(texts, labels, [f'a.tsv:{i + 1}' for i in range(len(rows))])


def found(train: list[tuple[str, str]], **others) -> dict[str, Finding]:
    corpora = {'train': examples(train), **{name: examples(rows) for name, rows in others.items()}}
    report = audit(corpora, CONFIG)
    assert len({(each.corpus, each.kind) for each in report.findings}) == len(report.findings)
    return {each.kind: each for each in report.findings}


def others(start: int, count: int = 40) -> list[tuple[str, str]]:
    return [('pos' if i % 2 else 'neg', f'text number {i}') for i in range(start, start + count)]


def test_sound_texts_have_no_findings() -> None:
    assert found(SOUND, validation=others(100), test=others(200)) == {}


@pytest.mark.parametrize(
    ('kind', 'severity', 'count', 'place', 'rows'),
    [
        ('blank', 'note', 1, 401, [*others(0, 400), ('pos', '')]),
        ('too_long', 'note', 1, 41, [*SOUND, ('pos', 'one two three four five six seven eight nine')]),
        ('duplicate', 'note', 1, 41, [*SOUND, ('pos', 'Text  NUMBER 1')]),
        ('duplicate', 'warning', 20, 41, [*SOUND, *SOUND[:20]]),
        ('contradiction', 'warning', 1, 41, [*SOUND, ('neg', 'text number 1 ')]),
        ('quoted', 'warning', 1, 41, [*SOUND, ('neg', '"say ""no"""')]),
        ('quoted', 'warning', 1, 41, [*SOUND, ('"neg"', '"no"')]),
        ('mojibake', 'warning', 1, 41, [*SOUND, ('neg', 'caf\ufffd')]),
        ('control', 'warning', 1, 41, [*SOUND, ('neg', 'a \x97 b')]),
        ('entity', 'warning', 1, 41, [*SOUND, ('neg', 'a<br />b')]),
        ('one_label', 'error', 20, 1, SOUND[::2]),
        ('few_examples', 'warning', 1, 41, [*SOUND, *[('odd', f'another {i}') for i in range(9)]]),
        ('imbalance', 'warning', 220, None, [*others(0, 40), *[('pos', f'more {i}') for i in range(200)]]),
        ('few_examples', 'warning', 1, 1, [('label', 'text'), *SOUND]),
        ('swapped_columns', 'error', 40, 1, [(f'word{i}', label) for i, (label, _) in enumerate(SOUND)]),
    ],
)
def test_a_fault_of_the_training_texts_is_found(kind, severity, count, place, rows) -> None:
    finding = found(rows)[kind]
    assert (finding.severity, finding.count) == (severity, count)
    assert [each['place'] for each in finding.examples[:1]] == ([] if place is None else [f'a.tsv:{place}'])


@pytest.mark.parametrize('rows', [[('a', 'b'), ('c', 'd')], [('sci fi', 'alien'), ('sci fi', 'dune'), ('war', 'ran')]])
def test_short_texts_are_not_taken_for_labels(rows) -> None:
    assert 'swapped_columns' not in found(rows)


def test_swapped_columns_are_the_only_message_about_labels() -> None:
    findings = found([(text, label) for label, text in SOUND])
    assert next(iter(findings)) == 'swapped_columns'
    assert not {'few_examples', 'unknown_label'} & set(findings)
    assert "--data.train 'FILE.tsv#2,1'" in str(findings['swapped_columns'])


def test_faults_between_the_corpora_are_found() -> None:
    unknown = [('pos', 'new'), ('postive', 'newer'), ('x', 'newest')]
    findings = found(SOUND, validation=unknown, test=[*unknown, ('neg', 'TEXT number 3')])
    assert findings['unknown_label'].severity == 'error'
    assert "'postive' (1) Did you mean pos?, 'x' (1); training has 'neg', 'pos'" in findings['unknown_label'].detail
    assert (findings['unknown_test_label'].severity, findings['unknown_test_label'].count) == ('warning', 2)
    assert (findings['validation_is_test'].count, findings['validation_is_test'].corpus) == (3, 'test')
    assert (findings['leaked'].count, findings['leaked'].examples[0]['place']) == (1, 'a.tsv:4')
    assert found(SOUND, test=SOUND)['test_is_training'].count == 40


def test_training_stops_at_errors_and_says_warnings_in_a_line() -> None:
    said: list[str] = []
    audit({'train': examples([*SOUND, ('odd', ' ')])}, CONFIG).announce(said.append)
    assert said[0] == "warning: train: few_examples: 1: 'odd' (1)"
    assert said[3].startswith('checked train (41): 0 errors, 3 warnings, 0 notes')
    with pytest.raises(UserError, match=r"^error: train: one_label.*\n.*\n  the label is 'neg'"):
        audit({'train': examples(SOUND[::2])}, CONFIG).announce(said.append)


def test_the_command_checks_a_classification_config(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, rows in {'train': SOUND, 'test': others(100, 10)}.items():
        Path(f'{name}.tsv').write_text(''.join(f'{label}\t{text}\n' for label, text in rows))
    Path('mine.yaml').write_text('task: classification\ndata: {train: train.tsv, test: test.tsv, root: .}\n')
    assert main(['check', 'mine.yaml', '--strict']) == 0
    assert 'checked train (40), test (10): 0 errors, 0 warnings, 0 notes' in capsys.readouterr().out
    assert main(['check', 'mine.yaml', '--json', '--data.test', 'train.tsv', '--strict']) == 1
    report = json.loads(capsys.readouterr().out)
    assert report['texts'] == {'train': 40, 'test': 40}
    assert [finding['kind'] for finding in report['findings']] == ['test_is_training']
    assert report['findings'][0]['examples'][0] == {'place': 'train.tsv:1', 'label': 'neg', 'text': 'text number 0'}
    assert main(['check', 'mine.yaml', '--data.test', 'none.tsv']) == 2
    assert 'none.tsv does not exist' in capsys.readouterr().err
