"""Five million pairs of WMT-like lengths: how fast they are prepared and read, in how much memory.

    python benchmarks/data.py [--pairs 5000000] [--folder FOLDER]

Prints one line of JSON: pairs prepared a second (with the tokenizer's training, and without), the largest resident
memory of preparing and of reading, the seconds from the start of a fresh process to its first batch, how many times
faster batches come than a tiny model trains on them, and how full their rows are. The text is generated: words of
Zipf-like frequencies, sentences of log-normal length, the target following the source.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

LANGUAGES = ('xx', 'yy')
WORDS = 300_000  # of each language
LETTERS = np.array(list('etaoinshrdlucmfwypvbgk'))


def make_words(rng: np.random.Generator, count: int) -> np.ndarray:
    """Distinct words, short ones first, as in a language."""
    lengths = np.clip(np.log2(np.arange(2, count + 2)) * 0.75 + rng.normal(0, 1.5, count), 1, 18).astype(int)
    weights = 1 / np.arange(1, len(LETTERS) + 1)
    letters = rng.choice(LETTERS, (count, 18), p=weights / weights.sum())
    return np.array([''.join(row[:n]) for row, n in zip(letters, lengths, strict=True)])


def write_corpus(folder: Path, pairs: int) -> None:
    """train.xx and train.yy: some 15 words a sentence, which are some 28 tokens."""
    rng = np.random.default_rng(0)
    sides = [make_words(rng, WORDS) for _ in LANGUAGES]
    frequencies = np.cumsum(1 / np.arange(3, WORDS + 3))
    files = [(folder / f'train.{language}').open('w', encoding='utf-8') for language in LANGUAGES]
    for first in range(0, pairs, 50_000):
        count = min(50_000, pairs - first)
        source = np.clip(rng.lognormal(2.5, 0.6, count), 1, 90).astype(int)
        target = np.clip(source * rng.normal(1.05, 0.2, count), 1, 90).round().astype(int)
        for file, words, lengths in zip(files, sides, (source, target), strict=True):
            drawn = words[np.searchsorted(frequencies, rng.random(lengths.sum()) * frequencies[-1])].tolist()
            ends = np.cumsum(lengths)
            lines = [
                ' '.join(drawn[begin:end]).capitalize() + '.\n' for begin, end in zip(ends - lengths, ends, strict=True)
            ]
            file.write(''.join(lines))
    for file in files:
        file.close()


def config(folder: Path):
    """The tiny model that peers were timed with, but for its vocabulary; packed rows of 128 slots."""
    from flax_transformer.config import Config, DataConfig, TrainingConfig, TransformerConfig

    return Config(
        model=TransformerConfig(
            vocab_size=32_000, d_model=256, num_heads=4, d_ff=1024, num_encoder_layers=3, num_decoder_layers=3
        ),
        data=DataConfig(
            source_language='xx',
            target_language='yy',
            train='train.{lang}',
            validation='',
            test='',
            root=str(folder),
            cache=str(folder / 'cache'),
        ),
        training=TrainingConfig(tokens_per_step=4096),
    )


def largest_resident() -> float:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident() -> float:
    """MiB now."""
    pages = int(Path('/proc/self/statm').read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def prepare_stage(folder: Path) -> dict:
    """Trains the tokenizer and tokenizes, in this process alone."""
    from flax_transformer.tasks.translation.preparation import open_corpora, prepare, train_tokenizer

    settings = config(folder)
    began = time.perf_counter()
    tokenizer = train_tokenizer(settings, open_corpora(settings.data))
    trained = time.perf_counter()
    tokenizer.save(folder / 'tokenizer')
    memory = largest_resident()
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
        'prepare_resident_mib': largest_resident(),
    }


def read_stage(folder: Path, began: float) -> dict:
    """From the start of a fresh process to the first batch; then many batches; then the tiny model on them."""
    from flax_transformer.tasks.translation.preparation import prepare
    from flax_transformer.tasks.translation.recipe import TrainingData
    from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

    settings = config(folder)
    imported = resident()
    tokenizer = SentencePieceTokenizer.load(folder / 'tokenizer')
    prepared = prepare(settings, tokenizer, folder / 'cache', say=lambda text: None)
    batches = iter(TrainingData(settings, prepared))
    batch = next(batches)
    first_batch = time.time() - began
    times, filled = [], []
    for _ in range(7):
        start, tokens = time.perf_counter(), 0
        for _ in range(300):
            batch = next(batches)
            tokens += int((batch.target_segments > 0).sum())
            filled.append([(s > 0).mean() for s in (batch.source_segments, batch.target_segments)])
        times.append(tokens / (time.perf_counter() - start))
    data_side = resident() - imported
    trained = train_tokens_per_second(settings, batches)
    source_fill, target_fill = np.mean(filled, axis=0)
    return {
        'first_batch_seconds': first_batch,
        'read_resident_mib': data_side,
        'read_target_tokens_per_second': float(np.median(times)),
        'tiny_model_target_tokens_per_second': trained,
        'times_faster_than_training': float(np.median(times)) / trained,
        'source_fill': float(source_fill),
        'target_fill': float(target_fill),
    }


def train_tokens_per_second(settings, batches) -> float:
    """Of the tiny model on this machine, median of seven steps."""
    import jax

    from flax_transformer.tasks.find import make_trainer

    # A vocabulary of 8,000, which it trains faster with; the ids mean nothing here.
    settings = replace(settings, model=replace(settings.model, vocab_size=8000))
    trainer = make_trainer(settings)
    state = trainer.init_state()
    rates = []
    for _ in range(9):
        batch = next(batches)
        batch = batch._replace(source=batch.source % 8000, target=batch.target % 8000)
        start = time.perf_counter()
        state, metrics = trainer.step(state, batch)
        jax.block_until_ready(metrics)
        rates.append(int((batch.target_segments > 0).sum()) / (time.perf_counter() - start))
    return float(np.median(rates[2:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--pairs', type=int, default=5_000_000)
    parser.add_argument('--folder', type=Path, help='keeps the corpus there, and uses the one that is there')
    parser.add_argument('--stage', choices=['prepare', 'read'], help=argparse.SUPPRESS)
    parser.add_argument('--began', type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stage:
        print(
            json.dumps(prepare_stage(args.folder) if args.stage == 'prepare' else read_stage(args.folder, args.began))
        )
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / 'train.yy').exists():
            write_corpus(folder, args.pairs)
        shutil.rmtree(folder / 'cache', ignore_errors=True)
        results = {}
        for stage in ('prepare', 'read'):
            command = [sys.executable, __file__, '--stage', stage, '--folder', str(folder), '--began', str(time.time())]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            results |= json.loads(done.stdout.splitlines()[-1])
    print(json.dumps({name: round(value, 3) for name, value in results.items()}))


if __name__ == '__main__':
    main()
