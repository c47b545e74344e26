"""The test sets that sacrebleu keeps on this disk."""

import os

from flax_transformer.data.corpus import Pairs
from flax_transformer.data.text_files import read_lines
from flax_transformer.errors import UserError, nearest


def read_sacrebleu(name: str) -> Pairs:
    """The pairs of `sacrebleu:TESTSET/SOURCE-TARGET`, with all its references.

    Raises UserError, with the command that brings it, where sacrebleu has not downloaded it yet.
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
    if not os.path.isdir(folder) or not os.listdir(folder):
        raise UserError(
            f'corpus {name!r}: sacrebleu has no {test_set} in {folder}. Download it once:\n'
            f'  sacrebleu -t {test_set} -l {languages} --echo src > /dev/null'
        )
    sources = read_lines(dataset.get_source_file(languages))
    first, *others = (read_lines(file) for file in dataset.get_reference_files(languages))
    return Pairs(sources, first, tuple(others))
