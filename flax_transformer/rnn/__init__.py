"""The attention RNN of Bahdanau et al. 2015, and recurrent layers. Imports jax, flax, ops and common only.

Shapes: B rows, S source and T target positions, D d_model or inputs, H hidden size, G gates, 4 of an LSTM and 3 of a
GRU, A attention size, C context (2 H), V vocabulary, W hypotheses, N = B * W.
"""
