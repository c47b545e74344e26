"""The fields of the check of a corpus, and the vocabulary that the text has to fit."""

from collections import Counter
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import NamedTuple

from flax_transformer.common.fields import check_positive, check_range, check_types
from flax_transformer.text.tokenizer import Tokenizer, TokenizerConfig


@dataclass(frozen=True)
class CheckConfig:
    """The check of a corpus: when a pair counts as damaged, and from which fraction damaged pairs are a warning."""

    before_training: bool = True  # check a corpus before it is tokenized; errors stop, warnings do not
    max_length_ratio: float = 4.0  # one side's characters, relative to what is usual for the other; more is damaged
    characters_per_piece: int = 100  # training text per piece of the vocabulary; less is a warning
    # The rest: the share of a corpus's pairs, 0 to 1, from which a kind of damage is a warning instead of a note.

    swapped_pair: float = 0.005  # warn from this share of pairs: each side in the language of the other
    wrong_language: float = 0.01  # warn from this share of pairs: a side in a language other than its own
    copy: float = 0.02  # warn from this share of pairs: the target is the source
    blank: float = 0.01  # warn from this share of pairs: a side of nothing but spaces
    too_long: float = 0.01  # warn from this share of pairs: more tokens than a row has slots
    length_ratio: float = 0.01  # warn from this share of pairs: more than max_length_ratio
    numbers: float = 0.05  # warn from this share of pairs: digits that differ
    control: float = 0.001  # warn from this share of pairs: lines with control or zero-width characters
    entity: float = 0.001  # warn from this share of pairs: lines with HTML entities or tags
    quoted: float = 0.01  # warn from this share of pairs: quoted as in CSV
    mojibake: float = 0.001  # warn from this share of pairs: lines decoded by the wrong encoding
    duplicate: float = 0.1  # warn from this share of pairs: repeats of an earlier pair
    contradiction: float = 0.5  # warn from this share of pairs: other translations of an earlier source
    leaked: float = 0.01  # warn from this share of validation or test pairs: a side is in the training data
    validation_is_test: float = 0.01  # warn from this share of test pairs: they are in a validation set

    # Fields that configs of earlier runs have, with the defaults that they had; other values are refused.
    FORMER = MappingProxyType({'normalization': 0.001})

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'characters_per_piece')
        check_range(self, 'max_length_ratio', above=1)
        shares = [field.name for field in fields(self) if field.type is float and field.name != 'max_length_ratio']
        check_range(self, *shares, least=0, most=1)


class Vocabulary(NamedTuple):
    """The vocabulary that a run has, or will train."""

    size: int  # pieces
    config: TokenizerConfig
    tokenizer: Tokenizer | None = None  # the run's; None: not trained yet, so tokens and characters are estimated

    def uncovered(self, tally: Counter[str]) -> Counter[str]:
        """The counted characters without a piece of their own.

        Without a tokenizer, these are the rest once the most frequent ones make up tokenizer.character_coverage.
        """
        if self.tokenizer is not None:
            return Counter({char: n for char, n in tally.items() if not self.tokenizer.has_piece_for(char)})
        needed = self.config.character_coverage * tally.total()
        covered = 0
        rest: Counter[str] = Counter()
        for character, count in sorted(tally.items(), key=lambda item: (-item[1], item[0])):
            if covered >= needed:
                rest[character] = count
            covered += count
        return rest
