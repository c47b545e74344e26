"""The command `serve`."""

import contextlib
import gc
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Literal

from flax_transformer.common.config_json import changed_fields
from flax_transformer.common.errors import UserError
from flax_transformer.common.fields import check
from flax_transformer.common.files import allow_open_files, in_use
from flax_transformer.common.installing import install_command
from flax_transformer.common.memory import keep_little_memory
from flax_transformer.common.signals import end_process
from flax_transformer.data.lines import read_lines
from flax_transformer.decoding.config import DecodingConfig

from .help import wants_help
from .options import ToTranslate, note, parse, positional

try:
    from flax_transformer.server.app import Server
except ImportError as error:
    raise UserError(f'serve needs the package {error.name}: {install_command("serve")}') from None

from flax_transformer.server.directions import Directions, Served, is_folder
from flax_transformer.server.guard import MOST_CONNECTIONS
from flax_transformer.server.keys import Keys
from flax_transformer.server.service import Limits, Service
from flax_transformer.server.store import Store
from flax_transformer.server.teaching import Teaching
from flax_transformer.tasks.api import read_run_config
from flax_transformer.tasks.translation.inference.translator import Translator

DEFAULT_RUN = 'everyday'
# Whoever asks for one line waits for the batch that is being translated: a short one, which CPUs fill as well.
_LAST_BATCH = 0.5  # seconds
_LOOPBACK = ('127.0.0.1', '::1', 'localhost')
_DECODING = DecodingConfig(batch_tokens=1024, buckets=(32, 64))


@dataclass(frozen=True)
class ServeOptions(ToTranslate):
    """Serve translations over HTTP, by the APIs of LibreTranslate and DeepL, and with a page to type in.

    RUN is a run directory, one of its checkpoints (RUN@12000), or a folder of Hugging Face's; several serve the
    languages of all. Without one, the model that comes with the package.
    """

    decoding: DecodingConfig = _DECODING
    host: str = '127.0.0.1'  # address to listen on; 0.0.0.0: reachable from other machines
    port: int = 5000  # port to listen on; 0: any free one
    keys: Path | None = None  # a file of keys that requests must bring, a line each: KEY or NAME: KEY; None: no keys
    store: Path | None = None  # a file that keeps glossaries and usage for the next start; None: they are forgotten
    shared: str = ''  # the name of a key whose glossaries all may use
    host_name: tuple[str, ...] = ()  # names by which this server is called, beside localhost and addresses; *: any
    cors_origins: tuple[str, ...] = ()  # web sites whose pages may call this server; *: all
    learn: Path | None = None  # a folder: what users correct (POST /suggest) is kept there, and learned; None: nothing
    root_path: str = ''  # the path below which this server is reached, if a proxy does not take it off
    backend: Literal['jax', 'ctranslate2'] = 'jax'  # ctranslate2: its search where nothing but text is asked for
    compute_type: Literal['float32', 'int8'] = 'float32'  # ctranslate2's; int8: faster, not quite the same
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        check(0 <= self.port < 1 << 16, f'port={self.port}: expected 0 to 65535')
        is_jax = self.backend == 'jax'
        check(
            not is_jax or self.compute_type == 'float32', f'compute_type={self.compute_type}: needs backend=ctranslate2'
        )
        check(is_jax or self.learn is None, 'learn: needs backend=jax; CTranslate2 does not follow what is learned')


