"""Trains the seeds of an experiment, scores them, and prints their rows as they stand in RESULTS.md.

    python -m benchmarks.reproduce multi30k_en_de_tok --seeds 1 2 3
    python -m benchmarks.reproduce ablations/pre_norm --seeds 1      # one row of a table
    python -m benchmarks.reproduce model decoding --seeds 1          # all rows of two tables
    python -m benchmarks.reproduce model --only-print                # what is known, without running anything
    python -m benchmarks.reproduce my_config.py --seeds 1 --no-test --name trial --optimizer.learning-rate 3e-3

Run it from the checkout. Stopped by Ctrl-C or SIGTERM, or killed, it continues when started again: seeds that are
finished are not trained again, and a run that has been scored is not scored again unless it has changed. All starts,
ends, failures and scores are in log.jsonl next to the runs, the rows in rows-TABLE.json. With --write, the log is
added to benchmarks/scores/, which has those of other machines, too, and their tables in RESULTS.md are made of it anew;
translations of a test set are kept where its licence allows it.

A name is one of an experiment or a table in tables.py, else a config. With fields it is always a config.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.reproduce.document import head, markdown, replaced
from benchmarks.reproduce.experiments import Entry, Experiment, Table
from benchmarks.reproduce.log import Event, joined, keep, keep_unless_another, kept_log
from benchmarks.reproduce.outputs import keep_translations
from benchmarks.reproduce.rows import Row, make_rows
from benchmarks.reproduce.tables import TABLES, experiments
from benchmarks.reproduce.training import Runs, Stopped
from flax_transformer.common.errors import EXIT_CODE, UserError
from flax_transformer.common.files import write_whole
from flax_transformer.config import Config

RESULTS_FILE = Path(__file__).parents[2] / 'RESULTS.md'
SCORES = Path(__file__).parents[1] / 'scores'


def main(argv: Sequence[str]) -> int:
    arguments, fields = _parser().parse_known_args(argv)
    try:
        chosen = [table for name in arguments.names for table in tables_of(name, arguments.name, fields)]
        _check(arguments, chosen)
        is_good = arguments.only_print or _work_on(chosen, arguments)
        for table in chosen:
            rows = report(table, arguments.runs, SCORES if arguments.write else None)
            print('\n'.join([head(table), *(markdown(table, row) for row in rows)]), flush=True)
            if arguments.write:
                write(table, rows, arguments.runs)
    except (Stopped, KeyboardInterrupt):
        print('stopped; the same command continues', file=sys.stderr)
        return EXIT_CODE
    except (UserError, OSError) as error:
        print(f'reproduce: {error}', file=sys.stderr)
        return 2
    return 0 if is_good else 1


def _check(arguments: argparse.Namespace, tables: Sequence[Table]) -> None:
    """Raises UserError for mistakes that would otherwise surface hours later."""
    seeds = arguments.seeds
    if min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise UserError(f'--seeds {" ".join(map(str, seeds))}: expected different numbers from 0')
    if arguments.ensemble and len(seeds) < 2:
        raise UserError(f'--ensemble with --seeds {seeds[0]}: expected two seeds or more')
    if arguments.write and (own := [table for table in tables if table.name not in TABLES]):
        raise UserError(f'--write: {own[0].entries[0].name} has no row in RESULTS.md')
    names = []
    for runs, entries in _experiments(tables, arguments.runs):
        name = runs.experiment.name
        if name in names:
            raise UserError(f'{name}: got two configs of this name, expected one; give another --name')
        names.append(name)
        _check_config(runs, entries)


def _check_config(runs: Runs, entries: Sequence[Entry]) -> None:
    try:
        config = runs.config(0)
    except UserError as error:
        if runs.experiment.fields:
            raise
        names = ', '.join([*TABLES, *(each.name for each in experiments())])
        raise UserError(f'{error}\nExperiments and tables: {names}') from None
    if config.task != Config.task:
        raise UserError(f'{runs.experiment.config} is of the task {config.task}, expected one of {Config.task}')
    for entry in entries:
        runs.options(entry.measure)


def _work_on(tables: Sequence[Table], arguments: argparse.Namespace) -> bool:
    """Does what is missing for the tables; whether all of it worked."""
    is_good = True
    for runs, entries in _experiments(tables, arguments.runs):
        groups = [arguments.seeds] if arguments.ensemble else []
        try:
            is_good &= work(runs, entries, arguments.seeds, groups, has_test=arguments.test)
        except UserError as error:
            print(f'reproduce: {runs.experiment.name}: {error}', file=sys.stderr, flush=True)
            is_good = False
    return is_good


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='reproduce', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument('names', nargs='+', help='experiments, tables or configs')
    parser.add_argument('--seeds', nargs='+', type=int, default=[1, 2, 3])
    parser.add_argument('--runs', type=Path, default=Path('runs/reproduce'), help='the folder of all runs')
    parser.add_argument('--name', help='of an experiment whose fields are changed')
    parser.add_argument('--no-test', dest='test', action='store_false', help='while hyper-parameters are being chosen')
    parser.add_argument('--ensemble', action='store_true', help='score the seeds together, too')
    parser.add_argument('--only-print', action='store_true', help='train and score nothing')
    parser.add_argument('--write', action='store_true', help='put the rows into RESULTS.md and benchmarks/scores/')
    return parser


def tables_of(name: str, own_name: str | None, fields: Sequence[str]) -> list[Table]:
    """The tables, or parts of them, that a name means."""
    is_registered = not fields and own_name is None
    if is_registered and name in TABLES:
        return [TABLES[name]]
    names = [experiment.name for experiment in experiments()]
    if is_registered and name in names:
        parts = ((table, [e for e in table.entries if e.experiment.name == name]) for table in TABLES.values())
        return [replace(table, entries=tuple(entries)) for table, entries in parts if entries]
    if fields and own_name is None:
        raise UserError(f'{name}: got the options {" ".join(fields)}, expected --name with them, for their runs')
    if own_name is not None and (not Path(own_name).name or {'..', '/'} & set(Path(own_name).parts)):
        raise UserError(f'--name {own_name}: expected the name of a folder below --runs')
    experiment = Experiment(own_name or Path(name).stem, name, tuple(fields))
    if experiment.name in names:
        raise UserError(f'{experiment.name} is an experiment in tables.py; give another --name')
    return [Table('own', 'results', (Entry(experiment.name, experiment),))]


def _experiments(tables: Sequence[Table], folder: Path) -> Iterator[tuple[Runs, list[Entry]]]:
    """Each experiment once, with all its rows."""
    entries = [entry for table in tables for entry in table.entries]
    for experiment in dict.fromkeys(entry.experiment for entry in entries):
        yield Runs(experiment, folder), [entry for entry in entries if entry.experiment == experiment]


def work(
    runs: Runs,
    entries: Sequence[Entry],
    numbers: Sequence[int],
    ensembles: Sequence[Sequence[int]] = (),
    *,
    has_test: bool = True,
) -> bool:
    """Trains and scores what is missing, a seed at a time, then ensembles of them; whether all of it worked."""
    failed = set()
    for group in (*([seed] for seed in numbers), *ensembles):
        print(f'{runs.experiment.name}, seed {", ".join(map(str, group))}', file=sys.stderr, flush=True)
        if len(group) == 1 and not runs.train(group[0]):
            failed |= set(group)
        if failed & set(group):
            continue
        for measure in dict.fromkeys(entry.measure for entry in entries):
            for part in runs.options(measure):
                if (has_test or part != 'test') and not runs.score(group, measure, part):
                    failed |= set(group)
    return not failed


def report(table: Table, folder: Path, scores: Path | None = None) -> list[Row]:
    """The table's rows, of these runs and of those whose logs the folder `scores` keeps.

    Those of an experiment with runs here are also written next to them, as JSON.
    """
    found = []
    for runs, entries in _experiments([table], folder):
        events, rows = _events(runs, scores), []
        for entry in entries:
            rows += make_rows(entry, events, runs.settings, runs.options(entry.measure))
        if runs.log.read():
            write_whole(runs.folder / f'rows-{table.name}.json', _json(rows))
        found += rows
    return found


def _events(runs: Runs, scores: Path | None) -> list[Event]:
    if scores is None:
        return runs.log.read()
    return joined(kept_log(scores, runs.experiment), runs.log, runs.settings)


def write(table: Table, rows: Sequence[Row], folder: Path) -> None:
    """Puts the rows into RESULTS.md and, before that, what they come from into the folder of scores."""
    whole = TABLES.get(table.name, table)  # `table` may have only some of its rows
    document = replaced(RESULTS_FILE.read_text(encoding='utf-8'), whole, report(whole, folder, SCORES))
    for runs, entries in _experiments([table], folder):
        if runs.log.read():
            keep(kept_log(SCORES, runs.experiment), _events(runs, SCORES))
        for teacher, _ in runs.teachers:  # each machine trains its own
            keep_unless_another(kept_log(SCORES, teacher.experiment), teacher.log)
        for entry in entries:
            (row,) = (row for row in rows if row.name == entry.name)
            if entry.attribution and row.test:
                keep_translations(entry, runs, row, SCORES / f'{runs.experiment.name}.tsv')
    write_whole(RESULTS_FILE, document)


def _json(rows: Sequence[Row]) -> str:
    return json.dumps([asdict(row) for row in rows], indent=1) + '\n'


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
