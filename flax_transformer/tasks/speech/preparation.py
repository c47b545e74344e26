"""Preparation of a training run: the recordings, their units, what can be learned from."""

from collections.abc import Callable
from typing import NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.engine.devices.multihost import say
from flax_transformer.tasks.speech import metrics
from flax_transformer.tasks.speech.config import Config
from flax_transformer.tasks.speech.corpus_checks import CORPORA, audit, read_corpora, usable
from flax_transformer.tasks.speech.recordings import Corpus, Examples, Strings
from flax_transformer.tasks.speech.run import LoadedRun, Run
from flax_transformer.tasks.speech.trusted_data import seal_data
from flax_transformer.tasks.speech.units import Units

Say = Callable[[str], None]


class Prepared(NamedTuple):
    """What training reads."""

    units: Units
    train: Examples
    validation: Examples | None
    most_labels: int  # of an example


def prepare_run(config: Config, run: Run, start: LoadedRun | None = None, *, processes: int = 1) -> Prepared:
    """Reads the data of a run, and checks that of a new one. Raises UserError for anything the user can fix.

    A new run learns its units, unless it starts from those of another. One process does it all.
    """
    if config.data.validation:
        metrics.check_installed()
    corpora = read_corpora(config, ('train', 'validation') if run.is_prepared() else CORPORA, say=say)
    if run.is_prepared():
        units = run.read_units()
    else:
        transcripts = [each.text for each in corpora['train'].recordings]
        if config.strings.most > 1:
            transcripts = [*transcripts, ' '.join(transcripts[:2])]  # with the space between words
        units = Units.learn(transcripts, config.tokenizer, config.model.vocab_size) if start is None else start.units
        audit(corpora, config, units).announce(say)
    units.check_fits(config.model.vocab_size)
    train = examples_of(corpora['train'], config, units, seed=config.seed, is_training=True)
    validation = None
    if 'validation' in corpora:
        # Always the same strings, whatever the seed of the training.
        validation = examples_of(corpora['validation'], config, units, seed=0)
    return Prepared(units, train, validation, most_labels(corpora['train'], config, units))


def keep(run: Run, config: Config, prepared: Prepared) -> None:
    seal_data(run, config.data, say=say)
    if not run.is_prepared():
        run.write_units(prepared.units)


def examples_of(corpus: Corpus, config: Config, units: Units, *, seed: int, is_training: bool = False) -> Examples:
    """The usable recordings of a corpus, by themselves or in strings. Raises UserError if there are none."""
    examples = corpus.chosen(usable(corpus, config, units))
    if not examples.count:
        raise UserError(
            f'{corpus.name} has no recording with a transcript that fits data.max_seconds={config.data.max_seconds:g}'
        )
    if not config.strings.most:
        return examples
    return Strings(
        examples,
        config.strings,
        rate=config.features.sample_rate,
        most_samples=config.most_samples,
        seed=seed,
        is_training=is_training,
    )


def most_labels(corpus: Corpus, config: Config, units: Units) -> int:
    """At least the labels of any example."""
    longest = max(len(units.encode(corpus.recordings[i].text)) for i in usable(corpus, config, units))
    clips = max(config.strings.most, 1)
    return max(clips * longest + clips - 1, 1)  # with a space between two
