"""Rows from logs, what is trained and scored again, and the tables of RESULTS.md."""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, corpus

from benchmarks.reproduce import __main__ as command
from benchmarks.reproduce import seeds as training
from benchmarks.reproduce.experiments import VALIDATION_ONLY, Entry, Experiment
from benchmarks.reproduce.log import Log
from benchmarks.reproduce.process import Ended, call, hardware
from benchmarks.reproduce.rows import make_rows, markdown, replaced, spread
from benchmarks.reproduce.seeds import Seeds, Stopped, digest
from benchmarks.reproduce.subsets import write_subset
from benchmarks.reproduce.tables import RESULTS, TABLES, experiments
from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig

TINY = Experiment('tiny', 'number_words')
ENTRY = Entry('tiny', TINY, published='41.02, somebody')
OPTIONS = {'validation': ['--data.test', 'v'], 'test': ['--data.test', 't']}
SIGNATURE = 'nrefs:1|tok:none'


def scores(bleu: float) -> dict[str, Any]:
    return {
        'bleu': bleu,
        'bleu_signature': SIGNATURE,
        'chrf': 60.0,
        'ter': 40.0,
        'perplexity': 5.0,
        'length_ratio': 1.0,
    }


def trained(seed: int, exit_code: int = 0, minutes: float = 2) -> list[dict[str, Any]]:
    end = {'exit_code': exit_code, 'cpu_seconds': 120 * minutes, 'seconds': 60 * minutes, 'hardware': '2 x CPU'}
    return [{'event': 'train', 'seed': seed, 'commit': 'abc'}, {'event': 'trained', 'seed': seed, **end}]


def scored(bleu: float, *seeds: int, part: str = 'test') -> dict[str, Any]:
    where = {'seeds': list(seeds), 'set': part, 'options': OPTIONS[part]}
    return {'event': 'score', **where, 'scores': scores(bleu), 'sha256': 'f00'}


# ------------------------------------------------------------------------------------------------- rows


def test_a_spread_is_mean_sample_deviation_and_each_value() -> None:
    assert spread([41.0, 41.2, 41.4]) == '41.20 ± 0.20 (41.00, 41.20, 41.40)'
    assert spread([41.0]) == '41.00'
    assert spread([]) == 'not run yet'


def test_a_row_has_every_seed_the_bad_ones_too() -> None:
    events = [
        *trained(1, 75), *trained(1), scored(42, 1, part='validation'), scored(41, 1),
        *trained(2), scored(41.5, 2, part='validation'), scored(40, 2),
        *trained(3, 1), *trained(4)[:1], *trained(5),
    ]  # fmt: skip
    (row,) = make_rows(ENTRY, events, OPTIONS)
    assert row.seeds == [1, 2]
    assert row.problems == ['3 failed (exit code 1)', '4 is not finished', '5 is not scored']
    assert row.cpu_minutes == [8, 4]
    assert row.is_time_complete
    line = markdown(RESULTS, row)
    assert line.startswith('| tiny | 1, 2; 3 failed (exit code 1); 4 is not finished; 5 is not scored | 41.75 ± 0.35')
    assert '| 40.50 ± 0.71 (41.00, 40.00)<br>`nrefs:1\\|tok:none` |' in line
    assert '| 41.02, somebody | 6, 3 | 2 x CPU | abc |' in line
    assert "make reproduce CONFIG=number_words SEEDS='1 2'`" in line


def test_a_row_says_what_is_not_known_and_what_was_done_twice() -> None:
    events = [*trained(1)[:1], *trained(1), scored(40, 1), scored(41, 1)]
    (row,) = make_rows(ENTRY, events, OPTIONS)
    assert (row.test_scorings, [one['bleu'] for one in row.test]) == (2, [41])
    line = markdown(RESULTS, row)
    assert ', scored 2 times |' in line
    assert '| at least 4, at least 2 |' in line


