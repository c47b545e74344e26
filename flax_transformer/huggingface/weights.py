"""Parameters of Hugging Face's Marian models <-> ours: one table of names, read in both directions; and their files.

    params = from_marian(read_tensors(folder), config)
    write_safetensors(file, to_marian(params, config))

Files are safetensors or PyTorch's pickles, whole or in shards. torch is not needed: `pickles` reads its files, and runs
nothing that they name.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited
from flax_transformer.common.installing import install_command
from flax_transformer.common.json_text import parse_json
from flax_transformer.common.trees import named_leaves
from flax_transformer.huggingface.pickles import read_pickle
from flax_transformer.transformer.config import TransformerConfig
from flax_transformer.transformer.layers import sinusoids
from flax_transformer.transformer.model import parameter_shapes

SAFETENSORS, PICKLE = 'model.safetensors', 'pytorch_model.bin'

# Ours, theirs, and the kind of module; {n} is the layer.
MODULES = (
    ('embedding', 'model.shared', 'table'),
    ('source_embedding', 'model.encoder.embed_tokens', 'table'),
    ('target_embedding', 'model.decoder.embed_tokens', 'table'),
    ('encoder/layers_{n}/self_attention', 'model.encoder.layers.{n}.self_attn', 'attention'),
    ('encoder/layers_{n}/self_residual/norm', 'model.encoder.layers.{n}.self_attn_layer_norm', 'norm'),
    ('encoder/layers_{n}/feed_forward/inner', 'model.encoder.layers.{n}.fc1', 'dense'),
    ('encoder/layers_{n}/feed_forward/outer', 'model.encoder.layers.{n}.fc2', 'dense'),
    ('encoder/layers_{n}/feed_forward_residual/norm', 'model.encoder.layers.{n}.final_layer_norm', 'norm'),
    ('decoder/layers_{n}/self_attention', 'model.decoder.layers.{n}.self_attn', 'attention'),
    ('decoder/layers_{n}/self_residual/norm', 'model.decoder.layers.{n}.self_attn_layer_norm', 'norm'),
    ('decoder/layers_{n}/cross_attention', 'model.decoder.layers.{n}.encoder_attn', 'attention'),
    ('decoder/layers_{n}/cross_residual/norm', 'model.decoder.layers.{n}.encoder_attn_layer_norm', 'norm'),
    ('decoder/layers_{n}/feed_forward/inner', 'model.decoder.layers.{n}.fc1', 'dense'),
    ('decoder/layers_{n}/feed_forward/outer', 'model.decoder.layers.{n}.fc2', 'dense'),
    ('decoder/layers_{n}/feed_forward_residual/norm', 'model.decoder.layers.{n}.final_layer_norm', 'norm'),
    ('projection', 'lm_head', 'softmax'),
    ('logits_bias', 'final_logits_bias', 'row'),
)
_DENSE = (('/kernel', '.weight', 'transposed'), ('/bias', '.bias', 'same'))
# The arrays of a kind of module: ours, theirs, and what turns one into the other.
KINDS = {
    'table': (('/table', '.weight', 'same'),),
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
# Names of one and the same table: a file may hold any of them, or all.
TIED = {
    'all': ('model.shared', 'model.encoder.embed_tokens', 'model.decoder.embed_tokens', 'lm_head'),
    'target': ('model.decoder.embed_tokens', 'lm_head'),
    'none': (),
}
# Written by older versions; every version computes them.
POSITIONS = ('model.encoder.embed_positions.weight', 'model.decoder.embed_positions.weight')


def names(config: TransformerConfig) -> Iterator[tuple[str, str, str]]:
    """Our name, theirs and the change between them, for every array that a model of this config may have."""
    for ours, theirs, kind in MODULES:
        depth = config.num_encoder_layers if ours.startswith('encoder') else config.num_decoder_layers
        for n in range(depth) if '{n}' in ours else (0,):
            for our_array, their_array, change in KINDS[kind]:
                yield ours.format(n=n) + our_array, theirs.format(n=n) + their_array, change


def from_marian(tensors: dict[str, np.ndarray], config: TransformerConfig) -> Any:
    """Our parameters, float32, from a Marian model's tensors.

    Raises UserError with every tensor that is missing, unexpected, of a wrong shape, or not what its name promises.
    """
    expected, params = shapes(config), {}
    left, faults = _without_copies({name: np.asarray(tensor, np.float32) for name, tensor in tensors.items()}, config)
    for ours, theirs, change in names(config):
        if ours not in expected:
            continue
        shape = expected[ours]
        wanted = {'same': shape, 'transposed': shape[::-1], 'as a row': (1, *shape)}[change]
        if theirs not in left:
            faults.append(f'{theirs}: missing, expected shape {wanted}')
        elif left[theirs].shape != wanted:
            faults.append(f'{theirs}: got shape {left.pop(theirs).shape}, expected {wanted}')
        else:
            tensor = left.pop(theirs)
            tensor = tensor.T if change == 'transposed' else tensor.reshape(shape)
            params[ours] = jnp.asarray(_without_pad(ours, tensor, config))
    faults += [f'{name}: unexpected' for name in left]
    if faults:
        raise UserError('the tensors are not those of the model that config.json describes:\n  ' + '\n  '.join(faults))
    return unflatten_dict(params, sep='/')


def to_marian(params: Any, config: TransformerConfig) -> dict[str, np.ndarray]:
    """A Marian model's tensors, float32, from our parameters.

    What ours lacks is written so that it has no effect: zero biases, and a zero row for pad_id where our model does not
    read it.
    """
    flat = {name: np.asarray(leaf, np.float32) for name, leaf in flatten_dict(params, sep='/').items()}
    tensors = {}
    for ours, theirs, change in names(config):
        array = flat.get(ours)
        if array is None and theirs.endswith('bias'):
            # Ours may lack the biases of the logits, and those of the projections in attention.
            array = np.zeros(config.vocab_size_of_target if ours == 'logits_bias' else config.d_model, np.float32)
        if array is not None:
            array = _without_pad(ours, array, config)
            tensors[theirs] = array.T if change == 'transposed' else array[None] if change == 'as a row' else array
    return tensors


def shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter of a config's model, by path."""
    return {name: leaf.shape for name, leaf in named_leaves(parameter_shapes(config))}


