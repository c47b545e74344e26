"""`flax-transformer classify`: N lines in, N lines out, whatever the lines."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TESTS

from flax_transformer.cli import main

Call = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def call(tiny_classifier: Path, call_command: Callable) -> Call:
    """A function that labels lines: (exit code, lines of standard output, standard error)."""

    def run(content: bytes, *options: str, run: Path = tiny_classifier) -> tuple[int, list[str], str]:
        code, output, error = call_command('classify', run, *options, text=content)
        return code, output.splitlines(), error

    return run


def test_each_line_gets_a_label_and_its_probability(call: Call) -> None:
    code, lines, err = call(b'the film is good\nthe plot was bad , a poor film\r\n\nqx\n' + b'fine ' * 20)
    assert code == 0
    labels, probabilities = zip(*(line.split('\t') for line in lines), strict=True)
    assert labels[:2] == ('pos', 'neg')
    assert labels[4] == 'pos'
    assert all(float(probabilities[i]) > 0.9 for i in (0, 1, 4))
    assert len(err.splitlines()) == 3  # empty, cut, without a word that is known


def test_json_has_all_probabilities_and_flags_and_the_fields_that_came_in(call: Call) -> None:
    content = b'{"id": 7, "text": "a good film"}\n"bad"\n\n{"text": "\\ud800 fine"}\n'
    code, lines, _ = call(content, '--format', 'jsonl', '--input-format', 'jsonl')
    assert code == 0
    good, bad, empty, odd = map(json.loads, lines)
    assert (good['id'], good['text'], good['label'], good['flags']) == (7, 'a good film', 'pos', [])
    assert good['probabilities']['pos'] == good['probability'] > 0.9
    assert sum(good['probabilities'].values()) == pytest.approx(1)
    assert bad['label'] == 'neg'
    assert empty['flags'] == ['empty']
    assert odd['flags'] == ['replaced']


def test_files_and_resuming(call: Call, tmp_path: Path) -> None:
    file, out = tmp_path / 'in.txt', tmp_path / 'out.txt'
    file.write_text('good\nbad\nfine\n')
    assert call(b'', '--input', str(file), '--output', str(out))[0] == 0
    whole = out.read_text()
    assert whole.count('\n') == 3
    out.write_text(whole[:-3])
    assert call(b'', '--input', str(file), '--output', str(out))[0] == 2  # not overwritten
    assert call(b'', '--input', str(file), '--output', str(out), '--resume')[0] == 0
    assert out.read_text() == whole


def test_a_run_of_another_task_is_refused(call: Call, tmp_path: Path) -> None:
    code, _, err = call(b'good\n', run=TESTS / 'golden' / 'number_words')
    assert code == 2
    assert 'use `flax-transformer translate' in err
    assert call(b'good\n', run=tmp_path / 'none')[0] == 2


@pytest.mark.slow
def test_show_curves_and_average_serve_a_classifier(tiny_classifier: Path, tmp_path: Path, capsys) -> None:
    assert main(['show', str(tiny_classifier), '--no-compile']) == 0
    assert '24 rows of 16 slots' in capsys.readouterr().out
    assert main(['curves', str(tiny_classifier)]) == 0
    assert 'best accuracy' in capsys.readouterr().out
    mean = tmp_path / 'mean'
    assert main(['average', str(tiny_classifier), str(mean), '--last', '2']) == 0
    assert f'flax-transformer evaluate {mean}' in capsys.readouterr().out
    (tmp_path / 'line.txt').write_text('a fine film\n')
    assert main(['classify', str(mean), '--input', str(tmp_path / 'line.txt')]) == 0
    assert capsys.readouterr().out.startswith('pos\t')
