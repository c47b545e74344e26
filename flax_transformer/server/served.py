"""The directions that a server translates in, and the language of a text."""

import itertools
from collections.abc import Collection, Sequence

from flax_transformer.common.errors import UserError
from flax_transformer.data.audit.language import identifier_of
from flax_transformer.tasks.translation.inference.directions import Direction, Directions
from flax_transformer.text.languages import known_language, two_letters

from .fields import Refused

_LISTED = 20  # pairs, in messages


class Served:
    """The directions of all models; the first model named serves a pair that several know."""

    def __init__(self, models: Sequence[Directions]) -> None:
        self.models = models
        self.pairs: dict[tuple[str, str], Directions] = {}
        self.targets_of: dict[str, list[str]] = {}
        for model in models:
            for source, target in model.pairs:
                if self.pairs.setdefault((source, target), model) is model:
                    self.targets_of.setdefault(source, []).append(target)
        self.targets = list(dict.fromkeys(target for _, target in self.pairs))
        # A search finds this many more than the best.
        self.num_alternatives = max(model.translator.decoding.num_candidates for model in models) - 1
        self._identifier = identifier_of(list(self.targets_of))

    def __str__(self) -> str:
        listed = ', '.join(f'{source}-{target}' for source, target in itertools.islice(self.pairs, _LISTED))
        left = len(self.pairs) - _LISTED
        return f'{listed} and {left:,} more pairs, which /languages lists' if left > 0 else listed

    def pair(self, source: str, target: str) -> tuple[str | None, str]:
        """The served languages that are meant; None for an empty source. Raises Refused, which lists what is served."""
        first, second = _known(source, self.targets_of), _known(target, self.targets)
        if second is None or (source and (first, second) not in self.pairs):
            if second is None:
                unknown = target
            elif first is None:
                unknown = source
            else:
                unknown = f'{source}-{target}'
            raise Refused(400, f'{unknown[:80]} is not supported; this server translates {self}')
        return first, second

    def directions(self, texts: Sequence[str], source: str, target: str) -> list[tuple[Direction, float]]:
        """The direction of each text, and the confidence that the text is in its source language, 0 to 100.

        With `source` empty, by the language of the text. Raises Refused.
        """
        first, second = self.pair(source, target)
        languages = [(first, 100.0) if first else self.detect(text, second)[0] for text in texts]
        return [(self.pairs[known, second].direction(known, second), confidence) for known, confidence in languages]

    def detect(self, text: str, target: str | None = None) -> list[tuple[str, float]]:
        """The served source languages, with confidences from 0 to 100, the best first.

        With a target, only those from which it is translated. A text without letters gives no confidence.
        """
        possible = [source for source in self.targets_of if target is None or (source, target) in self.pairs]
        ranks = dict(self._identifier.rank(text)) if any(map(str.isalpha, text)) else {}
        confidences = [(source, 100 * float(ranks.get(two_letters(source), 0.0))) for source in possible]
        return sorted(confidences, key=lambda pair: -pair[1])


def _known(language: str, served: Collection[str]) -> str | None:
    """The served language that is meant, such as `en` by `en-GB`."""
    try:
        return known_language('language', language.strip(), served)
    except UserError:
        return None