def _without_pad(name: str, array: np.ndarray, config: TransformerConfig) -> np.ndarray:
    """The array; an embedding whose pad row is not read has zeros there."""
    if not name.endswith('/table') or config.pad_row == 'both':
        return array
    return np.where(np.arange(len(array))[:, None] == config.pad_id, np.float32(0), array)


def _without_copies(
    tensors: dict[str, np.ndarray], config: TransformerConfig
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The tensors without copies of others and of what we compute; and the faults found among those."""
    left, faults = dict(tensors), []
    aliases = [f'{name}.weight' for name in TIED[config.tie_embeddings]]
    if there := [name for name in aliases if name in left]:
        table = left[there[0]]
        faults += [
            f'{name}: differs from {there[0]}, though config.json ties them'
            for name in there
            if not np.array_equal(left.pop(name), table)
        ]
        left[aliases[0]] = table
    if config.tie_embeddings != 'all' and (shared := left.pop('model.shared.weight', None)) is not None:
        # Ignored if the two sides have tables of their own, as the latest version writes them.
        for side in ('encoder', 'decoder'):
            left.setdefault(f'model.{side}.embed_tokens.weight', shared)
    if config.logits_bias:
        left.setdefault('final_logits_bias', np.zeros((1, config.vocab_size_of_target), np.float32))
    for name in POSITIONS:
        if (positions := left.pop(name, None)) is not None:
            computed = sinusoids(len(positions), config.d_model, 'concatenated')
            # bfloat16 keeps sines to 4e-3.
            if positions.shape != computed.shape or np.abs(positions - computed).max() > 5e-3:
                faults.append(f'{name}: not the sinusoids of Marian; other positions are not supported')
    return left, faults


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """All tensors of the folder's model, in the types in which they are stored.

    Looks for model.safetensors, model.safetensors.index.json, pytorch_model.bin, pytorch_model.bin.index.json, in this
    order. Raises UserError if there is none, one is damaged, or a pickle holds more than tensors.
    """
    for name, read in ((SAFETENSORS, _read_safetensors), (PICKLE, read_pickle)):
        if (folder / name).is_file():
            return read(folder / name)
        if (folder / f'{name}.index.json').is_file():
            return _read_shards(folder / f'{name}.index.json', read)
    raise UserError(f'{folder} has no weights; expected {SAFETENSORS} or {PICKLE}, or shards of one and their index')


def write_safetensors(file: Path, tensors: dict[str, np.ndarray]) -> None:
    """Writes a file that Hugging Face loads into a PyTorch model."""
    _safetensors().numpy.save_file(
        {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, file, metadata={'format': 'pt'}
    )


def _safetensors() -> Any:
    """The module, imported on use: translating does not need it."""
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise UserError(f'safetensors is not installed: {install_command("interop")}') from None
    return safetensors


def _read_safetensors(file: Path) -> dict[str, np.ndarray]:
    module = _safetensors()
    try:
        return module.numpy.load_file(file)
    except Exception as error:  # a damaged file can raise anything
        raise UserError(f'{file} is damaged, or cut short: {error}; copy it again') from None


def _read_shards(index: Path, read: Callable[[Path], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    try:
        homes = dict(parse_json(read_limited(index))['weight_map'])
        names = sorted(set(homes.values()))
    except (ValueError, TypeError, KeyError):
        raise UserError(f'{index} is damaged: expected {{"weight_map": {{tensor: file}}}}') from None
    # A name with a folder in it could lead anywhere.
    missing = [name for name in names if Path(name).name != name or not (index.parent / name).is_file()]
    if missing:
        raise UserError(f'{index} names files that are not next to it: {", ".join(missing)}')
    tensors = {name: tensor for file in names for name, tensor in read(index.parent / file).items()}
    if absent := sorted(set(homes) - set(tensors)):
        raise UserError(f'{index} names tensors that its files lack: {", ".join(absent)}')
    return tensors
