"""`flax-transformer COMMAND CONFIG|RUN [--field value ...]`."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

with open(f'{os.path.dirname(__file__)}/commands.txt', encoding='utf-8') as _usages:
    COMMANDS = {line.split()[0]: line for line in _usages.read().splitlines()}
# Commands that share a file, each a function; the others are `main` in a file of their own.
_SHARED = {
    'shipped': 'configs models',
    'word_vectors': 'neighbors analogy similarity',
    'corpora': 'check clean',
    'plan': 'plan show',
    'plot': 'plot curves',
    'quality': 'score calibrate analyze compare',
    'recordings': 'transcribe detect',
    'translate': 'warmup',
    'trim': 'add-language',
    'exchange': 'export import-huggingface export-huggingface',
}
_FILES = {command: file for file, commands in _SHARED.items() for command in commands.split()}
# Other names of commands, which earlier versions had.
ALIASES = {
    'analyse': 'analyze',
    'neighbours': 'neighbors',
    'import-marian': 'import-huggingface',
    'export-marian': 'export-huggingface',
}
QUIET = ('-q', '--quiet')
DOWNLOAD = '--download'


def launch(argv: list[str] | None = None) -> None:
    try:  # imports wait until here, where Ctrl-C prints no traceback
        from .process import run

        argv = sys.argv[1:] if argv is None else argv
        is_training = [arg for arg in argv if arg not in QUIET][:1] == ['train']
        run(lambda: main(argv), is_training=is_training)
    except KeyboardInterrupt:
        sys.exit(130)


def open_closed_streams() -> None:
    """Opens the null device for closed standard streams; else the next files to be opened would take their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest number that is free
        os.set_inheritable(number, True)  # the processes that this one starts need it too
    os.close(number)
    for name, mode in (('stdin', 'r'), ('stdout', 'w'), ('stderr', 'w')):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding='utf-8'))  # noqa: SIM115


def main(argv: list[str] | None = None) -> int:
    """Runs a command and returns its exit code.

    Unless the command has its own: 0 done, 1 an error of the system, 2 a mistake that the user can fix, 75 training was
    asked to stop and has saved, 130 interrupted.
    """
    import contextlib

    from flax_transformer.common.quiet import quiet

    argv = sys.argv[1:] if argv is None else argv
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors='backslashreplace')  # an unprintable character must not abort the output
    is_quiet = any(arg in QUIET for arg in argv)
    argv = [arg for arg in argv if arg not in QUIET]
    while argv[:1] == ['help']:
        argv = [*argv[1:], '--help']

    if not argv or argv[0] in ('-h', '--help'):
        print(_usage())
        return 0 if argv else 2
    if argv[0] in ('-V', '--version'):
        import platform
        from importlib import metadata

        from flax_transformer.common import __version__

        # JAX's version by its metadata: importing JAX takes a second.
        print(f'flax-transformer {__version__}, jax {metadata.version("jax")}, Python {platform.python_version()}')
        return 0
    with quiet() if is_quiet else contextlib.nullcontext():
        return _run(*argv)


def function_of(command: str) -> 'Callable[[list[str]], int | None]':
    """The function that carries out a command, imported now: a command imports only what it needs."""
    import importlib

    module = importlib.import_module(f'flax_transformer.cli.{_FILES.get(command, command)}')
    return getattr(module, command.replace('-', '_') if command in _FILES else 'main')


def _run(name: str, *rest: str) -> int:
    from flax_transformer.common.errors import EXIT_CODE, Interrupted, UserError, nearest
    from flax_transformer.common.memory import pass_over_imports

    name = ALIASES.get(name, name)
    try:
        if name not in COMMANDS:
            raise UserError(f'no command {name!r}.{nearest(name, COMMANDS)}\n{_usage()}')
        argv = [arg for arg in rest if arg != DOWNLOAD]
        if any('/' in arg for arg in argv):
            from .by_name import import_named

            import_named(name, argv, download=DOWNLOAD in rest)
        function = function_of(name)
        pass_over_imports()
        return function(argv) or 0
    except UserError as error:
        return _fail(str(error), 2)
    except BrokenPipeError:
        # The reader is gone (`| head`): leave quietly, with nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        place = f': {error.filename}' if error.filename else ''
        return _fail(f'{error.strerror or error}{place}', 1)
    except Interrupted as stopped:
        return _fail(str(stopped), EXIT_CODE)
    except KeyboardInterrupt:
        hint = '; the same command goes on from the last checkpoint' if name == 'train' else ''
        return _fail(f'interrupted{hint}', 130)
    except Exception:
        if problem := _missing_device():
            return _fail(problem, 2)
        raise


def _usage() -> str:
    commands = '\n'.join(f'  {line}' for line in COMMANDS.values())
    return f"""usage: flax-transformer COMMAND CONFIG|RUN [--field value ...]

{commands}

-q, --quiet: no progress and no notes, only results and errors;  --version: what is installed
--download: take a RUN that is the name of a model on Hugging Face's hub, OWNER/NAME, or its newest files
`flax-transformer COMMAND --help` lists the main fields of a command, --help-all all."""


def _missing_device() -> str | None:
    if 'jax' not in sys.modules or not os.environ.get('JAX_PLATFORMS'):
        return None
    from flax_transformer.engine.devices.devices import missing_platform

    return missing_platform()


def _fail(message: str, code: int) -> int:
    import contextlib

    from flax_transformer.common.errors import visible

    with contextlib.suppress(OSError):  # a log on a full disk, or its reader is gone: the code still counts
        print(f'flax-transformer: {visible(message)}', file=sys.stderr)
    return code
