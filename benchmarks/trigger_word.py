"""Hours of sound without the trigger word through a detector, in chunks: its speed, its memory, its false accepts.

    python benchmarks/trigger_word.py RUN [--hours 10] [--chunk 1.0]

The stream is mixed from the other recordings and the background that the run was trained on, at levels and speeds that
vary as in training, by a seed of its own. Prints a line of JSON after each tenth of an hour up to the first hour, then
after each hour: hours of sound, the process's resident memory in MiB, how many times faster than real time the detector
was by its CPU time, and hits so far, all of them false.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from measuring import resident_mib

from flax_transformer import Detector
from flax_transformer.tasks.trigger_word.config import TriggerWordConfig
from flax_transformer.tasks.trigger_word.detector import find_hits, no_hits
from flax_transformer.tasks.trigger_word.run import Run
from flax_transformer.tasks.trigger_word.scenes import Scenes, read_part

SEED = 12345


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('run', type=Path)
    parser.add_argument('--hours', type=float, default=10.0)
    parser.add_argument('--chunk', type=float, default=1.0, help='seconds')
    options = parser.parse_args()
    detector = Detector.from_run(options.run)
    width = round(options.chunk * detector.sample_rate)
    state, rule, found = detector.start(), no_hits(detector.rule), 0
    chunks, heard, spent, mark = chunks_of(Run(options.run).read_config(), width), 0, 0.0, 0.1
    state, _ = detector.step(state, np.zeros(200 * width, np.float32))  # compiles
    while heard < options.hours * 3600 * detector.sample_rate:
        chunk = next(chunks)
        start = time.process_time()
        state, probabilities = detector.step(state, chunk)
        some, rule = find_hits(probabilities, rule, detector.rule, detector.seconds_per_output)
        spent += time.process_time() - start
        heard, found = heard + len(chunk), found + len(some)
        hours = heard / detector.sample_rate / 3600
        if hours >= mark - 1e-9:
            speed = heard / detector.sample_rate / spent
            values = {
                'hours': round(hours, 2),
                'resident_mib': round(resident_mib(), 1),
                'times_real_time': round(speed),
            }
            print(json.dumps(values | {'hits': found}), flush=True)
            mark += 0.1 if mark < 0.95 else 1


def chunks_of(config: TriggerWordConfig, width: int) -> Iterator[np.ndarray]:
    """Endless samples without the trigger word, in chunks [width]."""
    clips = read_part(config, 'train', say=lambda text: None)
    config = replace(config, scenes=replace(config.scenes, trigger_share=0.0, partial_share=0.0))
    scenes, number, rest = Scenes(clips, config, seed=SEED), 0, np.zeros(0, np.float32)
    while True:
        while len(rest) < width:
            rest, number = np.concatenate([rest, scenes.scene(number).samples]), number + 1
        yield rest[:width]
        rest = rest[width:].copy()


if __name__ == '__main__':
    main()
