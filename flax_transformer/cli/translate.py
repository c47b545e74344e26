"""The commands `translate` and `warmup`."""

import contextlib
import json
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from flax_transformer.common.chunks import chunks_of
from flax_transformer.common.errors import BadInput, BadLine, UserError
from flax_transformer.common.files import write_whole
from flax_transformer.data.lines import no_such_file, read_lines
from flax_transformer.data.shards import InputFile, find_input
from flax_transformer.tasks.translation.documents.formats import FORMATS, format_of, read_document
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.inference.directions import goes_both_ways, pair_for
from flax_transformer.tasks.translation.inference.literals import with_literals
from flax_transformer.tasks.translation.inference.marked import Marked
from flax_transformer.tasks.translation.inference.result import DOUBTFUL, Translation, pharaoh
from flax_transformer.text.languages import is_named, name_of, two_letters

from .lines import (
    CHUNK,
    KEPT,
    LineWriter,
    Record,
    bar_of_lines,
    chunks,
    lines_from,
    read_records,
    to_json,
    write_record,
)
from .options import OfCheckpoint, ToTranslate, note, open_translator, parse, positional

if TYPE_CHECKING:
    from flax_transformer.tasks.translation.inference.translator import Translator


_LISTED = 10  # lines in a message
_READ, _READ_CHARACTERS = 100, 10_000  # lines, and characters, that tell the language
FLAGS = {
    'truncated': 'translations cut at their longest permitted length (see --decoding.max-extra-tokens, max-tokens)',
    'split': 'lines translated in parts, by sentences or for being longer than --decoding.max-source-tokens',
    'repetition': 'translations that repeat themselves (see --decoding.no-repeat-ngram)',
    'missing': 'translations that lack required phrases',
    'doubtful': f'doubtful translations, of a quality below {DOUBTFUL} (--format jsonl says which: see "quality")',
    'replaced': 'lines that were not valid UTF-8, their invalid bytes translated as U+FFFD',
}


# Where a line of text begins, ends, goes on after a tab, or after a sentence and more than one space.
_BLANKS = re.compile(r'(\A[\ufeff\s]+|\s*\t\s*|(?<=[.!?:;]) {2,}|\s+\Z)')
_BREAKS = re.compile(r'[\v\f\x1c-\x1e\x85\u2028\u2029]|\r(?!\Z)')  # but LF, which ends a line, and CR before it
InputFormat = Literal['auto', 'text', 'jsonl', *FORMATS]


@dataclass(frozen=True)
class TranslateOptions(OfCheckpoint, ToTranslate):
    """Translate standard input to standard output: N lines in, N lines out, in order, blank for blank.

    Only a line feed ends a line. Several RUNs vote as an ensemble. A model of two languages translates from the one
    that the text is in, unless --from, --to or --shard is given.
    """

    input: Path | None = None  # a file to read instead of standard input; for --shard a pattern: 'part-*.zst'
    output: Path | None = None  # a file to write instead of standard output; for --shard a folder
    shard: str | None = None  # 3/64: translate the third of 64 equal shares of the input, resuming where it was killed
    resume: bool = False  # continue after the last whole line of --output
    format: Literal['text', 'jsonl'] = 'text'  # jsonl: an object per line, with scores, tokens and flags
    # jsonl: {"text": ...} per line; optional: "prefix", "required", "protect". auto: by its name and how it begins
    input_format: InputFormat = 'auto'
    glossary: Path | None = None  # terms: on each line one, a tab and its translation; `a|b` allows two
    n_best: int | None = None  # translations of each line; in text as `line ||| translation ||| score`
    show_attention: bool = False  # typing: draw under each answer what it attended to, in characters
    alignments: Path | None = None  # a file for word alignments by attention, `0-0 1-2` per line
    backend: Literal['jax', 'ctranslate2'] = 'jax'  # ctranslate2: its search instead of ours, on the CPU
    compute_type: Literal['float32', 'int8'] = 'float32'  # ctranslate2's; int8: faster, not quite the same
    invalid: Literal['refuse', 'replace'] = 'refuse'  # a line that is not UTF-8: stop there, or use U+FFFD and a flag


def main(argv: list[str]) -> None:
    options = parse('translate', TranslateOptions, argv, task='translation', most=None)
    if options.n_best is not None:
        options = replace(options, decoding=replace(options.decoding, n_best=options.n_best))
    if options.input is not None and options.shard is None and not options.input.exists():
        raise UserError(f'--input: {no_such_file(options.input)}')
    if options.input_format == 'auto':
        is_stream = options.input is None or options.shard is not None
        try:
            options = replace(options, input_format='text' if is_stream else format_of(options.input))
        except UserError as error:
            raise UserError(f'{error}; or give --input-format') from None
    _check(options)
    runs = positional(argv)
    for run in runs[1:]:
        if Path(run).is_file():
            raise UserError(f'{run} is a file, not a run: to translate its lines, give --input {run}')

    if options.input_format not in ('text', 'jsonl'):
        translate = _translate_document
    else:
        translate = _translate_stream if options.shard is None else translate_shard
    for name, count in translate(runs, options).items():
        note(f'{FLAGS[name]}: {count:,}')


