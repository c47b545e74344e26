"""Runs with a vocabulary cut to what some texts and languages use."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from flax_transformer.common.errors import UserError
from flax_transformer.engine.runs.averaging import write_copy
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.text.languages import known_language
from flax_transformer.text.tokenizer import Tokenizer

from .loading import load_run
from .run import LoadedRun, Run


def trim_run(
    reference: Path | str,
    out: Path | str,
    lines: Sequence[str],
    languages: Sequence[str] = (),
    *,
    step: int | None = None,
) -> tuple[LoadedRun, LoadedRun]:
    """Makes `out` a run with the pieces of `used_pieces` and the tags of languages, by default all; old and new run.

    Where no dropped piece would be used, the other logits and greedy translations are the same; other searches are as
    with the dropped pieces banned and `decoding.renormalize`.
    """
    run = load_run(reference, step=step)
    config, tokenizer = run.config, run.tokenizer
    data = config.data
    names_source = hasattr(tokenizer, 'source_language')
    if languages and not names_source:
        raise UserError('--languages: this model keeps all of its tags; leave it out')
    languages = [known_language('--languages', name, tokenizer.languages) for name in languages or tokenizer.languages]
    if names_source and not {data.source_language, data.target_language} <= {*languages}:
        data = replace(data, source_language=languages[0], target_language=languages[-1])
    new = tokenizer.fewer(lines, languages)
    rows = rows_of(tokenizer, new)
    sizes = {'vocab_size': len(rows), 'pad_id': new.pad_id, 'eos_id': new.eos_id}
    if getattr(config.model, 'start_id', None) is not None:
        sizes['start_id'] = rows.index(config.model.start_id)
    banned = tuple(rows.index(i) for i in config.decoding.banned_ids if i in rows)
    config = replace(
        config,
        data=data,
        model=replace(config.model, **sizes),
        tokenizer=replace(config.tokenizer, unk_id=new.unk_id),
        decoding=replace(config.decoding, banned_ids=banned),
    )
    changed = LoadedRun(config, with_rows(run.params, rows), new)
    made = write_copy(Run(split_reference(reference)[0]), out, config, changed.params)
    shutil.rmtree(made.path / 'tokenizer')  # has files that fit no more
    made.write_tokenizer(new)
    return run, changed


def rows_of(old: Tokenizer, new: Tokenizer) -> list[int]:
    """The old id of each new one."""
    ids = {old.piece(i): i for i in reversed(range(old.vocab_size))}
    return [ids[new.piece(i)] for i in range(new.vocab_size)]


def with_rows(params: Any, rows: list[int]) -> Any:
    """Parameters with these rows of a vocabulary alone."""
    flat = flatten_dict(params, sep='/')
    for name, array in flat.items():
        if name.endswith('embedding/table') or name in ('projection', 'logits_bias'):
            flat[name] = np.take(array, rows, axis=1 if name == 'projection' else 0)
    return unflatten_dict(flat, sep='/')