def test_while_the_test_set_waits_the_validation_set_counts() -> None:
    events = [*trained(1), *trained(2), *(scored(40 + seed, seed, part='validation') for seed in (1, 2))]
    (row,) = make_rows(ENTRY, events, OPTIONS)
    assert (row.seeds, row.problems, row.test) == ([1, 2], [], [])
    assert '| 41.50 ± 0.71 (41.00, 42.00)<br>`nrefs:1\\|tok:none` | not run yet |' in markdown(RESULTS, row)
    (row,) = make_rows(ENTRY, [*events, scored(40, 1)], OPTIONS)
    assert (row.seeds, row.problems) == ([1], ['2 is not scored'])


def test_an_ensemble_has_a_row_of_its_own() -> None:
    events = [*trained(1), *trained(2), scored(40, 1), scored(41, 2), scored(43, 1, 2)]
    row, both = make_rows(ENTRY, events, OPTIONS)
    assert [one['bleu'] for one in row.test] == [40, 41]
    assert (both.key, both.seeds, [one['bleu'] for one in both.test]) == ('tiny, ensemble', [1, 2], [43])
    assert both.command.endswith("SEEDS='1 2' ARGS=--ensemble")


def test_an_ablation_has_no_test_scores() -> None:
    entry = Entry('pre_norm', TINY, VALIDATION_ONLY, 'pre-LN')
    only = {'validation': OPTIONS['validation']}
    (row,) = make_rows(entry, [*trained(1), scored(40, 1, part='validation'), scored(99, 1)], only)
    assert row.test == []
    assert markdown(TABLES['model'], row) == '| pre_norm | pre-LN | 1 | 40.00 | 5.00 | 1.00 | 4, 2 |'
    assert markdown(TABLES['decoding'], row) == '| pre_norm | 1 | 40.00 | 1.00 |'


def test_the_command_of_a_row_repeats_changed_fields() -> None:
    entry = Entry('trial', Experiment('trial', 'number_words', ('--training.steps', '2')))
    (row,) = make_rows(entry, [], OPTIONS)
    expected = "make reproduce CONFIG=number_words SEEDS='1 2 3' ARGS='--name trial --training.steps 2'"
    assert row.command == expected


def test_rows_are_replaced_by_their_first_cell_and_new_ones_come_last() -> None:
    table = TABLES['model']
    only = {'validation': OPTIONS['validation']}
    b, c, none = (
        make_rows(Entry(key, TINY, VALIDATION_ONLY), events, only)[0]
        for key, events in (('b', [*trained(1), scored(30, 1, part='validation')]), ('c', []), ('a', []))
    )
    text = 'above\n<!-- model: begin -->\n| x |\n| --- |\n| a | 1 |\n| b | 2 |\n<!-- model: end -->\nbelow\n'
    new = replaced(text, table, [b, c, none])
    assert new.startswith('above\n<!-- model: begin -->\n| name | what differs |')
    lines = ['| a | 1 |', markdown(table, b), markdown(table, c), '<!-- model: end -->', 'below']
    assert new.splitlines()[4:] == lines
    assert replaced(new, table, [b]) == new
    with pytest.raises(ValueError, match='decoding: begin'):
        replaced(text, TABLES['decoding'], [])


def test_the_document_has_a_row_for_each_entry() -> None:
    text = (ROOT / 'RESULTS.md').read_text(encoding='utf-8')
    for table in TABLES.values():
        inside = text.split(f'<!-- {table.name}: begin -->\n')[1].split(f'<!-- {table.name}: end -->')[0]
        keys = [line.split('|')[1].strip() for line in inside.splitlines()[2:]]
        assert keys[: len(table.entries)] == [entry.key for entry in table.entries]


# ---------------------------------------------------------------------------------------------- the log


def test_a_line_that_a_kill_has_cut_is_passed_over(tmp_path: Path) -> None:
    log = Log(tmp_path / 'new' / 'log.jsonl')
    assert log.read() == []
    log.add('train', seed=1)
    with log.file.open('a') as opened:
        opened.write('{"event": "trai')
    log.add('train', seed=2)
    assert [event['seed'] for event in log.read()] == [1, 2]


# ------------------------------------------------------------------------------- what is done, what is skipped


