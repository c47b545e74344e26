"""The log of an experiment, and those of several machines."""

from pathlib import Path
from typing import Any

import pytest
from reproduce_events import SETTINGS, other, scored, trained

from benchmarks.reproduce.log import Log, joined, keep
from flax_transformer.common.errors import UserError


def test_a_line_that_a_kill_has_cut_is_passed_over(tmp_path: Path) -> None:
    log = Log(tmp_path / 'new' / 'log.jsonl')
    assert log.read() == []
    log.add('train', seed=1)
    with log.file.open('a') as opened:
        opened.write('{"event": "trai')
    log.add('train', seed=2)
    assert [event['seed'] for event in log.read()] == [1, 2]


def _log(file: Path, *events: dict[str, Any]) -> Log:
    log = Log(file)
    for event in events:
        log.add(**event)
    return log


def test_logs_of_several_machines_are_added_up(tmp_path: Path) -> None:
    kept, own = (_log(tmp_path / name, *trained(seed)) for name, seed in (('kept', 1), ('own', 2)))
    once = joined(kept, own, SETTINGS)
    assert [event['seed'] for event in once] == [1, 1, 2, 2]
    keep(kept, once)
    own.add(**scored(40, 2))
    assert joined(kept, own, SETTINGS) == [*once, own.read()[-1]]


def test_another_run_of_a_kept_seed_is_refused_unless_its_config_was_another(tmp_path: Path) -> None:
    kept, own = (_log(tmp_path / name, *trained(1, minutes)) for name, minutes in (('kept', 2), ('own', 3)))
    with pytest.raises(UserError, match=r'seed 1 .*: expected one run, got one in .*kept and another in .*own; take'):
        joined(kept, own, SETTINGS)
    earlier = _log(tmp_path / 'earlier', *other(trained(1), **{'model.d_model': 4}))
    assert len(joined(earlier, own, SETTINGS)) == 4


def test_seeds_that_were_trained_on_different_text_are_refused(tmp_path: Path) -> None:
    def log(name: str, seed: int, **corpus: str) -> Log:
        begin, end = trained(seed)
        return _log(tmp_path / name, begin, end | {'corpus': corpus})

    kept, same, other_text = log('kept', 1, train='a', dev='b'), log('same', 2, train='a'), log('other', 3, train='c')
    assert len(joined(kept, same, SETTINGS)) == 4
    with pytest.raises(UserError, match='train: seed 3 had SHA-256 c, seed 1 had a; expected one text'):
        joined(kept, other_text, SETTINGS)
    another_config = _log(tmp_path / 'changed', *other(other_text.read(), **{'model.d_model': 4}))
    assert len(joined(kept, another_config, SETTINGS)) == 4
