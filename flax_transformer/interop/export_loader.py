"""Translates with an exported model: `python load.py < lines > translations`.

Needs only `pip install jax numpy sentencepiece flatbuffers`. `export.json` describes how to call the program;
`load(folder)` does it.
"""

import hashlib
import io
import json
import os
import sys
from pathlib import Path

import flatbuffers  # noqa: F401  jax reads programs with it
import jax
import numpy as np
import sentencepiece
from jax import export

SIDES = ('source', 'target')
MOST_TEXT = 16 << 20  # bytes of export.json


def load(folder):
    """A function from lines to (text, token ids, score) of each line's best translation.

    Of a program exported with phrases it takes `required`, too: for each line a list of phrases, each a text or a list
    of alternatives.

    Raises ValueError if a file is missing or damaged, or if JAX is too old.
    """
    remedy = 'copy the folder again'
    try:
        read, info = read_files(Path(folder))
        remedy = f'pip install jax=={info["jax"]}, which wrote it; this is {jax.__version__}'
        if version(jax.__version__) < version(info['jax_at_least']):
            raise ValueError(f'needs jax {info["jax_at_least"]} or later')
        program = jax.jit(export.deserialize(bytearray(read['program.bin'])).call)
        weights = []
        if 'weights.npz' in read:
            weights = [jax.device_put(dict(np.load(io.BytesIO(read.pop('weights.npz')), allow_pickle=False)))]
        source, target = (sentencepiece.SentencePieceProcessor(model_proto=read[f'{s}.spm']) for s in SIDES)
        pieces = json.loads(read['pieces.json'])
    except Exception as error:  # a damaged file can raise anything
        raise ValueError(f'{folder}: {error or type(error).__name__}; {remedy}') from error

    ids_of = {piece: i for i, piece in enumerate(pieces['target']) if piece}

    def phrases_of(required):
        """Ids [lines, phrases, alternatives, slots], then -1."""
        most = info['phrase_slots']
        every = [[[each] if isinstance(each, str) else each for each in phrases or ()] for phrases in required]
        spelled = [[[target.encode(text, out_type=str) for text in each] for each in phrases] for phrases in every]
        sizes = [max([1, *map(len, spelled)]), max([1, *(len(each) for phrases in spelled for each in phrases)])]
        out = np.full((len(spelled), *sizes, most), -1, np.int32)
        for row, g, a in ((r, g, a) for r, p in enumerate(spelled) for g, e in enumerate(p) for a in range(len(e))):
            ids = [ids_of.get(piece, info['unk_id']) for piece in spelled[row][g][a]]
            if len(ids) > most:
                raise ValueError(f'the phrase {every[row][g][a]!r} has {len(ids)} tokens; expected at most {most}')
            out[row, g, a, : len(ids)] = ids
        return out

    def translate(lines, required=None):
        if required and not info['phrase_slots']:
            raise ValueError('the program takes no phrases; export it with --phrases')
        rows = [[pieces['source'].get(p, info['unk_id']) for p in source.encode(line, out_type=str)] for line in lines]
        rows = [info['prefix'] + row + [info['eos_id']] for row in rows]
        longest, most = max(map(len, rows)), info['max_source_tokens']
        if longest > most:
            raise ValueError(f'a line of {longest} tokens; the program takes at most {most}: split it')
        slots = min(-(-longest // 16) * 16, most)  # few shapes, few compilations
        ids = np.array([row + [info['pad_id']] * (slots - len(row)) for row in rows], np.int32)
        phrases = [phrases_of(required or [None] * len(lines))] if info['phrase_slots'] else []
        found = jax.device_get(program(*weights, ids, *phrases))
        best = [row[:n].tolist() for row, n in zip(found['tokens'][:, 0], found['lengths'][:, 0], strict=True)]
        texts = [target.decode([pieces['target'][i] for i in row if pieces['target'][i]]) for row in best]
        texts = [text.replace('\u2581', ' ').replace('\n', ' ') for text in texts]
        return list(zip(texts, best, found['scores'][:, 0].tolist(), strict=True))

    return translate


def version(text):
    """The first two numbers of a version, to compare."""
    return tuple(int(number) for number in text.split('.')[:2])


def read_files(folder):
    """The contents, by name, of the files that export.json lists, and of export.json. Raises ValueError if damaged."""
    described = folder / 'export.json'
    if not described.is_file() or described.stat().st_size > MOST_TEXT:
        raise ValueError('export.json missing or damaged')
    info = json.loads(read_file(described))
    files = {name: folder / name for name in info['sha256']}
    sizes = {name: file.stat().st_size for name, file in files.items() if file.is_file()}
    read = {name: read_file(files[name]) for name, size in sizes.items() if size == info['bytes'][name]}
    if damaged := [n for n, s in info['sha256'].items() if hashlib.sha256(read.get(n, b'')).hexdigest() != s]:
        raise ValueError(f'{", ".join(damaged)} missing or damaged')
    return read, info


def read_file(file):
    """The content of a regular file; b'' where reading would wait for ever, as of some files in /proc."""
    flags = os.O_RDONLY | getattr(os, 'O_NONBLOCK', 0) | getattr(os, 'O_BINARY', 0)
    with os.fdopen(os.open(file, flags), 'rb') as opened:
        return opened.read() or b''


if __name__ == '__main__':
    try:
        translate = load(Path(__file__).parent)
        for line in sys.stdin:
            line = line.rstrip('\n').encode('utf-8', 'surrogateescape').decode()  # ValueError if it is not UTF-8
            print(translate([line])[0][0], flush=True)
    except ValueError as error:
        sys.exit(str(error))
