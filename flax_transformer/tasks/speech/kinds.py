"""Every kind of fault that recordings and transcripts are checked for: how serious it is, and what to do about it."""

from flax_transformer.data.audit.kinds import table

KINDS = table(
    (
        'unknown_unit',
        'warning',
        'transcripts with a word or character that no training transcript has',
        'leaves it out; the model cannot write it',
        'spell the transcripts alike, or add training recordings that have it',
    ),
    (
        'too_long',
        'share',
        'recordings of more than data.max_seconds',
        'leaves them out',
        'cut them at pauses, or set data.max_seconds higher',
        0.01,
    ),
    (
        'too_short',
        'share',
        'recordings with fewer frames than their transcript needs',
        'leaves them out: CTC gives each label a frame of its own',
        'see whether the transcripts belong to the recordings; or set smaller model.strides, or larger units',
        0.01,
    ),
    (
        'no_transcript',
        'share',
        'recordings with an empty transcript',
        'takes them for recordings in which nothing is said',
        'name the column of the transcript, as in FILE.tsv#text; delete what was not transcribed',
        0.01,
    ),
    (
        'known_speaker',
        'note',
        'recordings of speakers that the training data has, too',
        'reports scores for known voices; unknown ones are recognized less well',
        'to know how well, choose by speaker: FILE.tsv?speaker!=NAME for training',
    ),
)
