"""Translates with a model for ONNX Runtime: `python onnx_translate.py FOLDER < lines > translations`.

FOLDER is what `flax-transformer export RUN FOLDER --format onnx` wrote. Needs only `pip install onnxruntime numpy
sentencepiece`. The search is that of flax-transformer, one line at a time.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
import sentencepiece

LOOK_AHEAD = 4  # tokens more with which live hypotheses are compared with finished ones


class Hypothesis(NamedTuple):
    tokens: tuple[int, ...]
    log_prob: float
    score: float = -np.inf  # once it has ended
    attention: tuple[np.ndarray, ...] = ()  # each token's over the source, [layers, heads, S]


class Model:
    def __init__(self, folder: Path | str) -> None:
        folder = Path(folder)
        self.info = json.loads((folder / 'export.json').read_bytes())
        self.pieces = json.loads((folder / 'pieces.json').read_bytes())
        self.source, self.target = (
            sentencepiece.SentencePieceProcessor(model_file=str(folder / f'{side}.spm'))
            for side in ('source', 'target')
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # the products of a step are small
        self.encoder, self.step = (
            onnxruntime.InferenceSession(folder / f'{name}.onnx', options, providers=['CPUExecutionProvider'])
            for name in ('encoder', 'step')
        )

    def encode(self, line: str) -> list[int]:
        ids = self.pieces['source']
        tokens = [ids.get(piece, self.info['unk_id']) for piece in self.source.encode(line, out_type=str)]
        return [*self.info['prefix'], *tokens, self.info['eos_id']]

    def decode(self, tokens: tuple[int, ...]) -> str:
        pieces = [self.pieces['target'][token] for token in tokens]
        text = self.target.decode([piece for piece in pieces if piece]).replace('\u2581', ' ').replace('\n', ' ')
        return text.strip() if self.info['strips'] else text

    def translate(self, line: str) -> str:
        return self.decode(self.search(self.encode(line))[0].tokens)

    def start(self, source: list[int]) -> dict[str, np.ndarray]:
        """What every step reads, and an empty cache."""
        found = run(self.encoder, {'source': np.array([source])})
        info = self.info
        empty = np.zeros((info['layers'], 1, info['heads'], 0, info['head_dim']), np.float32)
        memory = {name: found[name] for name in ('memory_keys', 'memory_values')}
        return memory | {'source': np.array([source]), 'keys': empty, 'values': empty}

    def search(self, source: list[int]) -> list[Hypothesis]:
        """The best hypotheses first."""
        info = self.info
        decoding = info['decoding']
        width = decoding['beam_width']
        limit = decoding['max_tokens'] or len(source) + decoding['max_extra_tokens']
        limit = min(limit, info['max_positions'] or limit)
        state = self.start(source)
        live = [Hypothesis((), 0.0)]
        done = []
        parents = [0]
        for length in range(1, limit + 1):
            newest = [one.tokens[-1] if one.tokens else info['start_id'] for one in live]
            found = run(self.step, state | {'tokens': np.array(newest), 'parents': np.array(parents)})
            state |= {name: found[f'new_{name}'] for name in ('keys', 'values')}
            log_probs = self.transformed(found['logits'], is_last=length == limit)
            totals = log_probs + np.array([[one.log_prob] for one in live], np.float32)
            best = np.argsort(-totals, axis=None, kind='stable')[: 1 if width == 1 else 2 * width]

            grown = []
            for parent, token in zip(*np.unravel_index(best, totals.shape), strict=True):
                own = live[parent]
                attention = (*own.attention, found['cross_attention'][:, parent, :, 0])
                total = float(totals[parent, token])
                score = self.score(total, length)
                grown.append((parent, Hypothesis((*own.tokens, int(token)), total, score, attention)))
            done += [one for _, one in grown if one.tokens[-1] == info['eos_id']]
            done = sorted(done, key=lambda one: -one.score)[:width]
            going_on = [pair for pair in grown if pair[1].tokens[-1] != info['eos_id']][:width]
            live = [one for _, one in going_on]
            parents = [parent for parent, _ in going_on]
            ahead = min(length + LOOK_AHEAD, limit)
            if not live or (len(done) == width and done[-1].score >= self.score(live[0].log_prob, ahead)):
                live = []
                break
        ranked = [*done, *live]  # what is cut comes last
        return sorted(ranked, key=lambda one: self.has_loop(one, source))

    def transformed(self, logits: np.ndarray, is_last: bool) -> np.ndarray:
        """Log-probabilities, banned tokens last."""
        decoding = self.info['decoding']
        log_probs = log_softmax(logits)
        log_probs[:, self.info['banned']] = -1e9
        if decoding['renormalize']:
            log_probs = log_softmax(log_probs)
        if decoding['force_eos'] and is_last:
            log_probs[:] = -1e9
            log_probs[:, self.info['eos_id']] = 0
        return log_probs

    def score(self, log_prob: float, length: int) -> float:
        decoding = self.info['decoding']
        if decoding['length_penalty'] == 'none':
            return log_prob
        return log_prob / ((5 + length) / 6 if decoding['length_penalty'] == 'gnmt' else length) ** decoding['alpha']

    def has_loop(self, one: Hypothesis, source: list[int]) -> bool:
        """Whether tokens come four times in a row, unlike in the source; `translate` prefers other hypotheses."""
        if self.info['decoding']['pass_over'] == 'nothing':
            return False
        return repeats(one.tokens) and not repeats(source)


def run(session: onnxruntime.InferenceSession, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [output.name for output in session.get_outputs()]
    wanted = {one.name for one in session.get_inputs()}
    results = session.run(names, {name: array for name, array in inputs.items() if name in wanted})
    return dict(zip(names, results, strict=True))


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def repeats(tokens: tuple[int, ...] | list[int]) -> bool:
    """Whether 1 to 8 tokens come four times in a row."""
    tokens = list(tokens)
    for size in range(1, 9):
        for begin in range(len(tokens) - 4 * size + 1):
            if tokens[begin : begin + size] * 4 == tokens[begin : begin + 4 * size]:
                return True
    return False


def main(folder: str) -> None:
    model = Model(folder)
    for line in sys.stdin:
        print(model.translate(line.rstrip('\n')), flush=True)


if __name__ == '__main__':
    main(*sys.argv[1:])
