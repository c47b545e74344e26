"""Translates with an exported model: `python load.py < lines > translations`.

Needs only `pip install jax numpy sentencepiece flatbuffers`. `export.json` describes how to call the program;
`load(folder)` does it.
"""

import hashlib
import io
import json
import sys
from pathlib import Path

import flatbuffers  # noqa: F401  jax reads programs with it
import jax
import numpy as np
import sentencepiece
from jax import export

SIDES = ('source', 'target')


def load(folder):
    """A function from lines to (text, token ids, score) of each line's best translation.

    If the program takes phrases, it has the argument `required`: for each line a list of phrases, each a text or a list
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
        ids_of = {piece: i for i, piece in enumerate(pieces['target']) if piece}
        source_ids = dict(pieces['source'])
    except Exception as error:  # a damaged file can raise anything
        raise ValueError(f'{folder}: {error or type(error).__name__}; {remedy}') from error

    def phrases_of(required):
        """Ids [lines, phrases, alternatives, slots], then -1."""
        most = info['phrase_slots']
        texts = {}  # keys: row, phrase, alternative
        for row, phrases in enumerate(required):
            for number, phrase in enumerate(phrases or ()):
                for alternative, text in enumerate([phrase] if isinstance(phrase, str) else phrase):
                    texts[row, number, alternative] = text

        sizes = [1 + max((place[axis] for place in texts), default=0) for axis in (1, 2)]
        out = np.full((len(required), *sizes, most), -1, np.int32)
        for place, text in texts.items():
            ids = [ids_of.get(piece, info['unk_id']) for piece in target.encode(text, out_type=str)]
            if len(ids) > most:
                raise ValueError(f'the phrase {text!r} has {len(ids)} tokens; expected at most {most}')
            out[place][: len(ids)] = ids
        return out

    def translate(lines, required=None):
        if required and not info['phrase_slots']:
            raise ValueError('the program takes no phrases; export it with --phrases')
        rows = []
        for line in lines:
            ids = [source_ids.get(piece, info['unk_id']) for piece in source.encode(line, out_type=str)]
            rows.append([*info['prefix'], *ids, info['eos_id']])
        longest = max(map(len, rows))
        most = info['max_source_tokens']
        if longest > most:
            raise ValueError(f'a line of {longest} tokens; the program takes at most {most}: split it')
        slots = min(-(-longest // 16) * 16, most)  # few shapes, few compilations
        ids = np.array([row + [info['pad_id']] * (slots - len(row)) for row in rows], np.int32)
        phrases = [phrases_of(required or [None] * len(lines))] if info['phrase_slots'] else []
        result = jax.device_get(program(*weights, ids, *phrases))
        best = [row[:n].tolist() for row, n in zip(result['tokens'][:, 0], result['lengths'][:, 0], strict=True)]
        texts = [target.decode([pieces['target'][i] for i in row if pieces['target'][i]]) for row in best]
        texts = [text.replace('\u2581', ' ').replace('\n', ' ') for text in texts]
        return list(zip(texts, best, result['scores'][:, 0].tolist(), strict=True))

    return translate


def version(text):
    """The first two numbers of a version, to compare."""
    return tuple(int(number) for number in text.split('.')[:2])


def read_files(folder):
    """The contents, by name, of the files that export.json lists, and what it says. Raises ValueError if damaged."""
    described = folder / 'export.json'
    if not described.is_file():
        raise ValueError('export.json missing or damaged')
    info = json.loads(described.read_bytes())
    contents = {name: (folder / name).read_bytes() for name in info['sha256'] if (folder / name).is_file()}
    damaged = [
        name for name, digest in info['sha256'].items() if hashlib.sha256(contents.get(name, b'')).hexdigest() != digest
    ]
    if damaged:
        raise ValueError(f'{", ".join(damaged)} missing or damaged')
    return contents, info


if __name__ == '__main__':
    try:
        translate = load(Path(__file__).parent)
        for line in sys.stdin:
            line = line.rstrip('\n').encode('utf-8', 'surrogateescape').decode()  # ValueError if it is not UTF-8
            print(translate([line])[0][0], flush=True)
    except ValueError as error:
        sys.exit(str(error))
