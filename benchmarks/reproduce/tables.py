"""The tables of RESULTS.md. The ablations look at the validation set alone, so that the test set decides nothing."""

from collections.abc import Mapping

from benchmarks.reproduce.experiments import VALIDATION_ONLY, Entry, Experiment, Measure, Table, Teacher

WU = '41.02, Wu et al. 2021'

# -------------------------------------------------------------------------------- models that teach others

EN_DE_TOK = 'multi30k_en_de_tok'
SHORTER = ('--training.steps', '4000', '--model.dropout-rate', '0.2')
TEACHER = Experiment('teachers/multi30k_en_de_tok', EN_DE_TOK, SHORTER)
BACK_TEACHER = Experiment(
    'teachers/multi30k_de_en_tok',
    EN_DE_TOK,
    (*SHORTER, '--data.source-language', 'de', '--data.target-language', 'en'),
)
STUDENT = Experiment(
    'multi30k_en_de_tok_diversified',
    EN_DE_TOK,
    ('--training.steps', '6000', '--model.dropout-rate', '0.2'),
    teachers=(Teacher(TEACHER, (1,)), Teacher(BACK_TEACHER, (1,))),
)

TEACHERS = Table(
    'teachers',
    'ablation',
    (
        Entry('teacher en-de', TEACHER, VALIDATION_ONLY, '4,000 steps, dropout 0.2'),
        Entry('teacher de-en', BACK_TEACHER, VALIDATION_ONLY, 'the same, German to English'),
    ),
)

# -------------------------------------------------------------------------------------------------- results


def _multi30k(source: str, target: str) -> Experiment:
    languages = ('--data.source-language', source, '--data.target-language', target)
    name = f'multi30k_{source}_{target}'
    return Experiment(name, 'multi30k_en_de', () if name == 'multi30k_en_de' else languages)


MULTILINGUAL = Experiment('multi30k_multilingual', 'multi30k_multilingual')
TATOEBA = Experiment('tatoeba_en_de', 'tatoeba_en_de')
ALL_REFERENCES = Measure(
    'all_references',
    validation='tatoeba_en_de/dev.en,tatoeba_en_de/dev.allrefs.de.tsv',
    test='tatoeba_en_de/test.en,tatoeba_en_de/test.allrefs.de.tsv',
)
OF_TATOEBA = '# English and German sentences: tatoeba.org and www.manythings.org/anki, CC BY 2.0 FR; translations: ours'
DIRECTIONS = (('en', 'de'), ('en', 'fr'), ('en', 'cs'), ('de', 'en'))


def _direction(source: str, target: str) -> Entry:
    options = ('--data.source-language', source, '--decoding.target-language', target)
    measure = Measure(f'{source}-{target}', options, validation='multi30k/val.{lang}')
    return Entry(f'multi30k_multilingual {source}-{target}', MULTILINGUAL, measure)


RESULTS = Table(
    'results',
    'results',
    (
        Entry(EN_DE_TOK, Experiment(EN_DE_TOK, EN_DE_TOK), published=WU),
        Entry(f'{EN_DE_TOK}, diversified', STUDENT, published=WU),
        *(Entry(f'multi30k_{source}_{target}', _multi30k(source, target)) for source, target in DIRECTIONS),
        *(_direction(source, target) for source, target in DIRECTIONS),
        Entry('tatoeba_en_de', TATOEBA, attribution=OF_TATOEBA),
        Entry('tatoeba_en_de, all references', TATOEBA, ALL_REFERENCES),
    ),
)

# ------------------------------------------------------------------------------------------------ ablations


def _options(fields: Mapping[str, int | float]) -> tuple[str, ...]:
    return tuple(text for field, value in fields.items() for text in (f'--{field}', str(value)))


def _size(d_model: int, d_ff: int, heads: int, encoder: int, decoder: int) -> tuple[str, ...]:
    fields = {
        'model.d-model': d_model,
        'model.d-ff': d_ff,
        'model.num-heads': heads,
        'model.num-encoder-layers': encoder,
        'model.num-decoder-layers': decoder,
    }
    return _options(fields)


TRANSFORMER_TINY = 'benchmarks/reproduce/transformer_tiny.py'


def _variant(name: str, *fields: str) -> Experiment:
    return Experiment(f'ablations/{name}', TRANSFORMER_TINY, fields)


def _entry(name: str, what: str, *fields: str) -> Entry:
    return Entry(name, _variant(name, *fields), VALIDATION_ONLY, what)


BASE = _variant('base')
NO_WARMUP = ('--optimizer.warmup-steps', '0')
ADAM = ('--optimizer.name', 'adam')
PAPER_ADAM = (*ADAM, '--optimizer.learning-rate', '7e-4')  # the peak of section 5.3's schedule: 512^-0.5 * 4000^-0.5


