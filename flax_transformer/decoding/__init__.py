"""Search over a step function: small pieces that are put together, and know no model.

A step function takes the last token of N = B * W hypotheses and a `DecodeState`, and returns
float32 logits [N, V] for the next one, and the state after it:

    logits, state = step(tokens, state)

Searches (`greedy_search`, `beam_search`, `sample_search`) take transforms, which change the log-probabilities of the
next token, and a scorer, which says what a hypothesis is worth.

Shapes: B sentences, W beams or samples, N = B * W, V vocabulary, L output slots, S source slots. Lengths are tokens and
count EOS.
"""
