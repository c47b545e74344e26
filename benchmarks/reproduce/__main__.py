"""Trains the seeds of an experiment, scores them, and prints their rows as they stand in RESULTS.md.

    python -m benchmarks.reproduce ablations/pre_norm decoding --seeds 1  # a row of a table, and all rows of another

Run it from the checkout. Stopped by Ctrl-C or SIGTERM, or killed, it continues when started again: seeds that are
finished are not trained again, and a run that has been scored is not scored again unless it has changed. All starts,
ends, failures and scores are in log.jsonl next to the runs. With --write, the log is added to benchmarks/scores/, which
has those of other machines, too, and their tables in RESULTS.md are made of it anew. tables.py has all names.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.reproduce.log import read_logs
from benchmarks.reproduce.rows import Row, make_rows, markdown, replaced
from benchmarks.reproduce.tables import TABLES, Entry, Table, experiments
from benchmarks.reproduce.training import Runs
from flax_transformer.common.errors import EXIT_CODE, UserError
from flax_transformer.common.files import write_whole

RESULTS_FILE = Path(__file__).parents[2] / 'RESULTS.md'
SCORES = Path(__file__).parents[1] / 'scores'


def main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    try:
        chosen = [table for name in arguments.names for table in tables_of(name)]
        todo = _experiments(() if arguments.only_print else chosen, arguments.runs)
        options = {'is_ensemble': arguments.ensemble, 'has_test': arguments.test}
        is_good = all([work(*each, arguments.seeds, **options) for each in todo])
        for table in chosen:
            print(markdown(table, report(table, arguments.runs, with_kept=arguments.write)), end='', flush=True)
            if arguments.write:
                write(table, arguments.runs)
    except KeyboardInterrupt:
        print('stopped; the same command continues', file=sys.stderr)
        return EXIT_CODE
    except (UserError, OSError) as error:
        print(f'reproduce: {error}', file=sys.stderr)
        return 2
    return 0 if is_good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog='reproduce', description=__doc__.partition('\n')[0])
    names = [*TABLES, *(experiment.name for experiment in experiments())]
    parser.add_argument('names', nargs='+', choices=names, metavar='NAME', help='of a table or an experiment')
    parser.add_argument('--seeds', nargs='+', type=int, default=[1, 2, 3])
    parser.add_argument('--runs', type=Path, default=Path('runs/reproduce'), help='the folder of all runs')
    parser.add_argument('--no-test', dest='test', action='store_false', help='while hyper-parameters are being chosen')
    parser.add_argument('--ensemble', action='store_true', help='score the seeds together, too')
    parser.add_argument('--only-print', action='store_true', help='train and score nothing')
    parser.add_argument('--write', action='store_true', help='put the rows into RESULTS.md and benchmarks/scores/')
    return parser


def tables_of(name: str) -> list[Table]:
    """The table of this name, or the parts of tables with the experiment of this name."""
    if name in TABLES:
        return [TABLES[name]]
    parts = ((table, [e for e in table.entries if e.experiment.name == name]) for table in TABLES.values())
    return [replace(table, entries=tuple(entries)) for table, entries in parts if entries]


def _experiments(tables: Sequence[Table], folder: Path) -> Iterator[tuple[Runs, list[Entry]]]:
    """Each experiment once, with all its rows."""
    entries = [entry for table in tables for entry in table.entries]
    for experiment in dict.fromkeys(entry.experiment for entry in entries):
        yield Runs(experiment, folder), [entry for entry in entries if entry.experiment == experiment]


def work(
    runs: Runs, entries: Sequence[Entry], seeds: Sequence[int], *, is_ensemble: bool = False, has_test: bool = True
) -> bool:
    """Trains and scores what is missing, a seed at a time, then all together; whether all of it worked."""
    is_good = True
    measures = dict.fromkeys(entry.measure for entry in entries)
    parts = [(measure, part) for measure in measures for part in runs.options(measure) if has_test or part != 'test']
    for seed in seeds:
        print(f'{runs.experiment.name}, seed {seed}', file=sys.stderr, flush=True)
        try:
            is_good &= runs.train(seed) and all([runs.score([seed], *each) for each in parts])
        except UserError as error:
            print(f'reproduce: {runs.experiment.name}: {error}', file=sys.stderr, flush=True)
            is_good = False
    return is_good and (not is_ensemble or all([runs.score(seeds, *each) for each in parts]))


def report(table: Table, folder: Path, *, with_kept: bool) -> list[Row]:
    """The table's rows, of these runs and, `with_kept`, of those whose logs the repository keeps."""
    rows = []
    for runs, entries in _experiments([table], folder):
        events = read_logs(*[_kept(runs)] * with_kept, runs.log)
        for entry in entries:
            rows += make_rows(entry, events, runs.settings, runs.options(entry.measure))
    return rows


def _kept(runs: Runs) -> Path:
    return SCORES / f'{runs.experiment.name}.jsonl'


def write(table: Table, folder: Path) -> None:
    """Adds the logs to those that the repository keeps, and puts the rows into RESULTS.md."""
    for runs, _ in _experiments([table], folder):
        if runs.log.exists():
            _kept(runs).parent.mkdir(parents=True, exist_ok=True)
            write_whole(_kept(runs), ''.join(f'{json.dumps(event)}\n' for event in read_logs(_kept(runs), runs.log)))
    whole = TABLES[table.name]  # `table` may have only some of its rows
    document = RESULTS_FILE.read_text(encoding='utf-8')
    write_whole(RESULTS_FILE, replaced(document, whole, report(whole, folder, with_kept=True)))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
