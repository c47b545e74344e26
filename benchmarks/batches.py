"""How fast training batches are made, by how many workers, and how long a fast consumer waits for them.

    python benchmarks/batches.py [--train 'multi30k/train.{lang}.gz' --languages en de] [--pairs 500000]

Prints one line of JSON: target tokens a second of batches of 65,536 slots, by the number of workers, plain and with
BPE-dropout at 0.1; for a consumer that takes 5 million tokens a second (500,000 with BPE-dropout), the share of time
that it waits; and whether all made the same batches. The text is repeated to --pairs; without --train it is generated.
"""

import argparse
import hashlib
import itertools
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import generated_text as generated
import grain
import numpy as np

from flax_transformer.config import Config
from flax_transformer.data.bitext.sources import open_training, read_corpus
from flax_transformer.tasks.translation.preparation import Prepared, prepare, train_tokenizer
from flax_transformer.tasks.translation.training import TrainingData

SPEEDS = {'plain': 5e6, 'bpe_dropout': 5e5}  # target tokens a second


def corpus(folder: Path, args: argparse.Namespace) -> Config:
    """The config of the text, which is written to the folder and repeated to so many pairs."""
    config = generated.config(folder, args.vocab_size)
    if not args.train:
        generated.write_corpus(folder, args.pairs)
    else:
        source, target = args.languages
        named = replace(config.data, train=args.train, root=None, source_language=source, target_language=target)
        pairs = read_corpus(args.train, named)
        for language, lines in zip(generated.LANGUAGES, (pairs.sources, pairs.targets), strict=True):
            repeated = itertools.islice(itertools.cycle(lines), args.pairs)
            (folder / f'train.{language}').write_text(''.join(f'{line}\n' for line in repeated), encoding='utf-8')
    return replace(config, training=replace(config.training, tokens_per_step=65_536))


def measure(config: Config, prepared: Prepared, speed: float, seconds: float, warm_up: float) -> dict[str, float | str]:
    """Tokens a second, the share of waiting at a speed, and a hash of the first batches."""
    batches = iter(grain.experimental.ThreadPrefetchIterDataset(TrainingData(config, prepared), prefetch_buffer_size=8))
    first = [next(batches) for _ in range(20)]
    digest = hashlib.sha256(b''.join(array.tobytes() for batch in first for array in batch[:6])).hexdigest()
    read(batches, warm_up, float('inf'))
    tokens, elapsed, _ = read(batches, seconds, float('inf'))
    time.sleep(0.2)
    _, all_time, waited = read(batches, seconds, speed)
    batches.close()
    return {'tokens_per_second': tokens / elapsed, 'waiting': waited / all_time, 'digest': digest}


def read(batches: grain.DatasetIterator, seconds: float, speed: float) -> tuple[int, float, float]:
    """Tokens, seconds, and seconds waited for batches, by a consumer that computes on tokens / speed for each."""
    tokens, waited, began = 0, 0.0, time.perf_counter()
    while (now := time.perf_counter()) < began + seconds:
        batch = next(batches)
        waited += time.perf_counter() - now
        tokens += int(np.count_nonzero(batch.target_segments))
        time.sleep(max(began + waited + tokens / speed - time.perf_counter(), 0))
    return tokens, time.perf_counter() - began, waited


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--train', help='a corpus as data.train names it, relative to $FLAX_TRANSFORMER_DATA')
    parser.add_argument('--languages', nargs=2, default=['en', 'de'])
    parser.add_argument('--pairs', type=int, default=500_000)
    parser.add_argument('--vocab-size', type=int, default=8000)
    parser.add_argument('--workers', type=int, nargs='+', default=[0, 1, 2, 4])
    parser.add_argument('--seconds', type=float, default=5.0, help='of each measurement')
    parser.add_argument('--warm-up', type=float, default=3.0, help='seconds: a run compiles its first step for longer')
    args = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        config = corpus(folder, args)
        tokenizer = train_tokenizer(config, [open_training(corpus, config.data)[0] for corpus in config.data.corpora])
        for name, speed in SPEEDS.items():
            config = replace(config, data=replace(config.data, bpe_dropout=0.1 if name == 'bpe_dropout' else 0.0))
            prepared = prepare(config, tokenizer, folder / 'cache', say=lambda text: None)
            digests = set()
            for workers in args.workers:
                with_workers = replace(config, data=replace(config.data, workers=workers))
                measured = measure(with_workers, prepared, speed, args.seconds, args.warm_up)
                digests.add(measured.pop('digest'))
                results |= {f'{name}_{workers}_{what}': value for what, value in measured.items()}
            results[f'{name}_same_batches'] = len(digests) == 1
    print(json.dumps({name: round(value, 4) for name, value in results.items()}))


if __name__ == '__main__':
    main()