def _check(options: TranslateOptions) -> None:
    is_shard = options.shard is not None
    links = options.alignments
    files = [file for file in (options.input, options.output) if file is not None and file.is_file()]
    faults = {
        "--shard reads files and writes numbered ones: give --input 'part-*.zst' and --output FOLDER": (
            is_shard and None in (options.input, options.output)
        ),
        '--show-attention draws as you type: without --shard only': is_shard and options.show_attention,
        'got --resume: a shard always resumes; leave it out': is_shard and options.resume,
        'got --alignments: without --shard only; leave it out': is_shard and links is not None,
        '--resume counts one line for each input line; with --n-best give --format jsonl': (
            options.resume and options.decoding.n_best > 1 and options.format == 'text'
        ),
        '--resume continues --output alone; with alignments give --format jsonl, which holds them': (
            options.resume and links is not None
        ),
        f'--input and --output are both {options.output}; give another --output': (
            len(files) == 2 and os.path.samefile(*files)
        ),
        f'{links} is not empty, or --output; give another --alignments': (
            links is not None and (links == options.output or (links.is_file() and links.stat().st_size))
        ),
        '--glossary needs --backend jax': options.backend != 'jax' and options.glossary is not None,
        f'--compute-type {options.compute_type} needs --backend ctranslate2; with jax use --decoding.weights': (
            options.backend == 'jax' and options.compute_type != 'float32'
        ),
    }
    for fault, is_there in faults.items():
        if is_there:
            raise UserError(fault)


def _translate_stream(runs: list[str], options: TranslateOptions) -> Counter[str]:
    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if options.input is None else stack.enter_context(options.input.open('rb'))
        is_typed = options.input is None and stream.isatty()
        if options.show_attention and not is_typed:
            raise UserError('--show-attention draws under each answer as you type; got input that is not a terminal')
        translator = open_translator(runs, options)
        if is_typed:
            translator = _ready(translator, options)
        source = _first_bytes(options.input)
        writer = stack.enter_context(LineWriter(options.output, resume=options.resume, source=source))
        links = None if options.alignments is None else stack.enter_context(options.alignments.open('w'))
        done = writer.num_before
        lines = lines_from(stream, options, done, translator, 'translate', has_ends=_is_plain(options))
        records = read_records(lines, options.input_format, done)
        if not is_typed:
            first = next(records, [])
            records = chain([first], records)
            if done and options.input:  # its beginning tells, too, where it was resumed
                again = stack.enter_context(options.input.open('rb'))
                begin = lines_from(again, options, 0, translator, 'translate', has_ends=_is_plain(options))
                first = next(read_records(begin, options.input_format, 0), [])
            elif done and _is_open(options) and goes_both_ways(translator.pairs):
                raise UserError('--resume goes on with standard input; give --from or --to, or the input by --input')
            translator = _ready(translator, options, [record.text for record in first])
        return _translate(translator, options, records, writer.write, done=done, links=links)


def _first_bytes(file: Path | None) -> bytes | None:
    if file is None or not file.is_file():
        return None
    with file.open('rb') as opened:
        return opened.read(1 << 20)


def translate_shard(
    runs: list[str], options: TranslateOptions, files: list[InputFile] | None = None, remedy: str = ''
) -> Counter[str]:
    """Translates a shard of files, those of `--input` by default, resuming; returns how many lines have each flag."""
    from flax_transformer.engine.preemption import stop_on_signals

    from .shards import ShardOfFiles

    with stop_on_signals():
        files = find_input(str(options.input)) if files is None else files
        work = ShardOfFiles(options.shard, files, options.output, remedy)
        translator = _ready(open_translator(runs, options), options)
        names = ('format', 'input_format', 'glossary', 'backend', 'compute_type')
        record = {name: getattr(options, name) for name in names}
        if options.decoding.weights == 'auto':  # another machine may choose otherwise
            record['matrices'] = 'int8' if translator.programs.uses_int8 else 'float32'
        work.agree(record, options.decoding, translator.params)

        def translate(piece: list[bytes], write: Callable[[list[str]], None], done: int, place: str) -> Counter[str]:
            lines = chunks(piece, invalid=options.invalid, first=done + 1, place=place)
            records = read_records(lines, options.input_format, done, place)
            return _translate(translator, options, records, write, done=done, place=place)

        return work.run(translate)


