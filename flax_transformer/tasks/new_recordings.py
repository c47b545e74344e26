"""What the tasks about recordings share in `new`: reading them, and holding some out."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import say
from flax_transformer.data.audio.manifest import Utterance, read_manifest
from flax_transformer.tasks.new_config import DataOptions, from_folder, parts

SEGMENT = ('offset', 'duration')  # columns of an utterance that is part of its recording


def read_recordings(options: DataOptions) -> list[Utterance]:
    """The recordings. Raises UserError where some would have to be held out of an archive."""
    found = read_manifest(options.data, Path('.'), say=say)
    packed = next((each.source.path for each in found if not os.path.isfile(each.source.name)), None)
    if packed and not options.valid:
        raise UserError(
            f'{packed} is an archive, and nothing in one can be held out: unpack it (tar -xf {packed} -C '
            f'{packed.parent}), or name other recordings with --valid'
        )
    return found


def fields_for(file: Path, options: DataOptions, found: list[Utterance]) -> tuple[dict[str, Any], str]:
    """The fields of a config about the recordings, and a remark on those held out, some of each text."""
    root, folder = file.absolute().parent, file.absolute().with_suffix('.data')
    paths = [from_folder(each.source.path, root) for each in found]
    paths = [path if os.path.isabs(path) else os.path.relpath(root / path, folder) for path in paths]
    lines = [
        '\t'.join([path, ' '.join(each.text.split()), each.speaker, *(each.columns.get(name, '') for name in SEGMENT)])
        for path, each in zip(paths, found, strict=True)
    ]
    groups, head = [each.text for each in found], '\t'.join(['path', 'text', 'speaker', *SEGMENT])
    data, remark = parts(file, options, '.tsv', lines, keys=paths, groups=groups, head=head)
    rate = min(Counter(each.rate for each in found).most_common(1)[0][0], 16_000)
    return data | {'features.sample_rate': rate}, remark
