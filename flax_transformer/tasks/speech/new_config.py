"""A config for recordings with transcripts: that of spoken_digits, with sizes for how much there is to hear."""

from collections import Counter
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import say
from flax_transformer.data.audio.manifest import read_manifest
from flax_transformer.tasks.new_config import Candidate, DataOptions, Proposal, between, recording_fields

LEAST = 10  # recordings
FEW_WORDS, OFTEN = 50, 5  # so few words, each so often, are units; else characters
STRING = 7  # recordings of one word in an utterance of training, at most
FEW, MANY = 180, 1200  # seconds: two words, and the ten digits of spoken_digits
NewOptions = DataOptions


def propose(file: Path, options: NewOptions) -> Proposal:
    """The candidate for recordings; holds out some if no others are given. Raises UserError."""
    found = read_manifest(options.data, Path('.'), say=say)
    words = Counter(word for each in found for word in each.text.lower().split())
    if len(found) < LEAST or not words:
        raise UserError(
            f'{options.data}: got {len(found):,} recordings with {len(words):,} different words, expected at least '
            f'{LEAST} recordings with what is said in them'
        )
    data, held_out = recording_fields(file, options, found)
    seconds, longest = sum(each.seconds for each in found), max(each.seconds for each in found)
    has_few_words = len(words) <= FEW_WORDS and words.total() >= OFTEN * len(words)
    is_one_word = all(len(each.text.split()) == 1 for each in found)
    mean = seconds / len(found) * (STRING / 2 if is_one_word else 1)  # an utterance is a string or a recording
    hidden, batch = (
        round(between(mean * len(found), (FEW, few), (MANY, many)) / unit) * unit
        for few, many, unit in ((48, 144, 16), (8, 32, 8))
    )
    is_small = hidden < 96
    most_seconds = round(max(longest * 1.05, 2 * mean + STRING / 5 if is_one_word else 0) + 0.05, 1)
    fields = data | {
        'features.num_mels': 40 if data['features.sample_rate'] > 8_000 else 23,
        'model.vocab_size': len(words) + 1 if has_few_words else len(set(' '.join(words))) + 2,
        'model.channels': (8, 16, 32) if is_small else (16, 32, 64),
        'model.d_model': hidden,
        'model.hidden_size': hidden,
        'model.num_layers': 1 if is_small else 2,
        'tokenizer.algorithm': 'words' if has_few_words else 'characters',
        'data.max_seconds': most_seconds,
        'data.num_lengths': 2 if is_small else 4,
        'strings.most': STRING if is_one_word else 0,
        'strings.validation': 50,
        'training.batch_size': batch,
        'training.best_by': 'loss',
    }
    facts = [f'{options.data}: {len(found):,} recordings of speech, {seconds / 60:.1f} minutes{held_out}']
    facts += [f'  {words.total():,} words, {len(words):,} different']
    steps = round(between(mean * len(found), (FEW, 16), (MANY, 32))) * 100
    work = min(1.0, mean / most_seconds + 0.2)  # the longest utterances are measured
    candidate = Candidate.like('spoken_digits', fields, steps, batch / len(found), work=work)
    return facts, [candidate]
