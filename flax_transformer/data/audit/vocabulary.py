"""The vocabulary that the text has to fit."""

from collections import Counter
from typing import NamedTuple

from flax_transformer.text.config import TokenizerConfig
from flax_transformer.text.tokenizer import Tokenizer


class Vocabulary(NamedTuple):
    """The vocabulary that a run has, or will train."""

    size: int  # pieces
    config: TokenizerConfig
    tokenizer: Tokenizer | None = None  # of the run; None: not trained yet, so tokens and characters are estimated

    def uncovered(self, tally: Counter[str]) -> Counter[str]:
        """The characters, of those counted, that have no piece of their own.

        Without a tokenizer: those left once the most frequent ones make up tokenizer.character_coverage.
        """
        if self.tokenizer is not None:
            return Counter({char: n for char, n in tally.items() if not self.tokenizer.has_piece_for(char)})
        needed, covered = self.config.character_coverage * tally.total(), 0
        left: Counter[str] = Counter()
        for character, count in sorted(tally.items(), key=lambda item: (-item[1], item[0])):
            if covered >= needed:
                left[character] = count
            covered += count
        return left
