"""The fields of the check of a corpus: when a pair counts as damaged, and how much damage deserves a warning."""

from dataclasses import dataclass, fields

from flax_transformer.common.checks import check, check_positive, check_types


@dataclass(frozen=True)
class CheckConfig:
    """The check of a corpus: when a pair counts as damaged, and which share of damaged pairs is a warning."""

    before_training: bool = True  # check a corpus before it is tokenized; errors stop, warnings do not
    max_length_ratio: float = 4.0  # one side's characters, relative to what is usual for the other; more is damaged
    characters_per_piece: int = 100  # training text per piece of the vocabulary; less is a warning
    # Shares of a corpus's pairs, 0 to 1, at which a kind of damage is a warning instead of a note.
    swapped_pair: float = 0.005
    wrong_language: float = 0.01
    copy: float = 0.02
    blank: float = 0.01
    too_long: float = 0.01
    length_ratio: float = 0.01
    numbers: float = 0.05
    control: float = 0.001
    entity: float = 0.001
    mojibake: float = 0.001
    normalization: float = 0.001
    duplicate: float = 0.1
    contradiction: float = 0.5
    leaked: float = 0.01  # of the pairs of the validation or test set
    validation_is_test: float = 0.01  # of the pairs of the test set

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'characters_per_piece')
        check(self.max_length_ratio > 1, f'max_length_ratio={self.max_length_ratio}: expected more than 1')
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is float and field.name != 'max_length_ratio':
                check(0 <= value <= 1, f'{field.name}={value}: expected a share from 0 to 1')
