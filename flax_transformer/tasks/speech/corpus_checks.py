"""What is wrong with recordings and their transcripts, before the first step."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from flax_transformer.audio.mel import num_frames
from flax_transformer.common.errors import UserError
from flax_transformer.data.audit.characters import quoted_rows
from flax_transformer.data.audit.kinds import QUOTED, table
from flax_transformer.data.audit.report import Finding, Report, TextExample, findings_of, sorted_report
from flax_transformer.tasks.speech.config import SpeechConfig
from flax_transformer.tasks.speech.ctc import fewest_frames
from flax_transformer.tasks.speech.recordings import Corpus, Recording, Say, read_corpus, split
from flax_transformer.tasks.speech.run import Run
from flax_transformer.tasks.speech.units import Units

CORPORA = ('train', 'validation', 'test')
Corpora = dict[str, Corpus]  # train, and perhaps the others


def read_corpora(config: SpeechConfig, names: Iterable[str] = CORPORA, *, say: Say) -> Corpora:
    """Those corpora, of `names`, that the config has."""
    data, rate = config.data, config.features.sample_rate
    corpora = {name: read_corpus(source, data, rate, say=say) for name in names if (source := getattr(data, name))}
    if data.held_out:
        train, validation = split(corpora['train'], data.held_out)
        corpora |= {'train': train, 'validation': validation}
    return corpora


def report_of(config: SpeechConfig, workdir: Path | None, **_: Any) -> Report:
    """What is wrong with the config's corpora; `workdir` is a run, whose units are used."""
    corpora = read_corpora(config, say=lambda _: None)
    if workdir is None:
        texts = [each.text for each in corpora['train'].recordings]
        units = Units.learn(texts, config.tokenizer, config.model.vocab_size)
    else:
        units = Run(workdir).read_tokenizer()
    return audit(corpora, config, units)


def usable(corpus: Corpus, config: SpeechConfig, units: Units) -> Corpus:
    """The recordings that are neither too long nor too short for their transcript. Raises UserError if none is."""
    chosen = [
        i
        for i, each in enumerate(corpus.recordings)
        if each.num_samples <= config.most_samples and not _is_too_short(each, config, units)
    ]
    if not chosen:
        raise UserError(
            f'{corpus.name} has no recording of at most data.max_seconds={config.data.max_seconds:g} with enough '
            'frames for its transcript (model.strides)'
        )
    return corpus.chosen(chosen)


def _is_too_short(recording: Recording, config: SpeechConfig, units: Units) -> bool:
    frames = -(-num_frames(recording.num_samples, config.features) // config.model.stride)
    return fewest_frames(units.encode(recording.text)) > frames


def audit(corpora: Corpora, config: SpeechConfig, units: Units) -> Report:
    findings = [finding for name, corpus in corpora.items() for finding in _of_corpus(name, corpus, config, units)]
    findings += _between(corpora)
    counts = {name: len(corpus.recordings) for name, corpus in corpora.items()}
    return sorted_report(findings, counts, kinds=KINDS, unit='recordings')


def _finding(kind: str, name: str, corpus: Corpus, indices: list[int], detail: str = '') -> Iterator[Finding]:
    shown = (TextExample(each.place, each.text) for each in map(corpus.recordings.__getitem__, indices))
    return findings_of(KINDS[kind], name, len(indices), len(corpus.recordings), shown, detail)


def _of_corpus(name: str, corpus: Corpus, config: SpeechConfig, units: Units) -> Iterator[Finding]:
    recordings = corpus.recordings
    long = [i for i, each in enumerate(recordings) if each.num_samples > config.most_samples]
    rate = config.features.sample_rate
    longest = max((each.num_samples for each in recordings), default=0) / rate
    yield from _finding('too_long', name, corpus, long, f'the longest has {longest:.1f} s')
    short = [i for i, each in enumerate(recordings) if _is_too_short(each, config, units)]
    frame_ms = config.features.hop_ms * config.model.stride
    yield from _finding('too_short', name, corpus, short, f'a frame of the encoder has {frame_ms:g} ms')
    yield from _finding('no_transcript', name, corpus, [i for i, each in enumerate(recordings) if not each.text])
    yield from _finding('quoted', name, corpus, quoted_rows([each.text for each in recordings]))
    unknown = [units.unknown(each.text) for each in recordings]
    counts = Counter(unit for each in unknown for unit in each)
    detail = ', '.join(f'{unit!r} ({count:,})' for unit, count in counts.most_common(10))
    yield from _finding('unknown_unit', name, corpus, [i for i, each in enumerate(unknown) if each], detail)


def _between(corpora: Corpora) -> Iterator[Finding]:
    """Recordings of a test or validation set whose speaker is heard in training, too: said, since it flatters."""
    known = {each.speaker for each in corpora['train'].recordings} - {''}
    for name, corpus in corpora.items():
        heard = [i for i, each in enumerate(corpus.recordings) if name != 'train' and each.speaker in known]
        speakers = len({corpus.recordings[i].speaker for i in heard})
        yield from _finding('known_speaker', name, corpus, heard, f'{speakers} speakers' if heard else '')


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
    QUOTED,
    (
        'known_speaker',
        'note',
        'recordings of speakers that the training data has, too',
        'reports scores for known voices; unknown ones are recognized less well',
        'to know how well, choose by speaker: FILE.tsv?speaker!=NAME for training',
    ),
)
