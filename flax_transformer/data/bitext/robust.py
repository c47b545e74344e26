"""Changed copies of training pairs, for text as people type it: names and codes to copy, capitals, odd punctuation.

After Berard et al. 2019 (W19-5361) and Currey et al. 2017 (W17-4715). Sentences left untranslated do harm (Khayrallah
and Koehn 2018, W18-2709), so only what is no language is copied. Turkish capitals come out as English ones.
"""

import hashlib
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from flax_transformer.text.subword_sampling import hashed, uniform
from flax_transformer.text.tokenizer import UNSPACED

from .corpus import Pairs

Pair = tuple[str, str]
_SEED = 2018  # fixed, so that runs can share a cache
_TRIES = 32  # pairs that are looked at for one that a change fits
_SIGN = rf'[^\W{UNSPACED[1:]}'  # of a script with spaces between words
_WORD = rf'(?:(?![\d_]){_SIGN})+'
_NAME = re.compile(rf'(?<!{_SIGN})(?<![’\'.,:/-])(?:\d+|{_WORD})(?!{_SIGN}|[.,:/-]\w)')  # no part of a compound
_END = re.compile('([.!?…。！？؟।։]+)$')

# Each <symbol> of a text stands for one of these; <Word> is a <word> with a capital, <WORD> one in capitals; a line
# break is where the line goes.
_WRITTEN = Path(__file__).with_name('robust.json').read_text('utf-8')
_GRAMMAR: dict[str, list[str]] = json.loads(_WRITTEN)
GRAMMAR_DIGEST = hashlib.sha256(_WRITTEN.encode()).hexdigest()  # copies that are kept are of this one


def with_changed_copies(pairs: Pairs, numbers: np.ndarray, share: float) -> tuple[Pairs, np.ndarray]:
    """The pairs, then changed copies of about a `share` of them, and the number of the pair that each was made from.

    `numbers` [pairs] are their places in the corpus. A pure function: the kind of change is drawn, and the next pair
    that it fits is taken.
    """
    lines = list(zip(pairs.sources, pairs.targets, strict=True))
    small = {word for pair in lines for line in pair for word in re.findall(_WORD, line) if word.islower()}
    seeds = hashed(_SEED, numbers)
    origins = [*range(len(numbers))]
    for first in np.flatnonzero(uniform(seeds) < share).tolist():
        draw = random.Random(int(seeds[first]))
        kind = _made(draw, 'kind')
        for number in range(first, first + _TRIES):
            origin = number % len(numbers)
            other = lines[int(draw.random() * len(numbers))]
            is_whole = all(map(str.strip, lines[origin] + other))
            copy = _changed(kind, *lines[origin], other, draw, small) if is_whole else None
            if copy and copy != lines[origin]:
                lines.append(copy)
                origins.append(origin)
                break
    return Pairs([source for source, _ in lines], [target for _, target in lines]), numbers[origins]


def _changed(kind: str, source: str, target: str, other: Pair, draw: random.Random, small: set[str]) -> Pair | None:
    """A pair changed in one way; None if it does not fit. `small` has words that are no names, such as "hand"."""
    if kind == 'name':
        return _renamed(source, target, draw, small)
    if kind in ('alone', 'before', 'emoji'):
        form = _made(draw, kind)
        return form.replace('\n', source), form.replace('\n', target)
    if kind == 'capitals':
        return (source.upper(), target.upper()) if source.upper() != source else None
    if kind == 'small':  # or Title Case, in the source alone: a translation is written as usual
        titled = re.sub(r"(?<![\w'’])\w", lambda letter: letter[0].upper(), source)
        return _one(draw, (source.lower(), source.lower(), source[0].lower() + source[1:], titled)), target
    if kind == 'quotes':  # and apostrophes, of another style in the source alone
        source = source.replace("'", '’') if "'" in source else source.replace('’', "'")
        return re.sub('["“„]([^"“”„]+)["“”]', _made(draw, 'quotes'), source), target

    if not (_END.search(source) and _END.search(target)):
        return None
    if kind == 'two pairs':
        gaps = ('' if re.match(UNSPACED, line) else ' ' for line in other)
        return tuple(map(''.join, zip((source, target), gaps, other, strict=True)))
    end = _made(draw, 'question' if kind == 'end' and source[-1] in '?？؟' else kind)
    return _END.sub(end, source), _END.sub(end, target)


def _renamed(source: str, target: str, draw: random.Random, small: set[str]) -> Pair | None:
    """Another name, number or code in the place of one that both sides share."""
    names = []
    for word in sorted({*_NAME.findall(source)} & {*_NAME.findall(target)}):
        is_name = word[0].isupper() and len(word) > 2 and word.lower() not in small
        if (is_name or (word.isdigit() and word != '1')) and source.count(word) == target.count(word) == 1:
            names.append(word)
    if not names:
        return None
    word = _one(draw, names)
    new = _made(draw, 'digits' if word.isdigit() else 'named')
    return source.replace(word, new), target.replace(word, new)


def _one(draw: random.Random, choices: Sequence[str]) -> str:
    """One of the choices. Of Python's draws `random` alone is the same in all versions."""
    return choices[int(draw.random() * len(choices))]


def _made(draw: random.Random, symbol: str) -> str:
    text = re.sub(r'<(\w+)>', lambda part: _made(draw, part[1]), _one(draw, _GRAMMAR[symbol.lower()]))
    return text.upper() if symbol.isupper() else text.capitalize() if symbol.istitle() else text
