"""Faults are planted in a clean corpus: each is found, counted and located, and nothing else is reported."""

import dataclasses
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

import pytest
from clean_corpus import clean_corpus, write_corpus
from conftest import corpus as real_corpus

from flax_transformer.config import Config, CorpusConfig, DataConfig, TransformerConfig
from flax_transformer.data.audit import parts as parts_of_audit
from flax_transformer.data.audit.checking import audit
from flax_transformer.data.audit.config import Vocabulary
from flax_transformer.data.audit.kinds import KINDS
from flax_transformer.data.audit.report import Report
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import Tokenizer


def config_of(folder: Path, **data: object) -> Config:
    settings = {
        'train': 'train.{lang}',
        'validation': 'validation.{lang}',
        'test': 'test.{lang}',
        'root': str(folder),
        'source_length': 64,
        'target_length': 64,
    }
    if 'mixture' in data:
        del settings['train'], settings['validation']
    return Config(model=TransformerConfig(vocab_size=300), data=DataConfig(**(settings | data)))


def audit_of(config: Config, tokenizer: Tokenizer | None = None, **settings: object) -> Report:
    vocabulary = Vocabulary(config.model.vocab_size, config.tokenizer, tokenizer)
    return audit(config.data, config.check, vocabulary, **settings)


class Fault(NamedTuple):
    """What is planted, and what is to be found."""

    name: str
    kind: str
    plant: Callable[[dict], range | list[int] | None]  # changes a corpus; returns the lines that show the fault
    file: str = 'train.de'  # that the places name
    severity: str = 'warning'
    change: Callable[[Config], Config] = lambda config: config
    corpus: str = ''  # the default: that of the file
    also: tuple[str, ...] = ()  # kinds that such a corpus shows besides
    count: int | None = None  # the default: the number of lines
    near: int = 0  # how much count and first line may differ


SIX = range(40, 46)


def side_of(corpus, file):
    """The lines of a file, such as train.de."""
    split, language = file.split('.')
    return corpus[split][language == 'de']


def edit(file, where, change, count=6):
    """Changes some lines of a file: those of these numbers, or the first ones that contain a text."""

    def plant(corpus):
        side, lines = side_of(corpus, file), where
        if isinstance(where, str):
            lines = [i for i, line in enumerate(side) if where.encode() in line][:count]
        for line in lines:
            side[line] = change(side[line])
        return lines

    return plant


def insert(text):
    return lambda line: line.replace(b' ', b' ' + text.encode() + b' ', 1)


def put(text):
    return lambda line: text.encode()


def shift(file, first, last):
    """Loses line `first` of a file, and has it behind line `last`."""

    def plant(corpus):
        side = side_of(corpus, file)
        side.insert(last, side.pop(first))
        return range(first, last)

    return plant


def exchange(lines):
    def plant(corpus):
        sources, targets = corpus['train']
        for line in lines:
            sources[line], targets[line] = targets[line], sources[line]
        return lines

    return plant


def copy_sources(corpus):
    corpus['train'][1][40:55] = corpus['train'][0][40:55]
    return range(40, 55)


def drop_targets(corpus):
    del corpus['train'][1][-3:]
    return [497, 498, 499]


def lengthen(corpus):
    for side in corpus['train']:
        side[40:46] = [b' '.join([line] * 16) for line in side[40:46]]
    return SIX


def take_held_out(split, side):
    """Training pairs of which a side is held out too, but for its case and spaces."""

    def plant(corpus):
        for line in range(4):
            corpus['train'][side][line + 100] = corpus[split][side][line].upper().replace(b' ', b'  ', 1)
        return range(4)

    return plant


def repeat(corpus):
    for lines in corpus['train']:
        lines += lines[:60]
    return range(500, 560)


def translate_again(corpus):
    sources, targets = corpus['train']
    sources += sources[:30]
    targets += [line.replace(b' ', b' auch ', 1) for line in targets[:30]]
    return range(500, 530)


def score_on_training(corpus):
    corpus['test'] = tuple(lines[:60] for lines in corpus['train'])
    return range(60)


def validate_on_test(corpus):
    corpus['validation'] = corpus['test']
    return range(60)


def nothing(corpus):
    return None


def setting(section, **values):
    return lambda config: dataclasses.replace(
        config, **{section: dataclasses.replace(getattr(config, section), **values)}
    )


