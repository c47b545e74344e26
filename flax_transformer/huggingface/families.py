"""The families of models that are read and written: what all models of a family share, and what theirs must say."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.transformer.config import TransformerConfig

# The languages of a tokenizer, in the order of their ids.
LANGUAGES: dict[str, list[str]] = json.loads(Path(__file__).with_name('languages.json').read_text())


class Family(NamedTuple):
    """A model_type of config.json."""

    name: str
    model_type: str
    architecture: str
    tokenizers: tuple[str, ...]
    always: dict[str, Any]  # fields of ours that have these values in every model
    theirs: dict[str, Any]  # fields of theirs that, if they are there, must have these values
    table_offset: int = 0  # rows of a learned table of positions before that of the first token, which nothing reads


_COMMON = {'norm': 'layer', 'norm_epsilon': 1e-5, 'attention_score': 'scaled_dot', 'attention_bias': True}
_IDS = {'pad_token_id': 1, 'eos_token_id': 2}
_PRE_NORM = _COMMON | {'norm_first': True, 'tie_embeddings': 'all'}
FAMILIES = (
    Family(
        'Marian',
        'marian',
        'MarianMTModel',
        ('MarianTokenizer',),
        _COMMON
        | {'norm_first': False, 'positions': 'concatenated', 'position_offset': 0, 'logits_bias': True}
        | {'embedding_norm': False, 'start_id': None},
        {'normalize_before': False, 'normalize_embedding': False, 'add_final_layer_norm': False}
        | {'static_position_embeddings': True},
    ),
    Family(
        'M2M-100',
        'm2m_100',
        'M2M100ForConditionalGeneration',
        ('NllbTokenizer', 'M2M100Tokenizer'),
        _PRE_NORM | {'positions': 'tensor2tensor', 'position_offset': 2, 'logits_bias': False, 'embedding_norm': False},
        _IDS | {'tie_word_embeddings': True},
    ),
    Family(
        'mBART-50',
        'mbart',
        'MBartForConditionalGeneration',
        ('MBart50Tokenizer',),
        _PRE_NORM | {'positions': 'learned', 'position_offset': 0, 'logits_bias': True, 'embedding_norm': True},
        _IDS
        | {'tie_word_embeddings': True, 'normalize_before': True, 'normalize_embedding': True}
        | {'add_final_layer_norm': True, 'static_position_embeddings': False},
        table_offset=2,
    ),
)

MARIAN = FAMILIES[0]


def family_of_folder(theirs: dict[str, Any]) -> Family:
    """The family of a config.json. Raises UserError for another."""
    kind = theirs.get('model_type')
    for family in FAMILIES:
        if family.model_type == kind:
            return family
    known = ', '.join(f'"{family.model_type}" ({family.name})' for family in FAMILIES)
    raise UserError(f'model_type is {kind!r}; expected one of {known}: other architectures are not supported')


def family_of_model(model: TransformerConfig) -> Family:
    """The family that comes closest to holding a model."""
    if model.start_id is None:
        return MARIAN
    return FAMILIES[2 if model.positions == 'learned' else 1]
