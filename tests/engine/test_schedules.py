"""Learning rates by step, the first step being 1. Points are those of docs/explanation/paper_and_code.md."""

import numpy as np
import pytest

from flax_transformer.engine.config import OptimizerConfig
from flax_transformer.engine.optimizer import Schedule, make_schedule, noam

STEPS = np.arange(1, 401)
FALLING = {'linear': lambda x: 1 - x, 'cosine': lambda x: np.cos(np.pi * x / 2) ** 2}
FLOAT32 = {'rtol': 1e-5, 'atol': 1e-8}  # a few float32 roundings of powers and cosines


def made(name: str, peak: float = 0.3, warmup_steps: int = 50) -> Schedule:
    config = OptimizerConfig(schedule=name, learning_rate=peak, warmup_steps=warmup_steps)
    return make_schedule(config, d_model=512, steps=400)


def values(schedule, steps=STEPS):
    return np.asarray(schedule(steps))


@pytest.mark.parametrize(('d_model', 'warmup_steps', 'factor'), [(512, 100, 1.0), (1024, 1, 1.0), (64, 37, 2.5)])
def test_noam_equals_equation_3_from_step_1(d_model, warmup_steps, factor):
    """Point 8."""
    expected = [factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5) for step in STEPS.tolist()]
    np.testing.assert_allclose(values(noam(d_model, warmup_steps, factor)), expected, **FLOAT32)


def test_inverse_sqrt_rises_in_a_line_and_falls_by_the_root_of_the_steps():
    expected = 0.3 * np.minimum(STEPS / 50, (50 / STEPS) ** 0.5)
    np.testing.assert_allclose(values(made('inverse_sqrt')), expected, **FLOAT32)


@pytest.mark.parametrize('schedule', [made(name) for name in ('constant', 'linear', 'cosine')])
def test_warmup_is_a_line_from_zero_to_the_peak(schedule):
    np.testing.assert_allclose(values(schedule)[:50], 0.3 * STEPS[:50] / 50, **FLOAT32)


def test_constant_stays_at_its_peak():
    np.testing.assert_allclose(values(made('constant'))[49:], 0.3, **FLOAT32)


@pytest.mark.parametrize('name', FALLING)
def test_after_warmup_rates_fall_to_zero_and_stay_there(name):
    expected = 0.3 * FALLING[name]((STEPS[50:] - 50) / 350)
    np.testing.assert_allclose(values(made(name))[50:], expected, rtol=1e-5, atol=1e-7)  # 1 - x near 1, cos x near -1
    np.testing.assert_array_equal(values(made(name), np.array([400, 401, 9999])), np.zeros(3))


@pytest.mark.parametrize('name', ['constant', 'linear', 'cosine'])
def test_without_warmup_the_peak_comes_first(name):
    rates = values(made(name, warmup_steps=0))
    assert rates.argmax() == 0
    np.testing.assert_allclose(rates[0], 0.3, rtol=3e-3)  # 1/400 of the way down already
