"""What a translation costs by length and batch size.

`python benchmarks/decode_cost.py [FILE.png] [--beam 4]` prints a line of JSON, and draws the picture with matplotlib.

The tiny model of `workload`, random weights, sources of 16 tokens. Milliseconds a token for outputs of 32 to 512
tokens of one sentence, and target tokens a second for batches of 1 to 256 sentences and 16 tokens; the best of three.
"""

import argparse
import json

import numpy as np
from decode_worker import ours
from measuring import draw, seconds_in_turn
from workload import EOS, SIZES, Batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file', nargs='?')
    parser.add_argument('--beam', type=int, default=4)
    parser.add_argument('--lengths', type=int, nargs='+', default=[32, 64, 128, 256, 512])
    parser.add_argument('--rows', type=int, nargs='+', default=[1, 4, 16, 64, 256])
    options = parser.parse_args()
    translate = ours(SIZES['tiny'])
    source = np.arange(10, 26, dtype=np.int32)
    source[-1] = EOS

    def seconds(rows: int, length: int) -> float:
        batch = Batch([source] * rows, slots=16, length=length)
        return min(*seconds_in_turn({'': lambda: translate(batch, options.beam)}, rounds=3)[''])

    milliseconds = {n: round(1000 * seconds(1, n) / n, 3) for n in options.lengths}
    tokens = {rows: round(rows * 16 / seconds(rows, 16)) for rows in options.rows}
    record = {'benchmark': 'decode_cost', 'beam_width': options.beam}
    print(json.dumps(record | {'milliseconds_per_token': milliseconds, 'tokens_per_second': tokens}))
    if options.file:
        by_length = {'xlabel': 'tokens of the output, one sentence', 'ylabel': 'ms a token'}
        by_rows = {'xlabel': 'sentences in a batch', 'ylabel': 'target tokens a second'}
        draw(options.file, [(by_length, {'': milliseconds}), (by_rows, {'': tokens})])


if __name__ == '__main__':
    main()
