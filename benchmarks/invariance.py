"""The same lines in several arrangements.

`python benchmarks/invariance.py RUN SOURCE [SOURCE ...] [--weights int8] [--beam 1]` prints JSON lines.

2,000 lines of the source files (fewer where there are fewer), translated in file order, and then alone, shuffled in
other batches, padded to more slots, and on 8 devices by pmap and by mesh. Compares tokens and normalized scores.
"""

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

os.environ.setdefault('JAX_NUM_CPU_DEVICES', '8')

import numpy as np

from flax_transformer import Translator
from flax_transformer.config import ParallelConfig
from flax_transformer.tasks.translation.inference.result import Translation

LINES = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('run')
    parser.add_argument('sources', nargs='+')
    parser.add_argument('--weights', default='float32')
    parser.add_argument('--beam', type=int, help="by default the run's")
    options = parser.parse_args()
    run, sources, weights = options.run, options.sources, options.weights
    own = {'weights': weights} | ({'beam_width': options.beam} if options.beam else {})
    lines = [line for source in sources for line in Path(source).read_text(encoding='utf-8').splitlines()][:LINES]
    translator = Translator.from_run(run, **own)
    first = Translator.from_run(run, beam_width=max(translator.decoding.beam_width, 2), n_best=2, weights=weights)
    gaps = [one.n_best[0].score - one.n_best[1].score for one in first(lines) if len(one.n_best) > 1]
    base = translator(lines)
    about = {
        'benchmark': 'invariance',
        'run': Path(run).name,
        'weights': weights,
        'beam_width': translator.decoding.beam_width,
        'lines': len(lines),
        'smallest_gap_of_best_and_second': min(gaps, default=None),
        'gaps_below_1e-4': sum(gap < 1e-4 for gap in gaps),
    }

    def report(name: str, found: list[Translation]) -> None:
        differ = [i for i, (x, y) in enumerate(zip(base, found, strict=True)) if x.token_ids != y.token_ids]
        same = (abs(x.score - y.score) for i, (x, y) in enumerate(zip(base, found, strict=True)) if i not in differ)
        worst = max(same, default=0.0)
        record = {'arrangement': name, 'lines_that_differ': len(differ), 'largest_score_difference': worst}
        print(json.dumps(about | record), flush=True)

    report('the same again', translator(lines))
    order = np.random.default_rng(0).permutation(len(lines))
    others = translator.with_decoding(replace(translator.decoding, batch_tokens=1500))
    shuffled = others([lines[i] for i in order])
    report('shuffled, other batches', [shuffled[i] for i in np.argsort(order)])
    for strategy in ('pmap', 'mesh'):
        spread = Translator.from_run(run, parallel=ParallelConfig(strategy=strategy, num_devices=8), **own)
        report(f'8 devices by {strategy}', spread(lines))
    padded = translator.with_decoding(replace(translator.decoding, buckets=(128, 256)))
    report('padded to 128 slots', padded(lines))
    report('each line alone', [translator([line])[0] for line in lines])


if __name__ == '__main__':
    main()
