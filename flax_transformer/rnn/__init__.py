"""The attention RNN of Bahdanau et al. 2015, and recurrent layers. Imports jax, flax, ops and common only."""
