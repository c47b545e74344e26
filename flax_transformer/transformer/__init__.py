"""The Transformer of "Attention Is All You Need", section 3: it imports jax, flax and common, nothing else."""
