"""Blocks planned by other processes are those planned here, in any number of them; no process outlives its reader."""

import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import grain
import numpy as np
import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext import cache
from flax_transformer.data.bitext.batches import Batch, PackedBatches
from flax_transformer.data.bitext.packing import PackingPlan, Sampling
from flax_transformer.data.bitext.text_files import AlignedFiles
from flax_transformer.data.bitext.workers import Workers, default_workers
from flax_transformer.data.order import Order
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

SLOTS = {'source_slots': 64, 'target_slots': 64}
LINES = [' '.join(np.random.default_rng(i).choice(['seven', 'wizards', 'mix', 'a', 'potion'], 6)) for i in range(300)]
TOKENIZER = SentencePieceTokenizer.train(LINES, vocab_size=40, byte_fallback=False)


@pytest.fixture(scope='module')
def plan(tmp_path_factory: pytest.TempPathFactory) -> PackingPlan:
    """Of a mapped corpus, with BPE-dropout."""
    folder = tmp_path_factory.mktemp('text')
    files = [folder / 'train.en', folder / 'train.de']
    for file, lines in zip(files, (LINES, LINES[::-1]), strict=True):
        file.write_text(''.join(f'{line}\n' for line in lines))
    settings = cache.Settings(64, 64, keep_text=True)
    pairs = cache.cached_pairs(AlignedFiles('lines', [tuple(files)]), TOKENIZER, settings, folder / 'cache')
    order = Order([300], [1], block_size=40, seed=3)
    return PackingPlan([pairs], order, **SLOTS, seed=3, sampling=Sampling(TOKENIZER, 0.2, [[]]))


def batches(plan: PackingPlan, workers: int) -> PackedBatches:
    return PackedBatches(plan, num_rows=6, **SLOTS, pad_id=0, workers=workers)


def assert_equal(got: list[Batch], expected: list[Batch]) -> None:
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        for a, b in zip(one[:6], other[:6], strict=True):
            np.testing.assert_array_equal(a, b)


def children() -> set[int]:
    """Processes that this one has started and that run, or were not waited for."""
    listed = subprocess.run(
        ['ps', '-ww', '-o', 'pid=,args=', '--ppid', str(os.getpid())], capture_output=True, text=True
    )
    return {int(line.split()[0]) for line in listed.stdout.splitlines() if 'spawn_main' in line or 'defunct' in line}


def test_batches_places_and_resumes_are_those_of_one_thread(plan: PackingPlan) -> None:
    """Through the engine's prefetcher too; a run may go on with another number of workers."""
    alone = iter(batches(plan, 0))
    places, expected = zip(*((alone.get_state(), next(alone)) for _ in range(25)), strict=True)
    reader = iter(grain.experimental.ThreadPrefetchIterDataset(batches(plan, 2), prefetch_buffer_size=2))
    got = []
    for place in places[:15]:
        assert reader.get_state() == place  # that of the batch handed out last, not of those planned ahead
        got.append(next(reader))
    assert_equal(got, expected[:15])
    for place in (20, 3):  # forwards, and back
        reader.set_state(places[place])
        assert_equal([next(reader) for _ in range(4)], expected[place : place + 4])
    reader.close()
    assert not children()


@pytest.mark.slow
def test_a_forgotten_reader_leaves_no_process(plan: PackingPlan) -> None:
    reader = iter(batches(plan, 2))
    next(reader)
    assert len(children()) == 2
    del reader
    gc.collect()
    assert not children()


def test_a_worker_that_dies_is_an_error_and_no_hang(plan: PackingPlan) -> None:
    reader = iter(batches(plan, 2))
    next(reader)
    for process in children():
        os.kill(process, signal.SIGKILL)
    with pytest.raises(UserError, match=r'has died.* --data.workers'):
        list(itertools.islice(reader, 100))
    reader.close()
    assert not children()


@pytest.mark.slow
def test_signals_that_a_terminal_sends_to_all_are_left_to_the_trainer(plan: PackingPlan) -> None:
    """Ctrl-C and SIGTERM reach the workers as well; the trainer still needs batches to end its step."""
    reader, alone = iter(batches(plan, 2)), iter(batches(plan, 0))
    for _ in range(3):
        for process in children():
            os.kill(process, signal.SIGINT)
            os.kill(process, signal.SIGTERM)
        assert_equal(list(itertools.islice(reader, 12)), list(itertools.islice(alone, 12)))
    reader.close()


def test_an_error_of_a_worker_comes_at_its_block(plan: PackingPlan) -> None:
    """Longer sentences than rows: only some of the blocks have one."""
    sides = plan.corpora[0].source, plan.corpora[0].target
    slots = {
        f'{name}_slots': int(side.lengths.max()) - 1 for name, side in zip(('source', 'target'), sides, strict=True)
    }
    faulty = PackingPlan(plan.corpora, Order([300], [1], block_size=2, seed=3), **slots, seed=3)

    def read(rows):
        for block in itertools.count():
            try:
                rows(block)
            except ValueError as error:
                return block, str(error)

    workers = Workers(faulty, 2)
    expected = read(faulty.rows)
    assert expected[0] > 3
    assert read(workers.rows) == expected
    workers.close()


def test_a_cache_that_was_removed_is_an_error(plan: PackingPlan, tmp_path: Path) -> None:
    (pairs,) = plan.corpora
    stored = pickle.dumps(pairs)
    assert len(stored) < 1000  # not the ids
    again = pickle.loads(stored)
    np.testing.assert_array_equal(again.target.ids, pairs.target.ids)
    with pytest.raises(UserError, match='was removed or changed while training started'):
        pickle.loads(pickle.dumps(replace(pairs, folder=tmp_path)))
    with pytest.raises(UserError, match='was removed or changed while training started'):
        pickle.loads(pickle.dumps(replace(pairs, fingerprint='another')))


def test_workers_end_with_a_process_that_is_killed_and_do_not_run_its_script(plan: PackingPlan, tmp_path: Path) -> None:
    (tmp_path / 'plan').write_bytes(pickle.dumps(plan))
    script = tmp_path / 'script.py'  # without `if __name__ == '__main__'`
    script.write_text(
        'import multiprocessing, os, pickle, signal\n'
        'from pathlib import Path\n'
        'from flax_transformer.data.bitext.workers import Workers\n'
        f'workers = Workers(pickle.loads(Path({str(tmp_path / "plan")!r}).read_bytes()), 2)\n'
        'for block in range(4):\n'
        '    workers.rows(block)\n'
        'print(*(process.pid for process in multiprocessing.active_children()), flush=True)\n'
        'os.kill(os.getpid(), signal.SIGKILL)\n'
    )
    killed = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    output, errors = killed.communicate(timeout=60)  # returns once the workers have closed these pipes too
    assert killed.returncode == -signal.SIGKILL
    assert len(output.split()) == 2
    assert 'Traceback' not in errors


def test_small_corpora_are_planned_in_the_thread_that_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, 'sched_getaffinity', lambda _: set(range(4)))
    sizes = (1, 1 << 13, (1 << 13) + 1, 1 << 16, (1 << 16) + 1, 10**9)
    assert [default_workers(pairs, is_drawn=False) for pairs in sizes] == [0, 0, 0, 0, 2, 2]
    assert [default_workers(pairs, is_drawn=True) for pairs in sizes] == [0, 0, 2, 2, 2, 2]
    for cores, expected in ((1, 0), (2, 1), (3, 1), (128, 8)):
        monkeypatch.setattr(os, 'sched_getaffinity', lambda _, cores=cores: set(range(cores)))
        assert default_workers(10**9, is_drawn=False) == expected
