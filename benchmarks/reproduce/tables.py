"""What is measured: experiments, ways to score their runs, and the tables of RESULTS.md whose rows they are.

The ablations look at the validation set alone, so that the test set decides nothing.
"""

from dataclasses import dataclass
from typing import Literal

Part = Literal['validation', 'test']


@dataclass(frozen=True)
class Experiment:
    """A config, with some fields changed if need be; several seeds of it are trained."""

    name: str  # also the folder of its runs
    config: str  # a shipped config's name, or a file
    fields: str = ''  # options of `train`
    pairs: int | None = None  # train on the first of these pairs in a shuffled order; None: on all
    teachers: tuple['Experiment', ...] = ()  # seed 1 of each adds the text as it translates it, forth or back


@dataclass(frozen=True)
class Measure:
    """How the runs are scored: options of `evaluate`, besides the set's."""

    label: str = ''  # names its files; '': the run's own settings
    options: str = ''
    validation: str | None = None  # the validation set, as a corpus is named; None: that of the config
    test: str | None = None  # likewise
    has_test: bool = True  # False: never look at the test set


VALIDATION_ONLY = Measure(has_test=False)


@dataclass(frozen=True)
class Entry:
    """A row of a table."""

    name: str  # its first cell, which no other row of the table has
    experiment: Experiment
    measure: Measure = Measure()
    what: str = ''  # its cell "what differs"
    published: str = ''  # the best number that others have published for the same, and its source


@dataclass(frozen=True)
class Table:
    """A table of RESULTS.md."""

    name: str
    columns: Literal['results', 'ablation', 'search']
    entries: tuple[Entry, ...]


WU = '41.02, Wu et al. 2021'
EN_DE_TOK = 'multi30k_en_de_tok'
SHORTER = '--training.steps 4000 --model.dropout-rate 0.2'
BACK = '--data.source-language de --data.target-language en'
TEACHER = Experiment('teachers/multi30k_en_de_tok', EN_DE_TOK, SHORTER)
BACK_TEACHER = Experiment('teachers/multi30k_de_en_tok', EN_DE_TOK, f'{SHORTER} {BACK}')
LONGER = '--training.steps 6000 --model.dropout-rate 0.2'
STUDENT = Experiment(f'{EN_DE_TOK}_diversified', EN_DE_TOK, LONGER, teachers=(TEACHER, BACK_TEACHER))

TEACHERS = (
    Entry('teacher en-de', TEACHER, VALIDATION_ONLY, '4,000 steps, dropout 0.2'),
    Entry('teacher de-en', BACK_TEACHER, VALIDATION_ONLY, 'the same, German to English'),
)

MULTILINGUAL = Experiment('multi30k_multilingual', 'multi30k_multilingual')
TATOEBA = Experiment('tatoeba_en_de', 'tatoeba_en_de')
ALL_REFERENCES = Measure(
    'all_references',
    validation='tatoeba_en_de/dev.en,tatoeba_en_de/dev.allrefs.de.tsv',
    test='tatoeba_en_de/test.en,tatoeba_en_de/test.allrefs.de.tsv',
)
DIRECTIONS = (('en', 'de'), ('en', 'fr'), ('en', 'cs'), ('de', 'en'))


def _alone(source: str, target: str) -> Entry:
    name = f'multi30k_{source}_{target}'
    fields = f'--data.source-language {source} --data.target-language {target}'
    return Entry(name, Experiment(name, 'multi30k_en_de', fields))


def _together(source: str, target: str) -> Entry:
    options = f'--data.source-language {source} --decoding.target-language {target}'
    measure = Measure(f'{source}-{target}', options, validation='multi30k/val.{lang}')
    return Entry(f'multi30k_multilingual {source}-{target}', MULTILINGUAL, measure)


RESULTS = (
    Entry(EN_DE_TOK, Experiment(EN_DE_TOK, EN_DE_TOK), published=WU),
    Entry(f'{EN_DE_TOK}, diversified', STUDENT, published=WU),
    *(_alone(source, target) for source, target in DIRECTIONS),
    *(_together(source, target) for source, target in DIRECTIONS),
    Entry('tatoeba_en_de', TATOEBA),
    Entry('tatoeba_en_de, all references', TATOEBA, ALL_REFERENCES),
)


def _entry(name: str, what: str, fields: str = '') -> Entry:
    config = 'benchmarks/reproduce/transformer_tiny.py'
    return Entry(name, Experiment(f'ablations/{name}', config, fields), VALIDATION_ONLY, what)


NO_WARMUP = '--optimizer.warmup-steps 0'
ADAM = '--optimizer.name adam'
PAPER_ADAM = f'{ADAM} --optimizer.learning-rate 7e-4'  # the peak of section 5.3's schedule: 512^-0.5 * 4000^-0.5
LAYERS = '--model.num-encoder-layers {} --model.num-decoder-layers {}'
PAPER_BASE = f'{PAPER_ADAM} --model.d-model 512 --model.d-ff 2048 --model.num-heads 8 {LAYERS.format(6, 6)}'
OF_PAPER = "Adam, learning rate 7e-4, the paper's base: 6 + 6 layers, d_model 512, d_ff 2048, 8 heads"
BASE = _entry('base', 'Transformer-Tiny: 4 + 4 layers, d_model 128, d_ff 256')

