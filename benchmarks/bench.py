"""Our speed and the peers' on this machine: `make bench`, or `python benchmarks/bench.py [--peers PYTHON]`.

Prints the kind of processor and a table in Markdown, one row a measure: training (real target tokens a second, as
`train.py` measures) and decoding (target tokens a second by sentences x beam, as `decode_peers.py`). Medians of rounds
in which all take turns; the last column is our best to the peers' best, as [least, median, largest] over the rounds.
`--only tiny` is shorter. The last line is JSON.

Peers are what an interpreter has: torch and transformers in PYTHON, CTranslate2 here.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from flax_transformer.common.compilation_cache import processor_features
from flax_transformer.ops.fastest_dtype import is_bfloat16_faster

HERE = Path(__file__).parent
KINDS = {'AMX': 'amx_bf16', 'AVX-512 with bfloat16': 'avx512_bf16', 'AVX-512': 'avx512f', 'AVX2': 'avx2'}
COLUMNS = {
    'ours': 'ours',
    'ours_bfloat16': 'ours, bfloat16',
    'ours_int8': 'ours, int8',
    'plain': 'PyTorch',
    'plain_bfloat16': 'PyTorch, bfloat16',
    'huggingface': 'Hugging Face',
    'ctranslate2': 'CTranslate2',
    'ctranslate2_int8': 'CTranslate2, int8',
    'ctranslate2_int8_workers': 'CTranslate2, int8, workers',
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--peers', metavar='PYTHON', default=sys.executable, help='has torch and transformers')
    parser.add_argument('--only', choices=('tiny', 'base'), help='one of the two sizes')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--cells', nargs='+', default=['1x1', '1x4', '32x1', '32x4'], help='of decoding')
    options = parser.parse_args()
    bfloat16 = is_bfloat16_faster()
    print(f'{processor()}, {os.cpu_count()} cores; bfloat16 is {"" if bfloat16 else "not "}faster here', flush=True)

    rows = {}
    for size in (options.only,) if options.only else ('tiny', 'base'):
        rows |= training(size, options, bfloat16=bfloat16)
        rows |= decoding(size, options, bfloat16=bfloat16)
    print(table(rows))
    print(json.dumps({'benchmark': 'bench', 'processor': processor(), 'bfloat16': bfloat16, 'rows': rows}))


def processor() -> str:
    """Returns the name of this machine's processor and its kind."""
    features = processor_features().split()
    kind = next((kind for kind, feature in KINDS.items() if feature in features), platform.machine())
    try:
        lines = Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines()
    except OSError:
        lines = []
    names = [line.partition(':')[2].strip() for line in lines if line.startswith('model name')]
    return f'{(names or [platform.processor()])[0]} ({kind})'


def training(size: str, options: argparse.Namespace, *, bfloat16: bool) -> dict[str, dict]:
    systems = ['ours', 'plain', *(['ours_bfloat16', 'plain_bfloat16'] if bfloat16 else [])]
    arguments = ['--batches', '1', '--systems', ','.join(systems), '--peers', options.peers]
    if size == 'base':
        arguments += ['--slots', '1024']  # a batch of a laptop's; with 2,048, minutes more
    record = measured('train.py', '--size', size, *arguments, '--rounds', str(options.rounds))
    return {
        f'training {size}': {'rates': record['tokens_per_second'], 'ratio': best(record.get('ratios_to_best_peer'))}
    }


def decoding(size: str, options: argparse.Namespace, *, bfloat16: bool) -> dict[str, dict]:
    systems = [name for name in COLUMNS if name.startswith(('ours', 'ctranslate2')) or name == 'huggingface']
    systems = [name for name in systems if bfloat16 or name != 'ours_bfloat16']
    arguments = ['--rounds', str(options.rounds), '--torch', options.peers, '--cells', *options.cells]
    record = measured('decode_peers.py', size, *arguments, '--systems', *systems)
    return {
        f'decoding {size} {cell}': {'rates': found['tokens_per_second'], 'ratio': best(found['best_to_best_peer'])}
        for cell, found in record['cells'].items()
    }


def measured(script: str, *arguments: str) -> dict:
    """Returns what a benchmark prints in its last line."""
    done = subprocess.run([sys.executable, str(HERE / script), *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f'{script} {" ".join(arguments)} ended with {done.returncode}')
    record = json.loads(done.stdout.splitlines()[-1])
    for name, lacking in record['skipped'].items():
        print(f'{COLUMNS[name]}: {lacking}', flush=True)
    return record


def best(ratios: dict[str, list[float]] | list[float] | None) -> list[float] | None:
    """Returns the ratio of our fastest to the best peer."""
    return max(ratios.values(), key=lambda ratio: ratio[1]) if isinstance(ratios, dict) else ratios


def table(rows: dict[str, dict]) -> str:
    columns = [name for name in COLUMNS if any(name in row['rates'] for row in rows.values())]
    lines = [
        ['tokens/s', *(COLUMNS[name] for name in columns), 'ratio'],
        ['---'] * (len(columns) + 2),
        *(
            [
                label,
                *(f'{row["rates"][name]:,}' if name in row['rates'] else '' for name in columns),
                ', '.join(f'{x:.2f}' for x in row['ratio'] or []),
            ]
            for label, row in rows.items()
        ),
    ]
    return '\n'.join(f'| {" | ".join(cells)} |' for cells in lines)


if __name__ == '__main__':
    main()
