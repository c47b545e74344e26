"""Changed copies of training pairs, for text as people type it: names and codes to copy, capitals, odd punctuation.

Models trained on clean text alone go astray on the rest (Belinkov and Bisk 2018; copies with noise: Berard et al. 2019,
W19-5361). Copied lines teach names (Currey et al. 2017, W17-4715), but sentences left untranslated do harm (Khayrallah
and Koehn 2018, W18-2709), so only what is no language is copied. Words are found by Unicode's categories, so any two
languages will do; Turkish capitals come out as English ones.
"""

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flax_transformer.text.subword_sampling import hashed, uniform
from flax_transformer.text.tokenizer import UNSPACED

from .corpus import Pairs

Pair = tuple[str, str]
_SEED = 2018  # fixed, so that runs can share a cache
_TRIES = 32  # pairs that are looked at for one that a change fits
# Of a hundred copies; new text is the same on both sides.
_SHARES = {
    'name': 25,  # a new name, number or code in the place of one that both sides share
    'span': 10,  # a new one at the beginning or the end
    'nothing to translate': 5,
    'emoji': 5,
    'end': 15,  # none, or other signs
    'two pairs': 10,
    'capitals': 10,
    'small': 15,  # or Title Case, in the source alone: its translation is written as usual
    'quotes': 5,  # and apostrophes of another style, in the source alone
}
_SIGN = rf'[^\W{UNSPACED[1:]}'  # of a script with spaces between words
_WORD = rf'(?:(?![\d_]){_SIGN})+'
_NAME = re.compile(rf'(?<!{_SIGN})(?<![’\'.,:/-])(?:\d+|{_WORD})(?!{_SIGN}|[.,:/-]\w)')  # no part of a compound
_END = re.compile('[.!?…。！？؟।։]+$')

_ONSETS = 'b d f g h j k l m n p r s t v w z b d f g k l m n r s t br ch cz dr gr kl kr pr sch sh st sz tr x y š ł ñ'
_VOWELS = 'a e i o u a e i o u a e i o u a e i o u a e i o u a e i o ai au ei ie ou y ä ö ü é á í ó ø å ã'
_CODAS = 'n r l s t m k nd rt ck ng sz st x v lm rg ll'
# Templates, with | between: ~ is a word, ^ a name, # a number, ¹ a digit, * a capital letter, & an ending.
_NAMES = '^|^|^|^ ^|^ ^|^-^|*. ^|Dr. ^|Mc^|O’^|van ^'
_NUMBERS = '#|#|#|#|1¹:3¹|0¹:1¹|202¹-1¹-2¹|¹/¹¹|¹.¹.¹¹|+4¹ 3¹ #|№ #|¹¹-¹¹|192.168.¹.¹¹'
_CODES = '~_~|~_~.&|~.&|~^|--~|--~-~|~()|/~/~|**-#|*¹*#|v¹.¹¹|@~¹¹|**_**|~-~'
_ADDRESSES = 'https://~.&|https://www.~.&/~/~.html|http://~.&/~?~=#|www.~.&|~.~@~.&|~#@~.&'
_PLACEHOLDERS = '{~}|{¹}|{{~}}|%s|%d|%(~)s|%(~)d|$¹|%¹$s|${~}'
_COPIED = _NAMES, _NUMBERS, _CODES, _ADDRESSES, _PLACEHOLDERS
_SIGNS = '...|?|!!!|---|–|(?)|!|=====|…|~ ~|****'
_ENDINGS = 'txt pdf docx png csv json py html zip mp3 xlsx com com org net de fr io eu info'
_EMOJI = '❤️|✅|⭐|☕|✨|⚠️|👍🏽|👩‍💻|🇩🇪|🇫🇷|:)|:-)|;-)|:D|<3|🤷‍♂️|➡️|🎉'
_BLOCKS = (0x1F600, 0x1F650), (0x1F400, 0x1F43F), (0x1F680, 0x1F6A0)  # faces, animals, vehicles
_FACES = '|'.join(chr(code) for block in _BLOCKS for code in range(*block))


def with_changed_copies(pairs: Pairs, numbers: np.ndarray, share: float) -> tuple[Pairs, np.ndarray]:
    """The pairs, then changed copies of about a `share` of them, and the number of the pair that each was made from.

    `numbers` [pairs] are their places in the corpus. A pure function: the kind of change is drawn, and the next pair
    that it fits is taken.
    """
    kinds = [kind for kind, times in _SHARES.items() for _ in range(times)]
    lines = list(zip(pairs.sources, pairs.targets, strict=True))
    small = {word for pair in lines for line in pair for word in re.findall(_WORD, line) if word.islower()}
    bits = hashed(_SEED, numbers)
    chosen = np.flatnonzero(uniform(bits) < share)
    origins = [*range(len(numbers))]
    for first, seed in zip(chosen.tolist(), bits[chosen].tolist(), strict=True):
        draw = random.Random(seed)
        kind = _one(draw, kinds)
        for number in range(first, first + _TRIES):
            origin = number % len(numbers)
            other = lines[int(draw.random() * len(numbers))]
            is_whole = all(map(str.strip, lines[origin] + other))
            copy = _changed(kind, *lines[origin], other, draw, small) if is_whole else None
            if copy and copy != lines[origin]:
                lines.append(copy)
                origins.append(origin)
                break
    return Pairs(*map(list, zip(*lines, strict=True))), numbers[origins]


