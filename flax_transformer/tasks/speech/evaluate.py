"""What `flax-transformer evaluate RUN [--test MANIFEST]` does for speech to text."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.installing import imported
from flax_transformer.common.quiet import Say, aligned
from flax_transformer.data.audio.corpus import Corpus, Recording, corpus_files, read_corpus
from flax_transformer.engine.task_value import Command, EvaluateOptions
from flax_transformer.tasks.evaluation import (
    RESAMPLES,
    bootstrap_interval,
    check_examples,
    only_run,
    print_scores,
    scored_set,
)

from .config import SpeechDataConfig, StringsConfig

if TYPE_CHECKING:
    from .examples import Strings

CHUNK = 256  # recordings in memory at once
MOST_STRINGS = 1_000_000
SEED = 0  # the strings are always the same
_MOST_WORDS = 20  # a printed confusion matrix has no more


@dataclass(frozen=True)
class Options(EvaluateOptions):
    test: str | None = None  # recordings to score on, in any form of data.test; a path from the working directory
    count: int = 0  # score so many strings of the test recordings, always the same ones; 0: each recording by itself
    beam_size: int = 1  # 1: the most probable unit of each frame; more: prefixes that a search keeps
    examples: int = 5  # wrong transcripts to show, the worst first
    data: SpeechDataConfig = field(default_factory=SpeechDataConfig)
    strings: StringsConfig = field(default_factory=StringsConfig)


def evaluate(runs: list[str], options: Options, *, note: Say, progress_bar: Callable[..., Any]) -> None:
    run = only_run(runs, 'speech-to-text models')
    check_examples(options.examples)
    jiwer()  # raises if it is missing
    if not 0 <= options.count <= MOST_STRINGS:
        raise UserError(f'--count {options.count}: expected 0 to {MOST_STRINGS:,}')
    source, data = scored_set(
        run, options.test, options.data, lambda data: corpus_files(data.test, data), trust=options.trust_data
    )

    from .transcriber import Transcriber

    transcriber = Transcriber.from_run(run, step=options.step)
    corpus = read_corpus(source, data, transcriber.sample_rate, say=note)
    corpus = corpus.chosen([i for i, recording in enumerate(corpus.recordings) if recording.num_samples])
    examples = _strings(corpus, options, transcriber.sample_rate) if options.count else corpus
    recordings = [examples.recording(i) for i in range(options.count or examples.count)]

    heard = []
    with progress_bar(len(recordings), 'recordings') as bar:
        for first in range(0, len(recordings), CHUNK):
            some = [examples.samples(i) for i in range(first, min(first + CHUNK, len(recordings)))]
            heard += [transcript.text for transcript in transcriber(some, beam_size=options.beam_size)]
            bar.update(len(some))

    references = [transcriber.units.normalized(recording.text) for recording in recordings]
    result = scores_of(recordings, references, heard, shown=options.examples)
    name = source + (f', {options.count:,} strings' if options.count else '')
    print_scores({'set': name, **result}, _lines(name, result), as_json=options.json)


def _strings(corpus: Corpus, options: Options, rate: int) -> 'Strings':
    from .examples import Strings

    config = options.strings
    if config.most < 2:
        got = f'--count {options.count} joins recordings to strings, but strings.most={config.most}'
        raise UserError(f'{got}; give --strings.most N, of at least 2')
    longest = max((recording.num_samples for recording in corpus.recordings), default=0)
    most = config.most * longest + round((config.most + 1) * config.most_gap_ms * rate / 1000)
    return Strings(corpus, config, rate=rate, most_samples=most, seed=SEED)


class Errors(NamedTuple):
    """The fewest changes that make transcripts from references, [N]."""

    substitutions: np.ndarray
    deletions: np.ndarray
    insertions: np.ndarray
    length: np.ndarray  # words, or characters, of the reference

    @property
    def count(self) -> np.ndarray:
        return self.substitutions + self.deletions + self.insertions


def jiwer() -> Any:
    return imported('jiwer', 'speech', 'an error rate')


def errors(
    references: Sequence[str], transcripts: Sequence[str], *, unit: Literal['words', 'characters'] = 'words'
) -> Errors:
    process = getattr(jiwer(), f'process_{unit}')
    counts = np.zeros((4, len(references)), int)
    for i, (reference, transcript) in enumerate(zip(references, transcripts, strict=True)):
        if not reference:  # jiwer refuses it
            counts[2, i] = len(transcript.split() if unit == 'words' else transcript)
            continue
        changes = process(reference, transcript)
        length = changes.hits + changes.substitutions + changes.deletions
        counts[:, i] = changes.substitutions, changes.deletions, changes.insertions, length
    return Errors(*counts)


def scores(references: Sequence[str], transcripts: Sequence[str]) -> dict[str, Any]:
    """All scores; errors are of words, intervals of 95 % over utterances. `exact` is the share without an error."""
    words = errors(references, transcripts)
    low, high = bootstrap_interval(words.count, words.length)
    return {
        'word_error_rate': rate(words),
        'word_error_rate_low': low,
        'word_error_rate_high': high,
        'character_error_rate': rate(errors(references, transcripts, unit='characters')),
        'exact': float((words.count == 0).mean()),
        'substitutions': int(words.substitutions.sum()),
        'deletions': int(words.deletions.sum()),
        'insertions': int(words.insertions.sum()),
        'num_words': int(words.length.sum()),
        'num_utterances': len(references),
    }


def rate(changes: Errors) -> float:
    return float(changes.count.sum() / max(changes.length.sum(), 1))


def scores_of(
    recordings: Sequence[Recording], references: Sequence[str], heard: Sequence[str], *, shown: int
) -> dict[str, Any]:
    speakers = [recording.speaker for recording in recordings]
    if not any(references):
        raise UserError(f'all {len(references):,} transcripts are empty: there is no word to count errors by')
    words = errors(references, heard)
    by_speaker = {}
    for name in sorted(set(speakers) - {''}):
        own = [i for i, speaker in enumerate(speakers) if speaker == name]
        if any(references[i] for i in own):  # else an error rate has no meaning
            all_scores = scores([references[i] for i in own], [heard[i] for i in own])
            shown_scores = ('word_error_rate', 'character_error_rate', 'exact', 'num_utterances')
            by_speaker[name] = {key: all_scores[key] for key in shown_scores}

    result = scores(references, heard) | {'by_speaker': by_speaker}
    if all(len(reference.split()) == 1 for reference in references):
        result['confusion'] = _confusions(references, heard, speakers)

    worst = np.argsort(-words.count, kind='stable')[:shown].tolist()
    result['worst'] = [
        {'place': recordings[i].place, 'reference': references[i], 'heard': heard[i]} for i in worst if words.count[i]
    ]
    return result


def _confusions(references: Sequence[str], heard: Sequence[str], speakers: list[str]) -> dict[str, Any]:
    """The confusion matrix [words, written], and how often each word was taken for another, by speaker."""
    words = sorted(set(references))
    columns = [*words, '(none)', '(other)']
    table = np.zeros((len(words), len(columns)), int)
    wrong: dict[str, list[str]] = defaultdict(list)
    for reference, transcript, speaker in zip(references, heard, speakers, strict=True):
        written = transcript or '(none)'
        table[words.index(reference), columns.index(written) if written in columns else -1] += 1
        if transcript != reference:
            wrong[speaker].append(f'{reference} as {written}')
    most_often = {speaker: dict(Counter(sorted(names)).most_common()) for speaker, names in wrong.items()}
    return {'words': words, 'written': columns, 'counts': table.tolist(), 'wrong_by_speaker': most_often}


def _lines(name: str, result: dict[str, Any]) -> list[str]:
    lines = [f'{wrong["place"]}: {wrong["reference"]!r}, heard {wrong["heard"]!r}' for wrong in result['worst']]
    lines += [
        *([''] if lines else []),
        f'{name}: {result["num_utterances"]:,} utterances, {result["num_words"]:,} words',
        f'word error rate       {result["word_error_rate"]:.2%}  (95 % interval {result["word_error_rate_low"]:.2%} to '
        f'{result["word_error_rate_high"]:.2%}, bootstrap of {RESAMPLES:,} over utterances)',
        f'                      {result["substitutions"]:,} substituted, {result["deletions"]:,} deleted, '
        f'{result["insertions"]:,} inserted',
        f'character error rate  {result["character_error_rate"]:.2%}',
        f'without an error      {result["exact"]:.2%} of the utterances',
    ]
    by_speaker = result['by_speaker']
    if len(by_speaker) > 1:
        lines += ['', 'by speaker']
        width = max(map(len, by_speaker))
        for speaker, own in by_speaker.items():
            rates = f'word error rate {own["word_error_rate"]:7.2%}  without an error {own["exact"]:7.2%}'
            lines.append(f'  {speaker:{width}}  {rates}  of {own["num_utterances"]:,}')
    if 'confusion' in result:
        lines += ['', *_confusion(result['confusion'])]
    return lines


def _confusion(confusion: dict[str, Any]) -> list[str]:
    lines = []
    words = confusion['words']
    if len(words) <= _MOST_WORDS:
        columns = [
            [name, *map(str, counts)]
            for name, *counts in zip(confusion['written'], *confusion['counts'], strict=True)
            if name in words or any(counts)
        ]
        rows = list(zip(['said', *words], *columns, strict=True))
        lines += [*aligned(rows), '(rows: the word said; columns: the word written)', '']
    for speaker, counts in confusion['wrong_by_speaker'].items():
        shown = ', '.join(f'{name} ({count})' for name, count in list(counts.items())[:5])
        lines.append(f'{speaker or "unknown speaker"}: {sum(counts.values())} wrong: {shown}')
    return lines


EVALUATE = Command(
    Options,
    evaluate,
    """Score a trained speech-to-text model: word and character error rate with their interval, by speaker,
and the confusion of words where each recording is of one. Without --test the test set of its config is used;
--count 500 joins its recordings into 500 strings, as the config's section `strings` says.""",
)
