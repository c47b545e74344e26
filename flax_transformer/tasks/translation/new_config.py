"""A config of a fitting size for two aligned files: how large a model, and for how long, by pairs and time."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flax_transformer.common.errors import UserError
from flax_transformer.common.files import write_whole
from flax_transformer.common.quiet import say
from flax_transformer.data.audit.config import CheckConfig
from flax_transformer.data.bitext.config import DEFAULT_VALIDATION, CorpusConfig, DataConfig
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.data.bitext.sources import open_corpus, open_training
from flax_transformer.data.lines import content_suffix
from flax_transformer.engine.runs.run_directory import split_reference
from flax_transformer.engine.task_value import Command
from flax_transformer.tasks import new_config as shared
from flax_transformer.tasks.api import open_run
from flax_transformer.tasks.new_config import Candidate, Proposal, between
from flax_transformer.text.tokenizer import count_unspaced, is_unspaced

from .metrics import count_words

HELD_OUT = 1000  # pairs, but at most one in ten
LEAST = 10  # pairs
SAMPLE = 50_000  # most pairs that are kept; a larger corpus gives at least half of that
_SPARE = 0.99  # share of the expected characters: what is held out may have longer lines
_LANGUAGE = re.compile(r'[a-z]{2,3}([_-][A-Za-z]+)?')
FILL = 0.95  # share of a packed row that tokens take
ROWS = (64, 128, 256)  # slots of a row
LEFT_OUT = 0.002  # share of pairs that may be too long for a row
LEAST_WIDTH = 128  # the narrowest model that was measured
LEAST_STEPS = 1500  # a wider one should have so many
# Fine-tuning.
REPLAYED = 4000  # pairs of each corpus that the run has learned from, at most
TUNED_TOKENS = 1024  # a step
TUNED_RATE = 2e-4
CHARACTERS = 3.5  # of a token, about: of the interfaces and sentences that were tried
TUNED_PASSES = (300, 12), (4_000, 4)  # by pairs
MORE = (4_000, 1), (16_000, 3)  # factor on the measured passes, by pairs: a small text is soon memorized


class Row(NamedTuple):
    """The sizes that were trained on so many pairs; between two rows, each number follows a power of the pairs."""

    pairs: int
    pieces: int
    d_model: int
    layers: int  # a side
    weight_decay: float
    learning_rate: float
    tokens_per_step: int
    passes: float


TABLE = (  # RESULTS.md, "How much text is needed" and "Translation"; the last row is the paper's, which nobody ran here
    Row(1_000, 400, 192, 3, 1.0, 5e-3, 2048, 60),
    Row(4_000, 1_200, 192, 3, 1.0, 5e-3, 2048, 40),
    Row(16_000, 4_000, 192, 3, 0.5, 8e-3, 2048, 25),
    Row(64_000, 8_000, 192, 3, 0.2, 5e-3, 2048, 12),
    Row(162_000, 8_000, 192, 3, 0.1, 5e-3, 2048, 5),
    Row(4_500_000, 37_000, 512, 6, 0.1, 7e-4, 24_576, 5),
)
# Dropout by passes: docs/how-to/data.md, tatoeba_en_de and the ablations' best, 64k and 16k pairs.
DROPOUT = (np.log([3, 5, 8, 12, 20, 30, 45]), [0.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.4])
MOST_DROPOUT = (2_000, 0.4), (8_000, 0.3)  # pairs, and what they get at most


@dataclass(frozen=True)
class NewOptions(shared.NewOptions):
    source: Path | None = None  # a text file, one sentence a line, plain or compressed
    target: Path | None = None  # its translations, line by line
    valid_source: Path | None = None  # another text file, to choose the best checkpoint by
    valid_target: Path | None = None  # its translations
    test_source: Path | None = None  # another text file, for the final score
    test_target: Path | None = None  # its translations
    source_language: str | None = None  # such as en; None: from the end of the file's name, else from the text
    target_language: str | None = None  # such as de; None: as above
    init_from: str = ''  # a run, or a model of the package, to fine-tune: its text is mixed in where it is at hand


def row_for(pairs: int) -> Row:
    """The sizes for a number of pairs.

    >>> [(row.d_model, row.pieces) for row in map(row_for, (100, 29_000, 99_999, 100_001, 1_000_000))]
    [(192, 400), (192, 5400), (192, 8000), (192, 8000), (320, 18500)]
    """
    known, *columns = zip(*TABLE, strict=True)
    row = Row(pairs, *(between(pairs, *zip(known, column, strict=True)) for column in columns))
    return row._replace(
        pieces=round(row.pieces / 100) * 100,
        d_model=round(row.d_model / 64) * 64,
        layers=round(row.layers),
        weight_decay=float(f'{row.weight_decay:.2g}'),
        learning_rate=float(f'{row.learning_rate:.2g}'),
        tokens_per_step=round(row.tokens_per_step / 1024) * 1024,
        passes=round(row.passes, 2),
    )


class Facts(NamedTuple):
    """What two aligned files hold, and some of their pairs."""

    pairs: int
    words: tuple[int, int]  # source and target; characters where words have no spaces between
    characters: int  # both sides
    sample: Pairs


class Pieces(NamedTuple):
    vocab_size: int
    lengths: np.ndarray  # [2, pairs]: pieces of the sample's sources and targets, EOS included

    @property
    def per_pair(self) -> np.ndarray:
        return self.lengths.mean(axis=1)


def read_facts(source: Path, target: Path) -> Facts:
    """How long two files of aligned lines are, and a sample of their pairs."""
    from flax_transformer.data.bitext.text_files import AlignedFiles

    from .preparation import EvenSample  # imports JAX

    sample = EvenSample(SAMPLE)
    characters = 0
    words = [0, 0]
    for pairs in AlignedFiles(f'{source},{target}', [(source, target)]).pairs():
        for side, lines in enumerate((pairs.sources, pairs.targets)):
            count = count_unspaced if is_unspaced(lines[:100]) else count_words
            words[side] += sum(map(count, lines))
            characters += sum(map(len, lines))
        sample.add(pairs)
    return Facts(sample.total, tuple(words), characters, Pairs(*sample.sides))


def language_of(file: Path, lines: list[str], side: str, given: str | None) -> tuple[str, str]:
    """The language of a side, and a note if its text looks like another one.

    It is the one given, else the end of the file's name (train.en.gz), else what the lines look like.
    """
    from flax_transformer.data.audit.language import is_known, is_language, language_of_side

    look, share = language_of_side(lines) or ('', 0)
    suffix = content_suffix(file).removeprefix('.')
    named = suffix if _LANGUAGE.fullmatch(suffix) and is_known(suffix) else ''
    language = given or named or (look if share >= 0.5 else '')
    if not language:
        raise UserError(
            f'{file}: the language is neither in the name, as in train.en, nor clear from the text; '
            f'give --{side}-language'
        )
    if not re.fullmatch(r'[\w-]+', language):
        raise UserError(f'--{side}-language {language!r}: expected a code, such as de, pt_BR or deu_Latn')
    if share > 0.5 and not is_language(look, language) and is_known(language):
        return language, f'{file} looks like {look}, not {language}; if so, give --{side}-language {look}'
    return language, ''


def fit_vocabulary(facts: Facts, wanted: int, characters_per_piece: int, *, held_out: int = 0) -> Pieces:
    """The sample in pieces of a joint vocabulary: as many as wanted, or as can be learned without `held_out` pairs."""
    from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

    sides = facts.sample.sources, facts.sample.targets
    lines = [*sides[0], *sides[1]]
    least = 300 + len(set().union(*lines))  # bytes, special pieces, characters, and some to spare
    characters = facts.characters * (1 - held_out / facts.pairs) * _SPARE
    size = max(min(wanted, int(characters / characters_per_piece)), least)
    while True:
        size = size if size < 1000 else size // 100 * 100
        try:
            tokenizer = SentencePieceTokenizer.train(lines, vocab_size=size)
            break
        except UserError:
            if size <= least:
                few = f'got {facts.pairs} sentence pairs: too little text for a vocabulary of {size}'
                raise UserError(few) from None
            size = max(least, int(size * 0.8))
    return Pieces(size, np.array([list(map(len, tokenizer.encode(side))) for side in sides]))


def propose(file: Path, options: NewOptions) -> Proposal:
    """The candidates for two files; holds out validation pairs if none are given."""
    _check(file, options)
    facts = read_facts(options.source, options.target)
    source, source_note = language_of(options.source, facts.sample.sources, 'source', options.source_language)
    target, target_note = language_of(options.target, facts.sample.targets, 'target', options.target_language)
    for note in filter(None, (source_note, target_note)):
        say(f'flax-transformer: {note}')
    if source == target:
        raise UserError(
            f'{options.source} and {options.target}: got {source} on both sides, expected two languages; '
            'give --source-language and --target-language'
        )
    if facts.pairs < LEAST:
        raise UserError(f'{options.source}: got {facts.pairs} sentence pairs, expected at least {LEAST}')

    held_out = min(HELD_OUT, facts.pairs // 10) if options.valid_source is None else 0
    row = row_for(facts.pairs - held_out)
    pieces = fit_vocabulary(facts, row.pieces, CheckConfig().characters_per_piece, held_out=held_out)
    data = _data(file, options, (source, target), held_out)
    if options.init_from:
        return _fine_tuning(file, options.init_from, facts, data)
    if held_out:
        section = DataConfig(**{name.removeprefix('data.'): value for name, value in data.items()})
        open_training(section.corpora[0], section)  # raises if the text repeats itself too much

    lines = [f'{options.source.name} and {options.target.name}: {facts.pairs:,} pairs {source}-{target}']
    for side, words, tokens in zip(('source', 'target'), facts.words, pieces.per_pair, strict=True):
        lines.append(f'  {side}  {words:,} words, {words / facts.pairs:.1f} a line, {tokens:.1f} tokens')
    if held_out:
        lines.append(f'  {held_out:,} of the pairs are held out for validation')
    if pieces.vocab_size < row.pieces:
        lines.append(f'  {row.pieces:,} pieces would be usual, but the text is too short: {pieces.vocab_size:,}')
    slots = data_slots(pieces)
    left_out = (pieces.lengths.max(0) > slots).mean()
    lines.append(f'  {left_out:.1%} of the pairs are longer than a row of {slots} slots, and left out')
    return lines, candidates_for(facts, pieces, row, data, held_out=held_out)


def _fine_tuning(file: Path, start: str, facts: Facts, data: dict[str, Any]) -> Proposal:
    """The candidate that goes on from a run, with two of three pairs from what the run has learned: it forgets less.

    Those pairs are written next to the config: a few are enough, and to tokenize all would take longer than training.
    """
    from .preparation import EvenSample  # imports JAX

    run = open_run(split_reference(start)[0], 'translation')
    config = run.read_config()
    if config.data.language_tags:
        run.read_matching_tokenizer(config).tag_id(data['data.target_language'])  # raises for a language it lacks
    lines = [f'{facts.pairs:,} pairs, to go on from {start}']
    replayed = []
    for corpus in config.data.corpora:
        known = file.with_name(f'{file.stem}.{corpus.name}.tsv')
        if known.exists():
            raise UserError(f'{known} exists, where pairs of {start} would go; remove it, or name another config')
        sample = EvenSample(REPLAYED)
        try:
            for pairs in open_corpus(corpus.train, config.data, corpus.languages).pairs():
                sample.add(pairs)
        except UserError:
            missing = f'  {corpus.train}, which it has learned from, is not here; without it more is forgotten'
            if missing not in lines:
                lines.append(missing)
            continue
        write_whole(known, ''.join(f'{source}\t{target}\n' for source, target in zip(*sample.sides, strict=True)))
        count = len(sample.sides[0])
        replayed.append(replace(corpus, train=known.name, validation='', held_out=count // 10, weight=1.0))
        lines.append(f'  {count:,} pairs of {corpus.train}, which it has learned from: {known.name}')

    languages = {side: data[f'data.{side}'] for side in ('source_language', 'target_language')}
    held_out = data['data.held_out']
    validation = '' if held_out else data['data.validation']
    taken = {'test', *(corpus.name for corpus in replayed)}
    name = f'own {file.stem}' if file.stem in taken else file.stem
    own = CorpusConfig(name, data['data.train'], validation, held_out, max(len(replayed), 1) / 2, **languages)
    kept = {name: getattr(config.data, name) for name in ('language_tags', 'source_length', 'target_length')}
    section = DataConfig(**languages, **kept, mixture=(own, *replayed), test=data['data.test'], root=data['data.root'])

    own_tokens = TUNED_TOKENS * FILL / (3 if replayed else 1)
    passes_of_a_step = own_tokens / (facts.characters / 2 / CHARACTERS)
    steps = max(round(between(facts.pairs, *TUNED_PASSES) / passes_of_a_step), 20)
    fields = {
        'optimizer.learning_rate': TUNED_RATE,
        'optimizer.schedule': 'linear',
        'training.tokens_per_step': TUNED_TOKENS,
        'training.evaluate_bleu': 120,
        'training.calibrate_on': 120,
        'training.best_by': 'bleu',
        'training.sample_translations': 0,
    }

    def rarely_evaluated(_: float) -> dict[str, int]:
        return {'training.evaluate_every': 200, 'training.checkpoint_every': 200}

    base = shared.changed(replace(config, data=section), fields)
    return list(dict.fromkeys(lines)), [
        Candidate(base, steps, passes_of_a_step, evaluation=0.2, adapted=rarely_evaluated)
    ]


def data_slots(pieces: Pieces) -> int:
    """The slots of a row that is long enough for nearly all pairs."""
    long = np.quantile(pieces.lengths.max(0), 1 - LEFT_OUT)
    return next((slots for slots in ROWS if long <= slots), ROWS[-1])


def candidates_for(
    facts: Facts, pieces: Pieces, row: Row, data: dict[str, Any], *, held_out: int = 0
) -> list[Candidate]:
    """Models from the narrowest to that of the table."""
    slots = data_slots(pieces)
    per_step = max(row.tokens_per_step, slots)
    passes_of_a_step = per_step * FILL / ((facts.pairs - held_out) * pieces.per_pair[1])
    steps = max(round(row.passes / passes_of_a_step), 200)
    fields = data | {
        'model.vocab_size': pieces.vocab_size,
        'data.source_length': slots,
        'data.target_length': slots,
        'optimizer.learning_rate': row.learning_rate,
        'optimizer.weight_decay': row.weight_decay,
        'training.tokens_per_step': per_step,
        'decoding.max_source_tokens': slots,
    }
    evaluation = 2 + (held_out or HELD_OUT) * pieces.per_pair[1] / per_step / 3  # a pass forward; samples
    most_dropout = between(facts.pairs, *MOST_DROPOUT)

    def dropout(passes: float) -> dict[str, float]:
        rate = float(np.interp(np.log(passes), *DROPOUT))
        return {'model.dropout_rate': round(min(most_dropout, rate), 2)}

    more = between(facts.pairs, *MORE)
    training = {'more': more, 'least_steps': min(LEAST_STEPS, steps), 'evaluation': evaluation, 'adapted': dropout}
    candidates = []
    for width in sorted({min(LEAST_WIDTH, row.d_model), *range(LEAST_WIDTH, row.d_model + 1, 64)}):
        depth = row.layers if width == row.d_model else TABLE[0].layers
        sizes = {
            'model.d_model': width,
            'model.d_ff': 4 * width,
            'model.num_heads': 4 if width <= 256 else 8,
            'model.num_encoder_layers': depth,
            'model.num_decoder_layers': depth,
        }
        candidates.append(Candidate.like('tatoeba_en_de', fields | sizes, steps, passes_of_a_step, **training))
    return candidates


def _check(file: Path, options: NewOptions) -> None:
    if options.source is None or options.target is None:
        raise UserError(
            f'new: give --source and --target, as in: new {file} --source train.en --target train.de; of pairs in a '
            'table, write each column to a file, as in: cut -f1 pairs.tsv > train.en'
        )
    for kind in ('valid', 'test'):
        if (getattr(options, f'{kind}_source') is None) != (getattr(options, f'{kind}_target') is None):
            raise UserError(f'got one of --{kind}-source and --{kind}-target, expected both or neither')
    for path in (file, *(value for value in vars(options).values() if isinstance(value, Path))):
        if path != file and not path.is_file():
            raise UserError(f'{path} does not exist, or is not a file')
        check_path(path)


def check_path(path: Path) -> None:
    """Raises UserError for a path that a config's name of a corpus cannot hold."""
    whole = str(path.absolute())
    if ',' in whole or '{lang}' in whole:
        raise UserError(f'{whole}: a comma or {{lang}} has a meaning in names of corpora; rename it')


def _data(file: Path, options: NewOptions, languages: tuple[str, str], held_out: int) -> dict[str, Any]:
    root = file.absolute().parent

    def name(*paths: Path | None) -> str:
        return ','.join(shared.from_folder(path, root) for path in paths if path)

    return {
        'data.source_language': languages[0],
        'data.target_language': languages[1],
        'data.train': name(options.source, options.target),
        'data.validation': name(options.valid_source, options.valid_target) or DEFAULT_VALIDATION,
        'data.held_out': held_out,
        'data.test': name(options.test_source, options.test_target),
        'data.root': str(root),
    }


PROPOSE = Command(NewOptions, propose)
