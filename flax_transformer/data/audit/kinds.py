"""Every kind of fault that a corpus is checked for: how grave it is, and what can be done about it."""

from typing import Literal, NamedTuple

Severity = Literal['error', 'warning', 'note']


class Kind(NamedTuple):
    """A row of the table."""

    name: str
    gravity: Literal['error', 'share', 'warning', 'note']  # share: a warning from the field's share on, below it a note
    rejected: bool  # `flax-transformer clean` leaves such pairs out
    what: str  # is counted
    training: str  # what training does with it
    remedy: str


# An error is certain damage, or makes the score of the test set meaningless: training does not begin. What a corpus may
# well contain on purpose is a warning from a share on that is a field of CheckConfig with the kind's name.
KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            'empty',
            'error',
            False,
            'a corpus without any sentence pair',
            'stops',
            'name the right file',
        ),
        Kind(
            'missing_side',
            'error',
            True,
            'lines of one side that have no line on the other: files of unequal length, a table without that column',
            'stops',
            'align the files anew, or find where a line was lost',
        ),
        Kind(
            'invalid_utf8',
            'error',
            True,
            'lines with bytes that are not UTF-8',
            'stops',
            'convert the file: `iconv -f LATIN1 -t UTF-8`',
        ),
        Kind(
            'shifted',
            'error',
            True,
            'lines in a stretch whose sources fit the targets one line before or behind',
            'would learn from pairs that are no translations',
            'mend the line that is lost or too many where the stretch begins',
        ),
        Kind(
            'swapped_corpus',
            'error',
            False,
            'a corpus whose source side is in the target language, and the other way round',
            'would learn to translate in the wrong direction',
            'exchange data.source_language and target_language, or the two paths',
        ),
        Kind(
            'other_language',
            'warning',
            False,
            'a side that is mostly in another language than the config says',
            'trains on it as it is',
            'name the right file, or the right language',
        ),
        Kind(
            'swapped_pair',
            'share',
            True,
            'pairs with the source in the target language and the target in the source language',
            'trains on them as they are',
            'clean the corpus',
        ),
        Kind(
            'wrong_language',
            'share',
            True,
            'pairs with a side in another language, or another script, than the rest of its side',
            'trains on them as they are',
            'clean the corpus',
        ),
        Kind(
            'copy',
            'share',
            True,
            'pairs whose target is the source itself',
            'trains on them as they are; from some per cent on translations become copies',
            'clean the corpus',
        ),
        Kind(
            'blank',
            'share',
            True,
            'pairs with a side of nothing but spaces',
            'leaves them out',
            'clean the corpus; in a test set they are scored all the same',
        ),
        Kind(
            'too_long',
            'share',
            True,
            'pairs with more tokens on a side than a row has slots (without a tokenizer: more words)',
            'leaves them out',
            'raise data.source_length and target_length, or split the lines',
        ),
        Kind(
            'length_ratio',
            'share',
            True,
            'pairs of which one side is check.max_length_ratio times longer than usual beside the other, in characters',
            'trains on them as they are',
            'clean the corpus',
        ),
        Kind(
            'numbers',
            'share',
            False,
            'pairs whose digits differ, small numbers and round ones aside, which may be written in words',
            'trains on them as they are',
            'look at the examples; dates, times and units may differ rightly',
        ),
        Kind(
            'control',
            'share',
            True,
            'lines with control characters, zero-width characters or those of private use',
            'trains on them as they are; each takes a piece of the vocabulary, or several bytes',
            'clean the corpus, or set tokenizer.normalization to nmt_nfkc',
        ),
        Kind(
            'entity',
            'share',
            True,
            'lines with HTML entities or tags',
            'trains on them as they are, and translations will contain them',
            'unescape the text (html.unescape in Python), or clean the corpus',
        ),
        Kind(
            'mojibake',
            'share',
            True,
            'lines with UTF-8 that was once read as Latin-1 or Windows-1252, or with U+FFFD',
            'trains on them as they are',
            'convert the original anew, or clean the corpus',
        ),
        Kind(
            'normalization',
            'share',
            False,
            'lines in the rarer of two Unicode forms, composed (NFC) and decomposed (NFD), that one language mixes',
            'takes the two forms of a word for two words, and scores them as different',
            'convert all files to NFC, or set tokenizer.normalization to nfkc',
        ),
        Kind(
            'duplicate',
            'share',
            True,
            'pairs that an earlier pair repeats to the letter',
            'trains on each of them',
            'clean the corpus, unless they are meant as weights',
        ),
        Kind(
            'contradiction',
            'share',
            False,
            'further translations of a source that was translated otherwise before',
            'trains on each of them',
            'none where they are paraphrases; many for one source are a sign of misalignment',
        ),
        Kind(
            'leaked',
            'share',
            True,
            'validation or test pairs of which a side stands in the training data too (case and spaces aside)',
            'trains on them, and its scores are too good',
            'clean the training corpus, which leaves such pairs out of it',
        ),
        Kind(
            'test_is_training',
            'error',
            False,
            'a test set of which nine pairs of ten stand in the training data, both sides',
            'would report a score of what was learned by heart',
            'name another test set, or none',
        ),
        Kind(
            'validation_is_test',
            'share',
            False,
            'test pairs that stand in a validation set too',
            'chooses its best checkpoint by them, and the score of the test set is too good',
            'name another validation set',
        ),
        Kind(
            'few_pairs',
            'warning',
            False,
            'a training text of fewer than check.characters_per_piece characters for each piece of the vocabulary',
            'may fail to make so many pieces, and learns little of the rare ones',
            'lower model.vocab_size',
        ),
        Kind(
            'uncovered',
            'warning',
            False,
            'characters that the vocabulary will have no piece for; a note where bytes spell them',
            'reads and writes them as unk, without tokenizer.byte_fallback',
            'set tokenizer.byte_fallback, or raise tokenizer.character_coverage',
        ),
        Kind(
            'odd_spaces',
            'note',
            False,
            'lines with spaces at an edge, tabs, or spaces other than U+0020',
            'trains on them as they are; a translation then writes them too',
            'none needed',
        ),
        Kind(
            'changed',
            'error',
            False,
            'files that are not those that the run began with',
            'would go on with other text in another order',
            'bring back the files, or begin a new run',
        ),
    )
}
REJECTED = tuple(kind.name for kind in KINDS.values() if kind.rejected)
