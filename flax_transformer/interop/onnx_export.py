"""Exports a Transformer as files that ONNX Runtime runs; docs/how-to/export.md lists them."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import refuse_faults
from flax_transformer.common.trees import refuse_non_finite
from flax_transformer.huggingface.settings import unexpected
from flax_transformer.tasks.translation.inference.translator import Translator

from .onnx_graph import WEIGHTS, Weights, encoder, step
from .stablehlo import describe_ids, flat_params, refuse_existing, tokenizer_files, with_fixed_shapes, write_folder

FORMAT = 1
_MODELS = {'norm': ['layer'], 'activation': ['relu', 'swish'], 'attention_score': ['scaled_dot', 'dot']}
_MODELS |= {'embedding_norm': [False]}
# What those who read an export do not search with.
_SEARCHES = {'groups': [1], 'coverage_penalty': [0], 'no_repeat_ngram': [0], 'banned_texts': [()]}
_SEARCHES |= {'word_reward': [0], 'min_tokens': [1], 'n_best': [1]}


def export_onnx(translator: Translator, folder: Path | str) -> None:
    """Writes the translator's model and tokenizer as a new folder.

    decoding.weights int8 is how matrices are stored there: they are float32 again once they are loaded.
    """
    refuse_existing(folder)
    write_folder(folder, *onnx_files(translator))


def onnx_files(translator: Translator) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files by name, and what export.json says."""
    config, params = with_fixed_shapes(translator, 'float32')
    faults = unexpected(asdict(config), _MODELS) + unexpected(asdict(translator.decoding), _SEARCHES)
    refuse_faults('this cannot be exported to ONNX:', faults)
    refuse_non_finite(params)
    weights = Weights(flat_params(params))
    files = {'encoder.onnx': encoder(config, weights), 'step.onnx': step(config, weights), WEIGHTS: weights.content()}
    description = {
        'format': FORMAT,
        'layers': config.num_decoder_layers,
        'heads': config.num_heads,
        'head_dim': config.width_of_head,
        'max_positions': translator.programs.max_positions,
        'start_id': translator.programs.special_ids.start,
        'banned': sorted(translator.programs.banned),
        'pairs': translator.pairs,
    }
    return files | tokenizer_files(translator), description | describe_ids(translator)