FRENCH = 'La vieille dame achète du pain et du fromage au marché.'
WHOLE_FILE = {'severity': 'error', 'near': 12}

FAULTS = [
    Fault('unequal counts', 'missing_side', drop_targets, severity='error'),
    Fault('a part shifted', 'shifted', shift('train.de', 150, 300), 'train.en', **WHOLE_FILE),
    Fault('validation shifted', 'shifted', shift('validation.de', 0, 60), 'validation.en', **WHOLE_FILE),
    Fault('all swapped', 'swapped_corpus', exchange(range(500)), 'train.en', 'error'),
    Fault('single pairs swapped', 'swapped_pair', exchange(SIX), 'train.en'),
    Fault('sources copied', 'copy', copy_sources, 'train.en'),
    Fault('blank targets', 'blank', edit('train.de', SIX, put(' \t'))),
    Fault('invalid UTF-8', 'invalid_utf8', edit('train.de', SIX, lambda line: line + b'\xfc'), severity='error'),
    Fault('control characters', 'control', edit('train.en', SIX, insert('\x07')), 'train.en'),
    Fault('HTML entities', 'entity', edit('train.en', SIX, insert('&quot;')), 'train.en'),
    Fault('cells quoted as in CSV', 'quoted', edit('train.en', SIX, lambda line: b'"' + line + b' ""?"""'), 'train.en'),
    Fault('mojibake', 'mojibake', edit('train.de', SIX, insert('grÃ¶ÃŸer'))),
    Fault('another language', 'wrong_language', edit('train.de', SIX, put(FRENCH)), also=('duplicate',)),
    Fault('lengths that do not fit', 'length_ratio', edit('train.en', 'queen', put('Oh!')), 'train.en'),
    Fault('over-long lines', 'too_long', lengthen, 'train.en'),
    Fault('duplicates', 'duplicate', repeat, 'train.en'),
    Fault(
        'several targets for a source',
        'contradiction',
        translate_again,
        'train.en',
        change=setting('check', contradiction=0.01),
    ),
    Fault('validation sources in training', 'leaked', take_held_out('validation', 0), 'validation.en'),
    Fault('test targets in training', 'leaked', take_held_out('test', 1), 'test.en'),
    Fault('tested on training', 'test_is_training', score_on_training, 'test.en', 'error', also=('leaked',)),
    Fault('validated on the test set', 'validation_is_test', validate_on_test, 'test.en'),
    Fault('few pairs', 'few_pairs', nothing, '', corpus='training', change=setting('model', vocab_size=8000)),
    Fault(
        'characters without a piece',
        'uncovered',
        edit('train.de', [40], insert('☃')),
        corpus='training',
        change=setting('tokenizer', byte_fallback=False),
    ),
    Fault(
        'numbers that differ',
        'numbers',
        edit('train.de', '35', lambda line: line.replace(b'35', b'53'), 30),
        'train.en',
    ),
    Fault('an empty test set', 'empty', lambda corpus: corpus.update(test=([], [])), '', 'error', corpus='test'),
]


def faults_of(report: Report, severities=('error', 'warning')) -> set[str]:
    return {finding.kind for finding in report.findings if finding.severity in severities}


def test_nothing_is_reported_of_a_clean_corpus(tmp_path):
    write_corpus(tmp_path, clean_corpus())
    report = audit_of(config_of(tmp_path))
    assert report.findings == (), str(report)
    assert report.pairs == {'train': 500, 'validation': 60, 'test': 60}
    for language in ('en', 'de'):
        (tmp_path / f'test.{language}').rename(tmp_path / f'a,b,c.{language}')  # commas that separate no references
    assert audit_of(config_of(tmp_path, test='a,b,c.{lang}')).pairs == report.pairs


