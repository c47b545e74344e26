"""A folder of Hugging Face's Marian format <-> a run directory."""

import json
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.engine.runs.run_directory import RunDirectory
from flax_transformer.marian.folder import CONFIG_FILE, GENERATION_FILE, as_marian, check_export, read_marian
from flax_transformer.marian.settings import longest_of, notes_on, write_decoding, write_model
from flax_transformer.marian.tensors import SAFETENSORS, write_safetensors
from flax_transformer.marian.tokenizer import MarianTokenizer
from flax_transformer.marian.weights import to_marian
from flax_transformer.tasks.translation.config import Config
from flax_transformer.text.config import TokenizerConfig
from flax_transformer.text.tokenizer import Tokenizer


def import_marian(folder: Path | str, run: Path | str) -> RunDirectory:
    """Makes a folder's model a run directory, at step 0. Raises UserError where `run` is already there."""
    marian, run = read_marian(folder), RunDirectory(run)
    if run.exists():
        raise UserError(f'{run.path} is a run directory already; give another, or remove it')
    languages = {
        f'{side}_language': str(marian.tokenizer.settings.get(f'{side}_lang') or side) for side in ('source', 'target')
    }
    run.open(
        Config(
            model=marian.config,
            tokenizer=TokenizerConfig(unk_id=marian.tokenizer.unk_id),
            data=DataConfig(**languages, train=f'marian:{Path(folder).name}', validation='', test=''),
            decoding=marian.decoding,
        )
    )
    run.write_tokenizer(marian.tokenizer)
    checkpoints = Checkpoints(run.checkpoints)
    checkpoints.save_params(marian.params)
    checkpoints.close()
    return run


def export_marian(
    folder: Path | str, config: Config, params: Any, tokenizer: Tokenizer, decoding: DecodingConfig
) -> list[str]:
    """Writes a folder that Hugging Face loads; returns what it holds otherwise than here, in words.

    Raises UserError with everything that the format cannot hold, and where the folder has files already.
    """
    folder = Path(folder)
    check_export(config.model, decoding)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f'{folder} exists and is not an empty folder; give another')
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / SAFETENSORS, to_marian(params, config.model))
    written = {
        CONFIG_FILE: write_model(config.model, decoding),
        GENERATION_FILE: write_decoding(config.model, decoding, tokenizer.unk_id),
    }
    for name, values in written.items():
        write_whole(folder / name, json.dumps(values, indent=2) + '\n')
    if not isinstance(tokenizer, MarianTokenizer):
        tokenizer = as_marian(tokenizer, config.data, longest_of(config.model, decoding))
    tokenizer.write(folder)
    return notes_on(config.model, decoding)
