"""Parallel text: a corpus by name, its ids in a cache, a plan of packed rows, and the batches that Grain reads."""
