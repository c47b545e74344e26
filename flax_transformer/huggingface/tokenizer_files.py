"""What the files of transformers' tokenizers have in common."""

from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError

from .settings import read_object

SETTINGS_FILE = 'tokenizer_config.json'
VOCABULARY_FILE = 'vocab.json'


def one_line(text: str) -> str:
    return text.replace('\u2581', ' ').replace('\n', ' ').strip()


def content_of(token: Any) -> str:
    text = token['content'] if isinstance(token, dict) else token
    if not isinstance(text, str):
        raise ValueError(f'a special token is a {type(text).__name__}, expected text')
    return text


def read_vocabulary(file: Path) -> dict[str, int]:
    ids = read_object(file)
    numbers = list(ids.values())
    are_ids = all(type(number) is int and number >= 0 for number in numbers)
    if not numbers or not are_ids or len(set(numbers)) < len(numbers):
        raise UserError(f'{file}: expected a different id, at least 0, for each piece')
    try:
        ''.join(ids).encode()
    except UnicodeEncodeError as error:  # a lone half of a character, which JSON can write as \ud800
        raise UserError(f'{file}: got a piece that is no text ({error.reason}); copy the file again') from None
    return ids
