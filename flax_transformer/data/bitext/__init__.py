"""Parallel text: a corpus by name, its ids in a cache, the plan, packed batches that Grain reads."""
