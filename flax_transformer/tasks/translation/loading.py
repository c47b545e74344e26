"""A trained model by name: `RUN`, or one of its checkpoints, `RUN@12000`, `RUN@last`, `RUN@best`, `RUN@average`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.decoding.config import override
from flax_transformer.engine.runs.averaging import load_named
from flax_transformer.text.tokenizer import Tokenizer

from .config import Config
from .model import family_of
from .run import Run


class LoadedRun(NamedTuple):
    config: Config
    params: Any
    tokenizer: Tokenizer


def load_run(reference: Path | str, *, step: int | None = None, **decoding: Any) -> LoadedRun:
    """The config, parameters and tokenizer of a run; `load_named` chooses the checkpoint.

    `decoding` overrides fields of the config's decoding section.
    """
    init = lambda config, key: family_of(config.model).init_params(config.model, key)
    run, config, params, _ = load_named(Run, reference, init, step=step)
    config = replace(config, decoding=override(config.decoding, decoding))
    tokenizer = run.read_matching_tokenizer(config)
    return LoadedRun(config, params, tokenizer.reading(config.data.source_language))


def load_ensemble(references: Sequence[Path | str], *, step: int | None = None, **decoding: Any) -> list[LoadedRun]:
    """Runs that vote together, with the first one's settings. Raises UserError unless they share a tokenizer."""
    first, *others = [load_run(reference, step=step, **decoding) for reference in references]
    meaning = lambda tokenizer: (tokenizer.vocab_size, tokenizer.pad_id, tokenizer.eos_id)
    one = first.tokenizer
    for reference, run in zip(references[1:], others, strict=True):
        other = run.tokenizer
        if meaning(one) != meaning(other) or any(one.piece(i) != other.piece(i) for i in range(one.vocab_size)):
            raise UserError(
                f'{references[0]} and {reference} have different tokenizers; an ensemble needs runs that share one'
            )
    return [first, *others]
