"""A config of a fitting size for recordings with transcripts, by how much there is to hear."""

from collections import Counter
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.engine.config import OptimizerConfig
from flax_transformer.tasks.new_config import Candidate, DataOptions, Proposal, between, from_folder, loop_fields
from flax_transformer.tasks.new_recordings import features_for, parts, read_recordings
from flax_transformer.tasks.speech.config import (
    PerturbationConfig,
    SpeechConfig,
    SpeechDataConfig,
    SpeechModelConfig,
    SpeechTrainingConfig,
    StringsConfig,
    UnitConfig,
)

LEAST = 10  # recordings
FEW_WORDS, OFTEN = 50, 5  # so few words, each so often, are units; else characters
STRING = 7  # recordings of one word in an utterance of training, at most
FEW, MANY = 180, 1200  # seconds: two words, and the ten digits of spoken_digits


class NewOptions(DataOptions):
    """Those of any task."""


def propose(file: Path, options: NewOptions) -> Proposal:
    """The candidate for recordings; holds out some if no others are given. Raises UserError."""
    utterances = read_recordings(options)
    words = Counter(word for each in utterances for word in each.text.lower().split())
    if len(utterances) < LEAST or not words:
        raise UserError(
            f'{options.data}: got {len(utterances):,} recordings with {len(words):,} different words, expected at '
            f'least {LEAST} recordings with what is said in them'
        )
    train, validation, held_out = parts(file, options, utterances, [each.text for each in utterances])
    root, seconds = file.absolute().parent, sum(each.seconds for each in utterances)
    has_few_words = len(words) <= FEW_WORDS and words.total() >= OFTEN * len(words)
    is_one_word = all(len(each.text.split()) == 1 for each in utterances)
    longest, mean = max(each.seconds for each in utterances), seconds / len(utterances)
    heard = seconds * (STRING / 2 if is_one_word else 1)  # strings make more of them
    hidden = int(between(heard, (FEW, 48), (MANY, 144))) // 16 * 16
    batch = int(between(heard, (FEW, 8), (MANY, 32))) // 8 * 8
    is_small = hidden < 96
    most_seconds = round(max(longest * 1.05, STRING * (mean + 0.2) if is_one_word else 0) + 0.05, 1)
    work = min(1.0, mean * (STRING / 2 if is_one_word else 1) / most_seconds + 0.2)  # the longest is measured

    def config_of(steps: int) -> SpeechConfig:
        return SpeechConfig(
            model=SpeechModelConfig(
                encoder='recurrent',
                vocab_size=len(words) + 1 if has_few_words else len(set(' '.join(words))) + 2,
                strides=(2, 2, 1),
                channels=(8, 16, 32) if is_small else (16, 32, 64),
                d_model=hidden,
                hidden_size=hidden,
                num_layers=1 if is_small else 2,
            ),
            features=features_for(utterances),
            tokenizer=UnitConfig(algorithm='words' if has_few_words else 'characters'),
            data=SpeechDataConfig(
                train=train,
                validation=validation,
                test=from_folder(options.test, root),
                root=str(root),
                max_seconds=most_seconds,
                num_lengths=2 if is_small else 4,
            ),
            strings=StringsConfig(most=STRING if is_one_word else 0, validation=50),
            perturbation=PerturbationConfig(
                speed=1.25, vocal_tract=1.2, color_db=6.0, lowest_snr_db=10.0, most_bands=5
            ),
            optimizer=OptimizerConfig(
                name='adamw',
                schedule='cosine',
                learning_rate=2e-3,
                warmup_steps=min(100, max(1, steps // 10)),
                weight_decay=1e-3,
                clip_norm=1.0,
            ),
            training=SpeechTrainingConfig(**loop_fields(steps), batch_size=batch, best_by='loss'),
        )

    comments = {
        'model': f'{heard / 60:.0f} minutes to hear{", in strings" * is_one_word}; spoken_digits, the largest that was '
        'measured, has 144 units',
        'model.vocab_size': 'units, and the blank',
        'tokenizer.algorithm': 'few words, each said often' if has_few_words else 'more words than could be units',
        'data.root': "the config's own folder: it can be moved",
        'strings.most': 'recordings of one word become strings of words',
        'perturbation': 'Each utterance is changed at random, so that a model learns from few speakers.',
        'training.batch_size': 'small batches for few recordings',
        'training.best_by': 'the error rate of few held-out recordings is 0 too soon',
    }
    facts = [f'{options.data}: {len(utterances):,} recordings, {seconds / 60:.1f} minutes{held_out}']
    facts += [f'  {words.total():,} words, {len(words):,} different']
    title = f'Speech to text: {len(utterances):,} recordings of {options.data}'
    steps = int(between(heard, (FEW, 1600), (MANY, 3200)))
    return Proposal(title, facts, [Candidate(config_of, steps, batch / len(utterances), work=work)], comments)