@pytest.mark.parametrize('fault', FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found_and_nothing_else(tmp_path, fault):
    corpus = clean_corpus()
    lines = fault.plant(corpus)
    write_corpus(tmp_path, corpus)
    report = audit_of(fault.change(config_of(tmp_path)))
    (found,) = [finding for finding in report.findings if finding.kind == fault.kind]
    assert faults_of(report) <= {fault.kind, *fault.also}, str(report)
    assert found.severity == fault.severity
    assert found.corpus == (fault.corpus or fault.file.split('.')[0])
    assert str(found).startswith(f'{fault.severity}: {found.corpus}: {fault.kind}: {found.count}')
    if lines:
        assert abs(found.count - len(lines)) <= fault.near
        places = [f'{tmp_path / fault.file}, line {line + 1}' for line in lines[:5]]
        if fault.near:
            first = int(found.examples[0]['place'].rpartition(' ')[2])
            assert found.examples[0]['place'].startswith(f'{tmp_path / fault.file}, line ')
            assert abs(first - (lines[0] + 1)) <= fault.near
        else:
            assert [example['place'] for example in found.examples] == places
    assert all(example['source'] or example['target'] or fault.kind == 'blank' for example in found.examples)


def test_every_kind_of_the_table_is_planted():
    elsewhere = {'changed', 'other_language', 'odd_spaces'}  # the tests below have them
    assert {fault.kind for fault in FAULTS} | elsewhere == set(KINDS)


def test_a_side_in_another_language_is_a_warning_about_the_side(tmp_path):
    write_corpus(tmp_path, clean_corpus())
    for split in ('train', 'validation', 'test'):
        (tmp_path / f'{split}.fr').write_bytes((tmp_path / f'{split}.de').read_bytes())
    report = audit_of(config_of(tmp_path, target_language='fr'))
    assert [(found.kind, found.corpus, found.severity) for found in report.findings] == [
        ('other_language', name, 'warning') for name in ('train', 'validation', 'test')
    ]
    assert 'target lines looked at are de, the config says fr' in report.findings[0].detail


def test_odd_spaces_are_a_note(tmp_path):
    corpus = clean_corpus()
    edit('train.de', [3], lambda line: line + b' ')(corpus)
    edit('train.de', [4], insert('\u00a0'))(corpus)
    edit('train.en', [5], insert('\t'))(corpus)
    edit('train.en', [6], lambda line: b' ' + line)(corpus)
    write_corpus(tmp_path, corpus)
    found = {found.kind: found for found in audit_of(config_of(tmp_path)).findings}
    assert found.keys() == {'odd_spaces', 'uncovered'}  # the two strange spaces have no piece
    assert (found['odd_spaces'].severity, found['odd_spaces'].count) == ('note', 4)


def test_a_tokenizer_counts_tokens_and_knows_its_characters(tmp_path):
    corpus = clean_corpus()
    write_corpus(tmp_path, corpus)
    lines = [line.decode() for lines in corpus['train'] for line in lines]
    tokenizer = SentencePieceTokenizer.train(lines, vocab_size=330, character_coverage=1.0)
    sources = [line.decode() for line in corpus['train'][0]]
    lengths = [len(ids) for ids in tokenizer.encode(sources)]
    fits = config_of(tmp_path, validation='', test='', source_length=max(lengths), target_length=256)
    assert audit_of(fits, tokenizer=tokenizer).findings == ()
    too_short = config_of(tmp_path, validation='', test='', source_length=max(lengths) - 1, target_length=256)
    (found,) = audit_of(too_short, tokenizer=tokenizer).findings
    assert (found.kind, found.count) == ('too_long', sum(length == max(lengths) for length in lengths))

    edit('train.de', [40], insert('☃☃'))(corpus)
    write_corpus(tmp_path, corpus)
    (found,) = audit_of(fits, tokenizer=tokenizer).findings
    assert (found.kind, found.severity, found.count) == ('uncovered', 'note', 1)
    assert found.examples[0]['source'] == 'U+2603 ☃ 2 times'
    assert found.examples[0]['place'] == f'{tmp_path / "train.de"}, line 41'


@pytest.mark.slow
def test_several_processes_and_chunks_find_what_one_finds(tmp_path, monkeypatch):
    corpus = clean_corpus()
    edit('train.de', [330, 340, 460], put(''))(corpus)
    edit('train.en', [310, 470], insert('\x07'))(corpus)
    edit('train.de', [305, 480], insert('☃'))(corpus)
    edit('train.en', [315], insert('☃'))(corpus)
    edit('train.de', [320], lambda line: line + b'\xff')(corpus)
    repeat(corpus)
    write_corpus(tmp_path, corpus)
    config = config_of(tmp_path)
    whole = audit_of(config)
    kinds = ('invalid_utf8', 'blank', 'control', 'duplicate', 'uncovered', 'odd_spaces')
    assert [found.kind for found in whole.findings if found.kind in kinds]
    monkeypatch.setattr('flax_transformer.data.lines.CHUNK', 100)
    monkeypatch.setattr(parts_of_audit, 'HEAD', 300)
    assert audit_of(config) == whole
    assert audit_of(config, processes=2) == whole
    snowman = next(found for found in whole.findings if found.kind == 'uncovered').examples[0]
    assert snowman['place'] == f'{tmp_path / "train.de"}, line 306'


@pytest.mark.slow
def test_a_killed_process_ends_the_audit(tmp_path, monkeypatch):
    """The others do not hear the SIGTERM by which a pool ends them."""
    write_corpus(tmp_path, clean_corpus())
    monkeypatch.setattr('flax_transformer.data.lines.CHUNK', 20)
    monkeypatch.setattr(parts_of_audit, 'HEAD', 0)
    mapped = ProcessPoolExecutor.map

    def map_and_kill(self, *args):
        results = list(mapped(self, *args))
        os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
        return results

    monkeypatch.setattr(ProcessPoolExecutor, 'map', map_and_kill)
    with pytest.raises(BrokenProcessPool):
        audit_of(config_of(tmp_path), processes=2)
    assert not multiprocessing.active_children()


def test_a_mixture_is_checked_part_by_part(tmp_path):
    corpus = clean_corpus()
    write_corpus(tmp_path, corpus)
    edit('train.de', SIX, put(''))(corpus)
    (tmp_path / 'broken').mkdir()
    write_corpus(tmp_path / 'broken', corpus)
    parts = CorpusConfig('one', 'train.{lang}', 'validation.{lang}'), CorpusConfig('two', 'broken/train.{lang}')
    report = audit_of(config_of(tmp_path, mixture=parts))
    assert report.pairs == {'one': 500, 'one validation': 60, 'two': 500, 'test': 60}
    assert {(found.kind, found.corpus, found.count) for found in report.findings} == {
        ('blank', 'two', 6),
        ('duplicate', 'two', 494),
    }


def test_pairs_in_the_other_direction_leak_too(tmp_path):
    """A test sentence on the target side of another part of the mixture was seen as well."""
    corpus = clean_corpus()
    write_corpus(tmp_path, corpus)
    _, targets = corpus['test']
    (tmp_path / 'back.de').write_bytes(b'\n'.join(targets[:5]) + b'\n')
    (tmp_path / 'back.en').write_bytes(b'\n'.join(b'%d!' % i for i in range(5)) + b'\n')
    parts = (
        CorpusConfig('one', 'train.{lang}'),
        CorpusConfig('two', 'back.{lang}', source_language='de', target_language='en'),
    )
    report = audit_of(config_of(tmp_path, mixture=parts, language_tags=True))
    assert [(found.corpus, found.count) for found in report.findings if found.kind == 'leaked'] == [('test', 5)]


def test_the_audit_needs_neither_jax_nor_grain():
    code = (
        'import sys, flax_transformer.data.audit.cleaning; print({"jax", "grain", "flax", "orbax"} & set(sys.modules))'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout == 'set()\n'


@pytest.mark.parametrize(
    ('corpus_name', 'kinds'),
    [
        ('multi30k/train.{lang}.gz', {'control': 0, 'entity': 16, 'duplicate': 3, 'odd_spaces': 85, 'length_ratio': 2}),
        pytest.param(
            'tatoeba_en_de/train.{lang}.gz',
            {'control': 10, 'entity': 0, 'duplicate': 0, 'odd_spaces': 380},
            marks=pytest.mark.slow,
        ),
    ],
)
@pytest.mark.slow
def test_real_corpora_show_what_is_known_of_them_and_no_error(corpus_name, kinds):
    file = real_corpus(*corpus_name.format(lang='en').split('/'))
    root = str(file.parents[1])
    config = config_of(file, train=corpus_name, validation='', test='', root=root)
    report = audit_of(dataclasses.replace(config, model=TransformerConfig(vocab_size=4000)))
    assert report.errors + report.warnings == ()
    counts = {found.kind: found.count for found in report.findings}
    assert {kind: counts.get(kind, 0) for kind in kinds} == kinds
    assert not counts.keys() & {'swapped_pair', 'shifted', 'mojibake', 'copy'}
    assert counts.get('wrong_language', 0) < 1e-4 * report.pairs['train']
