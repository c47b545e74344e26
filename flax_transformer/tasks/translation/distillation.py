"""A small model that learns from the translations of a large one (sequence-level distillation, Kim and Rush 2016)."""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import jax
import numpy as np

from flax_transformer.common.errors import BadLine, UserError
from flax_transformer.common.files import written_whole
from flax_transformer.common.quiet import say
from flax_transformer.data.audit.cleaning import clean
from flax_transformer.data.audit.config import Vocabulary
from flax_transformer.data.audit.language import is_foreign, is_known
from flax_transformer.data.bitext.config import CorpusConfig, DataConfig
from flax_transformer.data.lines import each_line
from flax_transformer.engine.runs.averaging import refuse_links
from flax_transformer.engine.runs.run_directory import ORIGIN_FILE, split_reference
from flax_transformer.ops.int8 import shapes_in_int8
from flax_transformer.tasks.new_config import Candidate, changed
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.transformer.config import TransformerConfig

from .config import Config, ModelConfig
from .inference.result import has_loop
from .inference.translator import Translator
from .metrics import make_metrics
from .model import family_of
from .new_config import HELD_OUT, NewOptions, propose
from .run import Run
from .taught import Taught, Translated

WORST = 0.05  # share of the translations, of the lowest scores, that is left out
# A student that begins with its teacher's layers: its share of the usual learning rate, the steps that it should have,
# and how many layers of the decoder.
BEGUN_RATE = 0.4
BEGUN_STEPS = 300
BEGUN_DECODER_LAYERS = 2
# Its shares of changed copies and of sources with terms, at most: its teacher has learned what they teach. With 0.45
# and 0.3 its BLEU was 0.35 lower after as many minutes, and it was no more robust (benchmarks/scores/students).
BEGUN_SHARES = {'robust': 0.15, 'terms': 0.1}
_LENGTHS = 'source_length', 'target_length'
LINE_BREAK = re.compile(r'[\r\n]')
FOREIGN_SOURCE = 'source in another language'  # its reference is not learned from, either
_CHUNK = 1000  # pairs that are scored, then written
# From random numbers, 6 + 2 layers have 4.5 BLEU less after 28 minutes, and are no faster for one line on a CPU, 1.05
# times for 32 (benchmarks/scores/students).
STUDENT = {
    'model.num_encoder_layers': 3,
    'model.num_decoder_layers': 3,
    'training.int8_share': 0.2,
    'training.cpu_dtype': 'auto',  # how many steps fit depends on the machine anyway
    'decoding.weights': 'int8',
    'decoding.beam_width': 2,  # 0.33 and 0.39 BLEU below 4: docs/how-to/distill.md
}


def score_backward(backward: Translator, taught: Taught, scores: Path) -> None:
    """Appends the nats a token of each source, given what is learned as its translation; 0: not known.

    Goes on after the lines that a stopped process has written.
    """
    rows = _rows(taught, backward.source_language)
    pairs = ((_nearest(record, wanted)['text'], line) for line, wanted, record in rows)
    with open(scores, 'a+b') as opened:
        opened.seek(0)
        written = opened.read()
        opened.truncate(written.rfind(b'\n') + 1)
        pairs = islice(pairs, written.count(b'\n'), None)
        while chunk := list(islice(pairs, _CHUNK)):
            opened.write(''.join(f'{score:.4f}\n' for score in _likelihoods(backward, chunk)).encode())
            opened.flush()


def _likelihoods(backward: Translator, pairs: list[tuple[str, str]]) -> list[float]:
    try:
        scored = backward.score([text for text, _ in pairs], [line for _, line in pairs])
        return [one.log_prob / max(one.num_tokens, 1) for one in scored]
    except BadLine:  # it has more tokens than the model has positions
        half = len(pairs) // 2
        return [*_likelihoods(backward, pairs[:half]), *_likelihoods(backward, pairs[half:])] if half else [0.0]


