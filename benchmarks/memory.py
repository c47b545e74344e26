"""The temporary memory of a training step, as XLA plans it, with the loss in chunks or not, remat or not, in passes.

    python benchmarks/memory.py [--vocabulary 32000] [--tokens 25600] [--topology v5p:2x2x1]

The paper's base model, for this CPU in float32, or with `--topology` for TPU chips in bfloat16, which need not be here
(libtpu must be installed; so many tokens are then each chip's). Nothing is run, only compiled. Prints one line of JSON
for each of the six: bytes of temporary memory of a device at its peak (activations, logits, gradients; not parameters
and moments), and the share of what the step takes with neither.

On the CPU XLA is told to order operations by memory: by default it orders them to run side by side, and computes again
at once what remat would have it compute late.
"""

import argparse
import json
import os
from dataclasses import replace

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ.setdefault('TPU_SKIP_MDS_QUERY', '1')
os.environ.setdefault('XLA_FLAGS', '--xla_cpu_enable_concurrency_optimized_scheduler=false')

import jax
from jax.experimental import topologies

from flax_transformer.config import Config, ParallelConfig, TrainingConfig, TransformerConfig
from flax_transformer.tasks.find import make_trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--vocabulary', type=int, default=32_000)
    parser.add_argument('--tokens', type=int, default=25_600)
    parser.add_argument('--topology', default='')
    options = parser.parse_args()
    devices = jax.devices()[:1]
    if options.topology:
        devices = topologies.get_topology_desc(platform='tpu', topology_name=options.topology).devices
    config = Config(
        model=TransformerConfig(vocab_size=options.vocabulary),
        training=TrainingConfig(tokens_per_step=options.tokens * len(devices)),
    )
    reference = None
    cases = [(in_chunks, remat, 1) for in_chunks in (False, True) for remat in ('none', 'layers')]
    for in_chunks, remat, passes in [*cases, (True, 'layers', 2), (True, 'none', 4)]:
        chunk, limit = 0 if in_chunks else options.tokens, options.tokens // passes
        parallel = ParallelConfig('mesh', remat=remat, loss_chunk=chunk, max_tokens_per_device=limit)
        trainer = make_trainer(replace(config, parallel=parallel), devices)
        temporary = trainer.lower().compile().memory_analysis().temp_size_in_bytes
        reference = reference or temporary
        share = round(temporary / reference, 3)
        result = {'loss in chunks': in_chunks, 'remat': remat, 'passes': passes, 'bytes': temporary, 'share': share}
        print(json.dumps(result), flush=True)


if __name__ == '__main__':
    main()
