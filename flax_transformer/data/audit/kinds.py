"""Every kind of fault that several tasks, or translation, check a corpus for."""

from typing import Literal, NamedTuple

Severity = Literal['error', 'warning', 'note']
MEMORIZED = 0.9  # a test set of which so much is in the training data has a meaningless score


class Kind(NamedTuple):
    name: str
    severity: Severity
    what: str  # what is counted
    training: str = 'trains on them as they are'  # what training does about it
    remedy: str = 'clean the corpus'
    share: float = 0.0  # a warning is only a note where a smaller share of the corpus shows it

    def severity_of(self, count: int, total: int) -> Severity:
        return 'note' if self.severity == 'warning' and count < self.share * total else self.severity


def table(*rows: tuple) -> dict[str, Kind]:
    return {row[0]: Kind(*row) for row in rows}


# Kinds that several tasks check. An error is certain damage, or makes the test score meaningless: training does not
# start. For translation, the shares are fields of CheckConfig with the kinds' names.
SHARED = table(
    (
        'blank',
        'warning',
        'lines with nothing but spaces on a side',
        'leaves them out',
        'clean the corpus, or find where the text was lost; in a test set they are still scored',
        0.01,
    ),
    (
        'control',
        'warning',
        'lines with control, zero-width or private-use characters',
        'trains on them as they are; a word with one is another word',
        'delete the characters, or, for translation, set tokenizer.normalization to nmt_nfkc',
        0.001,
    ),
    (
        'entity',
        'warning',
        'lines with HTML entities or tags',
        'trains on them as they are; a tag next to a word makes it another word',
        'unescape the text (html.unescape in Python), or clean the corpus',
        0.001,
    ),
    (
        'quoted',
        'warning',
        'rows of a table with all cells in double quotes, or a cell with quotes of its own doubled, as CSV has them',
        'takes the quotes for part of the text',
        'write the table again with csv.QUOTE_NONE of Python',
        0.01,
    ),
    (
        'mojibake',
        'warning',
        'lines with UTF-8 that was once read as Latin-1 or Windows-1252, or with U+FFFD',
        'trains on them as they are',
        'convert the original again, or clean the corpus',
        0.001,
    ),
    (
        'duplicate',
        'warning',
        'repeats of an earlier line, with the same translation or label',
        'trains on each of them',
        'delete them, unless the repeats are meant as weights',
        0.1,
    ),
    (
        'contradiction',
        'warning',
        'repeats of an earlier line (ignoring case and spaces) with another translation or label',
        'trains on each of them',
        'none for paraphrases; otherwise decide on one label, or look for misaligned lines',
        0.005,
    ),
    (
        'leaked',
        'warning',
        'validation or test examples that are also in the training data (ignoring case and spaces), a pair by one side',
        'trains on them, and its scores are too good',
        'delete them from the training data; `clean` does so for translation',
        0.01,
    ),
    (
        'test_is_training',
        'error',
        'a test set of which nine in ten are in the training data',
        'would report a score on memorized text',
        'name another test set, or none',
    ),
    (
        'validation_is_test',
        'warning',
        'test examples that are also in a validation set',
        'chooses its best checkpoint by them, so the test score is too good',
        'name another validation set',
        0.01,
    ),
)
# Kinds of translation, in the order in which they are reported.
_PAIRS = table(
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
    ('swapped_pair', 'warning', 'pairs with each side in the language of the other'),
    ('wrong_language', 'warning', 'pairs with a side in a different language from the rest of that side'),
    (
        'copy',
        'warning',
        'pairs whose target is the source itself',
        'trains on them as they are; a few per cent are enough to turn translations into copies',
    ),
    (
        'too_long',
        'warning',
        'pairs with more tokens on a side than a row has slots (without a tokenizer: more words)',
        'leaves them out, but evaluates on those of a validation or test set',
        'raise data.source_length and target_length, or split the lines',
    ),
    (
        'length_ratio',
        'warning',
        'pairs with a side check.max_length_ratio times longer than usual for the other, in characters',
    ),
    (
        'numbers',
        'warning',
        'pairs whose digits differ, except in small and round numbers, which may be spelled out',
        'trains on them as they are',
        'look at the examples; dates, times and units may rightly differ',
    ),
)
_REST = table(
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
KINDS = _PAIRS | SHARED | _REST
