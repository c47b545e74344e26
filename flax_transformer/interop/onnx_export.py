"""Exports a Transformer for ONNX Runtime: its files, or a site that translates in a browser, whose page is web/."""

import gzip
import hashlib
from dataclasses import asdict
from pathlib import Path

from flax_transformer.common.errors import UserError, refuse_faults
from flax_transformer.common.trees import refuse_non_finite
from flax_transformer.huggingface.settings import PLAIN, unexpected
from flax_transformer.tasks.translation.inference.translator import Translator

from .onnx_graph import WEIGHTS, Weights, encoder, step
from .stablehlo import describe_ids, flat_params, refuse_existing, tokenizer_files, with_fixed_shapes, write_folder

RUNTIME = Path('node_modules/onnxruntime-web')  # where npm puts it
_PROGRAM = 'ort-wasm-simd-threaded.wasm'
_COMPRESSED = (WEIGHTS, 'pieces.json', _PROGRAM)  # on a site: not every server does
_MODELS = PLAIN | {'norm': ['layer'], 'activation': ['relu', 'swish'], 'attention_score': ['scaled_dot', 'dot']}
_MODELS |= {'embedding_norm': [False]}
# What the readers of an export do not search with.
_SEARCHES = {'groups': [1], 'coverage_penalty': [0], 'no_repeat_ngram': [0], 'banned_texts': [()]}
_SEARCHES |= {'word_reward': [0], 'min_tokens': [1], 'n_best': [1]}


def export_onnx(
    translator: Translator, folder: Path | str, *, runtime: Path | None = None, history: bytes | None = None
) -> None:
    """Writes the translator's model and tokenizer as a new folder; with a `runtime`, npm's package, as a site.

    decoding.weights int8 is how matrices are stored there: they are float32 again once they are loaded.
    """
    refuse_existing(folder)
    config, params = with_fixed_shapes(translator, 'float32')
    faults = unexpected(asdict(config), _MODELS) + unexpected(asdict(translator.decoding), _SEARCHES)
    refuse_faults('this cannot be exported to ONNX:', faults)
    refuse_non_finite(params)
    weights = Weights(flat_params(params))
    graphs = {'encoder.onnx': encoder, 'step.onnx': step}
    files = {name: graph(config, weights, has_switches=runtime is not None) for name, graph in graphs.items()}
    files |= {WEIGHTS: weights.content()} | tokenizer_files(translator)
    programs = translator.programs
    marian = getattr(translator.tokenizer, 'settings', None)  # whose text loses spaces
    description = {
        'format': 1,
        'layers': config.num_decoder_layers,
        'encoder_layers': config.num_encoder_layers,
        'heads': config.num_heads,
        'head_dim': config.width_of_head,
        'max_positions': programs.max_positions,
        'start_id': programs.special_ids.start,
        'banned': sorted(programs.banned),
        'pairs': translator.pairs,
        'strips': marian is not None,
        'cleans': bool((marian or {}).get('clean_up_tokenization_spaces')),
    }
    if history:
        files['history.json'] = history
    if runtime:
        files = _site(files, runtime)
    write_folder(folder, files, description | describe_ids(translator))


def _site(files: dict[str, bytes], runtime: Path) -> dict[str, bytes]:
    page = list(Path(__file__).with_name('web').iterdir())
    try:
        page += [runtime / 'dist' / name for name in ('ort.wasm.bundle.min.mjs', _PROGRAM)]
        files = files | {file.name: file.read_bytes() for file in page}
    except OSError as error:
        raise UserError(f'{error}; expected ONNX Runtime for the web: npm install onnxruntime-web@1.30.0') from None
    for name in _COMPRESSED:
        files[f'{name}.gz'] = gzip.compress(files.pop(name), mtime=0)
    version = hashlib.sha256(b''.join(files.values())).hexdigest()
    return files | {'service.js': f"const VERSION = '{version}';\n".encode() + files['service.js']}
