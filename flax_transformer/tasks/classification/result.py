"""What a classifier answers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Classification:
    """The label of a text."""

    label: str  # the most probable
    probability: float  # of that label
    probabilities: dict[str, float]  # of every label; they sum to 1
    # What to know about it: `empty`, the text has no token, so the probabilities are the training data's; `truncated`,
    # the end of the text was not read; `unknown`, none of its words was in the training data; `replaced`, it was not
    # valid UTF-8, and U+FFFD stands for the rest.
    flags: tuple[str, ...] = ()
