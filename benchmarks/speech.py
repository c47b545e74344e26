"""Spoken digits: `python benchmarks/speech.py FOLDER [--config CONFIG] [--field value ...]`; lines of JSON.

Trains on the official split of the Free Spoken Digit Dataset in $FLAX_TRANSFORMER_DATA/fsdd, and once for each speaker
on all recordings of the other five. Scores single digits and 500 strings of 2 to 7 test recordings of one speaker. Each
finished training is a line in a file of FOLDER, named by a hash of the config with its fields, and is not run again; a
killed one resumes. In the end, the speed of transcribing on one core.
"""

import argparse
import hashlib
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from measuring import peak_mib, run

SPEAKERS = ('george', 'jackson', 'lucas', 'nicolas', 'theo', 'yweweler')
STRINGS = 500
SCORES = ('word_error_rate', 'word_error_rate_low', 'word_error_rate_high', 'exact', 'num_utterances', 'num_words')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=Path)
    parser.add_argument('--config', default='spoken_digits', help='a config file or a shipped config')
    parser.add_argument('--only', nargs='*', help='names of trainings: official george ...')
    parser.add_argument('--speed', type=Path, help='only measure the speed of a run, on one core')
    options, fields = parser.parse_known_args()
    if options.speed:
        print(json.dumps(speed(options.speed)), flush=True)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    results, kind = {}, hashlib.sha256(json.dumps([options.config, fields]).encode()).hexdigest()[:8]
    for name in options.only or ('official', *SPEAKERS):
        workdir = options.folder / f'{name}-{kind}'
        file = workdir.with_suffix('.json')
        if not file.exists():
            found = one_training(name, workdir, options.config, fields)
            file.write_text(json.dumps(found, ensure_ascii=False) + '\n', encoding='utf-8')
        results[name] = json.loads(file.read_text(encoding='utf-8'))
        print(json.dumps(results[name], ensure_ascii=False), flush=True)
    if set(SPEAKERS) <= results.keys():
        exact = [results[name]['single']['exact'] for name in SPEAKERS]
        print(json.dumps({'leave_one_speaker_out': statistics.mean(exact), 'worst': min(exact)}))
    trained = options.folder / f'{next(iter(results))}-{kind}'
    print(run(sys.executable, __file__, options.folder, '--speed', trained)[0].strip())


def one_training(name: str, workdir: Path, config: str, fields: list[str]) -> dict[str, Any]:
    """Trains and scores with the commands that people use."""
    command = [sys.executable, '-m', 'flax_transformer', '--quiet']
    split = 'official_split=train', 'official_split=test'
    if name != 'official':
        split = f'speaker!={name}', f'speaker={name}'
    data = [f'--data.{part}=fsdd/index.tsv?{rows}#digit' for part, rows in zip(('train', 'test'), split, strict=True)]
    _, seconds = run(*command, 'train', config, '--workdir', workdir, *data, *fields)
    found: dict[str, Any] = {'name': name, 'cpu_minutes': round(seconds / 60, 2)}
    for kind, arguments in (('single', ()), ('strings', ('--count', STRINGS, '--strings.fewest', 2))):
        scores = json.loads(run(*command, 'evaluate', workdir, '--json', *arguments)[0])
        found[kind] = {key: scores[key] for key in SCORES}
        if kind == 'single':
            found['wrong'] = scores['confusion']['wrong_by_speaker']
    return found


def speed(path: Path) -> dict[str, Any]:
    """Seconds of speech a second of one core: 200 recordings by themselves, and one of ten minutes."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX starts its threads

    import numpy as np

    from flax_transformer import Transcriber
    from flax_transformer.data.audio.corpus import read_corpus

    transcriber = Transcriber.from_run(path)
    data = transcriber.config.data
    corpus = read_corpus(data.test, data, transcriber.sample_rate, say=lambda _: None)
    clips = [corpus.samples(i) for i in range(len(corpus.recordings))]
    found: dict[str, Any] = {'data': data.test}
    length = 600 * transcriber.sample_rate
    long = np.resize(np.concatenate(clips), length)
    for name, recordings in (('recordings', clips[:200]), ('ten_minutes', [long])):
        transcriber(recordings)  # compiles
        begin, wall = time.process_time(), time.perf_counter()
        transcriber(recordings)
        seconds = sum(map(len, recordings)) / transcriber.sample_rate
        found[name] = {
            'times_real_time': round(seconds / (time.process_time() - begin), 1),
            'times_real_time_by_the_clock': round(seconds / (time.perf_counter() - wall), 1),
        }
    found['peak_memory_mib'] = peak_mib()
    return found


if __name__ == '__main__':
    main()
