"""Reading JSON files that hold an object, as Hugging Face writes them."""

from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited
from flax_transformer.common.json_text import parse_json


def read_object(file: Path) -> dict[str, Any]:
    """The object in a file. Raises UserError if the file is missing, damaged or holds something else."""
    if not file.is_file():
        raise UserError(f'{file} is missing; expected a folder as save_pretrained writes it')
    try:
        values = parse_json(read_limited(file))
    except ValueError as error:
        raise UserError(f'{file} is damaged: {error}') from None
    if not isinstance(values, dict):
        raise UserError(f'{file}: got a {type(values).__name__}, expected an object')
    return values
