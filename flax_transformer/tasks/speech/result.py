"""What a transcriber answers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Word:
    """A word and where its frames are: CTC gives a word few frames, near where it is recognized, so it may be heard
    before and after them."""

    text: str
    start: float  # seconds from the beginning of the recording
    end: float


@dataclass(frozen=True)
class Transcript:
    """What is said in a recording."""

    text: str
    # log p(text | recording) in nats, over all its alignments; of a recording of several windows, the probability of
    # the most probable alignment.
    log_probability: float
    words: tuple[Word, ...]
    seconds: float  # of the recording
    # What was done with the recording and what is odd about it: resampled, mixed down, clipped, silent, cut off.
    remarks: tuple[str, ...] = ()
