"""Five million pairs of WMT-like lengths: how fast they are prepared and read, in how much memory.

    python benchmarks/data.py [--pairs 5000000] [--folder FOLDER]

Prints one line of JSON: pairs prepared a second (with the tokenizer's training, and without), the largest resident
memory of preparing and of reading, the seconds from the start of a fresh process to its first batch, how many times
faster batches come than a tiny model trains on them, and how full their rows are. The text is `generated_text.py`'s.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from generated_text import config, write_corpus
from measuring import peak_mib, resident_mib, run, seconds_in_turn
from workload import training_step

from flax_transformer.config import Config
from flax_transformer.data.bitext.sources import open_training
from flax_transformer.tasks.translation.preparation import prepare, train_tokenizer


def prepare_stage(settings: Config, folder: Path) -> dict[str, float]:
    """Trains the tokenizer and tokenizes, in this process alone."""
    began = time.perf_counter()
    tokenizer = train_tokenizer(settings, [open_training(corpus, settings.data)[0] for corpus in settings.data.corpora])
    trained = time.perf_counter()
    tokenizer.save(folder / 'tokenizer')
    memory = peak_mib()
    prepared = prepare(settings, tokenizer, folder / 'cache', say=lambda text: print(text, file=sys.stderr))
    seconds = time.perf_counter() - trained
    pairs = prepared.corpora[0]
    total = len(pairs) + pairs.num_blank + pairs.num_too_long
    return {
        'pairs': total,
        'tokens_per_pair': float(pairs.source.offsets[-1] + pairs.target.offsets[-1]) / len(pairs),
        'tokenizer_seconds': trained - began,
        'prepare_seconds': seconds,
        'prepared_pairs_per_second': total / seconds,
        'with_tokenizer_pairs_per_second': total / (time.perf_counter() - began),
        'tokenizer_resident_mib': memory,
        'prepare_resident_mib': peak_mib(),
    }


def read_stage(settings: Config, folder: Path, began: float, rounds: int) -> dict[str, float]:
    """Times the first batch from the process's start, then many batches, then trains the tiny model on more."""
    from flax_transformer.tasks.translation.training import TrainingData
    from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

    imported = resident_mib()
    tokenizer = SentencePieceTokenizer.load(folder / 'tokenizer')
    batches = iter(TrainingData(settings, prepare(settings, tokenizer, folder / 'cache', say=lambda text: None)))
    next(batches)
    first_batch = time.time() - began
    rates, filled = [], []
    for _ in range(rounds):
        start, tokens = time.perf_counter(), 0
        for _ in range(300):
            batch = next(batches)
            tokens += int((batch.target_segments > 0).sum())
            filled.append([(s > 0).mean() for s in (batch.source_segments, batch.target_segments)])
        rates.append(tokens / (time.perf_counter() - start))
    data_side, read = resident_mib() - imported, statistics.median(rates)
    trained = train_tokens_per_second(settings, rounds)
    source_fill, target_fill = np.mean(filled, axis=0)
    return {
        'first_batch_seconds': first_batch,
        'read_resident_mib': data_side,
        'read_target_tokens_per_second': read,
        'tiny_model_target_tokens_per_second': trained,
        'times_faster_than_training': read / trained,
        'source_fill': float(source_fill),
        'target_fill': float(target_fill),
    }


def train_tokens_per_second(settings: Config, rounds: int) -> float:
    """Returns the median over some steps of the tiny model on this machine."""
    from flax_transformer.tasks.api import make_trainer

    # A vocabulary of 8,000, which it trains faster with.
    trainer = make_trainer(replace(settings, model=replace(settings.model, vocab_size=8000)))
    seconds = seconds_in_turn({'': training_step(trainer, 8000, length=32)}, rounds)['']
    return settings.training.tokens_per_step / statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--pairs', type=int, default=5_000_000)
    parser.add_argument('--folder', type=Path, help='keeps the corpus there, and uses the one that is there')
    parser.add_argument('--vocab-size', type=int, default=32_000)
    parser.add_argument('--rounds', type=int, default=7, help='of reading 300 batches, and of training on one')
    parser.add_argument('--stage', choices=['prepare', 'read'], help=argparse.SUPPRESS)
    parser.add_argument('--began', type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stage:
        settings = config(args.folder, args.vocab_size)
        if args.stage == 'prepare':
            print(json.dumps(prepare_stage(settings, args.folder)))
        else:
            print(json.dumps(read_stage(settings, args.folder, args.began, args.rounds)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / 'train.yy').exists():
            write_corpus(folder, args.pairs)
        shutil.rmtree(folder / 'cache', ignore_errors=True)
        results = {}
        sizes = ('--folder', folder, '--vocab-size', args.vocab_size, '--rounds', args.rounds)
        for stage in ('prepare', 'read'):
            printed, _ = run(sys.executable, __file__, '--stage', stage, '--began', time.time(), *sizes)
            results |= json.loads(printed.splitlines()[-1])
    print(json.dumps({name: round(value, 3) for name, value in results.items()}))


if __name__ == '__main__':
    main()
