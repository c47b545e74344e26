"""What an accelerator is borrowed for, in one command: `python benchmarks/accelerator.py [FILE.json] [--minutes 9]`.

Runs other benchmarks and `plan`, each in a process of its own: training of base and big with MFU, by either attention,
and the plan of the base step for this device; decoding, with peers where they are installed. Every result goes into
FILE as soon as it is there; what FILE has is not run again, nor is anything begun after so many minutes.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CELLS = ' '.join(f'{rows}x{beam}' for rows in (1, 64, 256) for beam in (1, 4))
TRAIN = f'{HERE}/train.py --rounds 10 --attention-dropout 0'
DECODE = f'{HERE}/decode_peers.py base --rounds 3 --systems'
RUNS = {
    'train base': f'{TRAIN} --size wmt_base --peers {sys.executable} --systems compiled',
    'train base, cudnn': f'{TRAIN} --size wmt_base --attention cudnn',
    'train big': f'{TRAIN} --size wmt_big',
    'train big, cudnn': f'{TRAIN} --size wmt_big --attention cudnn',
    'decode base': f'{DECODE} ours ctranslate2 huggingface --cells {CELLS}',
    'plan base': '-m flax_transformer plan wmt14_en_de_base --model.vocab-size 32000 --no-suggest --format json',
    'decode base, compiled peer': f'{DECODE} ours huggingface_static --cells 1x1 64x4',
}
SMALLEST = {'train': f'{HERE}/train.py --rounds 1 --batches 1', 'broken': '-c raise(SystemExit(3))'}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file', nargs='?', type=Path, default=Path('accelerator.json'))
    parser.add_argument('--minutes', type=float, default=9)
    parser.add_argument('--smallest', action='store_true', help='the tiny model, for a test')
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    found = json.loads(options.file.read_text()) if options.file.exists() else {}
    for name, command in (SMALLEST if options.smallest else RUNS).items():
        left = end - time.monotonic()
        if 'error' not in found.get(name, {'error': ''}) or left <= 0:
            continue
        try:
            done = subprocess.run([sys.executable, *command.split()], capture_output=True, text=True, timeout=left)
            found[name] = {'error': done.stderr[-500:]} if done.returncode else json.loads(done.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            found[name] = {'error': f'not done after {left:.0f} seconds'}
        options.file.write_text(json.dumps(found, indent=1))
    print(json.dumps({'benchmark': 'accelerator', 'results': found}))


if __name__ == '__main__':
    main()
