"""`flax-transformer plot`: a file for each kind of picture; what cannot be drawn is refused."""

import json
from pathlib import Path

import pytest

from flax_transformer.cli import main
from flax_transformer.cli.plot import pictures


@pytest.mark.slow
def test_each_kind_of_a_line_is_drawn(copy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one map and one n-best list for all of them."""
    import numpy as np

    from flax_transformer.tasks.translation import pictures as drawn
    from flax_transformer.tasks.translation.inference.result import Translation
    from flax_transformer.tasks.translation.inference.translator import Translator
    from flax_transformer.tasks.translation.inspection import AttentionMap

    found = Translation('a b', -1.0, -1.0, 3, tokens=('▁a', '</s>'), token_log_probs=(-0.5, -0.5), alignment=((0, 1),))
    weights = np.full((1, 2, 2, 3), 1 / 3)
    sure = {'quality': 0.5, 'word_quality': (0.4, 0.6)}
    best = Translation('a b', 0, 0, 3, n_best=(found, found), **sure)
    monkeypatch.setattr(Translator, '__call__', lambda *_, **__: [best])
    monkeypatch.setattr(drawn, 'attention_map', lambda *_: AttentionMap([*'ab.'], [*'a.'], weights))
    for kind in (kind for kind, picture in pictures().items() if picture.takes == 'RUN LINE'):
        file = tmp_path / f'{kind}.png'
        given = ['--translation', 'b'] if kind in ('attention', 'heads', 'layers') else []
        assert main(['plot', kind, str(copy_run), 'a b', '--output', str(file), *given]) == 0
        assert file.read_bytes().startswith(b'\x89PNG')
    assert sorted(file.suffix for file in tmp_path.iterdir()) == ['.png'] * 6


@pytest.mark.slow
def test_schedules_positions_and_scores_by_length_are_drawn(tmp_path: Path, capsys) -> None:
    scores = {'words': '0-10', 'num_lines': 3, 'bleu': 20.0, 'chrf': 40.0}
    table = {'by_length': [scores], 'length_unit': 'words', 'has_four_words': True}
    (tmp_path / 'scores.json').write_text(json.dumps(table))
    for kind, name in (('schedule', 'number_words'), ('positions', 'number_words'), ('lengths', 'scores.json')):
        file = tmp_path / f'{kind}.svg'
        name = tmp_path / name if kind == 'lengths' else name
        assert main(['plot', kind, str(name), '--output', str(file)]) == 0
        assert '<svg' in file.read_text()
        assert f'the picture is in {file}' in capsys.readouterr().out


def test_what_cannot_be_drawn_is_refused(tmp_path: Path, capsys) -> None:
    (tmp_path / 'broken.json').write_text('{"by_length": [{"words": 1}]}')
    (tmp_path / 'deep.json').write_text('[' * 100_000)
    for argv, expected in (
        (['atention'], "no picture 'atention'"),
        (['attention', 'run'], "plot attention: got 'run'"),
        (['curves'], 'plot curves: got nothing'),
        (['tree', 'run', 'a', '--translation', 'b'], '--translation'),
        (['curves', tmp_path], 'config.json'),
        (['lengths', tmp_path / 'broken.json'], 'evaluate RUN --json'),
        (['lengths', tmp_path / 'deep.json'], 'evaluate RUN --json'),
        (['lengths', tmp_path / 'none.json'], 'no such file'),
        (['positions', 'number_words_rnn'], 'its model has no positions'),
        (['schedule', 'number_words', '--output', 'a.gif'], '.png, .svg, .pdf'),
    ):
        assert main(['plot', *map(str, argv)]) == 2
        assert expected in capsys.readouterr().err


def test_scores_of_speech_are_drawn(tmp_path: Path, capsys) -> None:
    counts = {
        'words': ['no', 'yes'],
        'written': ['no', 'yes', '(none)', '(other)'],
        'counts': [[3, 1, 0, 0], [0, 2, 1, 0]],
    }
    curve = {'false_rejects': [0.0, 0.5], 'false_accepts_per_hour': [60.0, 0.0]}
    chosen = {
        'words': 2,
        'misses': 1,
        'accepts_per_hour': 0.0,
        'accepts_low': 0.0,
        'accepts_high': 7.4,
        'negative_hours': 0.5,
    }
    tables = {'confusion': {'confusion': counts}, 'detection': {**curve, **chosen}}
    for kind, table in tables.items():
        scores, file = tmp_path / f'{kind}.json', tmp_path / f'{kind}.svg'
        scores.write_text(json.dumps(table))
        assert main(['plot', kind, str(scores), '--output', str(file)]) == 0
        assert '<svg' in file.read_text()
    for kind, other in (('confusion', 'detection'), ('detection', 'confusion')):
        assert main(['plot', kind, str(tmp_path / f'{other}.json')]) == 2
        assert 'evaluate RUN --json' in capsys.readouterr().err
    assert main(['plot', 'confusion', str(scores), str(scores)]) == 2
    assert 'expected SCORES.json' in capsys.readouterr().err
