"""What a config needs to know about two aligned files."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.data.audit.language import is_known, is_language, language_of_side
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.bitext.text_files import AlignedFiles
from flax_transformer.data.lines import content_suffix
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import count_unspaced, is_unspaced

SAMPLE = 50_000  # most pairs that are kept; a larger corpus gives at least half of that
_SPARE = 0.99  # share of the expected characters: what is held out may have longer lines
_LANGUAGE = re.compile(r'[a-z]{2,3}([_-][A-Za-z]+)?')


@dataclass(frozen=True)
class Facts:
    """Counts over all pairs, and some of them, evenly spaced."""

    pairs: int
    words: tuple[int, int]  # source and target; characters where words have no spaces between
    characters: int  # both sides
    sample: Pairs


@dataclass(frozen=True)
class Pieces:
    """The vocabulary's size, and the sample's lengths in pieces, EOS included."""

    vocab_size: int
    lengths: np.ndarray  # [2, pairs]: source and target

    @property
    def per_pair(self) -> np.ndarray:
        return self.lengths.mean(axis=1)


def read_facts(source: Path, target: Path) -> Facts:
    """Reads both files once. Raises UserError if they are damaged, empty, or not aligned."""
    sources, targets, every, number, characters = [], [], 1, 0, 0
    words = [0, 0]
    for pairs in AlignedFiles(f'{source},{target}', [(source, target)]).pairs():
        for side, lines in enumerate((pairs.sources, pairs.targets)):
            count = count_unspaced if is_unspaced(lines[:100]) else lambda line: len(line.split())
            words[side] += sum(map(count, lines))
            characters += sum(map(len, lines))
        first = -number % every
        sources += pairs.sources[first::every]
        targets += pairs.targets[first::every]
        number += len(pairs)
        while len(sources) > SAMPLE:
            del sources[1::2], targets[1::2]
            every *= 2
    return Facts(number, tuple(words), characters, Pairs(sources, targets))


def language_of(file: Path, lines: list[str], side: str, given: str | None) -> tuple[str, str]:
    """The language of a side, and a note if its text looks like another one.

    It is the one given, else the end of the file's name (train.en.gz), else what the lines look like. Raises UserError
    if none of these decides.
    """
    found = language_of_side(lines)
    suffix = content_suffix(file).removeprefix('.')
    if not given and _LANGUAGE.fullmatch(suffix) and is_known(suffix):
        given = suffix
    if not given and (found is None or found[1] < 0.5):
        raise UserError(
            f'{file}: the language is neither in the name, as in train.en, nor clear from the text; '
            f'give --{side}-language'
        )
    language = given or found[0]
    if not re.fullmatch(r'[\w-]+', language):
        raise UserError(f'--{side}-language {language!r}: expected a code, such as de, pt_BR or deu_Latn')
    if found is not None and found[1] > 0.5 and not is_language(found[0], language) and is_known(language):
        return language, f'{file} looks like {found[0]}, not {language}; if so, give --{side}-language {found[0]}'
    return language, ''


def fit_vocabulary(facts: Facts, wanted: int, characters_per_piece: int, *, held_out: int = 0) -> Pieces:
    """The sample in pieces of a joint vocabulary: as many as wanted, or fewer if the text is too short to learn them.

    `held_out` of the pairs are not for training.
    """
    lines = [*facts.sample.sources, *facts.sample.targets]
    seen = Counter(character for line in lines for character in line)
    least = 300 + len(seen)  # bytes, special pieces, characters, and some to spare
    characters = facts.characters * (1 - held_out / facts.pairs) * _SPARE
    size = max(min(wanted, int(characters / characters_per_piece)), least)
    while True:
        size = size if size < 1000 else size // 100 * 100
        try:
            tokenizer = SentencePieceTokenizer.train(lines, vocab_size=size)
            break
        except UserError:
            if size <= least:
                raise UserError(
                    f'got {facts.pairs} sentence pairs: too little text for a vocabulary of {size}'
                ) from None
            size = max(least, int(size * 0.8))
    lengths = [tokenizer.encode(side) for side in (facts.sample.sources, facts.sample.targets)]
    return Pieces(size, np.array([[len(line) for line in side] for side in lengths]))
