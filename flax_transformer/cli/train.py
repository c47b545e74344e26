"""The command `train`."""

import os
import platform
import shlex
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Generic

import tyro

from flax_transformer.common.config_json import flat_fields
from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import say
from flax_transformer.engine.fit import as_begun
from flax_transformer.engine.monitor.advice import advice
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.engine.runs.finished import finished
from flax_transformer.engine.runs.run_directory import environment
from flax_transformer.tasks.api import read_run_config, run_of, train

from .options import C, note, parse, print_next, read_config_file, value_of


@dataclass(frozen=True)
class TrainOptions(Generic[C]):
    """Train a model, or resume a run that was stopped.

    CONFIG is a Python file with get_config(), a JSON or YAML file of the same fields, or the name of a shipped config.
    With --init-from, training starts from the parameters and tokenizer of another run, and model, tokenizer, tags of
    languages and decoding are that run's except for the fields given here.
    """

    config: Annotated[C, tyro.conf.arg(name='')]
    workdir: Path = Path('runs/NAME')  # the run directory; by default runs/ and the name of the config
    init_from: Path | None = None  # a trained or imported run to start from: its parameters and tokenizer


def main(argv: list[str]) -> None:
    train_as_asked(parse('train', TrainOptions, argv, first='CONFIG', default=partial(train_options, argv=argv)))


def train_as_asked(options: TrainOptions, *, is_all: bool = True) -> None:
    """Trains, or goes on; says what can be done next if that `is_all` that the command does."""
    message = _finished(options)
    if message is not None:
        if is_all:
            say(message)
            _print_next(options.config, options.workdir)
        return
    # JAX counts its devices once, when first asked; request simulated ones before.
    import jax

    from flax_transformer.engine.devices import multihost, process_group

    # In the cache's key, the address of cuDNN's rule for several devices, new at each start, would make each compile.
    jax.config.update('jax_remove_custom_partitioning_ptr_from_cache_key', True)
    parallel = options.config.parallel
    parallel.prepare_devices(max(parallel.num_processes, 1))
    process_group.start(parallel, lambda: _facts(options))
    if multihost.is_first() and jax.default_backend() == 'cpu':
        hint = huge_pages_hint()
        if hint is not None:
            note(hint)

    from absl import logging

    # Orbax logs a traceback if a background save fails; we report what it means.
    logging.set_verbosity(logging.FATAL)
    with process_group.together():
        run = train(
            options.config,
            options.workdir,
            init_from=options.init_from,
            processes=os.cpu_count() or 1,
            exit_at_second=True,
        )
    if multihost.is_first():
        for line in advice(read_metrics(run.path), run.read_config()):
            note(line)
        if is_all:
            _print_next(options.config, run.path)


def _finished(options: TrainOptions) -> str | None:
    if options.config.parallel.num_processes != 1:  # several processes start together in any case
        return None
    run = run_of(options.config, options.workdir)
    config, needs_fit = as_begun(options.config, run)
    if needs_fit or not run.exists() or run.read_config() != config:
        return None
    run.check(config)
    return finished(run, config.training)


def _print_next(config: Any, run: Path) -> None:
    quoted = shlex.quote(str(run))
    commands = [f'flax-transformer curves {quoted}']
    if use := run_of(config, run).use:
        commands = [evaluate_command(config, run), f'flax-transformer {use.format(quoted)}', *commands]
    print_next(f'The run is in {run}', *commands)


def evaluate_command(config: Any, run: Path) -> str:
    """The command that evaluates a run of this config; it names files if the config has no test set."""
    data = getattr(config, 'data', None)
    files = '' if getattr(data, 'test', '') else run_of(config, run).evaluate_on.format(data)
    return f'flax-transformer evaluate {shlex.quote(str(run))} {files}'.rstrip()


def _facts(options: TrainOptions) -> dict[str, Any]:
    fields = flat_fields(options.config)
    for name in ('coordinator', 'num_processes', 'process_id'):
        del fields[f'parallel.{name}']
    here = environment('')
    code = {f'version of {name}': version for name, version in here['versions'].items()} | {'commit': here['commit']}
    folders = {'--workdir': str(options.workdir), '--init-from': str(options.init_from)}
    return code | fields | folders


def train_options(name: str, argv: list[str], task: str | None = None) -> TrainOptions:
    """The options that a config file sets, with the model of the run to start from, if any."""
    config = _with_length_of(argv, read_config_file(name, task))
    start = value_of('--init-from', argv)
    if start is not None:
        other = read_run_config(start)
        if other.task != config.task:
            raise UserError(f'--init-from {start}: a run of the task {other.task!r}; {name} is of {config.task!r}')
        theirs = {part: getattr(other, part) for part in ('model', 'tokenizer', 'decoding') if hasattr(other, part)}
        if getattr(getattr(other, 'data', None), 'language_tags', False):  # the model expects a tag before each source
            theirs['data'] = replace(config.data, language_tags=True)
        config = replace(config, **theirs)
    return TrainOptions(config, Path('runs') / Path(name).stem, None if start is None else Path(start))


def _with_length_of(argv: list[str], config: Any) -> Any:
    """The config without its own length of training if an option gives one."""
    options = [f'--training.{name}' for name in ('steps', 'epochs', 'minutes')]
    given = [option for option in options if value_of(option, argv) not in (None, '0', '0.0')]
    if len(given) > 1:
        raise UserError(f'got {" and ".join(given)}, expected one of them')
    if not given:
        return config
    most = config.training.max_steps if given == options[2:] else 0
    return replace(config, training=replace(config.training, epochs=0.0, minutes=0.0, max_steps=most))


_MODE = Path('/sys/kernel/mm/transparent_hugepage/enabled')
_TUNABLE = 'glibc.malloc.hugetlb'


def huge_pages_hint() -> str | None:
    """Names the variable that would make training on CPUs faster; None if it is set, or would change nothing.

    XLA allocates the memory of every step anew, and page faults cost a sixth of the time. The C library reads its
    setting only when a process starts.
    """
    library, version = platform.libc_ver()
    if _TUNABLE in os.environ.get('GLIBC_TUNABLES', '') or library != 'glibc' or version < '2.35':
        return None
    try:
        is_on_request = '[madvise]' in _MODE.read_text()
    except OSError:  # not Linux
        return None
    return f'GLIBC_TUNABLES={_TUNABLE}=1 in the environment makes training on CPUs faster' if is_on_request else None
