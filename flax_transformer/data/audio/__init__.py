"""Recordings: files in several formats, raw streams, archives, and the manifests that list them."""
