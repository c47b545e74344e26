"""Sources with translations of some of their words, from which a model learns to read the terms of a glossary."""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain

import numpy as np

from flax_transformer.text.subword_sampling import hashed, uniform
from flax_transformer.text.term_marks import marked, positions_of
from flax_transformer.text.tokenizer import Tokenizer

from .corpus import Pairs

_SEED = 2019
_LINKS = 1_500_000  # pairs of words, from the beginning of the text, that are counted
_SURE = 0.3  # least probability of the source word, given the target's
_SELDOM = 0.03  # and the other way round: what is usual, a model learns without
_RARE = 0.005  # share of the lines that a term is in, at most
_WORD = re.compile(r'[^\W\d_]+')


class Terms:
    """Which words of a text translate each other, by IBM model 1 (Brown et al. 1993)."""

    def __init__(self, text: Iterable[Pairs], tokenizer: Tokenizer, share: float) -> None:
        self._tokenizer, self._share = tokenizer, share
        lines: list[tuple[list[str], list[str]]] = []
        left = _LINKS
        for source, target in chain.from_iterable(zip(pairs.sources, pairs.targets, strict=True) for pairs in text):
            lines.append((_WORD.findall(source.lower()), _WORD.findall(target)))
            left -= len(lines[-1][0]) * len(lines[-1][1])
            if left < 0:
                break

        chance: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)  # of the second word, given the first
        for _ in range(3):
            times: Counter[tuple[str, str]] = Counter()  # how often one is expected to translate the other
            ours: Counter[str] = Counter()
            theirs: Counter[str] = Counter()
            for source, target in lines:
                for other in target:
                    theirs[other] += 1
                    whole = sum(chance[own, other] for own in source)
                    for own in source:
                        part = chance[own, other] / whole
                        times[own, other] += part
                        ours[own] += part
            chance = {link: value / ours[link[0]] for link, value in times.items()}
        self._times = theirs
        self._links = {
            (own, other)
            for (own, other), value in times.items()
            if ours[own] < _RARE * len(lines) and value > max(_SURE * theirs[other], _SELDOM * ours[own], 1.5)
        }

    def marked(self, pairs: Pairs, numbers: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the sources and their lengths, with terms in a share of those that then have at most `most` ids.

        `numbers` are places in the corpus.
        """
        ids, lengths = self._tokenizer.encode_flat(pairs.sources)
        seeds = hashed(_SEED, numbers)
        lines = np.split(ids, np.cumsum(lengths)[:-1])
        for row in np.flatnonzero(uniform(seeds) < self._share).tolist():
            source, line = pairs.sources[row], lines[row].tolist()
            found = self._found(source, pairs.targets[row], random.Random(int(seeds[row])))
            places = [positions_of(span, source, line, self._tokenizer) for span, _ in found]
            forms = [form[:-1] for form in self._tokenizer.encode_target([form for _, form in found])]
            line, _ = marked(line, places, forms, self._tokenizer.marks)
            if len(line) <= most:
                lines[row] = np.array(line, ids.dtype)
        return np.concatenate(lines), np.array(list(map(len, lines)))

    def _found(self, source: str, target: str, draw: random.Random) -> list[tuple[tuple[int, int], str]]:
        """Up to three terms of a pair: characters of the source, and a translation.

        A third lose an ending if this makes a more frequent word, so that the model learns to inflect (Bergmanis and
        Pinnis 2021, 2021.eacl-main.271, who take lemmas).
        """
        words = [(word.span(), word[0].lower()) for word in _WORD.finditer(source)]
        links = [(span, other) for span, own in words for other in _WORD.findall(target) if (own, other) in self._links]
        times = Counter(chain(*links))
        found = []
        for span, other in links:
            if times[span] == times[other] == 1:
                forms = (other, other[:-1], other[:-2]) if draw.random() < 1 / 3 else (other,)
                found.append((span, max(forms, key=self._times.__getitem__)))
        first, most = (int(draw.random() * 3) for _ in range(2))
        return found[first : first + most + 1] or found[:1]