def write_pairs(stem: Path, taught: Taught, backward: Path | None = None) -> str:
    """Writes STEM.en and STEM.de, if STEM is en-de, to learn from; says how many translations are, and why not.

    `backward` is by `score_backward`. References are learned from: they have what the teacher does not know.
    STEM.valid.* and STEM.test.* are held out: lines that come once, whatever their scores.
    """
    languages = stem.name.split('-')
    faults = [_fault(line, wanted, record, languages) for line, wanted, record in _rows(taught, languages[1])]
    scores = {'low score': _worths(taught)}
    if backward:
        scores['low score backward'] = list(map(float, each_line(backward)))
    for name, own in scores.items():
        lowest = _lowest([score for score, fault in zip(own, faults, strict=True) if not fault])
        for number, score in enumerate(own):
            if score is not None and score < lowest:
                faults[number] = faults[number] or name

    every = max(20, len(faults) // HELD_OUT)
    counts: Counter[str] = Counter()
    seen: set[str] = set()  # sources held out
    with contextlib.ExitStack() as stack:

        def both_sides(kind: str) -> list[BinaryIO]:
            files = [Path(f'{stem}{kind}.{language}') for language in languages]
            return [stack.enter_context(written_whole(file)) for file in files]

        train, *held_out = map(both_sides, ('', '.valid', '.test'))
        rows = zip(_rows(taught, languages[1]), faults, strict=True)
        for number, ((line, wanted, record), fault) in enumerate(rows):
            text = '' if fault and wanted else _nearest(record, wanted)['text']
            is_fit = line.strip() and line not in seen and fault != FOREIGN_SOURCE
            if number % every < 2 and is_fit and (wanted or fault in ('', *scores)):
                files = held_out[number % every]
                targets = [wanted or text]
                seen.add(line)
                counts['held out'] += 1
            else:
                counts[fault or 'kept'] += 1
                files = train
                targets = [wanted] if fault else [text, wanted]
                if fault == FOREIGN_SOURCE:
                    targets = []
            for target in dict.fromkeys(filter(str.strip, targets)):
                for file, cell in zip(files, (line, target), strict=True):
                    file.write(LINE_BREAK.sub(' ', cell).encode('utf-8', 'replace') + b'\n')
    said = f'{stem.name}: {", ".join(f"{count:,} {name}" for name, count in counts.most_common())}'
    if not counts['kept'] and not taught.references:
        raise UserError(
            f'{said}; expected translations to learn from: give another teacher, other text, or --reference'
        )
    return f'{said}; {len(faults):,} in all'


def _rows(taught: Taught, target: str) -> Iterator[tuple[str, str, Translated]]:
    """The rows, without references in another language."""
    for line, wanted, record in taught.rows():
        yield line, '' if _is_foreign(wanted, target) else wanted, record


def _worths(taught: Taught) -> list[float | None]:
    """The quality of each translation or, if the teacher is not calibrated, nats a token; None: not known."""
    qualities = []
    nats = []
    for record in taught.records():
        qualities.append(record.get('quality'))
        total, count = record.get('log_prob'), record.get('num_tokens')
        nats.append(total / count if total is not None and count else None)
    return nats if all(quality is None for quality in qualities) else qualities


def _lowest(scores: Sequence[float | None]) -> float:
    """Below it is the share of the scores, of translations without another fault, that is left out."""
    known = [score for score in scores if score is not None]
    return float(np.quantile(known, WORST)) if known else -np.inf


def _is_foreign(line: str, expected: str) -> bool:
    return is_known(expected) and is_foreign(line, expected)


def _nearest(record: Translated, reference: str) -> dict[str, Any]:
    """A translation; of the n-best the most like the reference, by chrF.

    That is sequence-level interpolation (Kim and Rush 2016, section 3.3).
    """
    if reference and record.get('n_best'):
        likeness = make_metrics()['chrf'].sentence_score
        return max(record['n_best'], key=lambda own: likeness(own['text'], [reference]).score)
    return record | {'text': record['translation']}


def _fault(line: str, wanted: str, record: Translated, languages: Sequence[str]) -> str:
    """What is wrong with a translation; '': nothing."""
    best = _nearest(record, wanted)
    text = best['text']
    faults = {
        'empty': not text.strip(),
        'cut off': best.get('truncated'),
        'repetition': has_loop(list(map(hash, text.split() if ' ' in text else text))),
        FOREIGN_SOURCE: _is_foreign(line, languages[0]),
        'other language': _is_foreign(text, languages[1]),
    }
    return next((fault for fault, is_there in faults.items() if is_there), '')


def start_of(teacher: str, directions: Mapping[str, tuple[str, str]], megabytes: float) -> Config | None:
    """The config of a student with all encoder layers of a teacher and some decoder layers, to begin with.

    None if it would be too large, if the teacher is no deep Transformer that was trained here, or if its pieces do not
    fit the student's text: other names of languages, few positions. Raises UserError if the run cannot be copied.
    """
    run = Run(split_reference(teacher)[0])
    config, tokenizer = run.read_config(), run.read_tokenizer()
    is_deep = isinstance(config.model, TransformerConfig) and config.model.num_decoder_layers > BEGUN_DECODER_LAYERS
    is_imported = (run.path / ORIGIN_FILE).exists() or not isinstance(tokenizer, SentencePieceTokenizer)
    has_tags = bool(tokenizer.languages)
    if (
        not is_deep
        or is_imported
        or config.model.max_positions is not None
        or has_tags != config.data.language_tags
        or any(name != '-'.join(pair) for name, pair in directions.items())
    ):
        return None
    model = replace(config.model, num_decoder_layers=BEGUN_DECODER_LAYERS, embedding_from='')
    if _megabytes(model) > megabytes:
        return None
    refuse_links(run)
    return replace(config, model=model, training=replace(config.training, average_last=1))


def students(
    folder: Path, names: list[str], megabytes: float, start: Config | None = None
) -> tuple[str, list[Candidate]]:
    """What `clean` left out of the pairs in `raw` of a folder, and candidates of at most so many megabytes.

    A start, by `start_of`, is the last one.
    """
    raw = f'{folder.name}/raw'
    mixture = [
        CorpusConfig(name, f'{raw}/{name}.{{lang}}', f'{raw}/{name}.valid.{{lang}}', 0, None, *name.split('-'))
        for name in names
    ]
    source, target = names[0].split('-')
    own = {'language_tags': len(names) > 1, 'test': f'{raw}/{names[0]}.test.{{lang}}'}
    data = DataConfig(source, target, mixture=tuple(mixture), root=str(folder.absolute().parent), **own)
    usual = Config()
    cleaned, _ = clean(data, usual.check, Vocabulary(8000, usual.tokenizer), folder, overwrite=True)
    text = '\n'.join(map(str, cleaned))
    say(f'flax-transformer: {text}')  # before what fails if nothing is kept

    one, other = (folder / f'{names[0]}.{language}' for language in (source, target))
    valid = {'valid_source': one, 'valid_target': other}
    options = NewOptions(source=one, target=other, **valid, source_language=source, target_language=target)
    own['mixture'] = tuple(replace(corpus, train=f'{folder.name}/{corpus.name}.{{lang}}') for corpus in mixture)
    own |= {'train': DataConfig.train, 'validation': DataConfig.validation}
    fields = {f'data.{name}': value for name, value in own.items()} | STUDENT
    candidates = []
    for candidate in propose(folder, options)[1]:
        share = candidate.passes_of_a_step / len(names)
        base = changed(candidate.base, fields)
        candidate = replace(candidate, base=base, steps=candidate.steps * len(names), passes_of_a_step=share)
        size = _megabytes(candidate.base.model)
        if size <= megabytes:
            candidates.append(candidate)
        elif not candidates:
            raise UserError(f'--megabytes {megabytes:g}: expected at least {size:.1f}')
    if start is not None:
        candidates.append(_begun(candidates[-1], start))
    return text, candidates


def _begun(candidate: Candidate, start: Config) -> Candidate:
    """The candidate with the teacher's sizes, pieces, some of its changed copies and terms, and a lower rate."""
    base = candidate.base
    theirs = {name: min(getattr(start.data, name), most) for name, most in BEGUN_SHARES.items()}
    lengths = {name: max(getattr(data, name) for data in (base.data, start.data)) for name in _LENGTHS}
    rate = float(f'{base.optimizer.learning_rate * BEGUN_RATE:.2g}')
    base = replace(
        base,
        model=start.model,
        tokenizer=start.tokenizer,
        data=replace(base.data, language_tags=start.data.language_tags, **theirs, **lengths),
        optimizer=replace(base.optimizer, learning_rate=rate),
    )
    return replace(candidate, base=base, least_steps=min(BEGUN_STEPS, candidate.least_steps), start=start)


def _megabytes(model: ModelConfig) -> float:
    leaves = jax.tree.leaves(shapes_in_int8(family_of(model).parameter_shapes(model)))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves) / 1e6
