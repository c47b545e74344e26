"""Layer, RMS, group, batch and instance norm on Multi30k at equal steps: validation loss, and CPU time of a step.

    python benchmarks/norms.py [--steps 4000] [--norms layer rms group batch instance] [--folder norms] [--rounds 5]

The model is Transformer-Tiny (Wu et al. 2021: d_model 128, d_ff 256, 4 heads, 4 + 4 layers, post-LN, dropout 0.3), the
text Multi30k, English to German, lower-cased and tokenized, 8,000 joint pieces. Layer, RMS and group norm are used in
both stacks; batch and instance norm in the encoder (`encoder_norms.py`), with layer norm in the decoder. All else is
equal: seed, batches, and a learning rate that rises to 0.002 in an eighth of the steps and then falls linearly.

Each norm is a run in the folder, so the same command goes on where it was stopped, and takes finished runs as they are.
Prints one line of JSON for each: the validation loss and perplexity after the last step, and the CPU time of a training
step relative to layer norm's, the median of rounds in which all take turns (`--rounds 0`: not measured).
"""

import argparse
import json
import os
import statistics
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

os.environ.setdefault('JAX_PLATFORMS', 'cpu')

import encoder_norms
from measuring import seconds_in_turn
from reproduce.transformer_tiny import get_config
from workload import training_step

from flax_transformer import train
from flax_transformer.config import Config, OptimizerConfig, TrainingConfig
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.tasks.api import make_trainer

NORMS = ('layer', 'rms', 'group', 'batch', 'instance')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--steps', type=int, default=4000)
    parser.add_argument('--norms', nargs='+', choices=NORMS, default=NORMS)
    parser.add_argument('--folder', type=Path, default=Path('norms'))
    parser.add_argument('--rounds', type=int, default=5)
    options = parser.parse_args()
    times = times_of_steps(options.norms, options.steps, options.rounds) if options.rounds else {}
    for norm in options.norms:
        run = train(config_of(norm, options.steps), options.folder / f'{norm}_{options.steps}')
        found = [each for each in read_metrics(run.path) if each['kind'] == 'validation'][-1]
        line = {'norm': norm, 'steps': found['step'], 'nll': found['nll'], 'perplexity': found['perplexity']}
        print(json.dumps(line | ({'time_of_step': times[norm]} if times else {})), flush=True)


def config_of(norm: str, steps: int) -> Config:
    tiny = get_config()
    if norm in encoder_norms.NORMS:
        config, decoder_norm = encoder_norms.Config(encoder_norm=norm), 'layer'
    else:
        config, decoder_norm = tiny, norm
    return replace(
        config,
        model=replace(tiny.model, vocab_size=8000, dropout_rate=0.3, norm=decoder_norm),
        data=tiny.data,
        decoding=tiny.decoding,
        optimizer=OptimizerConfig(schedule='linear', learning_rate=2e-3, warmup_steps=max(1, steps // 8)),
        training=TrainingConfig(
            steps=steps,
            tokens_per_step=1280,
            log_every=max(1, steps // 10),
            evaluate_every=max(1, steps // 4),
            checkpoint_every=max(1, steps // 4),
            sample_translations=0,
        ),
    )


def times_of_steps(norms: list[str], steps: int, rounds: int) -> dict[str, float]:
    """CPU time of a step relative to layer norm's, by norm: medians of rounds of five steps in turn."""
    kinds = {'layer': None, **dict.fromkeys(norms)}
    steps_of = {norm: training_step(make_trainer(config_of(norm, steps)), 8000, length=16) for norm in kinds}

    def five_steps(norm: str) -> None:
        for _ in range(5):
            steps_of[norm]()

    functions = {norm: partial(five_steps, norm) for norm in kinds}
    seconds = seconds_in_turn(functions, rounds, time.process_time)
    ratios = {norm: [a / b for a, b in zip(of, seconds['layer'], strict=True)] for norm, of in seconds.items()}
    return {norm: round(statistics.median(of), 3) for norm, of in ratios.items()}


if __name__ == '__main__':
    main()
