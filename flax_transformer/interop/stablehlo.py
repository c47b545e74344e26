"""Exports a trained model as one program that needs neither this package nor Flax: StableHLO of `translate_ids`.

docs/how-to/export.md lists the files of the folder; its load.py is `export_loader.py`.
"""

import hashlib
import io
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import jaxlib
import numpy as np
from jax import export as jax_export
from jax.extend import mlir

from flax_transformer.common.errors import UserError, refuse_faults
from flax_transformer.common.trees import named_leaves, refuse_non_finite
from flax_transformer.decoding.search import output_slots
from flax_transformer.ops.int8 import for_signed_inputs
from flax_transformer.tasks.translation.config import ModelConfig
from flax_transformer.tasks.translation.inference.programs import Programs
from flax_transformer.tasks.translation.inference.translator import Translator
from flax_transformer.tasks.translation.model import family_of, make_model
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.layers import sinusoids

from . import export_loader

FORMAT = 1
JAX_AT_LEAST = '0.10.0'  # earlier ones cannot read these programs
_STABLEHLO = '1.13.7'  # the newest that JAX_AT_LEAST reads
PLATFORMS = ('cpu', 'cuda', 'tpu')
PHRASE_SLOTS = 16  # tokens of a phrase that a program takes
_MOST_INSIDE = 2 * 10**9  # bytes; a serialized program can hold 2 GiB

Exported = jax_export.Exported
Dtype = Literal['float32', 'bfloat16']


def export_run(
    translator: Translator,
    folder: Path | str,
    *,
    weights: Literal['beside', 'inside'] = 'beside',
    dtype: Dtype | None = None,
    platforms: Sequence[str] = PLATFORMS,
    phrases: bool = False,
) -> None:
    """Writes the translator's model, search and tokenizer as a folder, whole or not at all.

    Args:
      weights: in a file next to the program, or constants inside it.
      dtype: of computation; None: the config's, or float32 if that is auto.
      phrases: the program also takes phrases that translations must contain.
    """
    is_inside = weights == 'inside'
    refuse_existing(folder)
    model, params = with_fixed_shapes(translator, dtype)
    refuse_non_finite(params)
    flat = flat_params(params)
    size = sum(leaf.nbytes for leaf in flat.values())
    if is_inside and size > _MOST_INSIDE:
        raise UserError(f'{size / 1e9:.1f} GB of weights do not fit inside a program; use --weights beside')
    program = lower(translator, model, params, inside=is_inside, platforms=platforms, phrases=phrases)
    files = _files(translator, program, None if is_inside else flat)
    write_folder(folder, files, _description(translator, model, program, weights, phrases=phrases))


def refuse_existing(folder: Path | str) -> None:
    if Path(folder).exists():
        raise UserError(f'{folder} exists; an export is written to a new folder')


