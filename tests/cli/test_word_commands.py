"""`flax-transformer neighbors`, `analogy` and `similarity`, on a file of vectors."""

import json
from pathlib import Path

import pytest
from conftest import TESTS

from flax_transformer.cli import main

FILE = str(TESTS / 'fixtures' / 'word_vectors' / 'words.bin')


def test_neighbors_are_printed_for_each_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['neighbours', FILE, 'king', '--count', '2']) == 0  # the name before
    assert capsys.readouterr().out == '0.7596\tnaïve\n0.5629\tman\n'
    assert main(['neighbors', FILE, 'king', 'man', '--count', '1', '--among', '4']) == 0
    assert capsys.readouterr().out == 'king:\n0.5629\tman\n\nman:\n0.5629\tking\n'


def test_an_analogy_is_answered_by_both_methods(capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for method in ('add', 'mul'):
        assert main(['analogy', FILE, 'man', 'woman', 'king', '--method', method, '--count', '3']) == 0
        answers.append([line.split('\t')[1] for line in capsys.readouterr().out.splitlines()])
    assert len(answers[0]) == len(answers[1]) == 3
    assert not {'man', 'woman', 'king'} & {word for each in answers for word in each}


def test_a_file_is_scored_as_a_run_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / 'pairs.tsv').write_text('king\tqueen\t5\nking\tman\t9\nking\tcar\t1\n')
    assert main(['evaluate', FILE, '--pairs', str(tmp_path / 'pairs.tsv'), '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    assert found['words'] == 12
    assert found['pairs']['pairs']['asked'] == 2


@pytest.mark.parametrize(
    ('argv', 'message'),
    [
        (('neighbors', FILE), 'neighbors: got nothing after'),
        (('neighbors', FILE, 'kign'), 'Did you mean king?'),
        (('neighbors', FILE, 'king', '--count', '0'), 'count=0: expected at least 1'),
        (('neighbors', FILE, 'king', '--step', '3'), 'is a file of vectors, not a run'),
        (('evaluate', FILE, 'runs/other'), 'got 2 runs'),
        (('evaluate', 'none.bin'), 'none.bin does not exist'),
        (('analogy', FILE, 'man', 'woman'), 'expected A B C'),
        (('neighbors', FILE, 'king', 'the', '--among', '1'), 'no word is left'),
        (('similarity', FILE, 'king'), 'expected A B'),
        (('similarity', __file__, 'king', 'queen'), 'test_word_commands.py, line 1'),
    ],
)
def test_mistakes_are_one_message(argv: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(argv)) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert (out, err.count('\n')) == ('', 1)