def main(argv: list[str]) -> int:
    if not positional(argv) and not wants_help(argv):
        argv = [DEFAULT_RUN, *argv]
    options = parse('serve', ServeOptions, argv, default=ServeOptions(), most=None)
    keys = _read_keys(options.keys)
    store = Store(options.store)
    references = positional(argv)
    if options.learn and not keys and options.host not in _LOOPBACK:
        got = f'--learn without --keys on {options.host}'
        raise UserError(f'{got}: anybody could teach the model; expected --keys, or --host 127.0.0.1')
    if options.learn and len(references) > 1:
        raise UserError(f'--learn: got {len(references)} models; expected one, which learns')
    for reference in references:
        if not is_folder(reference):
            read_run_config(reference, 'translation')  # any other is refused before a model is loaded
    allow_open_files(2 * MOST_CONNECTIONS)
    keep_little_memory()
    teaches = in_use(options.learn, say=note) if options.learn else contextlib.nullcontext()
    with _listen(options.host, options.port) as listener, teaches:
        signal.signal(signal.SIGTERM, lambda number, frame: end_process(0))  # nothing is admitted yet
        options.parallel.prepare_devices()
        # Each model keeps its own settings, but for the batch and what is given here.
        changes = {name: given for name, (_, given) in changed_fields(_DECODING, options.decoding).items()}
        changes = {'batch_tokens': _DECODING.batch_tokens, 'buckets': _DECODING.buckets} | changes
        if options.learn:  # eight bits would round away much of what is learned
            changes = {'weights': 'float32'} | changes

        by = _by(options)

        def load() -> Served:
            return Served([Directions.load(reference, options.parallel, by, **changes) for reference in references])

        served = load()
        gc.freeze()  # else all that was imported is looked through now and then, for 0.1 s in which nothing runs
        teaching = Teaching(options.learn, served.models[0]) if options.learn else None
        service = Service(served, options.limits, keys, shared=options.shared, store=store, teaching=teaching)
        host, port = listener.getsockname()[:2]
        engines = ', '.join(service.served.engines)
        note(f'{service.served} on http://{f"[{host}]" if ":" in host else host}:{port} ({engines})')
        sites = options.cors_origins
        server = Server(service, root_path=options.root_path, cors_origins=sites, host_names=options.host_name)

        def read_keys() -> None:
            service.keys = _read_keys(options.keys)

        is_asked = threading.Event()

        def read_again() -> None:
            with service.changing:
                if not is_asked.is_set():  # one that waited as well has read it
                    return
                is_asked.clear()
                gc.unfreeze()  # or what is replaced would stay
                for what, read in (('keys', read_keys), ('models', lambda: service.serve(load()))):
                    try:
                        read()
                        note(f'the {what} were read again')
                    except Exception as error:
                        note(f'{error}; the {what} stay as they were', is_error=True)

        def ask(number: int, frame: FrameType | None) -> None:
            is_asked.set()
            threading.Thread(target=read_again, daemon=True).start()  # not here: requests would wait

        if hasattr(signal, 'SIGHUP'):  # not on Windows
            signal.signal(signal.SIGHUP, ask)
        end = threading.Timer(options.limits.drain, end_process, [0])
        end.daemon = True

        def stop(number: int, frame: FrameType | None) -> None:
            if not end.is_alive():
                end.start()
            Server.handle_exit(server, number, frame)

        server.handle_exit = stop
        # Also for the time before uvicorn takes over, and after: it sends itself again what it has caught.
        signal.signal(signal.SIGTERM, server.handle_exit)
        server.run([listener])

    is_over = not service.batcher.is_running(_LAST_BATCH) and not service.changing.locked()
    end.cancel()
    if service.batcher.failure is not None:
        return 1
    if not is_over:
        end_process(0)  # a thread still compiles, and Python's end would crash it
    return 0


def _by(options: ServeOptions) -> Callable[[Translator], Translator]:
    if options.backend == 'jax':
        return lambda translator: translator
    from flax_transformer.interop.ctranslate2 import CTranslate2Translator

    return partial(CTranslate2Translator.of, compute_type=options.compute_type)


def _read_keys(file: Path | None) -> Keys:
    keys = Keys([] if file is None else read_lines(file))
    if file is not None and not keys:
        raise UserError(f'{file} has no keys; expected one a line')
    return keys


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket, before models are loaded: an address that is in use shows at once."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise UserError(f'cannot listen on {host}:{port}: {error}; choose another --host or --port') from None
