"""Embeddings: words as vectors."""
