"""What is wrong with recordings and their transcripts, before the first step."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flax_transformer.common.errors import UserError
from flax_transformer.common.quiet import Say
from flax_transformer.data.audio.corpus import Corpus, Recording, read_corpus
from flax_transformer.data.audit.kinds import SHARED, read_kinds
from flax_transformer.data.audit.lines import is_blank, quoted_rows, rows_where
from flax_transformer.data.audit.report import Report, Rows, sorted_report

from .config import SpeechConfig
from .ctc import fewest_frames
from .examples import split
from .run import Run
from .units import Units

CORPORA = ('train', 'validation', 'test')
Corpora = dict[str, Corpus]

KINDS = read_kinds(__file__) | {'quoted': SHARED['quoted']}


def read_corpora(config: SpeechConfig, names: Iterable[str] = CORPORA, *, say: Say) -> Corpora:
    data = config.data
    rate = config.features.sample_rate
    corpora = {name: read_corpus(getattr(data, name), data, rate, say=say) for name in names if getattr(data, name)}
    if data.held_out:
        train, validation = split(corpora['train'], data.held_out)
        corpora |= {'train': train, 'validation': validation}
    return corpora


def report_of(config: SpeechConfig, workdir: Path | None, **_: Any) -> Report:
    """`workdir` is a run, whose units are used."""
    corpora = read_corpora(config, say=lambda _: None)
    if workdir is not None:
        return audit(corpora, config, Run(workdir).read_tokenizer())
    texts = [recording.text for recording in corpora['train'].recordings]
    return audit(corpora, config, Units.learn(texts, config.tokenizer, config.model.vocab_size))


def usable(corpus: Corpus, config: SpeechConfig, units: Units) -> Corpus:
    """The recordings that are neither too long nor too short for their transcript. Raises UserError if none is."""
    chosen = [
        row
        for row, recording in enumerate(corpus.recordings)
        if recording.num_samples <= config.most_samples and not _is_too_short(recording, config, units)
    ]
    if not chosen:
        raise UserError(
            f'{corpus.name} has no recording of at most data.max_seconds={config.data.max_seconds:g} with enough '
            'frames for its transcript (model.strides)'
        )
    return corpus.chosen(chosen)


def _is_too_short(recording: Recording, config: SpeechConfig, units: Units) -> bool:
    return fewest_frames(units.encode(recording.text)) > config.encoder_frames(recording.num_samples)


def audit(corpora: Corpora, config: SpeechConfig, units: Units) -> Report:
    known = {recording.speaker for recording in corpora['train'].recordings} - {''}
    frame_ms = config.features.hop_ms * config.model.stride
    findings = []
    for name, corpus in corpora.items():
        recordings = corpus.recordings
        texts = [recording.text for recording in recordings]
        rows = Rows(name, [recording.place for recording in recordings], {'text': texts})

        lengths = [recording.num_samples for recording in recordings]
        too_long = [row for row, length in enumerate(lengths) if length > config.most_samples]
        longest = max(lengths, default=0) / config.features.sample_rate
        findings += rows.findings(KINDS['too_long'], too_long, f'the longest has {longest:.1f} s')
        too_short = [row for row, recording in enumerate(recordings) if _is_too_short(recording, config, units)]
        findings += rows.findings(KINDS['too_short'], too_short, f'a frame of the encoder has {frame_ms:g} ms')
        findings += rows.findings(KINDS['no_transcript'], rows_where(is_blank, texts))
        findings += rows.findings(KINDS['quoted'], quoted_rows(texts))

        unknown = [units.unknown(text) for text in texts]
        counts = Counter(unit for units_of_text in unknown for unit in units_of_text)
        detail = ', '.join(f'{unit!r} ({count:,})' for unit, count in counts.most_common(10))
        findings += rows.findings(KINDS['unknown_unit'], [row for row, some in enumerate(unknown) if some], detail)
        if name != 'train':
            heard = [row for row, recording in enumerate(recordings) if recording.speaker in known]
            speakers = {recordings[row].speaker for row in heard}
            findings += rows.findings(KINDS['known_speaker'], heard, f'{len(speakers)} speakers')
    counts = {name: corpus.count for name, corpus in corpora.items()}
    return sorted_report(findings, counts, kinds=KINDS, unit='recordings')
