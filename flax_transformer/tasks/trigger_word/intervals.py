"""Exact intervals of counts, for few clips and few minutes."""

from scipy import stats


def binomial_interval(count: int, total: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """The share `count / total` with its interval by Clopper and Pearson (1934), which holds whatever the true share.

    0 of 22: 0 to 0.154.
    """
    if not total:
        return 0.0, 1.0
    tail = (1 - confidence) / 2
    low = stats.beta.ppf(tail, count, total - count + 1) if count else 0.0
    high = stats.beta.ppf(1 - tail, count + 1, total - count) if count < total else 1.0
    return float(low), float(high)


def poisson_interval(count: int, amount: float, *, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of a rate of which `count` events were seen in an amount, such as hours (Garwood 1936).

    0 in 2 hours: 0 to 1.84.
    """
    if not amount:
        return 0.0, float('inf')
    tail = (1 - confidence) / 2
    low = stats.chi2.ppf(tail, 2 * count) / 2 if count else 0.0
    high = stats.chi2.ppf(1 - tail, 2 * count + 2) / 2
    return float(low) / amount, float(high) / amount
