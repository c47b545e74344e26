"""Every kind of fault that a corpus is checked for: how serious it is, and what to do about it."""

from typing import Literal, NamedTuple

Severity = Literal['error', 'warning', 'note']


class Kind(NamedTuple):
    """A row of the table."""

    name: str
    gravity: Literal['error', 'share', 'warning', 'note']  # share: a warning from a fraction in CheckConfig on
    what: str  # what is counted
    training: str = 'trains on them as they are'  # what training does about it
    remedy: str = 'clean the corpus'
    share: float = 0.0  # gravity 'share': the fraction, where no CheckConfig says it

    def severity(self, count: int, total: int) -> Severity:
        """How serious it is if `count` of a corpus of `total` show it."""
        if self.gravity != 'share':
            return self.gravity
        return 'warning' if count >= self.share * total else 'note'


QUOTED = (
    'quoted',
    'share',
    'rows of a table with all cells in double quotes, or a cell with quotes of its own doubled, as CSV has them',
    'takes the quotes for part of the text',
    'write the table again with csv.QUOTE_NONE of Python',
    0.01,
)
OF_LINES = (  # kinds that every task checks
    (
        'control',
        'share',
        'lines with control, zero-width or private-use characters',
        'trains on them as they are; a word with one is another word',
        'delete the characters, or, for translation, set tokenizer.normalization to nmt_nfkc',
        0.001,
    ),
    (
        'entity',
        'share',
        'lines with HTML entities or tags',
        'trains on them as they are; a tag next to a word makes it another word',
        'unescape the text (html.unescape in Python), or clean the corpus',
        0.001,
    ),
    QUOTED,
    (
        'mojibake',
        'share',
        'lines with UTF-8 that was once read as Latin-1 or Windows-1252, or with U+FFFD',
        'trains on them as they are',
        'convert the original again, or clean the corpus',
        0.001,
    ),
)


def table(*rows: tuple) -> dict[str, Kind]:
    """The kinds of a task by name, from rows of the fields of Kind."""
    return {name: Kind(name, gravity, *rest) for name, gravity, *rest in rows}


# An error is certain damage, or makes the test score meaningless: training does not start. What a corpus may contain on
# purpose is a warning above a share, which is the field of CheckConfig with the kind's name.
KINDS = table(
    ('empty', 'error', 'a corpus without any sentence pair', 'stops', 'name the right file'),
    (
        'missing_side',
        'error',
        'lines with no counterpart on the other side: files of unequal length, a table without that column',
        'stops',
        'align the files again, or find where a line was lost',
    ),
    (
        'invalid_utf8',
        'error',
        'lines with bytes that are not UTF-8',
        'stops',
        'convert the file: `iconv -f LATIN1 -t UTF-8`',
    ),
    (
        'shifted',
        'error',
        'lines in a stretch whose sources fit the targets one line before or after',
        'would learn from pairs that are not translations',
        'fix the missing or extra line where the stretch begins',
    ),
    (
        'swapped_corpus',
        'error',
        'a corpus whose source side is in the target language, and vice versa',
        'would learn to translate in the wrong direction',
        'swap data.source_language and target_language, or the two paths',
    ),
    (
        'other_language',
        'warning',
        'a side that is mostly in a language other than the configured one',
        'trains on it as it is',
        'name the right file, or the right language',
    ),
    ('swapped_pair', 'share', 'pairs with the source in the target language and the target in the source language'),
    ('wrong_language', 'share', 'pairs with a side in a different language or script from the rest of that side'),
    (
        'copy',
        'share',
        'pairs whose target is the source itself',
        'trains on them as they are; a few per cent are enough to turn translations into copies',
    ),
    (
        'blank',
        'share',
        'pairs with a side of nothing but spaces',
        'leaves them out',
        'clean the corpus; in a test set they are still scored',
    ),
    (
        'too_long',
        'share',
        'pairs with more tokens on a side than a row has slots (without a tokenizer: more words)',
        'leaves them out, but evaluates on those of a validation or test set',
        'raise data.source_length and target_length, or split the lines',
    ),
    (
        'length_ratio',
        'share',
        'pairs with a side check.max_length_ratio times longer than usual for the other, in characters',
    ),
    (
        'numbers',
        'share',
        'pairs whose digits differ, except in small and round numbers, which may be spelled out',
        'trains on them as they are',
        'look at the examples; dates, times and units may rightly differ',
    ),
    *OF_LINES,
    (
        'normalization',
        'share',
        'lines in the rarer Unicode form of a language that mixes composed (NFC) and decomposed (NFD)',
        'treats the two forms of a word as two words, and scores them as different',
        'convert all files to NFC, or set tokenizer.normalization to nfkc',
    ),
    (
        'duplicate',
        'share',
        'pairs that repeat an earlier pair exactly',
        'trains on each of them',
        'clean the corpus, unless the repeats are meant as weights',
    ),
    (
        'contradiction',
        'share',
        'further translations of a source that was translated differently before',
        'trains on each of them',
        'none if they are paraphrases; many for one source suggest misalignment',
    ),
    (
        'leaked',
        'share',
        'validation or test pairs with a side that is also in the training data (ignoring case and spaces)',
        'trains on them, and its scores are too good',
        'clean the training corpus, which removes such pairs from it',
    ),
    (
        'test_is_training',
        'error',
        'a test set with nine of ten pairs, both sides, in the training data',
        'would report a score on memorized text',
        'name another test set, or none',
    ),
    (
        'validation_is_test',
        'share',
        'test pairs that are also in a validation set',
        'chooses its best checkpoint by them, so the test score is too good',
        'name another validation set',
    ),
    (
        'few_pairs',
        'warning',
        'training text with fewer than check.characters_per_piece characters per piece of the vocabulary',
        'may fail to make that many pieces, and learns little about rare ones',
        'lower model.vocab_size',
    ),
    (
        'uncovered',
        'warning',
        'characters without a piece in the vocabulary; a note if bytes can spell them',
        'reads and writes them as bytes, or as unk without tokenizer.byte_fallback',
        'none needed with tokenizer.byte_fallback; a higher tokenizer.character_coverage gives them pieces',
    ),
    (
        'odd_spaces',
        'note',
        'lines with leading or trailing spaces, tabs, or spaces other than U+0020',
        'trains on them as they are; translations will have them too',
        '`clean --spaces` makes plain ones of them',
    ),
    (
        'changed',
        'error',
        'files other than those the run began with',
        'would continue with different text in a different order',
        'restore the files, or start a new run',
    ),
)
# `flax-transformer clean` leaves out pairs that show one of these, and names the first.
REJECTED = (
    *('missing_side', 'invalid_utf8', 'shifted', 'swapped_pair', 'wrong_language', 'copy', 'blank', 'too_long'),
    *('length_ratio', 'control', 'entity', 'mojibake', 'duplicate', 'leaked'),
)