def write_folder(folder: Path | str, files: dict[str, bytes], description: dict[str, Any]) -> None:
    """Writes files by name, and export.json: the description, their sizes and their SHA-256 sums."""
    folder = Path(folder)
    files = dict(sorted(files.items()))
    description |= {
        'bytes': {name: len(content) for name, content in files.items()},
        'sha256': {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    files['export.json'] = (json.dumps(description, indent=1, ensure_ascii=False) + '\n').encode()
    unfinished = folder.with_name(folder.name + '.partial')
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for name, content in files.items():
        (unfinished / name).write_bytes(content)
    unfinished.rename(folder)


def _files(translator: Translator, program: Exported, weights: dict[str, np.ndarray] | None) -> dict[str, bytes]:
    files = tokenizer_files(translator) | {
        'program.bin': bytes(program.serialize()),
        'load.py': Path(export_loader.__file__).read_bytes(),
    }
    if weights is not None:
        file = io.BytesIO()
        np.savez(file, **weights)
        files['weights.npz'] = file.getvalue()
    return files


def tokenizer_files(translator: Translator) -> dict[str, bytes]:
    tokenizer = translator.tokenizer.portable()
    pieces = {'source': tokenizer.source_ids, 'target': tokenizer.target_pieces}
    return {
        'source.spm': tokenizer.source,
        'target.spm': tokenizer.target,
        'pieces.json': json.dumps(pieces, ensure_ascii=False).encode(),
    }


def with_fixed_shapes(translator: Translator, dtype: Dtype | None = None) -> tuple[ModelConfig, Any]:
    """The config and parameters to trace with unknown lengths: sinusoids become a learned table."""
    _check(translator)
    decoding = translator.decoding
    model = translator.model.config
    params = for_signed_inputs(translator.weights) if decoding.weights == 'int8' else translator.params
    if isinstance(model, TransformerConfig):
        if model.positions not in ('learned', 'relative'):
            length = max(decoding.max_source_tokens, output_slots(decoding, decoding.max_source_tokens))
            first = model.position_offset
            table = {'table': sinusoids(first + length, model.d_model, model.positions)[first:]}
            params = {**params, 'source_positions': table, 'target_positions': table}
            model = replace(model, positions='learned', max_length=length)
        model = replace(model, attention='plain')  # cuDNN's is not for every platform
    dtype = dtype or ('float32' if model.dtype == 'auto' else model.dtype)
    return replace(model, dtype=dtype), params


def _check(translator: Translator) -> None:
    decoding = translator.decoding
    if not isinstance(getattr(translator.model, 'config', None), ModelConfig):
        raise UserError(f'a {type(translator.model).__name__} cannot be exported; expected a model of this package')
    faults = []
    if len(translator.models) > 1:
        faults.append(f'an ensemble of {len(translator.models)} models: export one of them')
    if translator.first_id is not None:
        faults.append('a model whose targets begin with the tag of their language')
    if decoding.search == 'sample':
        faults.append("decoding.search='sample', whose draws would be the same for ever: set --decoding.search beam")
    if decoding.mbr != 'none':
        faults.append(f'decoding.mbr={decoding.mbr!r}, which compares texts: set --decoding.mbr none')
    refuse_faults('this cannot be exported:', faults)


def lower(
    translator: Translator,
    model: ModelConfig,
    params: Any,
    *,
    inside: bool,
    platforms: Sequence[str],
    phrases: bool = False,
) -> Exported:
    """The program for any batch, source length up to max_source_tokens, and number of phrases."""
    programs = Programs([make_model(model)], translator.tokenizer, translator.decoding)
    search = programs.translate_required if phrases else programs.translate_ids
    flat = flat_params(params)
    structure = jax.tree.structure(params)

    def translate(weights: dict[str, jax.Array], source: jax.Array, *required: jax.Array) -> dict[str, jax.Array]:
        hypotheses = search(structure.unflatten(weights[name] for name in flat), source, *required)
        return {name: getattr(hypotheses, name) for name in _OUTPUTS}

    most = translator.decoding.max_source_tokens
    names = 'bsga' if phrases else 'bs'
    constraints = [*(f'{name} >= 1' for name in names), f's <= {most}']
    batch, slots, *sizes = jax_export.symbolic_shape(', '.join(names), constraints=constraints)
    shapes = [(batch, slots), *([(batch, *sizes, PHRASE_SLOTS)] if phrases else [])]
    inputs = [jax.ShapeDtypeStruct(shape, np.int32) for shape in shapes]
    if inside:
        function = partial(translate, flat)
    else:
        function = translate
        inputs.insert(0, {name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for name, leaf in flat.items()})
    program = jax_export.export(jax.jit(function), platforms=platforms)(*inputs)
    # JAX writes StableHLO for readers up to four weeks old.
    older = mlir.serialize_portable_artifact(program.mlir_module(), _STABLEHLO, True)
    return replace(program, mlir_module_serialized=older)


_OUTPUTS = {
    'tokens': 'ids [b, beams, slots], the best hypothesis first, EOS included, then pad_id',
    'scores': 'float32 [b, beams]: log-probability / length penalty, and any other terms of the search',
    'lengths': 'int32 [b, beams]: tokens, EOS counted; 0: no such hypothesis',
    'is_finished': 'bool [b, beams]: False: cut at its longest permitted length',
}


def _description(
    translator: Translator, model: ModelConfig, program: Exported, weights: str, *, phrases: bool
) -> dict[str, Any]:
    decoding = translator.decoding
    most = decoding.max_source_tokens
    arguments = ['weights: the arrays of weights.npz by name'] if weights == 'beside' else []
    arguments.append(f'source: ids, int32 [b, s], EOS last, then pad_id; s from 1 to {most}')
    if phrases:
        shape = '[b, phrases, alternatives, phrase_slots]'
        arguments.append(f'required: ids of phrases in alternatives, int32 {shape}, then -1')

    slots = str(decoding.max_tokens or f's + {decoding.max_extra_tokens}')
    return describe_ids(translator) | {
        'format': FORMAT,
        'jax': jax.__version__,
        'jaxlib': jaxlib.__version__,
        'jax_at_least': JAX_AT_LEAST,  # can read the program
        'calling_convention': program.calling_convention_version,  # jax.export's
        'platforms': list(program.platforms),
        'dtype': model.dtype,
        'parameters': sum(leaf.size for leaf in jax.tree.leaves(family_of(model).parameter_shapes(model))),
        'arguments': arguments,
        'phrase_slots': PHRASE_SLOTS if phrases else 0,
        'results': _OUTPUTS | {'slots': slots},
    }


def describe_ids(translator: Translator) -> dict[str, Any]:
    """What a program must know of the tokenizer and the search."""
    tokenizer = translator.tokenizer
    return {
        'pad_id': tokenizer.pad_id,
        'eos_id': tokenizer.eos_id,
        'unk_id': tokenizer.unk_id,
        'prefix': tokenizer.beginning(translator.decoding.target_language),  # stands before each source's ids
        'languages': tokenizer.languages,  # the tags that may replace its last
        'max_source_tokens': translator.decoding.max_source_tokens,
        'decoding': asdict(translator.decoding),
    }


def flat_params(tree: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(leaf) for name, leaf in named_leaves(jax.device_get(tree))}
