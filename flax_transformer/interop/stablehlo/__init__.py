"""Translators as programs that JAX alone can run."""
