"""What is measured: experiments, ways to score their runs, and the tables whose rows they are."""

from dataclasses import dataclass
from typing import Literal

Part = Literal['validation', 'test']


@dataclass(frozen=True)
class Experiment:
    """A config, with some fields changed if need be; several seeds of it are trained."""

    name: str  # also the folder of its runs
    config: str  # a shipped config's name, or a file
    fields: tuple[str, ...] = ()  # options of `train`
    pairs: int | None = None  # train on the first of these pairs in a shuffled order; None: on all
    teachers: tuple['Teacher', ...] = ()  # add their translations of the training text to it


@dataclass(frozen=True)
class Teacher:
    """Runs that translate a student's training text, into its target language or back; several are an ensemble."""

    experiment: Experiment
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Measure:
    """How the runs are scored: options of `evaluate`, besides the set's."""

    label: str = ''  # for the names of files; '': the run's own settings
    options: tuple[str, ...] = ()
    validation: str | None = None  # the validation set, as a corpus is named; None: that of the config
    test: str | None = None  # likewise
    has_test: bool = True  # False: never look at the test set


VALIDATION_ONLY = Measure(has_test=False)


@dataclass(frozen=True)
class Entry:
    """A row of a table."""

    name: str  # its first cell, which no other row of the table has
    experiment: Experiment
    measure: Measure = Measure()
    what: str = ''  # its cell "what differs"
    published: str = ''  # the best number that others have published for the same, and its source
    attribution: str = ''  # of a test set whose licence allows its translations to be kept; '': they are not


@dataclass(frozen=True)
class Table:
    """A table of RESULTS.md."""

    name: str
    columns: Literal['results', 'ablation', 'search']
    entries: tuple[Entry, ...]
