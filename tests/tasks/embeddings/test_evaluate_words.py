"""`evaluate RUN` for word vectors: its lines, its JSON, its files, its mistakes."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.embeddings.evaluate import Options, evaluate
from flax_transformer.tasks.embeddings.vectors import WordVectors

WORDS = {'man': [1, 0, 0], 'woman': [1, 1, 0], 'king': [1, 0, 1], 'queen': [1, 1, 1]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with the usual files; the vectors of any run are WORDS."""
    folder = tmp_path / 'wordvec_eval'
    folder.mkdir()
    (folder / 'questions-words.txt').write_text(': family\nman woman king queen\nman woman boy girl\n: none\na b c d\n')
    (folder / 'simlex999.tsv').write_text('man\twoman\t5\nman\tking\t5\nman\tqueen\t1\nman\tcar\t0\n')
    monkeypatch.setenv('FLAX_TRANSFORMER_DATA', str(tmp_path))
    vectors = WordVectors(WORDS, np.array(list(WORDS.values())))
    monkeypatch.setattr(WordVectors, 'from_run', lambda *_, **__: vectors)
    return folder


def run(*runs: str, **options: object) -> None:
    evaluate(list(runs), Options(**options), note=print, progress_bar=SimpleNamespace)


def test_scores_are_shown_with_their_coverage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run('run')
    assert capsys.readouterr().out.splitlines() == [
        '4 words, 3 values each',
        '',
        'analogies (3CosAdd) among the 4 most frequent words',
        '  family   100.0%  1 of 1; 2 in the file',
        '  none          -  0 of 0; 1 in the file',
        '  all      100.0%  1 of 1; 3 in the file',
        '',
        "Spearman's correlation with people",
        '  simlex999   1.000  3 of 4 pairs',
    ]


def test_json_has_null_where_nothing_was_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / 'one.tsv').write_text('man\twoman\t5\n')
    run('run', json=True, analogies=folder / 'questions-words.txt', pairs=(folder / 'one.tsv',), among=3)
    found = json.loads(capsys.readouterr().out)
    assert found['analogies']['all'] == {'name': 'all', 'right': 0, 'asked': 0, 'total': 3, 'accuracy': None}
    assert found['pairs'] == {'one': {'name': 'one', 'spearman': None, 'asked': 1, 'total': 1}}


def test_mistakes_are_one_message(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match='got 2 runs'):
        run('one', 'two')
    with pytest.raises(UserError, match='--among 0: expected at least 1'):
        run('run', among=0)
    with pytest.raises(UserError, match=r'none\.txt does not exist'):
        run('run', pairs=(folder / 'none.txt',))
    monkeypatch.setenv('FLAX_TRANSFORMER_DATA', str(folder))
    with pytest.raises(UserError, match=r'has none of questions-words\.txt.*--analogies FILE'):
        run('run')
