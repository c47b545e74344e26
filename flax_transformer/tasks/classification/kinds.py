"""Every kind of fault that labelled texts are checked for: how serious it is, and what to do about it."""

from flax_transformer.data.audit.kinds import Kind

# Warned of from this share of a corpus on.
SHARES = {'blank': 0.01, 'too_long': 0.1, 'duplicate': 0.1, 'contradiction': 0.005, 'leaked': 0.01}
SHARES |= {'validation_is_test': 0.01, 'control': 0.001, 'entity': 0.001, 'mojibake': 0.001}
FEW_EXAMPLES = 10  # of a label
IMBALANCE = 10  # examples of the most frequent label for each of the rarest

KINDS = {
    name: Kind(name, gravity, False, what, training, remedy)
    for name, gravity, what, training, remedy in (
        (
            'one_label',
            'error',
            'training texts that all have the same label',
            'stops: there is nothing to tell apart',
            'name a file with the other labels too; in a folder, each label has a folder of its own',
        ),
        (
            'swapped_columns',
            'error',
            'a table with the text in the first column and the label in the second',
            'would take each text for a label',
            "name the columns, label first: --data.train 'FILE.tsv#2,1'",
        ),
        (
            'unknown_label',
            'error',
            'validation texts with a label that no training text has',
            'stops: the model cannot give such a label',
            'correct the label, or add training texts that have it',
        ),
        (
            'unknown_test_label',
            'warning',
            'test texts with a label that no training text has',
            'does not read them; `evaluate` counts them as wrong',
            'correct the label, or add training texts that have it',
        ),
        (
            'test_is_training',
            'warning',
            'a test set with nine of ten texts in the training data',
            'would report a score on memorized text',
            'name another test set, or none',
        ),
        (
            'header',
            'warning',
            'a first line that looks like the names of the columns: no other line has its label',
            'takes it for a text and its label',
            'delete the line',
        ),
        (
            'mixed_types',
            'warning',
            'labels of several types in JSON, such as 1 and "1"',
            'takes those that are written alike for the same label',
            'write all labels as texts',
        ),
        (
            'similar_labels',
            'warning',
            'labels that differ in upper and lower case, or in spaces, alone',
            'takes them for different labels',
            'write them alike',
        ),
        (
            'few_examples',
            'warning',
            f'labels with fewer than {FEW_EXAMPLES} training texts',
            'learns little about them',
            'add texts, or merge or remove the labels',
        ),
        (
            'imbalance',
            'warning',
            f'a label with {IMBALANCE} times as many training texts as another',
            'is drawn to the frequent label',
            'set training.class_weights balanced, or choose by training.best_by macro_f1',
        ),
        (
            'blank',
            'share',
            'texts of nothing but spaces',
            "leaves them out; a classifier gives them the training data's shares of the labels",
            'delete them, or find where the text was lost',
        ),
        (
            'too_long',
            'share',
            'texts with more tokens than data.max_length (of pieces or n-grams: with more words)',
            'cuts them there',
            'raise data.max_length, or shorten the texts',
        ),
        (
            'contradiction',
            'share',
            'texts that had another label before (ignoring case and spaces)',
            'trains on each of them',
            'decide on one label; more than a few mean that people do not agree on the labels',
        ),
        (
            'duplicate',
            'share',
            'texts that repeat an earlier one with the same label (ignoring case and spaces)',
            'trains on each of them',
            'delete the repeats, unless they are meant as weights',
        ),
        (
            'leaked',
            'share',
            'validation or test texts that are also in the training data (ignoring case and spaces)',
            'trains on them, and its scores are too good',
            'delete them from the training data',
        ),
        (
            'validation_is_test',
            'share',
            'test texts that are also in the validation set',
            'chooses its best checkpoint by them, so the test score is too good',
            'name another validation set',
        ),
        (
            'mojibake',
            'share',
            'texts with UTF-8 that was once read as Latin-1 or Windows-1252, or with U+FFFD',
            'trains on them as they are',
            'convert the original again',
        ),
        (
            'control',
            'share',
            'texts with control, zero-width or private-use characters',
            'trains on them as they are; a word with one is another word',
            'delete the characters',
        ),
        (
            'entity',
            'share',
            'texts with HTML entities or tags',
            'trains on them as they are; a tag next to a word makes it another word',
            'unescape the text (html.unescape in Python), and remove the tags',
        ),
    )
}
