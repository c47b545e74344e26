"""Every kind of fault that labeled texts are checked for: how serious it is, and what to do about it."""

from flax_transformer.data.audit.kinds import OF_LINES, table

FEW_EXAMPLES = 10  # fewer are few for a label
IMBALANCE = 10  # examples of the most frequent label for each of the rarest

KINDS = table(
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
        0.01,
    ),
    (
        'too_long',
        'share',
        'texts with more tokens (without a run: words) than data.max_length',
        'cuts them there',
        'raise data.max_length, or shorten the texts',
        0.1,
    ),
    (
        'contradiction',
        'share',
        'texts that had another label before (ignoring case and spaces)',
        'trains on each of them',
        'decide on one label; more than a few mean that people do not agree on the labels',
        0.005,
    ),
    (
        'duplicate',
        'share',
        'texts that repeat an earlier one with the same label (ignoring case and spaces)',
        'trains on each of them',
        'delete the repeats, unless they are meant as weights',
        0.1,
    ),
    (
        'leaked',
        'share',
        'validation or test texts that are also in the training data (ignoring case and spaces)',
        'trains on them, and its scores are too good',
        'delete them from the training data',
        0.01,
    ),
    (
        'validation_is_test',
        'share',
        'test texts that are also in the validation set',
        'chooses its best checkpoint by them, so the test score is too good',
        'name another validation set',
        0.01,
    ),
    *OF_LINES,
)
