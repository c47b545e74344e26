"""Search over a step function, in small pieces that know no model.

A step function takes the last token of N = B * W hypotheses and a `DecodeState`, and returns float32 logits [N, V] of
the next one and the next state. Searches take a step, its first state and a `SearchProblem`:

    problem = SearchProblem(start, max_lengths, length, eos_id, pad_id, transforms, scorer)
    hypotheses = beam_search(step, state, problem, width=4)

Transforms change the log-probabilities of the next token; the scorer ranks hypotheses.

Shapes: B sentences, W beams or samples, N = B * W, V vocabulary, L output slots, S source slots. Lengths are in tokens
and include EOS.
"""
