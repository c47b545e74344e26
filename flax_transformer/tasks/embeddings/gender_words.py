"""English words for measuring and removing the bias of gender; single words in lower case.

From Bolukbasi et al. 2016, appendix C, and Caliskan et al. 2017.
"""

import json
from pathlib import Path

_WORDS = json.loads(Path(__file__).with_name('gender_words.json').read_text('utf-8'))

# Pairs whose difference is gender: they give the direction, toward the female word.
DEFINING_PAIRS = tuple(map(tuple, _WORDS['defining_pairs']))

# Pairs that every neutral word is to be equally near to; not the names mary and john.
EQUAL_PAIRS = (*DEFINING_PAIRS[:-1], *map(tuple, _WORDS['more_pairs']))

# Words that mean a gender, and so are not neutralized.
SPECIFIC = frozenset(_WORDS['specific']) | {word for pair in (*DEFINING_PAIRS, *EQUAL_PAIRS) for word in pair}

# Words that should be neutral.
OCCUPATIONS = tuple(_WORDS['occupations'])

# Word embedding association tests 6, 7 and 8 of Caliskan et al. 2017: two lists of targets and two of attributes each.
TESTS = {name: (tuple(lists[:2]), tuple(lists[2:])) for name, lists in _WORDS['tests'].items()}
