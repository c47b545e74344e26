"""Trigger word: a stream of sound in, the times at which a word was said out."""
