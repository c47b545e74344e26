"""`translate --shard 3/64`: the pieces that a shard still has to translate, and what made those that are there."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from flax_transformer.common.errors import BadInput, UserError
from flax_transformer.common.files import own_partial, written_whole
from flax_transformer.common.json_text import parse_json
from flax_transformer.common.trees import named_leaves
from flax_transformer.data import shards
from flax_transformer.data.shards import RECORD, InputFile, Shard, dealt, pieces, shares, written_piece
from flax_transformer.decoding.config import DecodingConfig
from flax_transformer.engine.runs.checksums import format_faults

from .options import note

# (lines, write, number of lines before them, what messages put before a line's number) -> counts of flags
Translate = Callable[[list[bytes], Callable[[list[str]], None], int, str], Counter[str]]


class ShardOfFiles:
    """The pieces of the input files that are one shard's, and the folder of their outputs."""

    def __init__(self, shard: str, files: list[InputFile], folder: Path, remedy: str = '') -> None:
        """Args: remedy: what to do where the folder holds other translations; '': what `translate` needs."""
        self.shard = Shard.parse(shard)
        self.files = files
        self.folder = folder
        self._remedy = remedy or (
            'Give another folder (--output); or, if input files were repaired, remove their outputs and '
            f'{folder / RECORD}, then start all shards again'
        )
        self._record: dict[str, Any] = {}
        self._flags: Counter[str] = Counter()
        self._outputs: Counter[str] = Counter()
        if folder.is_file():
            raise UserError(f'--output {folder} is a file; with --shard expected a folder, which may be new')
        for file in self.files:
            if file.path.resolve().is_relative_to(folder.resolve()):
                raise UserError(f'--output {folder} holds the input file {file.path}; give another folder')

    def agree(self, options: dict[str, Any], decoding: DecodingConfig, params: Any) -> None:
        """Writes down what makes the outputs, unless another shard has the same."""
        fields = {f'decoding.{name}': value for name, value in asdict(decoding).items() if name != 'batch_tokens'}
        record = {'parameters': checksum(params), **options, **fields, 'lines_per_output': shards.PIECE}
        for file in self.files:
            modified = time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(file.modified))
            record[f'input {file.name}'] = f'{file.size} bytes of {modified}'
        self._record = json.loads(json.dumps(record))  # a tuple becomes a list, as in the file
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / RECORD
        if not file.exists():
            with written_whole(file, own_partial(file)) as opened:
                opened.write(json.dumps(self._record, indent=1).encode() + b'\n')
        self._check_record()

    def _check_record(self) -> None:
        file = self.folder / RECORD
        try:
            there = dict(parse_json(file.read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            raise UserError(f'{file} is gone or damaged; give another --output') from None
        ours = self._record
        names = [name for name in ours | there if ours.get(name) != there.get(name)]
        if names:
            changed = [f'{name}: {there.get(name, "absent")} there, {ours.get(name, "absent")} here' for name in names]
            raise UserError(
                f'{self.folder} holds translations by another model, with other options or of other input:\n'
                f'{format_faults(changed)}\n{self._remedy}'
            )

    def run(self, translate: Translate) -> Counter[str]:
        """Translates the pieces whose outputs are missing; returns how many translations have each flag."""
        unread = []
        divided = zip(self.files, shares([file.size for file in self.files], self.shard.count), strict=True)
        ours = [(file, share) for file, share in divided if self.shard.number in share]
        name = f'shard {self.shard.number}/{self.shard.count}'
        note(f'{name}: all or part of {len(ours)} of {len(self.files)} input files')
        for file, share in ours:
            try:
                self._translate_file(file, share, translate)
            except BadInput as error:
                note(str(error), is_error=True)
                unread.append(file.name)
        counts = self._outputs
        note(f'{name}: {counts["lines"]} lines in {counts["new"]} outputs; {counts["there"]} were there already')
        if unread:
            raise UserError(f'these input files were not translated to the end:\n{format_faults(unread)}')
        return self._flags

    def _translate_file(self, file: InputFile, share: dict[int, int], translate: Translate) -> None:
        for number, (lines, owner) in enumerate(zip(pieces(file.path), dealt(share), strict=False)):
            if owner != self.shard.number:
                continue
            output = self.folder / f'{file.name}.{number:06d}'  # `cat` in order of these names gives the whole
            if output.exists():
                self._outputs['there'] += 1
                continue
            self._check_record()
            output.parent.mkdir(parents=True, exist_ok=True)
            start = time.monotonic()
            with written_piece(output, file.path.suffix) as opened:
                new: list[str] = []
                self._flags.update(translate(lines, new.extend, number * shards.PIECE, f'{file.path}, line'))
                opened.write(''.join(line + '\n' for line in new).encode())
            self._outputs.update(new=1, lines=len(lines))
            note(f'{output}: {len(lines)} lines in {time.monotonic() - start:.1f} s')


def checksum(params: Any) -> str:
    digest = hashlib.sha256()
    for name, leaf in named_leaves(params):
        digest.update(f'{name} {leaf.dtype} {leaf.shape}'.encode())
        digest.update(np.ascontiguousarray(leaf).view(np.uint8))
    return digest.hexdigest()[:32]
