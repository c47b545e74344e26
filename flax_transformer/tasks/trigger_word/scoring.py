"""How well a detector hears recordings, one after another as one stream."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from flax_transformer.tasks.evaluation import binomial_interval, poisson_interval

from .config import HitConfig
from .detector import Detector, Hit, Matched, find_hits, matched, no_hits
from .scenes import Clip, Clips

GAP = 1.0  # seconds of silence after each recording, in which a hit still belongs to it
THRESHOLDS = tuple(np.round(1 / (1 + np.exp(-np.linspace(-6, 8, 57))), 6).tolist())  # evenly spaced in log odds


@dataclass(frozen=True)
class Wrong:
    place: str  # the recording's
    seconds: float  # from the recording's start
    confidence: float


@dataclass(frozen=True)
class Scores:
    threshold: float
    words: int  # recordings of the trigger word
    misses: int
    rejects_low: float  # 95 % interval of misses / words
    rejects_high: float
    negative_hours: float  # length of the other recordings, without the gaps between
    false_accepts: int  # all recordings count, those of the trigger word too
    accepts_per_hour: float | None  # None: there are no other recordings
    accepts_low: float | None
    accepts_high: float | None
    delays: tuple[float, ...]  # seconds from the end of a word to its hit; of those that were heard
    missed: tuple[str, ...]  # places
    wrong: tuple[Wrong, ...]
    hours_by_text: dict[str, float]  # the other recordings
    highest_other: float  # score of an output frame in or after any other recording
    lowest_word: float  # each word has a highest score; the lowest of them
    thresholds: tuple[float, ...]
    false_rejects: tuple[float, ...]  # share, by threshold
    false_accepts_per_hour: tuple[float | None, ...]  # None: there are no other recordings


@dataclass(frozen=True)
class _Heard:
    probabilities: np.ndarray
    clips: list[Clip]  # the trigger words first
    starts: list[float]  # seconds
    ends: list[float]  # seconds, of the trigger words
    seconds_per_output: float

    def matched(self, rule: HitConfig) -> Matched:
        heard, _ = find_hits(self.probabilities, no_hits(rule), rule, self.seconds_per_output)
        return matched(heard, self.ends)


def score(detector: Detector, clips: Clips, *, progress: Callable[[int], object] = lambda count: None) -> Scores:
    heard = _listen(detector, clips, progress)
    matched = heard.matched(detector.rule)
    hours: dict[str, float] = defaultdict(float)
    for clip in [*clips.others, *(clip._replace(text='background') for clip in clips.background)]:
        hours[clip.text] += len(clip.samples) / detector.sample_rate / 3600

    total = sum(hours.values())
    words = len(clips.triggers)
    wrong = len(matched.false_accepts)
    highest_other, lowest_word = _margin(heard, detector.rule)
    rejects_at, accepts_at = _curve(heard, detector.rule, total)
    return Scores(
        detector.rule.threshold,
        words,
        matched.misses,
        *binomial_interval(matched.misses, words),
        total,
        wrong,
        wrong / total if total else None,
        *(poisson_interval(wrong, total) if total else (None, None)),
        tuple(delay for delay in matched.delays if delay is not None),
        tuple(clip.place for clip, delay in zip(clips.triggers, matched.delays, strict=True) if delay is None),
        tuple(_wrong(heard, hit) for hit in matched.false_accepts),
        dict(sorted(hours.items(), key=lambda item: -item[1])),
        highest_other,
        lowest_word,
        THRESHOLDS,
        rejects_at,
        accepts_at,
    )


def _listen(detector: Detector, clips: Clips, progress: Callable[[int], object]) -> _Heard:
    every = [*clips.triggers, *clips.others, *clips.background]
    gap = np.zeros(round(GAP * detector.sample_rate), np.float32)
    state, first = detector.step(detector.start(), gap)
    probabilities = [first]
    starts = []
    heard = len(gap)
    for clip in every:
        starts.append(heard / detector.sample_rate)
        for chunk in (clip.samples, gap):
            state, own = detector.step(state, chunk)
            probabilities.append(own)
            heard += len(chunk)
        progress(1)
    ends = [start + clip.end / detector.sample_rate for clip, start in zip(clips.triggers, starts, strict=False)]
    return _Heard(np.concatenate(probabilities), every, starts, ends, detector.seconds_per_output)


def _wrong(heard: _Heard, hit: Hit) -> Wrong:
    number = max(int(np.searchsorted(heard.starts, hit.seconds, side='right')) - 1, 0)
    return Wrong(heard.clips[number].place, hit.seconds - heard.starts[number], hit.confidence)


def _margin(heard: _Heard, rule: HitConfig) -> tuple[float, float]:
    """`highest_other` and `lowest_word` of `Scores`."""
    average = np.convolve(heard.probabilities, np.ones(rule.average) / rule.average)[: len(heard.probabilities)]
    times = (np.arange(len(average)) + 1) * heard.seconds_per_output
    number = np.searchsorted(heard.starts, times, side='right') - 1
    highest = np.zeros(len(heard.clips))
    np.maximum.at(highest, number[number >= 0], average[number >= 0])
    words, others = np.split(highest, [len(heard.ends)])
    return float(np.max(others, initial=0)), float(np.min(words, initial=1))


def _curve(heard: _Heard, rule: HitConfig, hours: float) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
    """`false_rejects` and `false_accepts_per_hour` of `Scores`."""
    rejects = []
    accepts = []
    for threshold in THRESHOLDS:
        matched = heard.matched(replace(rule, threshold=threshold))
        rejects.append(matched.misses / max(len(matched.delays), 1))
        accepts.append(len(matched.false_accepts) / hours if hours else None)
    return tuple(rejects), tuple(accepts)
