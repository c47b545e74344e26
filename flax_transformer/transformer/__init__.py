"""The Transformer of "Attention Is All You Need", section 3. Imports jax, flax, ops and common only."""
