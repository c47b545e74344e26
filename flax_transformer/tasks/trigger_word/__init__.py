"""Trigger word: the times at which a word is said in a stream of sound."""
