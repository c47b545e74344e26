"""Translate files on a Ray cluster with Ray Data: N lines in, N lines out, in order, whichever workers die.

    pip install '.[ray]'
    python examples/ray_translate.py runs/mine 'in/part-*.zst' out --workers 8 --gpus-per-worker 1

Ray gives rows back in any order, so each carries its file and line, and the end sorts and counts them. Where a job
scheduler is all you have, or the output is too large to be sorted, `flax-transformer translate --shard` needs no Ray.
Run and input must be at the same paths on every node.
"""

import argparse
import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import ray

from flax_transformer import Translator
from flax_transformer.common.files import written_whole
from flax_transformer.data.lines import compressing, lines_of
from flax_transformer.data.shards import find_input

Row = tuple[str, int, str]  # file, line from 0, text


def read(files: pa.Table) -> Iterator[pa.Table]:
    """The lines of the files as rows, a few thousand at a time."""
    for file in files['file'].to_pylist():
        done = 0
        for lines in lines_of(Path(file)):
            numbers = range(done, done + len(lines))
            texts = [line.decode('utf-8', 'replace') for line in lines]
            yield pa.table({'file': [file] * len(lines), 'line': numbers, 'text': texts})
            done += len(lines)


class Translate:
    """A worker, which Ray starts again if it dies; the batch that it had is translated again."""

    def __init__(self, run: str) -> None:
        self.translator = Translator.from_run(run)

    def __call__(self, rows: pa.Table) -> pa.Table:
        texts = [translation.text for translation in self.translator(rows['text'].to_pylist())]
        print(f'worker {os.getpid()} has translated {len(texts)} lines', flush=True)
        return rows.set_column(rows.column_names.index('text'), 'text', pa.array(texts, pa.string()))


def write(rows: Iterator[Row], sources: list[Path], names: list[str], folder: Path) -> None:
    """Writes sorted rows to a file for each source; raises ValueError unless every line is there once."""
    by_file = groupby(rows, key=lambda row: row[0])
    group = next(by_file, None)
    for source, name in zip(sources, names, strict=True):
        output, count = folder / name, 0
        output.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(output) as opened, compressing(opened, source.suffix) as compressed:
            if group is not None and group[0] == str(source):
                for _, line, text in group[1]:
                    if line != count:
                        raise ValueError(f'{source}: got line {line}, expected line {count}')
                    compressed.write(f'{text}\n'.encode())
                    count += 1
                group = next(by_file, None)
            expected = sum(map(len, lines_of(source)))
            if count != expected:
                raise ValueError(f'{source}: {count} lines came back of {expected}')
        print(f'{output}: {count} lines in, {count} lines out, in order')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('run')
    parser.add_argument('input', help='a pattern, quoted')
    parser.add_argument('output', type=Path, help='a folder')
    parser.add_argument('--workers', type=int, default=1)
    parser.add_argument('--cpus-per-worker', type=float, default=1)
    parser.add_argument('--gpus-per-worker', type=float, default=0)
    parser.add_argument('--batch', type=int, default=2048, help='lines that a worker takes at once')
    options = parser.parse_args()

    files = sorted(find_input(os.path.abspath(options.input)), key=lambda file: str(file.path))
    sources = [file.path for file in files]
    ray.init()
    used, there = options.workers * options.cpus_per_worker, ray.cluster_resources()['CPU']
    if used > there - 1:  # Ray would wait for ever
        raise SystemExit(
            f'{options.workers} workers take {used:g} of {there:g} CPUs, but reading and sorting need one; '
            'give fewer --workers, or a smaller --cpus-per-worker'
        )
    lines = ray.data.from_items([{'file': str(source)} for source in sources])
    lines = lines.map_batches(read, batch_size=1, batch_format='pyarrow')
    lines = lines.repartition(target_num_rows_per_block=options.batch)  # else a block, a worker's task, is a whole file
    translated = lines.map_batches(
        Translate,
        fn_constructor_args=[os.path.abspath(options.run)],
        batch_size=options.batch,
        batch_format='pyarrow',
        compute=ray.data.ActorPoolStrategy(size=options.workers),
        num_cpus=options.cpus_per_worker,
        num_gpus=options.gpus_per_worker,
    )
    tables = translated.sort(['file', 'line']).iter_batches(batch_format='pyarrow')
    columns = ([table[name].to_pylist() for name in ('file', 'line', 'text')] for table in tables)
    rows = (row for table in columns for row in zip(*table, strict=True))
    write(rows, sources, [file.name for file in files], options.output)


if __name__ == '__main__':
    main()
