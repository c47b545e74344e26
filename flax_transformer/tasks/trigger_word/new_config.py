"""A config for a trigger word: that of trigger_word, for recordings of it and of other words."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from flax_transformer.common.errors import UserError, nearest
from flax_transformer.common.quiet import say
from flax_transformer.data.audio.manifest import read_manifest
from flax_transformer.engine.task_value import Command
from flax_transformer.tasks.new_config import Candidate, DataOptions, Proposal, recording_fields

LEAST = 10  # recordings of the word, and of others
# Those of trigger_word; in each step the word is heard some HEARD times.
STEPS = 2000
HEARD = 32


@dataclass(frozen=True)
class NewOptions(DataOptions):
    word: str = ''  # what the recordings to find are called: their text, or the name of their folder


def propose(file: Path, options: NewOptions) -> Proposal:
    recordings = read_manifest(options.data, Path('.'), say=say)
    counts = Counter(recording.text for recording in recordings)
    own = counts[options.word]
    others = counts.total() - own
    if min(own, others) < LEAST:
        shown = ', '.join(f'{text} ({count:,})' for text, count in counts.most_common(10))
        raise UserError(
            f'{options.data}: got {own:,} recordings of --word {options.word!r} and {others:,} others, expected at '
            f'least {LEAST} of each; there are {shown}.{nearest(options.word, list(counts))}'
        )
    data, held_out = recording_fields(file, options, recordings)
    for part in ('train', 'validation', 'test'):
        name = data[f'data.{part}']
        data |= {f'data.{part}': (name,) if name else (), f'data.{part}_background': ()}
    fields = data | {'data.trigger': options.word}
    fact = f'{options.data}: {own:,} recordings of {options.word!r}, {others:,} others{held_out}'
    return [fact], [Candidate.like('trigger_word', fields, STEPS, HEARD / own)]


PROPOSE = Command(NewOptions, propose)
