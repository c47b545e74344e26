"""What the tasks about recordings share in `new`: reading them, and holding some out."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from flax_transformer.audio.mel import FeatureConfig
from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import say
from flax_transformer.data.audio.manifest import Utterance, read_manifest
from flax_transformer.tasks.new_config import DataOptions, from_folder, hold_out, write_parts


def read_recordings(options: DataOptions) -> list[Utterance]:
    return read_manifest(options.given, Path('.'), say=say)


def features_for(utterances: Sequence[Utterance]) -> FeatureConfig:
    """Features at the usual rate of the recordings, 16 kHz at most."""
    rate = min(Counter(each.rate for each in utterances).most_common(1)[0][0], 16_000)
    return FeatureConfig(sample_rate=rate, num_mels=40 if rate > 8_000 else 23)


def parts(
    file: Path, options: DataOptions, utterances: Sequence[Utterance], groups: Sequence[str]
) -> tuple[str, str, str]:
    """The names of the training and validation sets, and a remark; holds out some of each group if none are given."""
    root = file.absolute().parent
    if options.valid:
        return from_folder(options.data, root), from_folder(options.valid, root), ''
    if packed := next((each.source.path for each in utterances if not os.path.isfile(each.source.name)), None):
        raise UserError(
            f'{packed} is an archive, of which nothing can be held out: unpack it (tar -xf {packed} -C '
            f'{packed.parent}), or name other recordings with --valid'
        )
    folder = file.absolute().with_suffix('.data')
    paths = [from_folder(each.source.path, folder) for each in utterances]
    if all(Path(path).is_relative_to(root) for path in paths):
        paths = [os.path.relpath(path, folder) for path in paths]
    rows = zip(paths, utterances, strict=True)
    lines = [f'{path}\t{" ".join(each.text.split())}\t{each.speaker}' for path, each in rows]
    is_held_out = hold_out(paths, groups)
    names = write_parts(file.absolute(), '.tsv', 'path\ttext\tspeaker', lines, is_held_out)
    return *names, f'; {sum(is_held_out):,} are held out in {file.with_suffix(".data")}'
