"""Rows of RESULTS.md, from logs."""

from reproduce_fakes import ENTRY, other, rows, scored, trained

from benchmarks.reproduce.rows import markdown
from benchmarks.reproduce.tables import TABLES


def line(row) -> str:
    return markdown(TABLES['results'], [row]).splitlines()[-1]


def test_a_row_has_every_seed_the_bad_ones_too() -> None:
    events = [
        *trained(1, 75), *trained(1), *scored(42, 1, part='validation'), *scored(41, 1),
        *trained(2), *scored(41.5, 2, part='validation'), *scored(40, 2),
        *trained(3, 1), *trained(4)[:1], *trained(5), *trained(6, 75),
    ]  # fmt: skip
    (row,) = rows(ENTRY, events)
    problems = '3 failed (exit code 1); 4 is not finished; 5 is not scored; 6 is not finished'
    assert line(row).startswith(f'| tiny | 1, 2; {problems} | 41.75 ± 0.35')
    assert '| 40.50 ± 0.71 (41.00, 40.00)<br>`nrefs:1\\|tok:none` |' in line(row)
    assert '| 41.02, somebody | 6, 3 | 2 x CPU | abc |' in line(row)
    assert line(row).endswith("`make reproduce CONFIG=tiny SEEDS='1 2'` |")


def test_a_scoring_that_was_killed_counts() -> None:
    begun, done = scored(40, 1)
    (row,) = rows(ENTRY, [*trained(1), begun, begun, done])
    assert '`, scored 2 times |' in line(row)
    (row,) = rows(ENTRY, [*trained(1), begun, done])
    assert 'times |' not in line(row)


def test_of_an_earlier_config_a_row_says_only_that_it_was_run() -> None:
    old = other([*trained(1, minutes=9), *scored(50, 1), *trained(2)], **{'model.d_model': 4})
    (row,) = rows(ENTRY, [*old, *trained(1), *scored(40, 1)])
    assert line(row).startswith('| tiny | 1; 1, 2 with an earlier config | not run yet | 40.00<br>')
    assert '| 4, 2 |' in line(row)
    (row,) = rows(ENTRY, old)
    assert line(row).startswith('| tiny | 1, 2 with an earlier config | not run yet | not run yet |')


def test_a_change_of_decoding_keeps_the_training_and_not_the_score() -> None:
    then = other([*trained(1, minutes=0), *scored(50, 1)], **{'decoding.alpha': 2})
    (row,) = rows(ENTRY, [*trained(1), *scored(40, 1), *then])
    assert row.values('test', 'bleu') == [40]
    assert '`, scored 2 times |' in line(row)
    (row,) = rows(ENTRY, [*trained(1), *then])
    assert (row.seeds, row.problems) == ([], ['1 is not scored'])


def test_what_a_row_does_not_know_is_left_out() -> None:
    begin, _ = trained(1)  # killed, and then trained by hand
    (row,) = rows(ENTRY, [begin, *scored(40, 1)])
    assert '| 41.02, somebody |  |  | abc |' in line(row)
    (row,) = rows(ENTRY, [begin, *trained(1), *scored(40, 1)])
    assert '| at least 4, at least 2 |' in line(row)


def test_while_the_test_set_waits_the_validation_set_counts() -> None:
    events = [*trained(1), *trained(2), *(e for seed in (1, 2) for e in scored(40 + seed, seed, part='validation'))]
    (row,) = rows(ENTRY, events)
    assert '| 41.50 ± 0.71 (41.00, 42.00)<br>`nrefs:1\\|tok:none` | not run yet |' in line(row)
    (row,) = rows(ENTRY, [*events, *scored(40, 1)])
    assert (row.seeds, row.problems) == ([1, 2], ['2 is not scored on the test set'])


def test_an_ensemble_has_a_row_of_its_own() -> None:
    _, both = rows(ENTRY, [*trained(1), *trained(2), *scored(40, 2, 1)])
    assert line(both).startswith('| tiny, ensemble of 1, 2 | 2, 1 | not run yet | 40.00<br>')
    assert '|  | 8, 4 |' in line(both)  # nothing published; the sum of their times
    assert line(both).endswith("SEEDS='2 1' ARGS=--ensemble` |")