MODEL = Table(
    'model',
    'ablation',
    (
        Entry('base', BASE, VALIDATION_ONLY, 'Transformer-Tiny: 4 + 4 layers, d_model 128, d_ff 256'),
        _entry('pre_norm', 'pre-LN', '--model.norm-first'),
        _entry('untied', 'three separate tables', '--model.tie-embeddings', 'none'),
        _entry('no_warmup', 'no warm-up', *NO_WARMUP),
        _entry('adam', 'Adam', *ADAM),
        _entry('adam_rate_7e-4', 'Adam, learning rate 7e-4', *PAPER_ADAM),
        _entry('adam_no_warmup', 'Adam, no warm-up', *ADAM, *NO_WARMUP),
        _entry('adam_pre_norm_no_warmup', 'Adam, pre-LN, no warm-up', *ADAM, '--model.norm-first', *NO_WARMUP),
        _entry('rate_8e-3', 'learning rate 8e-3', '--optimizer.learning-rate', '8e-3'),
        _entry('smoothing_0', 'no label smoothing', '--training.label-smoothing', '0'),
        _entry('smoothing_0.2', 'label smoothing 0.2', '--training.label-smoothing', '0.2'),
        _entry('dropout_0', 'no dropout', '--model.dropout-rate', '0'),
        _entry('dropout_0.2', 'dropout 0.2', '--model.dropout-rate', '0.2'),
        _entry('dropout_0.3', 'dropout 0.3', '--model.dropout-rate', '0.3'),
        _entry('weight_decay_0.1', 'weight decay 0.1', '--optimizer.weight-decay', '0.1'),
        _entry('half', 'd_model 64, d_ff 128', *_size(64, 128, 4, 4, 4)),
        _entry('shallow', '3 + 3 layers, d_ff 512', *_size(128, 512, 4, 3, 3)),
        _entry('deep_encoder', '6 + 2 layers', *_size(128, 256, 4, 6, 2)),
        _entry(
            'paper_base',
            "Adam, learning rate 7e-4, the paper's base: 6 + 6 layers, d_model 512, d_ff 2048, 8 heads",
            *PAPER_ADAM,
            *_size(512, 2048, 8, 6, 6),
        ),
        _entry('vocabulary_2000', '2,000 pieces', '--model.vocab-size', '2000'),
        _entry('vocabulary_8000', '8,000 pieces', '--model.vocab-size', '8000'),
    ),
)


def _decoding(name: str, *options: str) -> Entry:
    return Entry(name, BASE, Measure(name.replace(' ', '_'), options, has_test=False))


# The same runs, so nothing is trained for it.
DECODING = Table(
    'decoding',
    'search',
    (
        *(
            _decoding(f'beam {width}', '--decoding.beam-width', str(width), '--decoding.length-penalty', 'none')
            for width in (1, 2, 5, 10, 20)
        ),
        *(
            _decoding(f'beam {width} alpha {alpha}', '--decoding.beam-width', str(width), '--decoding.alpha', alpha)
            for width in (5, 20)
            for alpha in ('0.5', '1.0', '1.5')
        ),
    ),
)

# ---------------------------------------------------------------------------------------------- corpus size


def _subset(pairs: int, vocab_size: int, dropout_rate: float, weight_decay: float, steps: int) -> tuple[Entry, Entry]:
    fields = {
        'model.vocab-size': vocab_size,
        'model.dropout-rate': dropout_rate,
        'optimizer.weight-decay': weight_decay,
        'training.steps': steps,
        'training.evaluate-every': steps // 10,
        'training.checkpoint-every': steps // 10,
        'optimizer.warmup-steps': steps // 10,
    }
    name = f'{pairs // 1000}k'
    what = f'{vocab_size:,} pieces, dropout {dropout_rate}, weight decay {weight_decay}, {steps:,} steps'
    return _on_validation(name, Experiment(f'corpus_size/{name}', 'tatoeba_en_de', _options(fields), pairs), what)


def _on_validation(name: str, experiment: Experiment, what: str) -> tuple[Entry, Entry]:
    all_references = Measure('all_references', validation=ALL_REFERENCES.validation, has_test=False)
    return (
        Entry(f'{name} pairs', experiment, VALIDATION_ONLY, what),
        Entry(f'{name} pairs, all references', experiment, all_references, 'the same'),
    )


CORPUS_SIZE = Table(
    'corpus_size',
    'ablation',
    (
        *_subset(1000, 1000, 0.3, 1.0, 400),
        *_subset(4000, 2000, 0.3, 1.0, 800),
        *_subset(16_000, 4000, 0.3, 0.5, 2000),
        *_subset(64_000, 8000, 0.2, 0.2, 4000),
        *_on_validation('all', TATOEBA, 'tatoeba_en_de: 8,000 pieces, dropout 0.1, weight decay 0.1, 4,000 steps'),
    ),
)

TABLES = {table.name: table for table in (RESULTS, TEACHERS, MODEL, DECODING, CORPUS_SIZE)}


def experiments() -> list[Experiment]:
    """Those of all tables, each once."""
    return list(dict.fromkeys(entry.experiment for table in TABLES.values() for entry in table.entries))
