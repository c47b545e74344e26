"""Ids of parallel text: flat arrays with offsets, blank and over-long pairs left out and counted."""

from hypothesis import given, settings
from hypothesis import strategies as st

from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.bitext.tokenized import tokenize
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

LINES = ['one two three four five six', 'eins zwei drei vier'] * 5
TOKENIZER = SentencePieceTokenizer.train(LINES, vocab_size=280)
TAGGED = SentencePieceTokenizer.train(LINES, vocab_size=285, languages=['de', 'fr'])


texts = st.text(st.sampled_from('one two drei \t\u2028é'), max_size=25)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(texts, texts), max_size=12),
    st.integers(3, 30),
    st.integers(3, 30),
    st.sampled_from([None, 'fr']),
)
def test_tokenize_is_its_definition(pairs, source_slots, target_slots, language):
    """Against one sentence at a time."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    tokenizer = TAGGED if language else TOKENIZER
    kept, blank, long = [], 0, 0
    for source, target in pairs:
        ids = tokenizer.encode([source], target_language=language)[0], tokenizer.encode([target])[0]
        if not source.strip() or not target.strip():
            blank += 1
        elif len(ids[0]) > source_slots or len(ids[1]) > target_slots:
            long += 1
        else:
            kept.append(ids)
    got = tokenize(Pairs(sources, targets), tokenizer, source_slots, target_slots, target_language=language)
    assert (len(got), got.num_blank, got.num_too_long) == (len(kept), blank, long)
    assert got.source.lengths.tolist() == [len(source) for source, _ in kept]
    for i, (source, target) in enumerate(kept):
        assert got.source.sentence(i).tolist() == source
        assert got.target.sentence(i).tolist() == target
