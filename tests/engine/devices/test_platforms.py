"""A device that JAX was asked to use and that is not there is one sentence."""

from types import SimpleNamespace

import pytest

from flax_transformer import cli
from flax_transformer.common.installing import install_command
from flax_transformer.engine.devices import devices as module


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """Has JAX see one CPU device, and be asked to use another platform, as by JAX_PLATFORMS."""

    def tell(asked: str | None) -> None:
        config = SimpleNamespace(jax_platforms=asked)
        config.update = lambda name, value: setattr(config, name, value)

        def devices() -> list:
            if config.jax_platforms not in (None, 'cpu'):
                raise AssertionError  # JAX's error where CUDA is not installed
            return [SimpleNamespace(platform='cpu')]

        jax = SimpleNamespace(config=config, devices=devices, default_backend=lambda: 'cpu')
        monkeypatch.setattr(module, 'jax', jax)

    return tell


@pytest.mark.parametrize(
    ('asked', 'extra'), [('cuda', 'cuda13'), ('gpu', 'cuda13'), ('tpu', 'tpu'), ('cuda,cpu', 'cuda13')]
)
def test_a_missing_device_names_what_to_install(machine, asked: str, extra: str) -> None:
    machine(asked)
    message = module.missing_platform()
    assert message.startswith(f'JAX_PLATFORMS={asked}: JAX finds no such device here; unset it')
    assert message.endswith(install_command(extra))


def test_a_misspelt_platform_gets_the_nearest(machine) -> None:
    machine('cudo')
    found = module.missing_platform()
    assert found.startswith('JAX_PLATFORMS=cudo: expected cpu, cuda, gpu, rocm, tpu, or several of them with commas.')
    assert 'Did you mean cuda' in found


@pytest.mark.parametrize('asked', [None, '', 'cpu'])
def test_a_platform_that_starts_is_not_to_blame(machine, asked: str | None) -> None:
    machine(asked)
    assert module.missing_platform() is None


def test_every_command_says_it_in_place_of_a_traceback(machine, monkeypatch, capsys) -> None:
    def fail(argv: list[str]) -> None:
        raise AssertionError

    monkeypatch.setattr('flax_transformer.cli.plot.curves', fail)
    monkeypatch.setenv('JAX_PLATFORMS', 'cuda')
    machine('cuda')
    assert cli.main(['curves']) == 2
    assert capsys.readouterr().err.startswith('flax-transformer: JAX_PLATFORMS=cuda: JAX finds no such device here')
    machine('cpu')
    with pytest.raises(AssertionError):
        cli.main(['curves'])
