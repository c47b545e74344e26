"""Parameters of Hugging Face's models <-> ours: one table of names for all families, read in both directions.

params = to_params(read_tensors(folder), config)
write_safetensors(file, to_tensors(params, config))

Files are safetensors or PyTorch's pickles, whole or in shards. torch is not needed.
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from flax_transformer.common.errors import UserError, refuse_faults
from flax_transformer.common.files import MOST_WORDS, naming_damage, open_regular, read_at_most
from flax_transformer.common.installing import imported
from flax_transformer.common.json_text import parse_json, read_json
from flax_transformer.common.trees import named_leaves
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.model import parameter_shapes

from .pickles import Tensors, read_pickle
from .settings import family_of_model

SAFETENSORS = 'model.safetensors'
PICKLE = 'pytorch_model.bin'
_DTYPES = {'F64': '<f8', 'F32': '<f4', 'F16': '<f2', 'BF16': ml_dtypes.bfloat16}
# Ours, theirs, and the kind of module, within each layer of a side.
LAYER = (
    ('self_attention', 'self_attn', 'attention'),
    ('self_residual/norm', 'self_attn_layer_norm', 'norm'),
    ('cross_attention', 'encoder_attn', 'attention'),
    ('cross_residual/norm', 'encoder_attn_layer_norm', 'norm'),
    ('feed_forward/inner', 'fc1', 'dense'),
    ('feed_forward/gate', 'fc3', 'dense'),
    ('feed_forward/outer', 'fc2', 'dense'),
    ('feed_forward_residual/norm', 'final_layer_norm', 'norm'),
)
# And outside of them.
MODULES = (
    ('embedding', 'model.shared', 'table'),
    ('source_embedding', 'model.encoder.embed_tokens', 'table'),
    ('target_embedding', 'model.decoder.embed_tokens', 'table'),
    ('projection', 'lm_head', 'softmax'),
    ('encoder/final_norm', 'model.encoder.layer_norm', 'norm'),
    ('decoder/final_norm', 'model.decoder.layer_norm', 'norm'),
    ('source_norm', 'model.encoder.layernorm_embedding', 'norm'),
    ('target_norm', 'model.decoder.layernorm_embedding', 'norm'),
    ('source_positions', 'model.encoder.embed_positions', 'positions'),
    ('target_positions', 'model.decoder.embed_positions', 'positions'),
    ('logits_bias', 'final_logits_bias', 'row'),
)
_DENSE = (('/kernel', '.weight', 'transposed'), ('/bias', '.bias', 'same'))
# The arrays of a kind of module: ours, theirs, and the change between them.
KINDS = {
    'table': (('/table', '.weight', 'same'),),
    'positions': (('/table', '.weight', 'without first rows'),),
    'dense': _DENSE,
    'attention': tuple(
        (f'/{ours}{our_array}', f'.{theirs}{their_array}', change)
        for ours, theirs in (('query', 'q_proj'), ('key', 'k_proj'), ('value', 'v_proj'), ('output', 'out_proj'))
        for our_array, their_array, change in _DENSE
    ),
    'norm': (('/scale', '.weight', 'same'), ('/bias', '.bias', 'same')),
    'softmax': (('', '.weight', 'transposed'),),
    'row': (('', '', 'as a row'),),
}
# Names of one table: a file may hold any of them.
TIED = {
    'all': ('model.shared', 'model.encoder.embed_tokens', 'model.decoder.embed_tokens', 'lm_head'),
    'sides': ('model.shared', 'model.encoder.embed_tokens', 'model.decoder.embed_tokens'),
    'target': ('model.decoder.embed_tokens', 'lm_head'),
    'none': (),
}
# Sinusoids, which older versions wrote.
POSITIONS = tuple(f'model.{side}.embed_positions.weight{s}' for side in ('encoder', 'decoder') for s in ('', 's'))
# T5's names have other parts; these are replaced in this order.
IN_T5 = (
    ('model.', ''),
    ('embed_positions', 'block.0.layer.0.SelfAttention.relative_attention_bias'),
    ('self_attn_', 'layer.0.'),
    ('self_attn', 'layer.0.SelfAttention'),
    ('encoder_attn_', 'layer.1.'),
    ('encoder_attn', 'layer.1.EncDecAttention'),
    ('out_proj', 'o'),
    ('_proj', ''),
    ('coder.layer_norm', 'coder.final_layer_norm'),
    ('layers', 'block'),
)


def names(config: TransformerConfig) -> Iterator[tuple[str, str, str]]:
    """Our name, theirs and the change between them, for every array that the model may have."""
    modules = list(MODULES)
    for side, depth in (('encoder', config.num_encoder_layers), ('decoder', config.num_decoder_layers)):
        for n in range(depth):
            for ours, theirs, kind in LAYER:
                if side == 'decoder' or not ours.startswith('cross'):
                    modules.append((f'{side}/layers_{n}/{ours}', f'model.{side}.layers.{n}.{theirs}', kind))
    for ours, theirs, kind in modules:
        for our_array, their_array, change in KINDS[kind]:
            yield ours + our_array, name_of(theirs + their_array, config), change


def name_of(name: str, config: TransformerConfig) -> str:
    """One of these names in the model's family."""
    if config.positions != 'relative':
        return name
    for part, in_t5 in IN_T5:
        name = name.replace(part, in_t5)
    last = 'layer.1.' if name.startswith('encoder') else 'layer.2.'
    inner = 'wi_0' if config.gated else 'wi'
    for part, in_t5 in (('fc1', inner), ('fc2', 'wo'), ('fc3', 'wi_1')):
        name = name.replace(part, f'{last}DenseReluDense.{in_t5}')
    return re.sub(r'(?<=\d\.)final_', last, name)


