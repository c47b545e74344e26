"""Recordings, and the manifests that list them."""