def _translate_document(runs: list[str], options: TranslateOptions) -> Counter[str]:
    """Translates a document. Until it is whole, the translations are in a file next to it, a line each."""
    is_unfit = options.format != 'text' or options.decoding.n_best > 1 or options.alignments or options.show_attention
    if is_unfit or options.shard or (options.resume and not options.output):
        raise UserError(
            f'the input is a document ({options.input_format}): leave out --format, --n-best, --alignments, --shard '
            'and --show-attention; give --resume with --output'
        )
    place = str(options.input or 'standard input')
    output = options.output
    content = options.input.read_bytes() if options.input else sys.stdin.buffer.read()
    document = read_document(content, options.input_format, place)
    partial = None if output is None else output.with_name(f'{output.name}.lines')
    if output and output.exists():
        if options.resume and not partial.exists():
            note(f'{output} is whole')
            return Counter()
        raise UserError(f'{output} is there already; give another --output')
    for fault in document.faults:
        note(fault)
    records = [Record(line.text, marked=line) for line in document.lines]
    texts = [line.text for line in document.lines]
    translator = _ready(open_translator(runs, options), options, texts, document.languages)
    language = two_letters(translator.target_language or '')
    others = [other for other in document.languages if language and two_letters(other) != language]
    if others:
        raise UserError(
            f'{place}: got a file for translations into {others[0]}, expected {language}; change it there, or give '
            'another run'
        )

    def translate(done: int, write: Callable[[list[str]], None]) -> Counter[str]:
        chunks = chunks_of(records[done:], CHUNK)
        return _translate(translator, options, chunks, write, done=done, place=f'{place}: text')

    lines: list[str] = []
    if partial is None:
        counts = translate(0, lines.extend)
    else:
        with LineWriter(partial, resume=options.resume, source=content) as writer:
            counts = translate(writer.num_before, writer.write)
        lines = read_lines(partial)
        if len(lines) != len(records):
            raise UserError(f'{partial} has {len(lines)} lines, {place} {len(records)} texts; delete {partial}')
    texts = list(map(json.loads, lines))
    whole = document.with_texts(texts, language)
    if output is None:
        sys.stdout.write(whole)
    else:
        write_whole(output, whole)
        partial.unlink()
    for unit in document.left(texts):
        note(f'{place}, {unit} is left untranslated: its tags or placeholders could not be kept')
    return counts


def _ready(
    translator: 'Translator', options: TranslateOptions, texts: Sequence[str] = (), into: Sequence[str] = ()
) -> 'Translator':
    """What translates, by the search that is asked for; the texts tell the direction if nobody has."""
    translator = _facing(translator, options, texts, into)
    note(f'translating {translator.languages}')
    if options.backend == 'jax':
        return translator
    from flax_transformer.interop.ctranslate2 import CTranslate2Translator

    return CTranslate2Translator.of(translator, options.compute_type)


def _facing(
    translator: 'Translator', options: TranslateOptions, texts: Sequence[str], into: Sequence[str]
) -> 'Translator':
    """The translator, into the other language if the texts are in the one that it translates into.

    Only for those that know two languages, both ways, where nobody has said which is meant. A file that says which it
    is translated into, `into`, says it.
    """
    if not _is_open(options) or not goes_both_ways(translator.pairs):
        return translator
    targets = set(map(two_letters, into))
    pair = next((pair for pair in translator.pairs if two_letters(pair[1]) in targets), None)
    pair = pair or pair_for('\n'.join(texts[:_READ])[:_READ_CHARACTERS], translator.pairs)
    if pair is None or pair[0] == translator.source_language:
        return translator
    languages = dict(zip(('source_language', 'target_language'), pair, strict=True))
    return translator.with_decoding(replace(translator.decoding, **languages))


def _is_open(options: TranslateOptions) -> bool:
    """Whether nobody has said which language is meant."""
    return options.decoding.source_language is None and options.decoding.target_language is None


