"""Hugging Face's config.json and generation_config.json <-> our model and search, by name.

What the other side cannot hold is reported together, each field with what was got and expected.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError, refuse_faults
from flax_transformer.common.files import naming_damage
from flax_transformer.common.json_text import read_json
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.transformer.config import TransformerConfig


class Family(NamedTuple):
    name: str
    model_type: str
    architecture: str
    same: dict[str, str]  # fields with the same meaning: ours, theirs
    always: dict[str, Any]  # fields of ours that have these values in every model
    theirs: dict[str, Any]  # fields of theirs that, if they are there, must have these values
    unsaid: dict[str, Any]  # values, in their library, of fields that config.json leaves out
    table_offset: int  # unread rows at the head of a learned table of positions


# What Marian's, M2M-100's and mBART's models have, as have those of CTranslate2 and of our ONNX.
PLAIN: dict[str, list[Any]] = {
    'positions': ['interleaved', 'concatenated', 'tensor2tensor', 'learned'],
    'activation': ['relu', 'gelu', 'swish'],
    'gated': [False],
    'feed_forward_bias': [True],
    'tie_embeddings': ['all', 'target', 'none'],
}
FAMILIES = tuple(Family(**fields) for fields in json.loads(Path(__file__).with_name('families.json').read_text()))
MARIAN, _, _, T5, _ = FAMILIES


def family_of_folder(theirs: dict[str, Any]) -> Family:
    kind = theirs.get('model_type')
    for family in FAMILIES:
        if family.model_type == kind:
            return family
    known = ', '.join(f'"{family.model_type}" ({family.name})' for family in FAMILIES)
    raise UserError(f'model_type is {kind!r}; expected one of {known}')


def family_of_model(model: TransformerConfig) -> Family:
    if model.positions == 'relative':
        return T5
    if model.start_id is None:
        return MARIAN
    return FAMILIES[2 if model.positions == 'learned' else 1]


# T5's feed_forward_proj as our activation, and whether it is gated.
UNITS = {
    'relu': ('relu', False),
    'gated-relu': ('relu', True),
    'gated-gelu': ('gelu_tanh', True),
    'gated-silu': ('swish', True),
}
ACTIVATIONS = {'relu': 'relu', 'gelu': 'gelu', 'swish': 'swish', 'silu': 'swish'}
# Settings of generation_config.json that change translations, unless they are 1, or what counts as false.
UNLESS_ONE = 'num_beam_groups repetition_penalty encoder_repetition_penalty guidance_scale num_return_sequences'
UNLESS_FALSE = (
    'do_sample diversity_penalty encoder_no_repeat_ngram_size penalty_alpha begin_suppress_tokens force_words_ids '
    'constraints sequence_bias exponential_decay_length_penalty watermarking_config stop_strings max_time'
)


def read_model(theirs: dict[str, Any]) -> TransformerConfig:
    """The model that config.json describes, except Marian's pad_row and T5's head, which only tensors show."""
    family = family_of_folder(theirs)
    is_marian = family is MARIAN
    theirs = family.unsaid | theirs
    is_t5 = family.always['positions'] == 'relative'
    if is_t5:
        theirs.setdefault('num_decoder_layers', theirs.get('num_layers'))
        numbers = list(dict.fromkeys(family.same.values()))
        needed = [*numbers, 'feed_forward_proj']
    else:
        numbers = [*family.same.values(), 'decoder_start_token_id', 'max_position_embeddings']
        needed = [*numbers, 'decoder_attention_heads', 'decoder_ffn_dim']
    faults = [f'{name}: missing' for name in needed if name not in theirs]

    expected = {name: [value] for name, value in family.theirs.items()}
    expected |= {'architectures': [[family.architecture]], 'activation_function': list(ACTIVATIONS)}
    expected['feed_forward_proj'] = list(UNITS)
    expected |= {f'decoder_{name}': [theirs.get(f'encoder_{name}')] for name in ('attention_heads', 'ffn_dim')}
    if is_marian:
        expected['decoder_start_token_id'] = [theirs.get('pad_token_id')]
    faults += unexpected(theirs, expected)
    for name in numbers:
        kinds = (int,)
        if name == 'scale_embedding':
            kinds = (bool,)
        elif 'dropout' in name or 'epsilon' in name:
            kinds = (int, float)
        if name in theirs and type(theirs[name]) not in kinds:
            faults.append(f'{name}={theirs[name]!r}: expected {" or ".join(kind.__name__ for kind in kinds)}')
    refuse_faults(f'this {family.name} model cannot be read:', faults)

    if is_t5:
        is_tied = theirs['tie_word_embeddings']
        activation, is_gated = UNITS[theirs['feed_forward_proj']]
        return TransformerConfig(
            **{ours: theirs[name] for ours, name in family.same.items()},
            **family.always,
            activation=activation,
            gated=is_gated,
            tie_embeddings='all' if is_tied else 'sides',
            scale_embedding=theirs.get('scale_decoder_outputs', is_tied),
        )

    rest = {'pad_row': 'both', 'start_id': theirs['decoder_start_token_id']}
    if is_marian:
        tie = 'all' if theirs['share_encoder_decoder_embeddings'] else 'target'
        if not theirs['tie_word_embeddings']:
            tie = 'none'
        target_size = theirs.get('decoder_vocab_size')
        if tie == 'all' or target_size == theirs['vocab_size']:
            target_size = None
        rest = {'tie_embeddings': tie, 'target_vocab_size': target_size, 'pad_row': 'neither'}
    return TransformerConfig(
        **{ours: theirs[name] for ours, name in family.same.items()},
        **family.always,
        **rest,
        activation=ACTIVATIONS[theirs['activation_function']],
        max_length=theirs['max_position_embeddings'],
    )


def read_decoding(theirs: dict[str, Any], model: TransformerConfig) -> DecodingConfig:
    """The search that generation_config.json, or an older config.json, asks for."""
    changing = [*UNLESS_FALSE.split(), *(name for name in UNLESS_ONE.split() if theirs.get(name) != 1)]
    faults = [f'{name}={theirs[name]!r}: not supported' for name in changing if theirs.get(name)]
    has_tags = model.start_id is not None  # then a forced first token is the language that is translated into
    expected = {'decoder_start_token_id': [model.start_id]} if has_tags else {'forced_bos_token_id': [None]}
    expected |= {name: [model.eos_id, [model.eos_id]] for name in ('eos_token_id', 'forced_eos_token_id')}
    faults += unexpected(theirs, expected)
    banned = [*theirs.get('bad_words_ids', ()), *([id_] for id_ in theirs.get('suppress_tokens', ()))]
    if several := [words for words in banned if len(words) != 1]:
        faults.append(f'bad_words_ids has {several}: only single pieces are supported')
    if faults:
        faults.append('remove them from generation_config.json, or an older config.json, to do without')
    refuse_faults('these settings of the search cannot be followed:', faults)

    # Hugging Face counts the decoder's start in max_length, not in max_new_tokens, and the target's tag in both.
    limit = theirs.get('max_new_tokens') or theirs.get('max_length', 0) - 1
    limit -= has_tags and model.positions != 'relative'
    cache = limit * model.num_decoder_layers * model.d_model
    least = theirs.get('min_length', 1)
    if theirs.get('min_new_tokens'):
        least = theirs['min_new_tokens'] + 1
    ids = {id_ for (id_,) in banned}
    return DecodingConfig(
        beam_width=theirs.get('num_beams', 1),
        length_penalty='power',
        alpha=theirs.get('length_penalty', 1.0),
        max_tokens=limit if limit > 0 else None,
        min_tokens=max(least, 1),
        max_source_tokens=model.max_length,
        # Each hypothesis has a cache slot for every token of the limit.
        batch_tokens=512 if limit > 256 or cache > 2**20 else 4096,
        split_sentences=has_tags,  # such models skip sentences of a paragraph
        force_eos='forced_eos_token_id' in theirs,
        ban_unk=False,
        ban_pad=model.pad_id in ids,
        banned_ids=tuple(sorted(ids - {model.pad_id, model.eos_id})),
        renormalize=theirs.get('renormalize_logits', False),
        no_repeat_ngram=theirs.get('no_repeat_ngram_size', 0),
    )


def faults_of_model(model: TransformerConfig) -> list[str]:
    """What the format of its family cannot hold of a model."""
    family = family_of_model(model)
    # A missing bias is written as zeros.
    always = {name: [value] for name, value in family.always.items() if not (name.endswith('bias') and value)}
    faults = unexpected(vars(model), PLAIN | always | {'head_dim': even_heads(model)}, 'model.')
    if family is MARIAN and model.pad_row == 'output' and model.tie_embeddings != 'none':
        faults.append("model.pad_row='output': expected 'neither': Marian's decoder starts from that row, a zero one")
    return faults


def faults_of_decoding(decoding: DecodingConfig) -> list[str]:
    plain = DecodingConfig()
    alike = ('word_reward', 'coverage_penalty', 'groups', 'search', 'mbr', 'noisy_channel', 'banned_texts', 'weights')
    expected = {name: [getattr(plain, name)] for name in alike} | {'length_penalty': ['power', 'none']}
    return unexpected(vars(decoding), expected, 'decoding.')


def unexpected(values: dict[str, Any], expected: dict[str, list[Any]], section: str = '') -> list[str]:
    """What was got and expected, for every field that is there with another value."""
    return [
        f'{section}{name}={values[name]!r}: expected {" or ".join(map(repr, choices))}'
        for name, choices in expected.items()
        if name in values and values[name] not in choices
    ]


def even_heads(model: TransformerConfig) -> list[int | None]:
    """What head_dim may be for heads that share d_model features evenly."""
    return [None, model.d_model // model.num_heads]


def notes_on(model: TransformerConfig, decoding: DecodingConfig) -> list[str]:
    notes = []
    if decoding.max_tokens is None:
        longest = longest_of(model, decoding)
        notes.append(f'decoding.max_tokens is None, a limit relative to the source: max_length will be {longest}')
    if family_of_model(model) is not MARIAN:
        return notes
    last = model.vocab_size_of_target - 1
    if (model.pad_id, model.pad_id) != (last, model.vocab_size - 1):
        notes.append(f'model.pad_id={model.pad_id} is not the last id, {last}: CTranslate2 cannot convert this model')
    elif model.target_vocab_size or model.pad_row == 'both':
        notes.append('CTranslate2 assumes one vocabulary and a zero start: its translations will differ')
    return notes


def longest_of(model: TransformerConfig, decoding: DecodingConfig) -> int:
    """Positions of an exported model: what our search may need, or its table has."""
    if model.positions == 'learned':
        return model.max_length
    return max(model.max_length, decoding.max_source_tokens, (decoding.max_tokens or 0) + 1)


def write_model(model: TransformerConfig, decoding: DecodingConfig) -> dict[str, Any]:
    """config.json of a model without `faults_of_model`."""
    family = family_of_model(model)
    marian = {
        'decoder_vocab_size': model.vocab_size_of_target,
        'share_encoder_decoder_embeddings': model.tie_embeddings == 'all',
    }
    return {
        'architectures': [family.architecture],
        'model_type': family.model_type,
        **family.theirs,
        **(marian if family is MARIAN else {}),
        **{theirs: getattr(model, ours) for ours, theirs in family.same.items()},
        'decoder_attention_heads': model.num_heads,
        'decoder_ffn_dim': model.d_ff,
        'decoder_start_token_id': model.pad_id if model.start_id is None else model.start_id,
        'forced_eos_token_id': model.eos_id if decoding.force_eos else None,
        'activation_function': model.activation,
        'tie_word_embeddings': model.tie_embeddings != 'none',
        'max_position_embeddings': longest_of(model, decoding),
        'is_encoder_decoder': True,
        'encoder_layerdrop': 0.0,
        'decoder_layerdrop': 0.0,
        'init_std': 0.02,
        'use_cache': True,
        'dtype': 'float32',
    }


def write_decoding(model: TransformerConfig, decoding: DecodingConfig, unk_id: int) -> dict[str, Any]:
    """generation_config.json of a search without `faults_of_decoding`."""
    banned = {*decoding.banned_ids, *[model.pad_id] * decoding.ban_pad, *[unk_id] * decoding.ban_unk}
    max_length = longest_of(model, decoding)
    if decoding.max_tokens is not None:
        max_length = decoding.max_tokens + 1 + (model.start_id is not None)  # the decoder's start, and a tag
    settings = {
        'decoder_start_token_id': model.pad_id if model.start_id is None else model.start_id,
        'pad_token_id': model.pad_id,
        'eos_token_id': model.eos_id,
        'forced_eos_token_id': model.eos_id if decoding.force_eos else None,
        'num_beams': decoding.beam_width,
        'length_penalty': 0.0 if decoding.length_penalty == 'none' else decoding.alpha,
        'max_length': max_length,
        'min_length': decoding.min_tokens if decoding.min_tokens > 1 else None,
        'bad_words_ids': [[id_] for id_ in sorted(banned)] or None,
        'no_repeat_ngram_size': decoding.no_repeat_ngram or None,
        'renormalize_logits': decoding.renormalize,
        'early_stopping': 'never',
    }
    return {name: value for name, value in settings.items() if value is not None}


def read_object(file: Path) -> dict[str, Any]:
    """The object in a file, without nulls."""
    if not file.is_file():
        raise UserError(f'{file} is missing; expected a folder as save_pretrained writes it')
    with naming_damage(file, 'copy it again'):
        values = read_json(file)
        if not isinstance(values, dict):
            raise TypeError(f'got a {type(values).__name__}, expected an object')
        return {name: value for name, value in values.items() if value is not None}
