"""Names of languages: the two letters of ISO 639-1, and the codes that multilingual models have for the same."""

import json
import re
from collections.abc import Collection
from pathlib import Path

from flax_transformer.common.errors import UserError, nearest

UNDETERMINED = 'und'  # a language of an imported run until one is asked for
# ISO 639-1, and the three letters that NLLB-200 has for it (ISO 639-3, for some the code of one variety).
THREE_LETTERS = json.loads(Path(__file__).with_name('three_letters.json').read_text())
_TWO_LETTERS = {three: two for two, three in THREE_LETTERS.items() if two != 'no'}
_NAMES = json.loads(Path(__file__).with_name('language_names.json').read_text())  # in English, by two letters
# Where a language has two scripts: the one that is meant by the language alone, or by a country.
_SCRIPTS = {'zho': 'hans', 'cn': 'hans', 'sg': 'hans', 'tw': 'hant', 'hk': 'hant', 'mo': 'hant'}
# English names, and codes that LibreTranslate and older programs have.
_ALIASES = {name.lower(): code for code, name in _NAMES.items()}
_ALIASES |= {'zt': 'zh-hant', 'pb': 'pt-br', 'iw': 'he', 'fil': 'tl'}


def two_letters(language: str) -> str:
    """The code of ISO 639-1, if there is one: `de` of `deu_Latn`, `de_DE` and `DE`; else the first part."""
    first = _parts(language)[0]
    return _TWO_LETTERS.get(first, first)


def known_language(name: str, language: str | None, codes: Collection[str]) -> str:
    """The one of `codes` that is meant by a language, such as `deu_Latn` by `de`, `de-AT`, `deu` or `German`.

    Raises UserError, which begins with the `name` of the setting, if there is none or several.
    """
    first, *rest = _parts(language or '')
    same = [code for code in codes if _parts(code) == [first, *rest]]
    if not same and language:
        three = _three_letters(language)
        same = [code for code in codes if _three_letters(code) == three]
        scripts = {_SCRIPTS.get(part, part) for part in rest or [three]}
        bare = [code for code in same if len(_parts(code)) == 1]
        same = [code for code in same if scripts.intersection(_parts(code)[1:])] or bare or same
    if len(same) == 1:
        return same[0]
    expected = f'expected one of {", ".join(same or codes)}'
    raise UserError(f'{name}={language!r}: {expected}.{"" if same else nearest(str(language), codes)}')


def usual_name(code: str, codes: Collection[str]) -> str:
    """The two letters of one of `codes` if they mean it, else the code: `de` of `deu_Latn`, `zh` of `zho_Hans`."""
    short = two_letters(code)
    try:
        return short if known_language('language', short, codes) == code else code
    except UserError:
        return code


def is_named(code: str) -> bool:
    """Rare languages have no name here."""
    return two_letters(code) in _NAMES


def name_of(language: str) -> str:
    """The English name of a language, with its script or country; its code if it is a rare one."""
    first, _, rest = language.replace('_', '-').partition('-')
    name = _NAMES.get(two_letters(first), language)
    return f'{name} ({rest})' if rest and name != language else name


def _parts(language: str) -> list[str]:
    """The language and what follows it, such as a script or a country, in lower case; aliases are replaced."""
    language = language.strip().lower()
    return re.split('[-_]', _ALIASES.get(language, language))


def _three_letters(language: str) -> str:
    first = _parts(language)[0]
    return THREE_LETTERS.get(first, first)