MODEL = (
    BASE,
    _entry('pre_norm', 'pre-LN', '--model.norm-first'),
    _entry('untied', 'three separate tables', '--model.tie-embeddings none'),
    _entry('no_warmup', 'no warm-up', NO_WARMUP),
    _entry('adam', 'Adam', ADAM),
    _entry('adam_rate_7e-4', 'Adam, learning rate 7e-4', PAPER_ADAM),
    _entry('adam_no_warmup', 'Adam, no warm-up', f'{ADAM} {NO_WARMUP}'),
    _entry('adam_pre_norm_no_warmup', 'Adam, pre-LN, no warm-up', f'{ADAM} --model.norm-first {NO_WARMUP}'),
    _entry('rate_8e-3', 'learning rate 8e-3', '--optimizer.learning-rate 8e-3'),
    _entry('smoothing_0', 'no label smoothing', '--training.label-smoothing 0'),
    _entry('smoothing_0.2', 'label smoothing 0.2', '--training.label-smoothing 0.2'),
    _entry('dropout_0', 'no dropout', '--model.dropout-rate 0'),
    _entry('dropout_0.2', 'dropout 0.2', '--model.dropout-rate 0.2'),
    _entry('dropout_0.3', 'dropout 0.3', '--model.dropout-rate 0.3'),
    _entry('weight_decay_0.1', 'weight decay 0.1', '--optimizer.weight-decay 0.1'),
    _entry('half', 'd_model 64, d_ff 128', '--model.d-model 64 --model.d-ff 128'),
    _entry('shallow', '3 + 3 layers, d_ff 512', f'--model.d-ff 512 {LAYERS.format(3, 3)}'),
    _entry('deep_encoder', '6 + 2 layers', LAYERS.format(6, 2)),
    _entry('paper_base', OF_PAPER, PAPER_BASE),
    _entry('vocabulary_2000', '2,000 pieces', '--model.vocab-size 2000'),
    _entry('vocabulary_8000', '8,000 pieces', '--model.vocab-size 8000'),
)


def _decoding(width: int, penalty: str, label: str = '') -> Entry:
    options = f'--decoding.beam-width {width} {penalty}'
    name = f'beam {width}{label}'
    return Entry(name, BASE.experiment, Measure(name.replace(' ', '_'), options, has_test=False))


# The same runs, so nothing is trained for it.
DECODING = (
    *(_decoding(width, '--decoding.length-penalty none') for width in (1, 2, 5, 10, 20)),
    *(
        _decoding(width, f'--decoding.alpha {alpha}', f' alpha {alpha}')
        for width in (5, 20)
        for alpha in (0.5, 1.0, 1.5)
    ),
)


def _subset(pairs: int, vocab_size: int, dropout_rate: float, weight_decay: float, steps: int) -> tuple[Entry, Entry]:
    model = f'--model.vocab-size {vocab_size} --model.dropout-rate {dropout_rate}'
    optimizer = f'--optimizer.weight-decay {weight_decay} --optimizer.warmup-steps {steps // 10}'
    training = f'--training.steps {steps} --training.evaluate-every {steps // 10}'
    fields = f'{model} {optimizer} {training} --training.checkpoint-every {steps // 10}'
    name = f'{pairs // 1000}k'
    what = f'{vocab_size:,} pieces, dropout {dropout_rate}, weight decay {weight_decay}, {steps:,} steps'
    return _on_validation(name, Experiment(f'corpus_size/{name}', 'tatoeba_en_de', fields, pairs), what)


def _on_validation(name: str, experiment: Experiment, what: str) -> tuple[Entry, Entry]:
    all_references = Measure('all_references', validation=ALL_REFERENCES.validation, has_test=False)
    return (
        Entry(f'{name} pairs', experiment, VALIDATION_ONLY, what),
        Entry(f'{name} pairs, all references', experiment, all_references, 'the same'),
    )


CORPUS_SIZE = (
    *_subset(1000, 1000, 0.3, 1.0, 400),
    *_subset(4000, 2000, 0.3, 1.0, 800),
    *_subset(16_000, 4000, 0.3, 0.5, 2000),
    *_subset(64_000, 8000, 0.2, 0.2, 4000),
    *_on_validation('all', TATOEBA, 'tatoeba_en_de: 8,000 pieces, dropout 0.1, weight decay 0.1, 4,000 steps'),
)

TABLES = {
    'results': Table('results', 'results', RESULTS),
    'teachers': Table('teachers', 'ablation', TEACHERS),
    'model': Table('model', 'ablation', MODEL),
    'decoding': Table('decoding', 'search', DECODING),
    'corpus_size': Table('corpus_size', 'ablation', CORPUS_SIZE),
}


def experiments() -> list[Experiment]:
    """Those of all tables, each once."""
    return list(dict.fromkeys(entry.experiment for table in TABLES.values() for entry in table.entries))
