"""What length costs an attention RNN and a Transformer of equal size: `python benchmarks/lengths.py [FILE.png]`.

Two models of about as many parameters, with random weights. For sentences of 16 to 512 tokens: milliseconds of a
training step on 4,096 slots of the target in rows of one sentence, and milliseconds to translate one sentence greedily
into as many tokens. The models take turns; medians over the rounds. One line of JSON, and with matplotlib the picture.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from measuring import draw, seconds_in_turn
from workload import training_step

from flax_transformer.config import (
    Config,
    DataConfig,
    DecodingConfig,
    OptimizerConfig,
    RecurrentConfig,
    TrainingConfig,
    TransformerConfig,
)
from flax_transformer.engine.task import count_parameters
from flax_transformer.tasks.api import make_trainer
from flax_transformer.tasks.translation.inference.ids import SpecialIds, translate_ids
from flax_transformer.tasks.translation.model import make_model

VOCAB, SLOTS = 8_000, 4096
MODELS = {
    'Transformer': TransformerConfig(
        vocab_size=VOCAB, d_model=256, num_heads=4, d_ff=1024, num_encoder_layers=3, num_decoder_layers=3
    ),
    'attention RNN': RecurrentConfig(vocab_size=VOCAB, d_model=256, hidden_size=384, dropout_rate=0.1),
}


def trainer_of(model: Any, length: int) -> tuple[Callable[[], None], int]:
    """A function that makes one step on rows of one sentence of `length` tokens, and the number of parameters."""
    trainer = make_trainer(
        Config(
            model=model,
            data=DataConfig(source_length=length, target_length=length),
            optimizer=OptimizerConfig(schedule='constant', learning_rate=1e-4, warmup_steps=0),
            training=TrainingConfig(tokens_per_step=max(SLOTS // length, 1) * length),
        )
    )
    return training_step(trainer, VOCAB, length), count_parameters(trainer.shapes.params)


def translation_of(config: Any, length: int) -> Callable[[], None]:
    """A function that translates one sentence of `length` tokens greedily into as many."""
    model = make_model(config)
    params = jax.jit(model.init)(jax.random.key(0), *[np.ones((1, 1), np.int32)] * 2)['params']
    decoding = DecodingConfig(beam_width=1, max_tokens=length, min_tokens=length)
    translate = jax.jit(
        lambda params, source: (
            translate_ids(
                params, source, models=[model], special_ids=SpecialIds(pad_id=0, eos_id=1), decoding=decoding
            ).tokens
        )
    )
    source = np.random.default_rng(0).integers(4, VOCAB, (1, length)).astype(np.int32)

    def sentence() -> None:
        jax.block_until_ready(translate(params, source))

    return sentence


def medians(functions: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Returns the median milliseconds of each."""
    return {name: round(1000 * statistics.median(of), 2) for name, of in seconds_in_turn(functions, rounds).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file', nargs='?')
    parser.add_argument('--lengths', type=int, nargs='+', default=[16, 32, 64, 128, 256, 512])
    parser.add_argument('--rounds', type=int, default=7)
    options = parser.parse_args()
    record: dict[str, Any] = {'benchmark': 'lengths', 'rounds': options.rounds, 'step_ms': {}, 'sentence_ms': {}}
    for length in options.lengths:
        steps = {name: trainer_of(model, length) for name, model in MODELS.items()}
        record['parameters'] = {name: parameters for name, (_, parameters) in steps.items()}
        record['step_ms'][length] = medians({name: step for name, (step, _) in steps.items()}, options.rounds)
        sentences = {name: translation_of(model, length) for name, model in MODELS.items()}
        record['sentence_ms'][length] = medians(sentences, options.rounds)
    print(json.dumps(record))
    if options.file:
        titles = {'step_ms': f'a training step on {SLOTS:,} slots', 'sentence_ms': 'translating one sentence, greedily'}
        panels = []
        for name, title in titles.items():
            curves = {model: {n: of[model] for n, of in record[name].items()} for model in MODELS}
            panels.append(({'title': title, 'xlabel': 'tokens of a sentence', 'ylabel': 'ms'}, curves))
        draw(options.file, panels)


if __name__ == '__main__':
    main()
