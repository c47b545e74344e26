"""Real target tokens a second in training: `python benchmarks/train.py [--size tiny|base] [--peers PYTHON]`.

With an interpreter that has torch and transformers, PyTorch's steps are timed in turn with ours, on the same sentences:
theirs in batches padded to buckets of length, ours packed. Medians over the rounds; each ratio is a round's to the best
peer's, with its least and greatest. One line of JSON.

On CPUs `ours_bfloat16` and `plain_bfloat16` compute in bfloat16 (PyTorch by autocast), the others in float32.

On an accelerator, in bfloat16, with the part of its peak that the model's FLOPs make up (MFU):

    python benchmarks/train.py --size wmt_big --peers PYTHON --systems compiled --attention cudnn --attention-dropout 0
"""

import argparse
import json
import statistics
import sys
import time
from functools import partial

from measuring import Worker, missing
from workload import PAD, SIZES, UNK, Pair, Size, our_config, padded_batches

OURS = ('ours', 'ours_bfloat16')
SYSTEMS = ('plain', 'plain_bfloat16', 'marian', 'compiled')  # torch_trainers has them


def ours(size: Size, batches: list[list[Pair]], attention_dropout: float, attention: str, dtype: str):
    """Trains on all pairs once, in packed rows of 64 or 128 slots: the function, its FLOPs, the device and its peak."""
    import jax
    import numpy as np

    from flax_transformer.config import (
        Config,
        DataConfig,
        OptimizerConfig,
        TokenizerConfig,
        TrainingConfig,
    )
    from flax_transformer.cost.chips import peak_flops
    from flax_transformer.data.bitext.batches import validation_batches
    from flax_transformer.data.bitext.tokenized import TokenizedPairs, flatten
    from flax_transformer.tasks.api import make_trainer
    from flax_transformer.transformer.model import resolve_dtype

    slots = 64 if size.longest <= 40 else 128
    pairs = [pair for batch in batches for pair in batch]
    sides = (flatten([np.asarray(pair[side]) for pair in pairs]) for side in (0, 1))
    pack = partial(validation_batches, [TokenizedPairs(*sides)], source_slots=slots, target_slots=slots, pad_id=PAD)
    # A stream of sentences has no end, and so no batch that is half empty: nor have these.
    rows = sum(1 for _ in pack(num_rows=1))
    num_rows = -(-rows // max(1, round(rows * slots / size.tokens_per_batch)))
    dropout = {'dropout_rate': 0.1, 'activation_dropout_rate': 0.1, 'attention_dropout_rate': attention_dropout}
    config = Config(
        model=our_config(size, attention_bias=True, attention=attention, dtype=dtype, **dropout),
        tokenizer=TokenizerConfig(unk_id=UNK),
        data=DataConfig(source_length=slots, target_length=slots),
        optimizer=OptimizerConfig(schedule='constant', learning_rate=1e-4, warmup_steps=0),
        training=TrainingConfig(tokens_per_step=num_rows * slots),
    )
    trainer = make_trainer(config)
    state = trainer.init_state()
    packed = list(pack(num_rows=num_rows))

    def steps() -> float:
        nonlocal state
        for batch in packed:
            state, metrics = trainer.step(state, batch)
        jax.block_until_ready(state)
        return float(metrics['loss'] / metrics['target_tokens'])

    device = jax.devices()[0]
    peak = peak_flops(device.device_kind, resolve_dtype(config.model).dtype)
    return steps, trainer.task.flops_per_step * len(packed), device, peak


def serve(system: str, size: Size, options: argparse.Namespace) -> None:
    """Trains on every line of standard input, and answers with the seconds that it took."""
    batches, dropout = padded_batches(size, options.batches), options.attention_dropout
    peak = None
    if system in OURS:
        dtype = system.removeprefix('ours').strip('_') or 'auto'
        steps, flops, device, peak = ours(size, batches, dropout, options.attention, dtype)
    else:
        import torch_trainers

        steps = getattr(torch_trainers, system)(size, batches, dropout)
    first = steps()
    for _ in sys.stdin:
        steps()  # who has waited for the others begins with cold caches, and perhaps without its memory
        began = time.perf_counter()
        loss = steps()
        seconds = time.perf_counter() - began
        answer = {'seconds': seconds, 'first_loss': first, 'loss': loss}
        if peak:
            gb = device.memory_stats()['peak_bytes_in_use'] / 1e9
            answer |= {'mfu': flops / seconds / peak, 'peak_gb': round(gb, 2)}
        print(json.dumps(answer), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--size', choices=SIZES, default='tiny')
    parser.add_argument('--peers', help='an interpreter with torch and transformers')
    parser.add_argument('--systems', default='ours,plain,marian', help=f'some of {", ".join((*OURS, *SYSTEMS))}')
    parser.add_argument('--attention', choices=('plain', 'cudnn'), default='plain', help='ours')
    parser.add_argument('--attention-dropout', type=float, default=0.1)
    parser.add_argument('--batches', type=int, default=3, help='padded batches of one round')
    parser.add_argument('--slots', type=int, help="of a batch; None: the size's")
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--serve', choices=(*OURS, *SYSTEMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    size = SIZES[options.size]
    size = size._replace(tokens_per_batch=options.slots or size.tokens_per_batch)
    if options.serve:
        return serve(options.serve, size, options)

    tokens = sum(len(pair.target) for batch in padded_batches(size, options.batches) for pair in batch)
    arguments = ['--size', options.size, '--batches', str(options.batches), '--attention', options.attention]
    arguments += ['--attention-dropout', str(options.attention_dropout), '--slots', str(size.tokens_per_batch)]
    lacking = missing(options.peers, 'torch', 'transformers') if options.peers else 'no --peers'
    systems = options.systems.split(',')
    peers = [] if lacking else [system for system in systems if system not in OURS]
    own = [system for system in systems if system in OURS] or ['ours']
    workers = {}
    for system in (*own, *peers):
        python = sys.executable if system in OURS else options.peers
        # The Makefile sets it so.
        environment = {'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=1'}
        workers[system] = Worker(python, __file__, '--serve', system, *arguments, **environment)
    times: dict[str, list[float]] = {system: [] for system in workers}
    losses, with_mfu = {}, []
    for number in range(options.rounds + 1):
        for system, worker in workers.items():
            answer = worker.ask()
            if number:  # the first is to warm up
                times[system].append(answer['seconds'])
                with_mfu += [answer] if 'mfu' in answer else []
            losses[system] = [round(answer['first_loss'], 3), round(answer['loss'], 3)]
    for worker in workers.values():
        worker.close()
    record = {'benchmark': 'train', 'size': options.size, 'target_tokens': tokens, 'rounds': options.rounds}
    record['skipped'] = {system: lacking for system in systems if system not in workers}
    record['tokens_per_second'] = {name: round(tokens / statistics.median(of)) for name, of in times.items()}
    record['losses'] = losses
    if with_mfu:
        record['mfu'] = round(statistics.median(answer['mfu'] for answer in with_mfu), 3)
        record['peak_gb'] = with_mfu[-1]['peak_gb']
    if peers:
        best = [min(times[peer][number] for peer in peers) for number in range(options.rounds)]
        record['ratios_to_best_peer'] = {name: spread(best, times[name]) for name in own}
    print(json.dumps(record))


def spread(theirs: list[float], ours: list[float]) -> list[float]:
    """Returns the least, median and largest ratio of the rounds."""
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    return [round(f(ratios), 2) for f in (min, statistics.median, max)]


if __name__ == '__main__':
    main()