def _translate(
    translator: 'Translator',
    options: TranslateOptions,
    chunks_of_records: Iterable[list[Record]],
    write: Callable[[list[str]], None],
    *,
    done: int,
    links: TextIO | None = None,
    place: str = 'input line',
) -> Counter[str]:
    """Translates chunk by chunk, after `done` lines; returns how many translations have each flag.

    Word alignments go to `links`; messages put `place` before a line's number.
    """
    from flax_transformer.data.audit.language import is_foreign

    counts: Counter[str] = Counter()
    has_blanks = _is_plain(options)
    foreign = []  # lines in another language
    source = translator.source_language
    terms = {} if options.glossary is None else {'glossary': Glossary.from_file(options.glossary)}

    def finish(records: list[Record], first: int) -> None:
        prefixes = [record.prefix for record in records]
        required = [record.required for record in records]
        wanted = {**terms, 'required': required} if any(required) else terms
        cells = [_BLANKS.split(record.text) if has_blanks else [record.text] for record in records]
        owners = []
        texts = []
        for i, (record, parts) in enumerate(zip(records, cells, strict=True)):
            owners += [i] * len(parts[::2])
            if record.marked:
                texts.append(record.marked)
            elif record.protect:
                texts += [with_literals(Marked(text), record.protect) for text in parts[::2]]
            else:
                texts += parts[::2]
        try:
            translations = translator(
                texts,
                prefixes=prefixes if any(prefixes) else None,
                **wanted,
                alignment=links is not None,
                progress=bar.update,
            )
        except BadLine as bad:
            finish(records[: owners[bad.index]], first)
            raise BadInput(f'{place} {first + owners[bad.index] + 1}: {bad.fault}{KEPT}') from None

        lines = []
        rest = iter(translations)
        for number, (record, parts) in enumerate(zip(records, cells, strict=True), start=first):
            translation = _joined([next(rest) for _ in parts[::2]], parts[1::2])
            if record.replaced:
                translation = replace(translation, replaced=True)
            lines += _write(translation, record, options, number)
            counts.update(name for name in FLAGS if getattr(translation, name))
        write(lines)
        if links is not None:
            links.writelines(pharaoh(translation.alignment or ()) + '\n' for translation in translations)
        if options.show_attention:
            _show_attention(translator, records, translations)
        if is_named(source):  # else nobody could tell
            numbers = enumerate(records, start=first + 1)
            foreign.extend(str(number) for number, record in numbers if is_foreign(record.text, source))

    with bar_of_lines(options) as bar:
        for records in chunks_of_records:
            finish(records, done)
            done += len(records)
    if foreign:
        more = ' ...' * (len(foreign) > _LISTED)
        note(f'lines that are not in {name_of(source)}: {len(foreign):,}; {place} {", ".join(foreign[:_LISTED])}{more}')
    return counts


def _is_plain(options: TranslateOptions) -> bool:
    """Whether lines of text give lines of text, so that the blanks around them, tabs and CR can be kept."""
    has_more = options.alignments or options.show_attention or options.shard or options.decoding.n_best > 1
    return options.input_format == options.format == 'text' and not has_more


def _joined(translations: list[Translation], blanks: list[str]) -> Translation:
    if not blanks:
        return translations[0]
    text = translations[0].text
    for blank, translation in zip(blanks, translations[1:], strict=True):
        text += blank + translation.text
    text = _BREAKS.sub(' ', text)
    flags = ('truncated', 'split', 'repetition')
    any_has = {name: any(getattr(translation, name) for translation in translations) for name in flags}
    missing = tuple(phrase for translation in translations for phrase in translation.missing)
    quality = min((cell.quality for cell in translations if cell.quality is not None), default=None)
    return replace(translations[0], text=text, missing=missing, quality=quality, **any_has)


def _write(translation: Translation, record: Record, options: TranslateOptions, number: int) -> list[str]:
    n_best = options.decoding.n_best
    if record.marked:
        return [to_json(translation.text)]
    if options.format == 'jsonl':
        return [write_record(record, _fields(translation, n_best))]
    if n_best == 1:
        return [translation.text]
    hypotheses = translation.n_best or (translation,)
    return [f'{number} ||| {hypothesis.text} ||| {hypothesis.score:.6f}' for hypothesis in hypotheses]


def _fields(translation: Translation, n_best: int) -> dict[str, Any]:
    fields = {'translation' if key == 'text' else key: value for key, value in asdict(translation).items()}
    fields.pop('n_best')
    alignment = fields.pop('alignment')
    if alignment is not None:
        fields['alignment'] = pharaoh(alignment)
    if n_best > 1:
        keys = ('text', 'score', 'log_prob', 'num_tokens', 'truncated', 'quality')
        fields['n_best'] = [{key: getattr(hypothesis, key) for key in keys} for hypothesis in translation.n_best]
    return fields


def _show_attention(translator: 'Translator', records: list[Record], translations: list[Translation]) -> None:
    from flax_transformer.tasks.translation.inspection import attention_text

    for record, translation in zip(records, translations, strict=True):
        drawn = attention_text(translator, record.text, translation, shutil.get_terminal_size().columns)
        if drawn is not None:
            print(drawn, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class WarmupOptions(ToTranslate):
    """Compile every shape that `translate` uses and keep the programs in the cache folder.

    Later starts find them there. Give the same RUN, --decoding and --parallel fields as to `translate`.
    """


def warmup(argv: list[str]) -> None:
    options = parse('warmup', WarmupOptions, argv, task='translation', most=None)
    import jax

    translator = open_translator(positional(argv), options)
    started = time.perf_counter()
    count = translator.warm_up()
    folder = jax.config.jax_compilation_cache_dir or 'memory alone: the compilation cache is off'
    print(f'{count} shapes in {time.perf_counter() - started:.1f} s, kept in {folder}')
