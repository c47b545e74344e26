"""Whether ONNX Runtime finds the translator's tokens: lines of a file, greedy and beam 4, weights of 32 and 8 bits.

    python benchmarks/onnx_equality.py everyday lines.en

Each row: lines whose tokens are equal, and how far apart the scores of equal ones are at most. Weights in eight bits
are compared with a translator that has the same rounded weights in float32. RUN may be a folder in Marian's format.
"""

import argparse
import dataclasses
import importlib.util
import json
import tempfile
import time
from pathlib import Path

from flax_transformer import Translator
from flax_transformer.interop.onnx_export import export_onnx
from flax_transformer.ops.int8 import from_int8

EXAMPLE = Path(__file__).resolve().parents[1] / 'examples' / 'onnx_translate.py'


def load_example():
    spec = importlib.util.spec_from_file_location('onnx_translate', EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compare(translator: Translator, folder: Path, lines: list[str]) -> dict[str, float]:
    export_onnx(translator, folder)
    model = load_example().Model(folder)
    start = time.monotonic()
    found = [model.search(model.encode(line))[0] for line in lines]
    seconds = time.monotonic() - start
    if translator.decoding.weights == 'auto':
        translator = translator.with_decoding(dataclasses.replace(translator.decoding, weights='float32'))
    elif translator.decoding.weights == 'int8':
        exact = from_int8(translator.weights)
        decoding = dataclasses.replace(translator.decoding, weights='float32')
        translator = Translator(translator.models, exact, translator.tokenizer, decoding)
    expected = translator(lines)
    pairs = [(a, b) for a, b in zip(found, expected, strict=True) if a.tokens == b.token_ids]
    return {
        'lines': len(lines),
        'equal': len(pairs),
        'score_difference': max((abs(a.score - b.score) for a, b in pairs if not b.truncated), default=0.0),
        'onnx_ms_a_line': 1000 * seconds / len(lines),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('run')
    parser.add_argument('lines', type=Path)
    parser.add_argument('--most', type=int, default=1000)
    options = parser.parse_args()
    load = Translator.from_run
    if (Path(options.run) / 'generation_config.json').is_file():
        load = Translator.from_marian
    found = {}
    for weights in ('float32', 'int8'):
        for width in (1, 4):
            # One line at a time is one sentence at a time here.
            plain = {'literals': 'ignored', 'split_sentences': False}
            translator = load(options.run, weights=weights, beam_width=width, **plain)
            limit = translator.programs.max_source_tokens
            lines = [line for line in options.lines.read_text('utf-8').splitlines() if line.strip()]
            lines = [line for line in lines if len(translator.tokenizer.encode([line])[0]) < limit][: options.most]
            with tempfile.TemporaryDirectory() as folder:
                found[f'{weights} beam {width}'] = compare(translator, Path(folder) / 'onnx', lines)
            print(weights, width, found[f'{weights} beam {width}'], flush=True)
    print(json.dumps(found))


if __name__ == '__main__':
    main()
