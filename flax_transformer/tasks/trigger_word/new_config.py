"""A config of a trigger word for recordings of it, of other words, and of background."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.engine.config import OptimizerConfig
from flax_transformer.tasks.new_config import Candidate, DataOptions, Proposal, from_folder, loop_fields
from flax_transformer.tasks.new_recordings import features_for, parts, read_recordings
from flax_transformer.tasks.trigger_word.config import (
    TriggerWordConfig,
    TriggerWordDataConfig,
    TriggerWordTrainingConfig,
)

LEAST = 10  # recordings of the word, and of others
STEPS = 2000  # those of the shipped trigger_word
PER_STEP = 16 * 2  # times that a step hears the word, about: in 16 scenes


@dataclass(frozen=True)
class NewOptions(DataOptions):
    word: str = ''  # what the recordings to find are called: their text, or the name of their folder


def propose(file: Path, options: NewOptions) -> Proposal:
    """The candidate for recordings, each of one word; holds out some if no others are given. Raises UserError."""
    utterances = read_recordings(options)
    counts = Counter(each.text for each in utterances)
    own, others = counts[options.word], len(utterances) - counts[options.word]
    if min(own, others) < LEAST:
        shown = ', '.join(f'{text} ({count:,})' for text, count in counts.most_common(10))
        hint = nearest(options.word, list(counts))
        raise UserError(
            f'{options.data}: got {own:,} recordings of --word {options.word!r} and {others:,} others, expected at '
            f'least {LEAST} of each, better a hundred; there are {shown}.{hint}'
        )
    train, validation, held_out = parts(file, options, utterances, [each.text for each in utterances])
    root = file.absolute().parent

    def config_of(steps: int) -> TriggerWordConfig:
        return TriggerWordConfig(
            features=features_for(utterances),
            data=TriggerWordDataConfig(
                trigger=options.word,
                train=(train,),
                validation=(validation,),
                test=(from_folder(options.test, root),) if options.test else (),
                root=str(root),
            ),
            optimizer=OptimizerConfig(
                name='adamw',
                schedule='cosine',
                learning_rate=3e-3,
                warmup_steps=min(50, max(1, steps // 10)),
                beta2=0.999,
                epsilon=1e-8,
                weight_decay=1e-3,
                clip_norm=1.0,
            ),
            training=TriggerWordTrainingConfig(**loop_fields(steps)),
        )

    comments = {
        'data.trigger': 'the text of the recordings to find',
        'data.train_background': 'recordings of where it will listen, without the word, make fewer false alarms',
        'data.root': "the config's own folder: it can be moved",
        'optimizer': 'As the shipped trigger_word has it.',
    }
    facts = [f'{options.data}: {own:,} recordings of {options.word!r}, {others:,} others{held_out}']
    title = f'A word in a stream: {options.word!r}, in {own:,} recordings of {options.data}'
    return Proposal(title, facts, [Candidate(config_of, STEPS, PER_STEP / own)], comments)
