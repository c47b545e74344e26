"""The test sets that sacrebleu has downloaded."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.lines import read_lines


def read_sacrebleu(name: str) -> Pairs:
    """The pairs of `sacrebleu:TESTSET/SOURCE-TARGET`, with all references.

    Raises UserError, with the command that downloads it, if sacrebleu does not have it yet.
    """
    from sacrebleu.dataset import DATASETS
    from sacrebleu.utils import SACREBLEU_DIR

    test_set, _, languages = name.removeprefix('sacrebleu:').rpartition('/')
    if test_set not in DATASETS:
        hint = nearest(test_set, DATASETS)
        raise UserError(f'corpus {name!r}: expected sacrebleu:TESTSET/SOURCE-TARGET, as wmt14/en-de.{hint}')
    dataset = DATASETS[test_set]
    if languages not in dataset.langpairs:
        raise UserError(f'corpus {name!r}: {test_set} has the languages {", ".join(dataset.langpairs)}')
    folder = os.path.join(SACREBLEU_DIR, test_set)
    command = f'  sacrebleu -t {test_set} -l {languages} --echo src > /dev/null'
    if not os.path.isdir(folder) or not os.listdir(folder):
        raise UserError(f'corpus {name!r}: sacrebleu has no {test_set} in {folder}. Download it once:\n{command}')
    try:
        with _no_downloads():
            files = [dataset.get_source_file(languages), *dataset.get_reference_files(languages)]
    except FileNotFoundError as error:
        raise UserError(
            f'corpus {name!r}: {error.filename} is missing; remove {folder} and download it again:\n{command}'
        ) from None
    sources, *references = sides = [read_lines(file) for file in files]
    if not sources or not references or len(set(map(len, sides))) > 1:
        counts = ', '.join(f'{file} {len(lines)}' for file, lines in zip(files, sides, strict=True))
        raise UserError(f'corpus {name!r}: expected a source and references of as many lines, got {counts}')
    return Pairs(sources, references[0], tuple(references[1:]))


@contextmanager
def _no_downloads() -> Iterator[None]:
    """Within it, sacrebleu raises FileNotFoundError instead of downloading."""
    from sacrebleu.dataset import base

    def keep(url: str, path: str, **_: Any) -> None:
        if not os.path.exists(path):
            raise FileNotFoundError(2, 'not downloaded', path)

    before, base.download_file = base.download_file, keep
    try:
        yield
    finally:
        base.download_file = before
