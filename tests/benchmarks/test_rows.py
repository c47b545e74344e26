"""Rows of RESULTS.md, from logs."""

from reproduce_events import ENTRY, begun, other, rows, scored, trained

from benchmarks.reproduce.document import markdown
from benchmarks.reproduce.experiments import Entry, Experiment
from benchmarks.reproduce.tables import RESULTS


def test_a_row_has_every_seed_the_bad_ones_too() -> None:
    events = [
        *trained(1, 75), *trained(1), scored(42, 1, part='validation'), scored(41, 1),
        *trained(2), scored(41.5, 2, part='validation'), scored(40, 2),
        *trained(3, 1), *trained(4)[:1], *trained(5),
    ]  # fmt: skip
    (row,) = rows(ENTRY, events)
    assert row.seeds == [1, 2]
    assert row.problems == ['3 failed (exit code 1)', '4 is not finished', '5 is not scored']
    assert row.cpu_minutes == [8, 4]
    assert row.is_time_complete
    line = markdown(RESULTS, row)
    assert line.startswith('| tiny | 1, 2; 3 failed (exit code 1); 4 is not finished; 5 is not scored | 41.75 ± 0.35')
    assert '| 40.50 ± 0.71 (41.00, 40.00)<br>`nrefs:1\\|tok:none` |' in line
    assert '| 41.02, somebody | 6, 3 | 2 x CPU | abc |' in line
    assert "make reproduce CONFIG=number_words SEEDS='1 2' ARGS='--name tiny'`" in line


def test_a_scoring_that_was_killed_counts() -> None:
    events = [*trained(1), begun(scored(0, 1)), begun(scored(0, 1)), scored(40, 1)]
    assert [row.test_scorings for row in rows(ENTRY, events)] == [2]
    assert [row.test_scorings for row in rows(ENTRY, [*trained(1), begun(scored(0, 1)), scored(40, 1)])] == [1]


def test_of_an_earlier_config_a_row_says_only_that_it_was_run() -> None:
    old = other([*trained(1, minutes=9), scored(50, 1), *trained(2)], **{'model.d_model': 4})
    (row,) = rows(ENTRY, [*old, *trained(1), scored(40, 1)])
    assert (row.seeds, row.cpu_minutes, [one['bleu'] for one in row.test]) == ([1], [4], [40])
    assert '| tiny | 1; 1, 2 with an earlier config |' in markdown(RESULTS, row)
    (row,) = rows(ENTRY, old)
    assert (row.seeds, row.problems) == ([], ['1, 2 with an earlier config'])


def test_a_change_of_decoding_keeps_the_training_and_not_the_score() -> None:
    at_first, then = (
        [*trained(1), scored(40, 1)],
        other([*trained(1, minutes=0), scored(50, 1)], **{'decoding.alpha': 2}),
    )
    (row,) = rows(ENTRY, [*at_first, *then])
    assert (row.cpu_minutes, [one['bleu'] for one in row.test], row.test_scorings) == ([4], [40], 2)
    (row,) = rows(ENTRY, [*trained(1), *then])
    assert (row.seeds, row.problems) == ([], ['1 is not scored'])


def test_what_a_row_does_not_know_is_left_out() -> None:
    begin, _ = trained(1)  # killed, and then trained by hand
    (row,) = rows(ENTRY, [begin, scored(40, 1)])
    assert '| 41.02, somebody |  |  | abc |' in markdown(RESULTS, row)


def test_a_row_says_why_a_seed_has_no_score() -> None:
    failed, stopped = (
        begun(scored(0, seed, part='validation')) | {'event': 'score failed', 'exit_code': code}
        for seed, code in ((1, 3), (3, 75))
    )
    (row,) = rows(ENTRY, [*trained(1), failed, *trained(2), *trained(2)[:1], *trained(3), stopped])
    assert row.problems == ['1 is not scored (exit code 3)', '2 is not finished', '3 is not scored']


def test_while_the_test_set_waits_the_validation_set_counts() -> None:
    events = [*trained(1), *trained(2), *(scored(40 + seed, seed, part='validation') for seed in (1, 2))]
    (row,) = rows(ENTRY, events)
    assert (row.seeds, row.problems, row.test) == ([1, 2], [], [])
    assert '| 41.50 ± 0.71 (41.00, 42.00)<br>`nrefs:1\\|tok:none` | not run yet |' in markdown(RESULTS, row)
    (row,) = rows(ENTRY, [*events, scored(40, 1)])
    assert (row.seeds, row.tested, row.problems) == ([1, 2], [1], ['2 is not scored on the test set'])


def test_an_ensemble_with_a_member_that_was_trained_again_has_no_row() -> None:
    events = [*trained(1), *trained(2), scored(40, 1), scored(41, 2), scored(43, 1, 2)]
    again = scored(41, 2) | {'digests': ['another run']}
    assert [row.name for row in rows(ENTRY, [*events, *trained(2), again])] == ['tiny']


def test_the_command_of_a_row_repeats_changed_fields() -> None:
    entry = Entry('trial', Experiment('trial', 'number_words', ('--training.steps', '2')))
    (row,) = rows(entry, [])
    expected = "make reproduce CONFIG=number_words SEEDS='1 2 3' ARGS='--name trial --training.steps 2'"
    assert row.command == expected
    _, both = rows(entry, [*trained(1), *trained(2), scored(40, 1, 2)])
    assert both.command.endswith("SEEDS='1 2' ARGS='--ensemble --name trial --training.steps 2'")
    (row,) = rows(Entry('mine', Experiment('mine', 'dir/mine.py')), [])
    assert row.command == "make reproduce CONFIG=dir/mine.py SEEDS='1 2 3'"
