"""Translates with an exported model: `python load.py < lines > translations`. Needs only jax, numpy, sentencepiece.

`export.json` describes how to call the program; `load(folder)` does it.
"""

import hashlib
import json
import sys
from pathlib import Path

import jax
import numpy as np
import sentencepiece
from jax import export


def load(folder):
    """A function from lines to (text, token ids, score) of each line's best translation."""
    read = {file.name: file.read_bytes() for file in Path(folder).iterdir() if file.is_file()}
    info = json.loads(read['export.json'])
    if damaged := [n for n, s in info['sha256'].items() if hashlib.sha256(read.get(n, b'')).hexdigest() != s]:
        raise ValueError(f'{folder}: {", ".join(damaged)} missing or damaged; copy the folder again')
    program = jax.jit(export.deserialize(bytearray(read['program.bin'])).call)
    weights = []
    if 'weights.npz' in read:
        weights = [jax.device_put(dict(np.load(Path(folder, 'weights.npz'), allow_pickle=False)))]
    source, target = (sentencepiece.SentencePieceProcessor(model_proto=read[f'{s}.spm']) for s in ('source', 'target'))
    pieces = json.loads(read['pieces.json'])

    def translate(lines):
        rows = [[pieces['source'].get(p, info['unk_id']) for p in source.encode(line, out_type=str)] for line in lines]
        rows = [info['prefix'] + row + [info['eos_id']] for row in rows]
        longest, most = max(map(len, rows)), info['max_source_tokens']
        if longest > most:
            raise ValueError(f'a line of {longest} tokens; the program takes at most {most}: split it')
        slots = min(-(-longest // 16) * 16, most)  # few shapes, few compilations
        ids = np.array([row + [info['pad_id']] * (slots - len(row)) for row in rows], np.int32)
        found = jax.device_get(program(*weights, ids))
        best = [row[:n].tolist() for row, n in zip(found['tokens'][:, 0], found['lengths'][:, 0], strict=True)]
        texts = [target.decode([pieces['target'][i] for i in row if pieces['target'][i]]) for row in best]
        texts = [text.replace('\u2581', ' ').replace('\n', ' ') for text in texts]
        return list(zip(texts, best, found['scores'][:, 0].tolist(), strict=True))

    return translate


if __name__ == '__main__':
    translate = load(Path(__file__).parent)
    for line in sys.stdin:
        print(translate([line.rstrip('\n')])[0][0], flush=True)
