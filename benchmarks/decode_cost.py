"""What a translation costs against its length and against company: `python benchmarks/decode_cost.py [FILE.png]
[--beam 4]`; a line of JSON, and with matplotlib the picture.

The tiny model of `decode_work`, random weights, sources of 16 tokens. Milliseconds a token for outputs of 32 to 512
tokens of one sentence, and target tokens a second for batches of 1 to 256 sentences and 16 tokens; the best of three.
"""

import argparse
import json
import time

import numpy as np
from decode_work import EOS, SIZES, Batch
from decode_worker import Translate, ours

def seconds(translate: Translate, rows: int, length: int, beam: int) -> float:
    source = np.arange(10, 26, dtype=np.int32)
    source[-1] = EOS
    batch, taken = Batch([source] * rows, slots=16, length=length), []
    translate(batch, beam)  # compiles
    for _ in range(3):
        started = time.perf_counter()
        translate(batch, beam)
        taken.append(time.perf_counter() - started)
    return min(taken)


def draw(file: str, record: dict) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout='constrained')
    for axis, (name, label, unit) in zip(
        axes,
        (
            ('milliseconds_per_token', 'tokens of the output, one sentence', 'ms a token'),
            ('tokens_per_second', 'sentences in a batch', 'target tokens a second'),
        ),
        strict=True,
    ):
        at = list(map(int, record[name]))
        axis.plot(at, list(record[name].values()), marker='o')
        axis.set(xlabel=label, ylabel=unit, xscale='log', ylim=(0, None))
        axis.set_xticks(at, map(str, at))
        axis.minorticks_off()
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file', nargs='?')
    parser.add_argument('--beam', type=int, default=4)
    parser.add_argument('--lengths', type=int, nargs='+', default=[32, 64, 128, 256, 512])
    parser.add_argument('--rows', type=int, nargs='+', default=[1, 4, 16, 64, 256])
    options = parser.parse_args()
    translate, beam = ours(SIZES['tiny']), options.beam
    record = {
        'benchmark': 'decode_cost',
        'beam_width': beam,
        'milliseconds_per_token': {n: round(1000 * seconds(translate, 1, n, beam) / n, 3) for n in options.lengths},
        'tokens_per_second': {rows: round(rows * 16 / seconds(translate, rows, 16, beam)) for rows in options.rows},
    }
    print(json.dumps(record))
    if options.file:
        draw(options.file, record)


if __name__ == '__main__':
    main()