def to_params(tensors: Mapping[str, np.ndarray], config: TransformerConfig) -> Any:
    """Our parameters, float32, from a model's tensors, read one at a time."""
    params = {}
    faults = []
    our_shapes = shapes(config)
    family = family_of_model(config)
    is_t5 = config.positions == 'relative'
    homes = _homes(tensors, config)
    for ours, theirs, change in names(config):
        if ours not in our_shapes:
            continue

        shape = our_shapes[ours]
        as_theirs = partial(_as_theirs, change=change, table_offset=family.table_offset)
        expected = jax.eval_shape(as_theirs, jax.ShapeDtypeStruct(shape, jnp.float32)).shape  # takes no memory
        if theirs not in homes:
            if ours == 'logits_bias':
                params[ours] = jnp.zeros(shape, jnp.float32)
            else:
                faults.append(f'{theirs}: missing, expected shape {expected}')
            continue

        tensor = np.asarray(tensors[homes.pop(theirs)], np.float32)
        if tensor.shape != expected:
            faults.append(f'{theirs}: got shape {tensor.shape}, expected {expected}')
            continue
        if change == 'transposed':
            tensor = tensor.T
        elif change == 'without first rows':
            tensor = tensor[family.table_offset :]
        elif change == 'as a row':
            tensor = tensor[0]
        if is_t5 and config.scale_embedding and ours in ('embedding/table', 'projection'):
            tensor = tensor * np.float32(config.d_model**-0.5)  # theirs scales logits, ours embeddings
        # jnp.array would copy twice.
        params[ours] = jax.device_put(_without_pad(ours, tensor, config), may_alias=False)
    faults += [f'{name}: unexpected' for name in homes]
    refuse_faults('the tensors are not those of the model that config.json describes:', faults)
    return unflatten_dict(params, sep='/')


def to_tensors(params: Any, config: TransformerConfig) -> dict[str, np.ndarray]:
    """The tensors, float32, of a model of the config's family, from our parameters.

    What ours lacks is written as zeros: biases, and the row of pad_id where our model does not read it.
    """
    flat = {name: np.asarray(leaf, np.float32) for name, leaf in flatten_dict(params, sep='/').items()}
    family = family_of_model(config)
    tensors = {}
    for ours, theirs, change in names(config):
        array = flat.get(ours)
        if array is None and ours == 'logits_bias' and family.always[ours]:
            array = np.zeros(config.vocab_size_of_target, np.float32)
        elif array is None and '_attention/' in ours:
            array = np.zeros(config.d_model, np.float32)
        if array is not None:
            array = _without_pad(ours, array, config)
            tensors[theirs] = np.asarray(_as_theirs(array, change, family.table_offset))
    return tensors


