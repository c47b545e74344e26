"""What the `evaluate` commands of several tasks share."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.common.errors import UserError, visible
from flax_transformer.common.json_text import parse_json
from flax_transformer.data.named_files import data_root
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.engine.runs.trust import check_named_files

from .api import open_run

RESAMPLES = 2000  # drawn by the bootstrap


def only_run(runs: Sequence[str], models: str) -> str:
    """The run to score. Raises UserError for several."""
    if len(runs) > 1:
        raise UserError(f'got {len(runs)} runs, expected one: {models} form no ensemble')
    return runs[0]


def scored_set(
    run: str,
    test: str | None,
    data: Any,
    paths: Callable[[Any], Iterable[Path]],
    *,
    trust: bool,
    remedy: str = '--test FILE',
) -> tuple[str, Any]:
    """The name of the set to score on, the user's or the run's, and the section `data` to read it with.

    `paths` lists the files that are read. Raises UserError, unless `trust`, for a test set outside the user's data
    folder that a stranger may have named.
    """
    if test is not None:
        return test, replace(data, root=None if test.startswith('tfds:') else '.')
    if not data.test:
        raise UserError(f'{run} has no test set (data.test is empty); give {remedy}')
    remedy = f'{remedy}, or with --data.test and --data.root'
    check_named_files(open_run(split_reference(run)[0]), data, paths, data_root, trust=trust, remedy=remedy)
    return data.test, data


@contextlib.contextmanager
def printed_scores(file: str, what: str) -> Iterator[Any]:
    """What `evaluate --json` printed for `what`. Raises UserError if the block finds that it is something else."""
    expected = f'expected what `flax-transformer evaluate RUN --json` prints for {what}'
    if not Path(file).is_file():
        raise UserError(f'{file}: no such file; {expected}')
    try:
        yield parse_json(Path(file).read_bytes())
    except UserError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UserError(f'{file}: {expected}') from None


def print_scores(scores: dict[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    print(json.dumps(scores, ensure_ascii=False) if as_json else visible('\n'.join(lines)))


def check_examples(count: int) -> None:
    if count < 0:
        raise UserError(f'--examples {count}: expected at least 0')


def bootstrap_interval(counts: np.ndarray, lengths: np.ndarray | None = None) -> tuple[float, float]:
    """The interval with 95 % of the rates of samples drawn from N texts with replacement (Efron 1979).

    A rate is the sum of counts [N] by the sum of lengths [N], by default of ones.
    """
    generator = np.random.default_rng(0)
    lengths = np.ones(len(counts), int) if lengths is None else lengths
    rates = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        drawn = generator.integers(0, len(counts), len(counts))
        rates[i] = counts[drawn].sum() / max(lengths[drawn].sum(), 1)
    low, high = np.quantile(rates, [0.025, 0.975])
    return float(low), float(high)


def binomial_interval(count: int, total: int) -> tuple[float, float]:
    """The exact 95 % interval of `count / total` (Clopper and Pearson 1934); 0 of 22: 0 to 0.154."""
    from scipy import stats  # which takes half a second to import

    found = stats.binomtest(count, total).proportion_ci() if total else (0.0, 1.0)
    return float(found[0]), float(found[1])


def poisson_interval(count: int, amount: float) -> tuple[float, float]:
    """The 95 % interval of a rate, `count` events in an amount (Garwood 1936); 0 in 2 hours: 0 to 1.84."""
    from scipy import stats

    if not amount:
        return 0.0, float('inf')
    low = stats.chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    high = stats.chi2.ppf(0.975, 2 * count + 2) / 2
    return float(low) / amount, float(high) / amount
