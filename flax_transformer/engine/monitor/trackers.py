"""Where metrics go: files that survive a full disk, TensorBoard's among them, and Weights & Biases or MLflow."""

import errno
import importlib.util
import json
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flax_transformer.common.config_json import flat_table
from flax_transformer.common.errors import UserError, first_line
from flax_transformer.common.files import naming_damage, write_whole
from flax_transformer.common.installing import pip_install
from flax_transformer.common.json_text import read_json
from flax_transformer.engine.preemption import interrupt_in

ID_FILE = 'tracker.json'  # {tracker: id of the run there}
PROJECT = 'flax_transformer'  # unless $WANDB_PROJECT or $MLFLOW_EXPERIMENT_NAME names another
_FULL = (errno.ENOSPC, errno.EDQUOT)


def ending(error: BaseException | None) -> str:
    """How training ended, in MLflow's words, by the exception that leaves it; KILLED: somebody asked."""
    if error is None:
        return 'FINISHED'
    is_failure = isinstance(error, Exception) and interrupt_in(error) is None
    return 'FAILED' if is_failure else 'KILLED'


class Tracker:
    """A run of a tracker, resumed with ours. If it cannot be reached, says so once, and training goes on."""

    def __init__(self, name: str, folder: Path, say: Callable[[str], None]) -> None:
        self._name = name
        self._say = say
        self._client = None
        if name == 'none':
            return
        check_installed(name)
        known = _read(folder / ID_FILE)
        fields = flat_table(_read(folder / 'config.json'))
        try:
            self._client = CLIENTS[name](folder.absolute().name, known.get(name), fields)
        except Exception as error:  # a client may raise anything
            raise UserError(f'training.report_to={name!r}: {first_line(error)}') from None
        write_whole(folder / ID_FILE, json.dumps(known | {name: self._client.id}) + '\n')

    def scalars(self, values: dict[str, float], step: int) -> None:
        self._send('scalars', values, step)

    def close(self, how: str) -> None:
        self._send('close', how)

    def _send(self, method: str, *values: Any) -> None:
        if self._client is None:
            return
        try:
            getattr(self._client, method)(*values)
        except Exception as error:
            self._client = None
            self._say(f'{self._name} gets no more metrics: {first_line(error)}')


def check_installed(name: str) -> None:
    spec = importlib.util.find_spec(name) if name != 'none' else None
    # Trackers keep data in ./wandb and ./mlruns; Python takes any folder here for a package, but one without an origin.
    if name != 'none' and (spec is None or spec.origin is None):
        raise UserError(f'training.report_to={name!r} needs the package {name}: {pip_install(name)}')


class _Wandb:
    """A run of Weights & Biases; its own environment variables say where it goes."""

    def __init__(self, name: str, known: str | None, fields: dict[str, Any]) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get('WANDB_PROJECT', PROJECT),
            name=name,
            id=known,
            resume='allow',
            config=fields,
            settings=wandb.Settings(console='off'),  # it would read the progress bar
        )
        self.id = self._run.id

    def scalars(self, values: dict[str, float], step: int) -> None:
        self._run.log(values, step=step)

    def close(self, how: str) -> None:
        self._run.finish(exit_code={'FINISHED': 0, 'KILLED': 255, 'FAILED': 1}[how])  # 255 is shown as killed


class _Mlflow:
    """A run of MLflow; $MLFLOW_TRACKING_URI says where it goes."""

    def __init__(self, name: str, known: str | None, fields: dict[str, Any]) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._metric = Metric
        self._client = MlflowClient()
        if known is not None:
            self.id = known
            self._client.update_run(known, status='RUNNING')
            return
        title = os.environ.get('MLFLOW_EXPERIMENT_NAME', PROJECT)
        experiment = self._client.get_experiment_by_name(title)
        number = self._client.create_experiment(title) if experiment is None else experiment.experiment_id
        self.id = self._client.create_run(number, run_name=name).info.run_id
        params = [Param(field, str(value)[:500]) for field, value in fields.items()]
        for first in range(0, len(params), 100):  # the most that a request takes
            self._client.log_batch(self.id, params=params[first : first + 100])

    def scalars(self, values: dict[str, float], step: int) -> None:
        now = int(1000 * time.time())
        self._client.log_batch(self.id, [self._metric(name, value, now, step) for name, value in values.items()])

    def close(self, how: str) -> None:
        self._client.set_terminated(self.id, status=how)


CLIENTS = {'wandb': _Wandb, 'mlflow': _Mlflow}


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    with naming_damage(file, 'remove it to begin another run there'):
        return {} | read_json(file)


class AppendFile:
    """Appends to a file without buffering. A full disk raises nothing: training must survive it."""

    def __init__(self, file: Path, say: Callable[[str], None]) -> None:
        self.file = file
        self._say = say
        self._pending = b''  # not on disk yet
        self._opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, piece: bytes) -> None:
        was_full = bool(self._pending)
        self._pending += piece
        self.flush()
        if self._pending and not was_full:
            self._say(f'no space left for {self.file}: its contents are kept in memory until there is room')

    def flush(self) -> None:
        end = os.fstat(self._opened).st_size
        written = 0
        try:
            while written < len(self._pending):
                written += os.write(self._opened, self._pending[written:])
        except OSError as error:
            os.ftruncate(self._opened, end)  # half a piece would read as damage
            if error.errno not in _FULL:
                raise
        else:
            self._pending = b''

    def close(self) -> None:
        """Tries once more, and reports what is lost."""
        self.flush()
        if self._pending:
            self._say(f'no space left for {self.file}: its last {len(self._pending):,} bytes are lost')
        os.close(self._opened)


class TensorBoardFile:
    """The event file of one start of a run.

    By tensorboardX's EventsWriter: its SummaryWriter writes in a thread, which a full disk would end.
    """

    def __init__(self, folder: Path, *, first_step: int, say: Callable[[str], None]) -> None:
        """Hides events of earlier starts after `first_step`, where training resumes."""
        from tensorboardX import summary
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog
        from tensorboardX.record_writer import register_writer_factory

        def open_file(path: str) -> AppendFile:
            return AppendFile(Path(path.removeprefix('appended:')), say)

        folder.mkdir(parents=True, exist_ok=True)
        register_writer_factory('appended', SimpleNamespace(open=open_file))
        self._writer = EventsWriter(f'appended:{folder}/events', f'.{os.getpid()}.{first_step}')
        self._summary = summary
        self._event = Event
        if first_step:
            self._add(first_step + 1, session_log=SessionLog(status=SessionLog.START))

    def scalar(self, tag: str, value: float, step: int) -> None:
        self._add(step, summary=self._summary.scalar(tag, value))

    def text(self, tag: str, text: str, step: int) -> None:
        self._add(step, summary=self._summary.text(tag, text))

    def picture(self, tag: str, png: bytes, step: int) -> None:
        width, height = struct.unpack('>II', png[16:24])  # a PNG's header
        image = {'height': height, 'width': width, 'colorspace': 4, 'encoded_image_string': png}
        self._add(step, summary={'value': [{'tag': tag, 'image': image}]})

    def _add(self, step: int, **content: Any) -> None:
        self._writer.write_event(self._event(wall_time=time.time(), step=step, **content))

    def close(self) -> None:
        self._writer.close()
