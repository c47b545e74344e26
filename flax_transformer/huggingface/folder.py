"""Reading and writing a model as a folder in Hugging Face's format."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError, refuse_faults
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import write_files
from flax_transformer.transformer.config import TransformerConfig

from .fairseq_tokenizer import FairseqTokenizer
from .marian_tokenizer import MarianTokenizer
from .settings import (
    MARIAN,
    family_of_folder,
    family_of_model,
    faults_of_decoding,
    faults_of_model,
    read_decoding,
    read_model,
    read_object,
    write_decoding,
    write_model,
)
from .spiece import read_spiece
from .weights import SAFETENSORS, TIED, read_tensors, to_params, to_tensors, write_safetensors

CONFIG_FILE = 'config.json'
GENERATION_FILE = 'generation_config.json'


class Pretrained(NamedTuple):
    config: TransformerConfig
    params: Any
    tokenizer: MarianTokenizer | FairseqTokenizer | SentencePieceTokenizer
    decoding: DecodingConfig


def read_folder(folder: Path | str) -> Pretrained:
    """The model, tokenizer and search of a folder as `save_pretrained` writes it. Raises UserError for any other."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f'{folder}: no such folder; expected one as save_pretrained writes it. Nothing is downloaded')
    settings = read_object(folder / CONFIG_FILE)
    try:
        family = family_of_folder(settings)
        config = read_model(settings)
        generation = folder / GENERATION_FILE
        # If the file exists it counts alone; older folders have these settings in config.json.
        searching = read_object(generation) if generation.is_file() else family.unsaid | settings
        decoding = read_decoding(searching, config)

        is_marian = family is MARIAN
        is_t5 = config.positions == 'relative'
        if is_t5:
            tokenizer = read_spiece(folder, config)
            decoding = replace(decoding, split_sentences=bool(tokenizer.languages))
        elif is_marian:
            tokenizer = MarianTokenizer.load(folder)
            _check_vocabulary(config, tokenizer)
        else:
            tokenizer = FairseqTokenizer.load(folder, config.vocab_size, settings.get('tokenizer_class', ''))
            forced = (code for code, id_ in tokenizer.languages.items() if id_ == searching.get('forced_bos_token_id'))
            language = next(forced, tokenizer.settings.get('tgt_lang'))  # the only one, in some models
            decoding = replace(decoding, target_language=language)

        tensors = read_tensors(folder)
        if is_marian:
            config = replace(config, pad_row=_pad_row(tensors, config))
        if is_t5:
            config = replace(config, tie_embeddings=_tie(tensors))
        params = to_params(tensors, config)
        longest = getattr(tokenizer, 'settings', {}).get('model_max_length', config.max_length)
        decoding = replace(decoding, max_source_tokens=int(min(longest, config.max_length)))
    except UserError as error:
        message = str(error)
        raise UserError(message if str(folder) in message else f'{folder}: {message}') from None
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        what = f'{type(error).__name__}: {error}'
        raise UserError(f'{folder}: its settings cannot be read ({what}); let save_pretrained write them') from None
    return Pretrained(config, params, tokenizer, decoding)


def write_folder(folder: Path | str, pretrained: Pretrained) -> None:
    config, params, tokenizer, decoding = pretrained
    folder = Path(folder)
    check_export(config, decoding)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f'{folder} exists and is not an empty folder; give another')
    generation = write_decoding(config, decoding, tokenizer.unk_id)
    write_files(folder, {CONFIG_FILE: write_model(config, decoding), GENERATION_FILE: generation})
    write_safetensors(folder / SAFETENSORS, to_tensors(params, config))
    tokenizer.write(folder)


def check_export(model: TransformerConfig, decoding: DecodingConfig) -> None:
    """Raises UserError with every field that the format cannot hold."""
    if not isinstance(model, TransformerConfig):
        raise UserError(f"Hugging Face's formats cannot hold a {type(model).__name__}; expected a Transformer")
    if model.positions == 'relative':
        raise UserError("T5's format is only read; expected a model with positions of another kind")
    if faults := faults_of_model(model) + faults_of_decoding(decoding):
        name = family_of_model(model).name
        faults[-1] += (
            '\nSet fields of the model before training, as the config marian_base does, and those of decoding here'
        )
        refuse_faults(f"Hugging Face's {name} format cannot hold this model:", faults)


def as_marian(tokenizer: SentencePieceTokenizer, languages: tuple[str, str], longest: int) -> MarianTokenizer:
    """Our SentencePiece model as both of theirs, with a vocabulary that gives our ids; our tags become `>>fr<<`.

    `longest` is the `model_max_length`, in tokens.
    """
    tags = {id_: f'>>{language}<<' for language, id_ in tokenizer.languages.items()}
    vocabulary = {tags.get(id_, tokenizer.piece(id_)): id_ for id_ in range(tokenizer.vocab_size)}
    settings = {
        'tokenizer_class': 'MarianTokenizer',
        'source_lang': languages[0],
        'target_lang': languages[1],
        'pad_token': tokenizer.piece(tokenizer.pad_id),
        'eos_token': tokenizer.piece(tokenizer.eos_id),
        'unk_token': tokenizer.piece(tokenizer.unk_id),
        'model_max_length': longest,
        'separate_vocabs': False,
        'clean_up_tokenization_spaces': False,
    }
    return MarianTokenizer(tokenizer.model, tokenizer.model, vocabulary, None, settings)


def _check_vocabulary(config: TransformerConfig, tokenizer: MarianTokenizer) -> None:
    pairs = {
        'id of padding': (tokenizer.pad_id, config.pad_id),
        'id of EOS': (tokenizer.eos_id, config.eos_id),
        'number of source ids': (tokenizer.vocab_size, config.vocab_size),
        'number of target ids': (tokenizer.target_vocab_size, config.vocab_size_of_target),
    }
    faults = (
        f'the {name} is {got} in vocab.json and {expected} in config.json'
        for name, (got, expected) in pairs.items()
        if got != expected
    )
    refuse_faults('tokenizer and model do not belong together:', faults)


def _tie(tensors: dict[str, np.ndarray]) -> str:
    """'sides' if T5's softmax has a table of its own, whatever config.json says."""
    *sides, head = (tensors.get(f'{name.removeprefix("model.")}.weight') for name in TIED['all'])
    table = next((side for side in sides if side is not None), None)  # MADLAD-400 has the decoder's alone
    return 'all' if table is None or head is None or np.array_equal(table, head) else 'sides'


def _pad_row(tensors: dict[str, np.ndarray], config: TransformerConfig) -> str:
    """'neither' if the decoder starts from the zero vector; 'both' if from a learned row."""
    for name in TIED[config.tie_embeddings] or ('model.decoder.embed_tokens', 'model.shared'):
        table = tensors.get(f'{name}.weight')
        if table is not None and len(table) > config.pad_id:
            return 'both' if np.any(table[config.pad_id]) else 'neither'
    return 'neither'
