"""`flax-transformer curves`: a table of runs, and their learning curves."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flax_transformer.cli import main
from flax_transformer.config import Config
from flax_transformer.engine.runs.learning_curves import plot_curves, table
from flax_transformer.tasks.translation.run import Run


def make_run(path: Path, losses: list[float], bleu: list[float], **training: int) -> Path:
    config = Config()
    Run(path).open(replace(config, training=replace(config.training, **training)))
    speed = {'target_tokens': 100.0, 'learning_rate': 0.1}
    records = [
        {'kind': 'train', 'step': 10 * i, 'loss': loss, 'target_tokens_per_second': 50.0 * i, **speed}
        for i, loss in enumerate(losses, start=1)
    ]
    records += [
        {'kind': 'validation', 'step': 20 * i, 'loss': 9.0 - score / 10 + (i == 3), 'bleu': score}
        for i, score in enumerate(bleu, start=1)
    ]
    records.append({'kind': 'spike', 'step': 11, 'loss': 99.0})
    (path / 'metrics.jsonl').write_text(''.join(json.dumps(record) + '\n' for record in records))
    return path


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [
        make_run(tmp_path / 'a', [5.0, 4.0, 3.5], [10.0, 20.0, 30.0], log_every=10),
        make_run(tmp_path / 'b', [5.0, 4.5], [], log_every=20, steps=77),
    ]


def test_the_table_has_the_best_and_what_differs(runs: list[Path], tmp_path: Path) -> None:
    header, one, other, blank, fields, *differing = table([*map(Run, runs)]).splitlines()
    assert ' '.join(header.split()) == 'run steps train loss best loss at step best BLEU at step tokens/s spikes'
    # 300 tokens in 2 + 1 + 2/3 s. The best loss is not where the best BLEU is.
    assert one.split() == [str(runs[0]), '60', '3.5', '7', '40', '30', '60', '82', '1']
    assert other.split() == [str(runs[1]), '20', '4.5', '-', '-', '-', '-', '67', '1']
    assert not blank
    assert fields.split() == ['field', *map(str, runs)]
    assert [line.split() for line in differing] == [['training.steps', '100000', '77']]
    assert 'their configs are the same' in table([Run(runs[0]), Run(runs[0])])
    assert 'field' not in table([Run(runs[0])])


def test_the_speed_is_of_what_the_task_counts(runs: list[Path]) -> None:
    metrics = runs[1] / 'metrics.jsonl'
    metrics.write_text(metrics.read_text().replace('target_tokens', 'words'))
    assert 'words/s' in table([Run(runs[1])]).splitlines()[0]
    assert 'per second' in table([*map(Run, runs)]).splitlines()[0]


def test_the_table_says_whose_bleu_it_is(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, [5.0], [10.0]) for name in 'abc']
    for run, tokenizer in zip(runs, ('zh', 'zh', '13a'), strict=True):
        record = {'kind': 'validation', 'step': 40, 'loss': 1.0, 'bleu': 30.0, 'bleu_signature': f'tok:{tokenizer}'}
        with (run / 'metrics.jsonl').open('a') as file:
            file.write(json.dumps(record) + '\n')
    assert 'BLEU: tok:zh' in table([*map(Run, runs[:2])]).splitlines()
    lines = table([*map(Run, runs)]).splitlines()
    assert f'BLEU of {runs[0]}, {runs[1]}: tok:zh' in lines
    assert f'BLEU of {runs[2]}: tok:13a' in lines


def test_the_curves_have_a_line_for_each_run(runs: list[Path]) -> None:
    figure = plot_curves(runs)
    assert [axes.get_title() for axes in figure.axes] == [
        'train loss',
        'validation loss',
        'validation BLEU',
        'train learning rate',
    ]
    drawn = [[list(line.get_ydata()) for line in axes.get_lines() if len(line.get_ydata())] for axes in figure.axes]
    assert drawn[0] == [[5.0, 4.0, 3.5], [5.0, 4.5]]
    assert drawn[2] == [[10.0, 20.0, 30.0]]
    assert list(figure.axes[2].get_lines()[0].get_xdata()) == [20, 40, 60]
    assert len(plot_curves(runs[1:]).axes) == 2  # no empty panels
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(map(str, runs))


def test_equal_curves_are_dashed_so_that_each_shows(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, [5.0, 4.0, 3.5], []) for name in 'abc']
    runs.append(make_run(tmp_path / 'd', [4.0, 3.0, 2.5], []))
    figure = plot_curves(runs)
    styles = [line.get_linestyle() for line in figure.axes[0].get_lines() if len(line.get_xdata())]
    assert styles == ['-', '--', '--', '-']


@pytest.mark.slow
def test_watching_shows_what_is_new_until_the_runs_are_finished(tmp_path: Path, monkeypatch, capsys) -> None:
    run = make_run(tmp_path / 'a', [5.0], [], steps=60)
    picture = tmp_path / 'curves.svg'
    texts, sizes = [], []

    def rest(seconds: float) -> None:
        texts.append(capsys.readouterr().out)
        sizes.append(picture.stat().st_size)
        losses = {1: [5.0], 2: [5.0, 4.0], 3: [5.0, 4.0, 3.0]}[min(len(texts), 3)]
        (run / 'metrics.jsonl').write_text(
            ''.join(
                json.dumps({'kind': 'train', 'step': 20 * i, 'loss': loss}) + '\n' for i, loss in enumerate(losses, 1)
            )
        )
        if len(texts) == 3:
            place = run / 'checkpoints' / '60' / 'position'
            place.mkdir(parents=True)
            (place / 'metadata').write_text('{"progress": {}}')
        assert len(texts) < 4, 'the run was finished'

    monkeypatch.setattr('time.sleep', rest)
    assert main(['curves', str(run), '--output', str(picture), '--watch']) == 0
    texts.append(capsys.readouterr().out)
    assert [text.split()[-5:-3] for text in texts] == [['5', '-'], ['5', '-'], ['4', '-'], ['3', '-']]
    assert len(set(sizes)) > 1
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ['curves.svg']

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr('time.sleep', stop)
    assert main(['curves', str(make_run(tmp_path / 'b', [5.0], [])), '--watch']) == 0


def test_the_command_writes_a_picture(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ('curves.png', 'curves.svg'):
        assert main(['curves', *map(str, runs), '--output', str(tmp_path / name)]) == 0
        assert f'the curves are in {tmp_path / name}' in capsys.readouterr().out
    assert (tmp_path / 'curves.png').read_bytes().startswith(b'\x89PNG')
    assert '<svg' in (tmp_path / 'curves.svg').read_text()


def test_what_cannot_be_shown_is_refused(runs: list[Path], tmp_path: Path, capsys) -> None:
    (runs[1] / 'metrics.jsonl').unlink()
    for argv, expected in (
        (runs, 'has no metrics.jsonl: nothing was measured in it yet'),
        ([runs[0], tmp_path / 'none'], 'none does not exist'),
        ([runs[0], '--output', 'a.gif'], 'expected a file name ending in .png, .svg, .pdf'),
    ):
        assert main(['curves', *map(str, argv)]) == 2
        assert expected in capsys.readouterr().err
