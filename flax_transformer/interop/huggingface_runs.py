"""A run directory from a folder in Hugging Face's format, and such a folder from a run."""

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import read_limited, user_cache, write_whole
from flax_transformer.common.trees import refuse_non_finite
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.engine.runs.run_directory import ORIGIN_FILE
from flax_transformer.huggingface.fairseq_tokenizer import FairseqTokenizer
from flax_transformer.huggingface.folder import Pretrained, as_marian, read_folder, write_folder
from flax_transformer.huggingface.hub import digest_of, fetch
from flax_transformer.huggingface.marian_tokenizer import MarianTokenizer
from flax_transformer.huggingface.settings import MARIAN, family_of_model, longest_of, notes_on
from flax_transformer.tasks.translation.config import Config
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.languages import UNDETERMINED, known_language
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import TokenizerConfig


def import_huggingface(
    folder: Path | str, run: Path | str, *, source_language: str | None = None, target_language: str | None = None
) -> Run:
    """Makes a run directory, at step 0, from a folder's model.

    The languages, by default the folder's, are those that the run translates between unless it is asked for others.
    """
    pretrained = read_folder(folder)
    run = Run(run)
    if run.exists():
        raise UserError(f'{run.path} is a run directory already; give another, or remove it')

    tokenizer = pretrained.tokenizer
    family = family_of_model(pretrained.config)
    if isinstance(tokenizer, SentencePieceTokenizer):
        named = [UNDETERMINED] * 2 if tokenizer.languages else ['source', 'target']
    elif isinstance(tokenizer, MarianTokenizer):
        named = [tokenizer.settings.get(f'{side}_lang') or side for side in ('source', 'target')]
    else:
        tokenizer = tokenizer.reading(source_language or tokenizer.source_language)
        named = [tokenizer.source_language, target_language or pretrained.decoding.target_language or UNDETERMINED]
        if named[1] != UNDETERMINED:
            named[1] = known_language('target_language', named[1], tokenizer.languages)
    data = DataConfig(
        source_language=str(source_language or named[0]),
        target_language=str(target_language or named[1]),
        train=f'{family.model_type}:{Path(folder).name}',
        validation='',
        test='',
        language_tags=isinstance(tokenizer, FairseqTokenizer),
    )

    run.open(
        Config(
            model=pretrained.config,
            tokenizer=TokenizerConfig(unk_id=tokenizer.unk_id),
            data=data,
            decoding=replace(pretrained.decoding, target_language=None),
        )
    )
    run.write_tokenizer(tokenizer)
    checkpoints = Checkpoints(run.checkpoints, compressed=False)
    checkpoints.save_params(pretrained.params)
    checkpoints.close()
    return run


def import_by_name(name: str, **options: Any) -> None:
    """Makes the run of a model of Hugging Face's hub in the user's cache; `options` are those of `fetch`."""
    folder = fetch(name, **options)
    home = user_cache() / 'hub'
    run = home / digest_of(folder)[:32]
    if not run.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            made = import_huggingface(folder, Path(scratch) / 'run').path
            card = folder / 'README.md'
            license = re.search(rb'^license: *(.+)', read_limited(card) if card.is_file() else b'', re.M)
            origin = {'name': name, 'revision': folder.name, 'license': license and license[1].decode()}
            write_whole(made / ORIGIN_FILE, json.dumps(origin))
            made.rename(run)
    write_whole(home / name.replace('/', '--'), run.name)


def export_huggingface(
    run: Path | str, folder: Path | str, decoding: DecodingConfig, *, step: int | None = None
) -> list[str]:
    """Writes a run's model as a folder that Hugging Face loads, with this search; returns in words what differs there.

    `run` and `step` name a checkpoint as in `load_run`.
    """
    config, params, tokenizer, *_ = load_run(run, step=step)
    refuse_non_finite(params)
    is_marian = family_of_model(config.model) is MARIAN
    if not is_marian and not isinstance(tokenizer, FairseqTokenizer):
        raise UserError(f"this model's tokenizer is a {type(tokenizer).__name__}; expected that of an imported model")
    if is_marian and not isinstance(tokenizer, MarianTokenizer):
        languages = config.data.source_language, config.data.target_language
        tokenizer = as_marian(tokenizer, languages, longest_of(config.model, decoding))
    write_folder(folder, Pretrained(config.model, params, tokenizer, decoding))
    return notes_on(config.model, decoding)
