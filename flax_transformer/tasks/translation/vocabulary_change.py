"""Runs with a vocabulary cut to what some texts and languages use, or with a language more."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext.config import DataConfig
from flax_transformer.engine.runs.averaging import write_copy
from flax_transformer.engine.runs.reading import INT8
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.ops.embedding import piece_axis
from flax_transformer.text.languages import known_language
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import MARKS, Tokenizer
from flax_transformer.text.vocabulary_change import with_pieces

from .inference.directions import Pairs, pairs_of
from .learning.memory import read_sample, write_sample
from .loading import load_run
from .run import SAMPLE, LoadedRun, Run


def trim_run(
    reference: Path | str,
    out: Path | str,
    lines: Sequence[str],
    languages: Sequence[str] = (),
    *,
    step: int | None = None,
) -> tuple[LoadedRun, LoadedRun]:
    """Makes `out` a run with the pieces of `used_pieces` and the tags of languages, by default all; old and new run.

    Of a run's pairs of languages, those remain whose both sides are among the languages.

    Where no dropped piece would be used, the other logits and greedy translations are the same; other searches are as
    with the dropped pieces banned and `decoding.renormalize`.
    """
    run = load_run(reference, step=step)
    config, tokenizer = run.config, run.tokenizer
    if not languages:
        return run, _write(reference, out, run, tokenizer.fewer(lines, [*tokenizer.languages]), {})

    if not tokenizer.languages:
        raise UserError('--languages: this model has no tags of languages; leave it out')
    pairs = pairs_of(config.data, tokenizer)
    sources = dict.fromkeys(source for source, _ in pairs)
    known = dict.fromkeys([*tokenizer.languages, *sources])
    languages = [known_language('--languages', name, known) for name in languages]
    if len(sources) == 1:
        languages += sources
    kept = [pair for pair in pairs if {*pair} <= {*languages}]
    if pairs and not kept:
        raise UserError(f'--languages: expected both sides of a pair: {", ".join(map("-".join, pairs))}')

    config = replace(config, data=_with_languages(config.data, languages, kept))
    targets = [target for _, target in kept] or languages
    trimmed = _write(reference, out, run._replace(config=config), tokenizer.fewer(lines, targets), {})
    if kept and (sample := Path(out) / SAMPLE).exists():
        write_sample(sample.parent, [pair for pair in read_sample(sample.parent) if pair[2:4] in kept])
    return run, trimmed


def _with_languages(data: DataConfig, languages: Sequence[str], kept: Pairs) -> DataConfig:
    """Without the corpora of other pairs, and with a usual pair that remains."""
    usual = data.source_language, data.target_language
    is_there = usual in kept if kept else {*usual} <= {*languages}
    changes: dict[str, Any] = {}
    if not is_there and (data.language_tags or kept):
        source, target = kept[0] if kept else (languages[0], languages[-1])
        changes = {'source_language': source, 'target_language': target, 'test': ''}
    if data.mixture and kept:
        changes['mixture'] = tuple(corpus for corpus in data.corpora if corpus.languages in kept)
    return replace(data, **changes)


def add_language(
    reference: Path | str,
    out: Path | str,
    language: str,
    lines: Sequence[str],
    count: int = 2000,
    *,
    step: int | None = None,
) -> tuple[LoadedRun, LoadedRun]:
    """Makes `out` a run with a tag, the mean of all, and pieces of `learn_pieces`, means of their parts; both runs."""
    run = load_run(reference, step=step)
    old = run.tokenizer
    if language in old.languages:
        raise UserError(f'add-language: {language!r} is there already')
    new, parts = old.more(language, lines, count)
    return run, _write(reference, out, run, new, parts)


def add_marks(reference: Path | str, out: Path | str) -> tuple[LoadedRun, LoadedRun]:
    """Makes `out` a run with the marks of terms, to be trained with `data.terms`; both runs."""
    run = load_run(reference)
    old = run.tokenizer
    if not isinstance(old, SentencePieceTokenizer) or old.marks:
        raise UserError(f'{reference}: expected a vocabulary of SentencePiece without marks of terms')
    new = SentencePieceTokenizer(with_pieces(old.model, range(old.vocab_size), (), MARKS)[0])
    return run, _write(reference, out, run, new, dict(zip(MARKS, '(=)', strict=True)))


def _write(reference: Path | str, out: Path | str, run: LoadedRun, new: Tokenizer, parts: dict[str, Any]) -> LoadedRun:
    config, old = run.config, run.tokenizer
    rows = rows_of(old, new)
    ids = {old.piece(i): i for i in reversed(range(old.vocab_size))}
    means = {
        i: [ids.get(part, old.unk_id) for part in parts[piece]]
        for i in range(new.vocab_size)
        if (piece := new.piece(i)) in parts
    }
    for code, i in new.languages.items():  # a piece may be spelled so, too
        means[i] = [old.languages[code]] if code in old.languages else [*old.languages.values()]
    sizes = {'vocab_size': len(rows), 'pad_id': new.pad_id, 'eos_id': new.eos_id}
    if getattr(config.model, 'start_id', None) is not None:
        sizes['start_id'] = rows.index(config.model.start_id)
    banned = tuple(rows.index(i) for i in config.decoding.banned_ids if i in rows)
    config = replace(
        config,
        model=replace(config.model, **sizes),
        tokenizer=replace(config.tokenizer, unk_id=new.unk_id),
        decoding=replace(config.decoding, banned_ids=banned),
        training=replace(config.training, average_last=1),
    )
    changed = LoadedRun(config, with_rows(run.params, rows, means), new)
    former = Run(split_reference(reference)[0])
    made = write_copy(former, out, config, changed.params, int8=any(former.checkpoints.glob(f'*/{INT8}')))
    shutil.rmtree(made.path / 'tokenizer')  # has files that fit no more
    made.write_tokenizer(new)
    return changed


def rows_of(old: Tokenizer, new: Tokenizer) -> list[int]:
    """The old id of each new one, unk of what is new."""
    ids = {old.piece(i): i for i in reversed(range(old.vocab_size))}
    return [ids.get(new.piece(i), old.unk_id) for i in range(new.vocab_size)]


def with_rows(params: Any, rows: list[int], means: dict[int, list[int]]) -> Any:
    """Parameters with these rows of a vocabulary alone; `means` gives the old rows whose mean a new row is."""
    flat = flatten_dict(params, sep='/')
    for name, array in flat.items():
        if name.endswith('embedding/table') or name in ('projection', 'logits_bias'):
            array = np.moveaxis(np.asarray(array), piece_axis(name), 0)
            changed = np.take(array, rows, axis=0)
            for i, old in means.items():
                changed[i] = array[old].mean(axis=0)
            flat[name] = changed.T if name == 'projection' else changed
    return unflatten_dict(flat, sep='/')