def _as_theirs(array: Any, change: str, table_offset: int) -> Any:
    if change == 'transposed':
        return array.T
    if change == 'without first rows':
        return jnp.pad(array, ((table_offset, 0), (0, 0)))
    return array[None] if change == 'as a row' else array


def shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    return {name: leaf.shape for name, leaf in named_leaves(parameter_shapes(config))}


def _without_pad(name: str, array: np.ndarray, config: TransformerConfig) -> np.ndarray:
    if not name.endswith('embedding/table') or config.pad_row == 'both':
        return array
    return np.where(np.arange(len(array))[:, None] == config.pad_id, np.float32(0), array)


def _homes(names: Iterable[str], config: TransformerConfig) -> dict[str, str]:
    """The name in the file of each tensor that is read: of copies the first, and no sinusoids."""
    homes = {name: name for name in names if 'EncDecAttention.relative' not in name}  # T5's unread ones
    aliases = [name_of(f'{name}.weight', config) for name in TIED[config.tie_embeddings]]
    if present := [homes.pop(name) for name in aliases if name in homes]:
        homes[aliases[0]] = present[0]

    shared = homes.pop('model.shared.weight', None) if config.tie_embeddings in ('target', 'none') else None
    if shared is not None:
        # The latest version also writes a table for each side.
        for side in ('encoder', 'decoder'):
            homes.setdefault(f'model.{side}.embed_tokens.weight', shared)
    if config.positions != 'learned':
        for name in POSITIONS:
            homes.pop(name, None)
    return homes


def read_tensors(folder: Path) -> Tensors:
    """All tensors of the folder's model, as they are stored."""
    for name, read in ((SAFETENSORS, _read_safetensors), (PICKLE, read_pickle)):
        if (folder / name).is_file():
            return read(folder / name)
        if (folder / f'{name}.index.json').is_file():
            return _read_shards(folder / f'{name}.index.json', read)
    raise UserError(f'{folder} has no weights; expected {SAFETENSORS} or {PICKLE}, or shards of one and their index')


def write_safetensors(file: Path, tensors: dict[str, np.ndarray]) -> None:
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    library = imported('safetensors.numpy', 'interop', "writing a model in Hugging Face's format")
    library.save_file(contiguous, file, metadata={'format': 'pt'})


def _read_safetensors(file: Path) -> Tensors:
    readers = {}
    with naming_damage(file, 'copy it again'), open_regular(file) as opened:
        begin = 8 + int.from_bytes(opened.read(8), 'little')
        header = parse_json(read_at_most(opened, min(begin - 8, MOST_WORDS)))
        header.pop('__metadata__', None)
        size = os.fstat(opened.fileno()).st_size - begin
        if size != max((entry['data_offsets'][1] for entry in header.values()), default=0):
            raise ValueError(f'{size:,} bytes of tensors, expected as many as its header lists')
        for name, entry in header.items():
            dtype = np.dtype(_DTYPES[entry['dtype']])
            first, end = entry['data_offsets']
            if not 0 <= first <= end or math.prod(entry['shape']) * dtype.itemsize != end - first:
                raise ValueError(f'{name} is no part of it')
            place = {'offset': begin + first, 'shape': tuple(entry['shape'])}
            readers[name] = partial(np.memmap, file, dtype, 'r', **place)
    return Tensors(readers)


def _read_shards(index: Path, read: Callable[[Path], Tensors]) -> Tensors:
    with naming_damage(index, 'expected {"weight_map": {tensor: file}}'):
        homes = dict(read_json(index)['weight_map'])
        names = sorted(set(homes.values()))
    # A name with a folder in it could lead anywhere.
    missing = [str(name) for name in names if Path(str(name)).name != name or not (index.parent / name).is_file()]
    if missing:
        raise UserError(f'{index} names files that are not next to it: {", ".join(missing)}')
    tensors = Tensors({name: reader for file in names for name, reader in read(index.parent / file).readers.items()})
    if absent := sorted(set(homes) - set(tensors)):
        raise UserError(f'{index} names tensors that its files lack: {", ".join(absent)}')
    return tensors