class Fake:
    """Stands for the commands: notes them, and answers with these exit codes, then with 0."""

    def __init__(self, *exit_codes: int) -> None:
        self.exit_codes, self.asked = list(exit_codes), []

    def __call__(self, argv: list[str], *, stdout: Any = None) -> Ended:
        assert stdout is not None, 'standard output is for rows alone'
        self.asked.append(argv[3:])
        code = self.exit_codes.pop(0) if self.exit_codes else 0
        if argv[3] == 'evaluate' and not code:
            stdout.write(json.dumps(scores(40)).encode())
            output = Path(argv[argv.index('--output') + 1])
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text('eins\n')
        return Ended(code, 60.0, 30.0)


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The seeds that are trained; the digest of a run is its path."""
    done: set[int] = set()
    monkeypatch.setattr(Seeds, 'is_finished', lambda self, seed: seed in done)
    monkeypatch.setattr(training, 'digest', str)
    monkeypatch.setattr(training, 'environment', lambda devices: {'commit': 'abc'})
    return done


def test_finished_seeds_are_not_trained_and_scores_are_kept(finished: set[int], tmp_path: Path) -> None:
    fake = Fake()
    seeds = Seeds(TINY, tmp_path, run=fake)
    finished.add(1)
    assert command.work(seeds, [ENTRY], [1, 2])
    assert [(argv[0], argv[-1][-6:]) for argv in fake.asked if argv[0] == 'train'] == [('train', 'seed-2')]
    sets = [argv[argv.index('--data.test') + 1] for argv in fake.asked if argv[0] == 'evaluate']
    assert sets == ['number_words:validation', 'number_words:test'] * 2
    finished.add(2)
    assert command.work(seeds, [ENTRY], [1, 2])
    assert len(fake.asked) == 5


def test_a_run_that_has_changed_is_scored_again(
    finished: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake()
    seeds = Seeds(TINY, tmp_path, run=fake)
    finished.add(1)
    command.work(seeds, [ENTRY], [1])
    monkeypatch.setattr(training, 'digest', lambda run: 'another')
    command.work(seeds, [ENTRY], [1])
    assert len(fake.asked) == 4
    options = {part: seeds.options(ENTRY.measure, part) for part in ('validation', 'test')}
    assert make_rows(ENTRY, [*trained(1), *seeds.log.read()], options)[0].test_scorings == 2


def test_without_the_test_set_it_is_not_looked_at(finished: set[int], tmp_path: Path) -> None:
    fake = Fake()
    finished |= {1, 2}
    command.work(Seeds(TINY, tmp_path, run=fake), [ENTRY], [1, 2], [(1, 2)], has_test=False)
    assert [argv[argv.index('--data.test') + 1] for argv in fake.asked] == ['number_words:validation'] * 3
    assert [path[-6:] for path in fake.asked[-1][1:3]] == ['seed-1', 'seed-2']


def test_a_seed_that_fails_is_noted_and_the_others_go_on(finished: set[int], tmp_path: Path) -> None:
    fake = Fake(1)
    seeds = Seeds(TINY, tmp_path, run=fake)
    assert not command.work(seeds, [ENTRY], [1, 2], [(1, 2)])
    assert [argv[0] for argv in fake.asked] == ['train', 'train', 'evaluate', 'evaluate']
    (event,) = (each for each in seeds.log.read() if each['event'] == 'trained' and each['seed'] == 1)
    assert (event['exit_code'], event['cpu_seconds']) == (1, 60)


def test_an_interruption_stops_everything(finished: set[int], tmp_path: Path) -> None:
    fake = Fake(75)
    with pytest.raises(Stopped):
        command.work(Seeds(TINY, tmp_path, run=fake), [ENTRY], [1, 2])
    assert len(fake.asked) == 1


def test_a_sigterm_is_passed_on_to_the_command() -> None:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    ended = call(['sh', '-c', 'trap "exit 75" TERM; while :; do sleep 0.1; done'])
    assert ended.exit_code == 75
    assert ended.seconds < 20


def test_the_digest_of_a_run_is_that_of_its_weights_and_of_what_decides_translations(tmp_path: Path) -> None:
    from flax_transformer.tasks.translation.run import Run

    config = Seeds(TINY, tmp_path).config(1)
    run, found = Run(tmp_path / 'run'), []
    cosmetic = replace(config, training=replace(config.training, log_every=7))
    wider = replace(config, decoding=replace(config.decoding, beam_width=7))
    manifest = run.checkpoints / '3' / 'manifest.json'
    for settings, weights in ((config, 'a'), (cosmetic, 'a'), (wider, 'a'), (config, 'b')):
        run.open(settings)
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(weights)
        found.append(digest(run.path))
    assert found[0] == found[1]
    assert len(set(found)) == 3


def test_hardware_names_the_processor_and_what_else_it_ran_on() -> None:
    assert hardware('2 cpu devices by pmap') == hardware('')
    assert hardware('1 gpu device by pmap').startswith('1 gpu device by pmap')


# -------------------------------------------------------------------------------------- names and variants


def test_a_name_is_a_table_an_experiment_or_a_config() -> None:
    assert command.tables_of('model', None, []) == [TABLES['model']]
    tatoeba = command.tables_of('tatoeba_en_de', None, [])
    assert [[entry.key for entry in table.entries] for table in tatoeba] == [
        ['tatoeba_en_de', 'tatoeba_en_de, all references'],
        ['all pairs', 'all pairs, all references'],
    ]
    assert [table.name for table in command.tables_of('ablations/base', None, [])] == ['model', 'decoding']
    (own,) = command.tables_of('dir/mine.py', None, [])
    assert own.entries[0].experiment == Experiment('mine', 'dir/mine.py')
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
        keys = [entry.key for entry in table.entries]
        assert len(set(keys)) == len(keys)
        assert table.columns == 'results' or not any(entry.measure.has_test for entry in table.entries)


def test_variants_are_configs_that_differ_from_the_first() -> None:
    """All of a table have as many steps."""
    configs = [Seeds(entry.experiment, Path('runs')).config(1) for entry in TABLES['model'].entries]
    assert len({config.training.steps for config in configs}) == 1
    assert len(configs) == len({repr(config) for config in configs})
    assert configs[0].seed == 1


def test_a_subset_is_the_beginning_of_a_larger_one(tmp_path: Path) -> None:
    (tmp_path / 'all.en').write_text(''.join(f'{i}\n' for i in range(50)))
    (tmp_path / 'all.de').write_text(''.join(f'-{i}\n' for i in range(50)))
    data = DataConfig(root=str(tmp_path), train='all.{lang}')
    for pairs in (5, 20):
        write_subset(data, pairs, tmp_path / str(pairs))
    few, many = ((tmp_path / name / 'train.en').read_text().split() for name in ('5', '20'))
    assert many[:5] == few != ['0', '1', '2', '3', '4']
    assert (tmp_path / '5' / 'train.de').read_text().split() == [f'-{i}' for i in few]
    with pytest.raises(UserError, match='got 50 pairs, expected at least 60'):
        write_subset(data, 60, tmp_path / '60')


def test_a_subset_is_what_is_trained_on(tmp_path: Path) -> None:
    config = Seeds(Experiment('curve/5', 'number_words', pairs=5), tmp_path).config(1)
    assert config.data.train == str(tmp_path / 'curve' / '5' / 'train.{lang}')


def test_all_references_of_tatoeba_are_read() -> None:
    from flax_transformer.data.bitext.sources import read_corpus

    corpus('tatoeba_en_de', 'test.allrefs.de.tsv')
    (entry,) = (entry for entry in RESULTS.entries if entry.key == 'tatoeba_en_de, all references')
    data = Seeds(entry.experiment, Path('runs')).config(0).data
    alone, several = read_corpus(data.test, data), read_corpus(entry.measure.test, data)
    assert (alone.sources, alone.targets) == (several.sources, several.targets)
    assert len(several.references) == 5


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
    assert ensemble.startswith('| tiny, ensemble | 1, 2 |')
    events = [event['event'] for event in Log(tmp_path / 'tiny' / 'log.jsonl').read()]
    assert events == ['train', 'trained', 'score', 'score'] * 2 + ['score', 'score']
    rows = json.loads((tmp_path / 'tiny' / 'rows-own.json').read_text())
    assert [len(row['test']) for row in rows] == [2, 1]
    assert len(rows[0]['sha256'][0]) == 64
