"""A trained model by name: `RUN`, or one of its checkpoints, `RUN@12000`, `RUN@last`, `RUN@best`, `RUN@average`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError
from flax_transformer.decoding.config import override
from flax_transformer.engine.runs import averaging
from flax_transformer.text.tokenizer import Tokenizer

from .run import LoadedRun, Run


def load_run(reference: Path | str, *, step: int | None = None, **decoding: Any) -> LoadedRun:
    """A trained run; `decoding` overrides fields of its config's decoding section."""
    run = averaging.load_run(Run, reference, step=step)
    config = replace(run.config, decoding=override(run.config.decoding, decoding))
    return run._replace(config=config)


def load_ensemble(references: Sequence[Path | str], *, step: int | None = None, **decoding: Any) -> list[LoadedRun]:
    """Runs that vote together, with the first one's settings. Raises UserError unless they share a tokenizer."""
    first, *others = [load_run(reference, step=step, **decoding) for reference in references]
    for reference, run in zip(references[1:], others, strict=True):
        if not _is_same(first.tokenizer, run.tokenizer):
            raise UserError(
                f'{references[0]} and {reference} have different tokenizers; an ensemble needs runs that share one'
            )
    return [first, *others]


def _is_same(tokenizer: Tokenizer, other: Tokenizer) -> bool:
    if any(getattr(tokenizer, name) != getattr(other, name) for name in ('vocab_size', 'pad_id', 'eos_id')):
        return False
    return all(tokenizer.piece(i) == other.piece(i) for i in range(tokenizer.vocab_size))
