"""The command: its names and arguments, the tables of RESULTS.md, and what it writes there."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from reproduce_commands import Fake
from reproduce_events import scored, trained

from benchmarks.reproduce import __main__ as command
from benchmarks.reproduce.experiments import Entry, Experiment, Table
from benchmarks.reproduce.log import Log
from benchmarks.reproduce.tables import TABLES, experiments
from benchmarks.reproduce.training import Runs
from flax_transformer.common.config_json import changed_fields
from flax_transformer.common.errors import UserError


@pytest.fixture(scope='module', autouse=True)
def configs_are_parsed_once():
    """The tables name the same experiments, and parsing each takes a while."""
    parse, parsed = Runs._config, {}

    def parse_once(runs, fields):
        key = (runs.experiment.config, *fields)
        if key not in parsed:
            parsed[key] = parse(runs, fields)
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runs, '_config', parse_once)
        yield


@pytest.mark.parametrize(
    ('argv', 'message'),
    [
        (['nonesuch'], 'Experiments and tables: results, teachers'),
        (['number_words', '--seeds', '1', '1'], 'expected different numbers'),
        (['number_words', '--seeds', '1', '--ensemble'], 'expected two seeds'),
        (['number_words', '--write'], 'has no row'),
        (['rt_polarity'], 'rt_polarity is of the task classification, expected one of translation'),
        (
            ['multi30k_multilingual', '--name', 'trial', '--training.steps', '2'],
            'got 4 in data.mixture as validation set',
        ),
        (['number_words', '--name', '../trial'], '--name ../trial: expected the name of a folder'),
        (['number_words', 'multi30k_en_de', '--name', 'trial', '--training.steps', '2'], 'trial: got two configs'),
    ],
)
def test_bad_arguments_are_found_before_anything_is_run(
    argv: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runs, 'train', lambda self, seed: pytest.fail('it was trained'))
    assert command.main([*argv, '--runs', str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert (out, list(tmp_path.iterdir())) == ('', [])
    assert message in err


def test_an_experiment_that_cannot_be_worked_on_leaves_the_others(monkeypatch, tmp_path: Path, capsys) -> None:
    asked = []

    def train(self: Runs, seed: int) -> bool:
        asked.append(self.experiment.name)
        raise UserError('it is in use')

    monkeypatch.setattr(Runs, 'train', train)
    names = ['ablations/base', 'ablations/half']
    assert command.main([*names, '--seeds', '1', '--runs', str(tmp_path)]) == 1
    assert asked == names
    out, err = capsys.readouterr()
    assert 'ablations/half: it is in use' in err
    assert '| half |' in out


def test_rows_are_written_and_the_log_is_kept_with_all_scores_and_checksums(monkeypatch, tmp_path: Path) -> None:
    document = tmp_path / 'RESULTS.md'
    document.write_text('<!-- model: begin -->\n<!-- model: end -->\n')
    monkeypatch.setattr(command, 'RESULTS_FILE', document)
    monkeypatch.setattr(command, 'SCORES', tmp_path / 'scores')
    (entry,) = (entry for entry in TABLES['model'].entries if entry.name == 'half')
    runs = Runs(entry.experiment, tmp_path / 'runs')
    facts = {'settings': runs.settings.fields, 'options': list(runs.options(entry.measure)['validation'])}
    for event in [*trained(9), scored(12.34, 9, part='validation')]:
        event |= {name: fact for name, fact in facts.items() if name in event}
        runs.log.add(event.pop('event'), **event)
    argv = ['ablations/half', 'ablations/untied', '--runs', str(tmp_path / 'runs'), '--only-print', '--write']
    assert command.main(argv) == 0
    assert '| half | d_model 64, d_ff 128 | 9 | 12.34 |' in document.read_text(encoding='utf-8')
    (file,) = (tmp_path / 'scores').rglob('*.jsonl')
    assert file.relative_to(tmp_path / 'scores') == Path('ablations/half.jsonl')
    assert Log(file).read() == runs.log.read()
    score = Log(file).read()[-1]
    assert (score['scores']['nll'], score['sha256']) == (1.5, 'f00')


def test_translations_are_kept_with_their_attribution(
    finished_seeds: set[int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for language, line in (('en', 'one'), ('de', 'ein')):
        (tmp_path / f'test.{language}').write_text(f'{line}\n')
    experiment = Experiment('tiny', 'number_words', ('--data.test', str(tmp_path / 'test.{lang}')))
    entry = Entry('tiny', experiment, attribution='# by somebody')
    monkeypatch.setattr(command, 'SCORES', tmp_path / 'scores')
    monkeypatch.setattr(command, 'RESULTS_FILE', document := tmp_path / 'RESULTS.md')
    monkeypatch.setattr(command, 'tables_of', lambda *_: [Table('own', 'results', (entry,))])
    monkeypatch.setattr(command, '_check', lambda *_: None)
    monkeypatch.setattr(Runs, '__init__', functools.partialmethod(Runs.__init__, run=Fake()))
    document.write_text('<!-- own: begin -->\n<!-- own: end -->\n')
    argv = ['tiny', '--seeds', '1', '2', '--runs', str(tmp_path / 'runs'), '--write']
    assert command.main(argv) == 0
    kept = tmp_path / 'scores' / 'tiny.tsv'
    assert kept.read_text() == '# by somebody\nen\tde\tseed 1\tseed 2\none\tein\teins\teins\n'
    elsewhere = ['tiny', '--seeds', '3', '--runs', str(tmp_path / 'elsewhere'), '--write']
    assert command.main(elsewhere) == 0
    added = '# by somebody\nen\tde\tseed 1\tseed 2\tseed 3\none\tein\teins\teins\teins\n'
    assert kept.read_text() == added
    (tmp_path / 'test.en').write_text('another\n')
    before = document.read_text()
    assert command.main(elsewhere) == 2
    assert 'tiny.tsv has other sentences than' in capsys.readouterr().err
    assert (kept.read_text(), document.read_text()) == (added, before)
    (tmp_path / 'elsewhere' / 'tiny' / 'translations-3-test.txt').write_text('drei\n')
    kept.unlink()
    assert command.main(elsewhere) == 2
    assert not kept.exists()


def test_the_document_is_what_the_kept_logs_give(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    document = tmp_path / 'RESULTS.md'
    document.write_bytes((ROOT / 'RESULTS.md').read_bytes())
    monkeypatch.setattr(command, 'RESULTS_FILE', document)
    monkeypatch.setattr(command, 'keep_translations', lambda *_: None)
    assert command.main([*TABLES, '--runs', str(tmp_path), '--only-print', '--write']) == 0
    assert document.read_text(encoding='utf-8') == (ROOT / 'RESULTS.md').read_text(encoding='utf-8')


def test_a_repeated_seed_has_the_translations_and_scores_of_the_first() -> None:
    """RESULTS.md says so of the logs in `repeated/`."""
    results = lambda path: [
        (event['set'], event['seeds'], event['options'], event['sha256'], event['scores'])
        for event in Log(path).read()
        if event['event'] == 'score'
    ]
    paths = sorted((command.SCORES / 'repeated').rglob('*.jsonl'))
    assert paths
    for path in paths:
        repeated, first = results(path), results(command.SCORES / path.relative_to(command.SCORES / 'repeated'))
        assert repeated
        assert all(result in first for result in repeated), path


@pytest.mark.parametrize(('error', 'code'), [(OSError('no space left'), 2), (KeyboardInterrupt(), 75)])
def test_a_full_disk_and_ctrl_c_end_without_a_traceback(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def train(self: Runs, seed: int) -> bool:
        raise error

    monkeypatch.setattr(Runs, 'train', train)
    assert command.main(['number_words', '--runs', str(tmp_path)]) == code


def test_a_name_is_a_table_an_experiment_or_a_config() -> None:
    assert command.tables_of('model', None, []) == [TABLES['model']]
    tatoeba = command.tables_of('tatoeba_en_de', None, [])
    assert [[entry.name for entry in table.entries] for table in tatoeba] == [
        ['tatoeba_en_de', 'tatoeba_en_de, all references'],
        ['all pairs', 'all pairs, all references'],
    ]
    assert [table.name for table in command.tables_of('ablations/base', None, [])] == ['model', 'decoding']
    (own,) = command.tables_of('dir/mine.py', None, [])
    assert own.entries[0].experiment == Experiment('mine', 'dir/mine.py')
    (own,) = command.tables_of('multi30k_en_de', 'trial', [])
    assert own.entries[0].experiment == Experiment('trial', 'multi30k_en_de')
    (own,) = command.tables_of('multi30k_en_de', 'trial', ['--seed', '3'])
    assert own.entries[0].experiment == Experiment('trial', 'multi30k_en_de', ('--seed', '3'))
    with pytest.raises(UserError, match='expected --name with them'):
        command.tables_of('multi30k_en_de', None, ['--only', '3'])
    with pytest.raises(UserError, match='give another --name'):
        command.tables_of('dir/multi30k_en_de.py', None, [])


def test_every_experiment_and_every_row_is_its_own() -> None:
    names = [experiment.name for experiment in experiments()]
    assert len(set(names)) == len(names)
    for table in TABLES.values():
        entry_names = [entry.name for entry in table.entries]
        assert len(set(entry_names)) == len(entry_names)
        assert table.columns == 'results' or not any(entry.measure.has_test for entry in table.entries)


def test_an_ablation_changes_what_its_options_name() -> None:
    base = Runs(TABLES['model'].entries[0].experiment, Path('runs')).config(1)
    for entry in TABLES['model'].entries:
        fields = entry.experiment.fields
        named = {option.removeprefix('--').replace('-', '_') for option in fields if '--' in option}
        changed = set(changed_fields(base, Runs(entry.experiment, Path('runs')).config(1)))
        assert changed <= named
        assert bool(changed) == bool(fields), entry.name


# ------------------------------------------------------------------------------------------ from end to end


@pytest.mark.slow
def test_two_seeds_are_trained_scored_and_printed_and_the_second_time_nothing_is_done(tmp_path: Path) -> None:
    small = ['--training.steps', '2', '--data.numbers-train', '2000', '--data.numbers-held-out', '20']
    small += ['--model.d-model', '8', '--model.d-ff', '8', '--training.sample-translations', '0']
    argv = ['number_words', '--name', 'tiny', '--seeds', '1', '2', '--ensemble', '--runs', str(tmp_path), *small]
    printed = [
        subprocess.run(
            [sys.executable, '-m', 'benchmarks.reproduce', *argv], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert printed[0] == printed[1]
    head, _, row, ensemble = printed[0].splitlines()  # nothing else: rows can be piped
    assert head.startswith('| result | seeds |')
    assert row.startswith('| tiny | 1, 2 |')
    assert ensemble.startswith('| tiny, ensemble of 1, 2 | 1, 2 |')
    events = [event['event'] for event in Log(tmp_path / 'tiny' / 'log.jsonl').read()]
    assert events == (['train', 'trained'] + ['scoring', 'score'] * 2) * 2 + ['scoring', 'score'] * 2
    rows = json.loads((tmp_path / 'tiny' / 'rows-own.json').read_text())
    assert [len(row['test']) for row in rows] == [2, 1]
    assert len(rows[0]['sha256'][0]) == 64
