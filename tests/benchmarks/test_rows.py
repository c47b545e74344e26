"""Rows of RESULTS.md, from logs."""

import re

import pytest
from conftest import ROOT
from reproduce_events import ENTRY, OPTIONS, TINY, begun, other, rows, scored, trained

from benchmarks.reproduce.document import markdown, replaced, spread
from benchmarks.reproduce.experiments import VALIDATION_ONLY, Entry, Experiment
from benchmarks.reproduce.tables import RESULTS, TABLES


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


def test_a_row_says_what_is_not_known_and_what_was_done_twice() -> None:
    events = [*trained(1)[:1], *trained(1), scored(40, 1), scored(41, 1)]
    (row,) = rows(ENTRY, events)
    assert (row.test_scorings, [one['bleu'] for one in row.test]) == (2, [41])
    line = markdown(RESULTS, row)
    assert ', scored 2 times |' in line
    assert '| at least 4, at least 2 |' in line


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


def test_a_row_names_the_commit_of_its_scores_where_it_is_another() -> None:
    (row,) = rows(ENTRY, [*trained(1), scored(40, 1, part='validation'), scored(40, 1, commit='def')])
    assert '| abc; scored at def |' in markdown(RESULTS, row)


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


def test_an_ensemble_has_a_row_of_its_own() -> None:
    events = [*trained(1), *trained(2), scored(40, 1), scored(41, 2), scored(43, 1, 2)]
    row, both = rows(ENTRY, events)
    assert [one['bleu'] for one in row.test] == [40, 41]
    assert (both.name, both.seeds, [one['bleu'] for one in both.test]) == ('tiny, ensemble of 1, 2', [1, 2], [43])
    assert both.command.endswith("SEEDS='1 2' ARGS='--ensemble --name tiny'")
    assert '| 8, 4 | 2 x CPU |' in markdown(RESULTS, both)  # what both together cost
    _, *ensembles = rows(ENTRY, [*events, scored(44, 1, 2, 3)])
    assert [row.name for row in ensembles] == [both.name, 'tiny, ensemble of 1, 2, 3']


def test_an_ensemble_with_a_member_that_was_trained_again_has_no_row() -> None:
    events = [*trained(1), *trained(2), scored(40, 1), scored(41, 2), scored(43, 1, 2)]
    again = scored(41, 2) | {'digests': ['another run']}
    assert [row.name for row in rows(ENTRY, [*events, *trained(2), again])] == ['tiny']


def test_an_ablation_has_no_test_scores() -> None:
    entry = Entry('pre_norm', TINY, VALIDATION_ONLY, 'pre-LN')
    only = {'validation': OPTIONS['validation']}
    (row,) = rows(entry, [*trained(1), scored(40, 1, part='validation'), scored(99, 1)], only)
    assert row.test == []
    assert markdown(TABLES['model'], row) == '| pre_norm | pre-LN | 1 | 40.00 | 30.0 | 1.00 | 4, 2 | abc |'
    assert markdown(TABLES['decoding'], row) == '| pre_norm | 1 | 40.00 | 1.00 |'


def test_the_command_of_a_row_repeats_changed_fields() -> None:
    entry = Entry('trial', Experiment('trial', 'number_words', ('--training.steps', '2')))
    (row,) = rows(entry, [])
    expected = "make reproduce CONFIG=number_words SEEDS='1 2 3' ARGS='--name trial --training.steps 2'"
    assert row.command == expected
    _, both = rows(entry, [*trained(1), *trained(2), scored(40, 1, 2)])
    assert both.command.endswith("SEEDS='1 2' ARGS='--ensemble --name trial --training.steps 2'")
    (row,) = rows(Entry('mine', Experiment('mine', 'dir/mine.py')), [])
    assert row.command == "make reproduce CONFIG=dir/mine.py SEEDS='1 2 3'"


def test_rows_take_the_place_of_those_between_the_comments_and_ensembles_come_last() -> None:
    alone, both = rows(ENTRY, [*trained(1), *trained(2), scored(40, 1), scored(43, 1, 2)])
    text = 'above\n<!-- results: begin -->\n| old |\n<!-- results: end -->\nbelow\n'
    new = replaced(text, RESULTS, [both, alone])
    assert new.startswith('above\n<!-- results: begin -->\n| result | seeds |')
    lines = [markdown(RESULTS, alone), markdown(RESULTS, both), '<!-- results: end -->', 'below']
    assert new.splitlines()[4:] == lines
    assert replaced(new, RESULTS, [both, alone]) == new
    with pytest.raises(ValueError, match='decoding: begin'):
        replaced(text, TABLES['decoding'], [])


def test_the_document_has_a_row_for_each_entry() -> None:
    text = (ROOT / 'RESULTS.md').read_text(encoding='utf-8')
    for table in TABLES.values():
        inside = text.split(f'<!-- {table.name}: begin -->\n')[1].split(f'<!-- {table.name}: end -->')[0]
        found = [[cell.strip() for cell in re.split(r'(?<!\\)\|', line)[1:-1]] for line in inside.splitlines()]
        names, lines = found[0], [dict(zip(found[0], line, strict=True)) for line in found[2:]]
        assert [line[names[0]] for line in lines[: len(table.entries)]] == [entry.name for entry in table.entries]
        for line, entry in zip(lines, table.entries, strict=False):
            assert line.get('what differs', entry.what) == entry.what
            assert line.get('published', entry.published) == entry.published
