"""Corpora that can be downloaded."""
