"""A config for recordings with transcripts: that of spoken_digits, with sizes for how much there is to hear."""

from collections import Counter
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import say
from flax_transformer.data.audio.manifest import read_manifest
from flax_transformer.engine.task_value import Command
from flax_transformer.tasks.new_config import Candidate, DataOptions, Proposal, between, recording_fields

LEAST = 10  # recordings
# Words are the units if there are so few of them, each so often; else characters.
FEW_WORDS = 50
OFTEN = 5
SLOW = 0.4  # seconds of a recording for each word from which a frame may last 80 ms, a fifth of that
STRING = 7  # recordings of one word in an utterance of training, at most
FEW, MANY = 180, 1200  # seconds: two words, and the ten digits of spoken_digits


def propose(file: Path, options: DataOptions) -> Proposal:
    recordings = read_manifest(options.data, Path('.'), say=say)
    words = Counter(word for recording in recordings for word in recording.text.lower().split())
    if len(recordings) < LEAST or not words:
        raise UserError(
            f'{options.data}: got {len(recordings):,} recordings with {len(words):,} different words, expected at '
            f'least {LEAST} recordings with what is said in them'
        )

    data, held_out = recording_fields(file, options, recordings)
    seconds = sum(recording.seconds for recording in recordings)
    has_few_words = len(words) <= FEW_WORDS and words.total() >= OFTEN * len(words)
    is_one_word = all(len(recording.text.split()) == 1 for recording in recordings)

    mean = seconds / len(recordings)
    most_seconds = 1.05 * max(recording.seconds for recording in recordings)
    if is_one_word:  # an utterance is a string of recordings
        mean *= STRING / 2
        most_seconds = max(most_seconds, 2 * mean + STRING / 5)
    most_seconds = round(most_seconds + 0.05, 1)

    def size(few: int, many: int, unit: int) -> int:
        return round(between(mean * len(recordings), (FEW, few), (MANY, many)) / unit) * unit

    hidden = size(48, 144, 16)
    batch = size(8, 32, 8)
    steps = size(1600, 3200, 100)
    is_small = hidden < 96
    num_lengths = 2 if is_small else 4
    if is_small and not is_one_word:  # recordings are about as long, and compiling takes longer than padding
        num_lengths = 1
    # A word of fewer frames leaves fewer of them blank: half of the steps are enough.
    has_long_frames = has_few_words and not is_one_word and seconds >= SLOW * words.total()
    if has_long_frames:
        steps //= 2
    fields = data | {
        'features.num_mels': 40 if data['features.sample_rate'] > 8_000 else 23,
        'model.vocab_size': len(words) + 1 if has_few_words else len(set(' '.join(words))) + 2,
        'model.channels': (8, 16, 32) if is_small else (16, 32, 64),
        'model.strides': (2, 2, 2 if has_long_frames else 1),
        'model.d_model': hidden,
        'model.hidden_size': hidden,
        'model.num_layers': 1 if is_small else 2,
        'tokenizer.algorithm': 'words' if has_few_words else 'characters',
        'data.max_seconds': most_seconds,
        'data.num_lengths': num_lengths,
        'optimizer.learning_rate': 6e-3 if has_long_frames and is_small else 2e-3,
        'strings.most': STRING if is_one_word else 0,
        'strings.validation': 50,
        'training.batch_size': batch,
        'training.best_by': 'loss',
    }
    facts = [
        f'{options.data}: {len(recordings):,} recordings of speech, {seconds / 60:.1f} minutes{held_out}',
        f'  {words.total():,} words, {len(words):,} different',
    ]
    work = min(1.0, mean / most_seconds + 0.2)  # the longest utterances are measured
    return facts, [Candidate.like('spoken_digits', fields, steps, batch / len(recordings), work=work)]


PROPOSE = Command(DataOptions, propose)
