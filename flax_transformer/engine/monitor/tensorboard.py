"""An event file for TensorBoard, of scalars, texts and pictures, written without TensorFlow.

The events are tensorboardX's, the writer is ours: theirs has a thread that dies on a full disk, after which its queue
blocks training for ever.
"""

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flax_transformer.engine.monitor.append_file import AppendFile


class TensorBoardFile:
    """The event file of one start of a run."""

    def __init__(self, folder: Path, *, first_step: int, say: Callable[[str], None]) -> None:
        """Hides events after `first_step` from earlier starts; training resumes there."""
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        folder.mkdir(parents=True, exist_ok=True)
        name = f'events.out.tfevents.{int(time.time())}.{os.uname().nodename}.{os.getpid()}.{first_step}'
        self._file = AppendFile(folder / name, say)
        self._add(Event(wall_time=time.time(), file_version='brain.Event:2'))
        if first_step:
            start = SessionLog(status=SessionLog.START)
            self._add(Event(wall_time=time.time(), step=first_step + 1, session_log=start))

    def scalar(self, tag: str, value: float, step: int) -> None:
        from tensorboardX import summary

        self._summary(summary.scalar(tag, value), step)

    def text(self, tag: str, text: str, step: int) -> None:
        """Adds Markdown."""
        from tensorboardX import summary

        self._summary(summary.text(tag, text), step)

    def picture(self, tag: str, png: bytes, step: int) -> None:
        from tensorboardX.proto.summary_pb2 import Summary

        width, height = struct.unpack('>II', png[16:24])  # a PNG's header
        image = Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=png)
        self._summary(Summary(value=[Summary.Value(tag=tag, image=image)]), step)

    def _summary(self, summary: Any, step: int) -> None:
        from tensorboardX.proto.event_pb2 import Event

        self._add(Event(wall_time=time.time(), step=step, summary=summary))

    def _add(self, event: Any) -> None:
        """Writes an event as a TFRecord: its length and its bytes, each with a masked CRC-32C."""
        from tensorboardX.record_writer import masked_crc32c

        data = event.SerializeToString()
        length = struct.pack('<Q', len(data))
        crc = lambda part: struct.pack('<I', masked_crc32c(part))
        self._file.add(length + crc(length) + data + crc(data))

    def close(self) -> None:
        self._file.close()