def _changed(kind: str, source: str, target: str, other: Pair, draw: random.Random, small: set[str]) -> Pair | None:
    """A pair changed in one way; None if it cannot be. `small` are words that are no names, as "Hand" is none."""
    ends = _END.search(source) and _END.search(target)
    match kind:
        case 'name':
            return _renamed(source, target, draw, small)
        case 'nothing to translate':
            line = _made(draw, _one(draw, (*_COPIED, _SIGNS, _EMOJI, _FACES)))
            return line, line
        case 'capitals':
            return (source.upper(), target.upper()) if source.upper() != source else None
        case 'small':
            titled = re.sub(r"(?<![\w'’])\w", lambda letter: letter[0].upper(), source)
            return _one(draw, (source.lower(), source.lower(), source[0].lower() + source[1:], titled)), target
        case 'quotes':
            source = source.replace("'", '’') if "'" in source else source.replace('’', "'")
            return re.sub(
                '["“„]([^"“”„]+)["“”]', _one(draw, (r'“\1”', r'„\1“', r'«\1»', r'»\1«', r'"\1"')), source
            ), target
        case 'emoji':
            emoji = _made(draw, _one(draw, (_EMOJI, _FACES))) * _one(draw, (1, 1, 1, 2, 3))
            form = _one(draw, ('{0} {1}', '{1} {0}', '{1} {0}', '{1}{0}'))
            return form.format(emoji, source), form.format(emoji, target)
        case 'span' if draw.random() < 0.5:
            begin = _made(draw, _one(draw, _COPIED)) + _one(draw, (': ', ' – ', ', '))
            return begin + source, begin + target
        case 'span' if ends:
            end = _one(draw, (' ({})', ': {}', ', {}', ' "{}"')).format(_made(draw, _one(draw, _COPIED)))
            return tuple(_END.sub(lambda signs: end + signs[0], line) for line in (source, target))
        case 'end' if ends:
            odd = '||||??|???| ?|?!| ?!' if source[-1] in '?？؟' else '||||||!!|!!!|...|…|..| !| .'
            end = _one(draw, odd.split('|'))
            return tuple(_END.sub(end, line) for line in (source, target))
        case 'two pairs' if ends:
            gaps = ('' if re.match(UNSPACED, line) else ' ' for line in other)
            return tuple(map(''.join, zip((source, target), gaps, other, strict=True)))
    return None


def _renamed(source: str, target: str, draw: random.Random, small: set[str]) -> Pair | None:
    names = []
    for word in sorted({*_NAME.findall(source)} & {*_NAME.findall(target)}):
        is_name = word[0].isupper() and len(word) > 2 and word.lower() not in small
        is_once = source.count(word) == target.count(word) == 1
        if is_once and (is_name or (word.isdigit() and word != '1')):
            names.append(word)
    if not names:
        return None
    word = _one(draw, names)
    new = _made(draw, '#' if word.isdigit() else _one(draw, (_NAMES, _NAMES, _NAMES, *_COPIED)))
    return source.replace(word, new), target.replace(word, new)


def _one(draw: random.Random, choices: Sequence[Any]) -> Any:
    """One of the choices. Of Python's draws `random` alone is the same in all versions."""
    return choices[int(draw.random() * len(choices))]


def _word(draw: random.Random) -> str:
    syllables = [_one(draw, _ONSETS.split()) + _one(draw, _VOWELS.split()) for _ in range(_one(draw, (1, 2, 2, 2, 3)))]
    return ''.join(syllables) + _one(draw, ('', *_CODAS.split()))


def _digits(draw: random.Random) -> str:
    return _one(draw, '123456789') + ''.join(_one(draw, '0123456789') for _ in range(int(draw.random() ** 2 * 12)))


_PARTS: dict[str, Callable[[random.Random], str]] = {
    '~': _word,
    '^': lambda draw: _word(draw).capitalize(),
    '#': _digits,
    '¹': lambda draw: _one(draw, '123456789'),
    '*': lambda draw: _one(draw, 'ABCDEFGHJKLMNPQRSTUVWXYZ'),
    '&': lambda draw: _one(draw, _ENDINGS.split()),
}


def _made(draw: random.Random, templates: str) -> str:
    return re.sub('[~^#¹*&]', lambda part: _PARTS[part[0]](draw), _one(draw, templates.split('|')))
