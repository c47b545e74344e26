"""`flax-transformer check` and `clean` at the command line: exit codes, output, files."""

import json
from pathlib import Path

import pytest
from clean_corpus import clean_corpus, write_corpus

from flax_transformer.cli import main
from flax_transformer.data.audit import cleaning
from flax_transformer.data.audit.cleaning import GUARD

CONFIG = """
from flax_transformer.config import Config, DataConfig, TransformerConfig


def get_config():
    return Config(
        model=TransformerConfig(vocab_size=300),
        data=DataConfig(
            train='train.{lang}', validation='validation.{lang}', test='test.{lang}', root='.',
            source_length=64, target_length=64,
        ),
    )
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory with a config and a corpus; some pairs are blank, some repeat others, one is over-long."""
    corpus = clean_corpus()
    sources, targets = corpus['train']
    targets[10] = targets[20] = b' '
    sources[30] = b'caf\xe9'
    sources[40] = b' '.join([sources[40]] * 12)
    targets[40] = b' '.join([targets[40]] * 12)
    sources.append(sources[0])
    targets.append(targets[0])
    write_corpus(tmp_path, corpus)
    (tmp_path / 'mine.py').write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv('FLAX_TRANSFORMER_DATA', raising=False)
    return tmp_path


def mend(folder: Path) -> None:
    """No more invalid bytes: what remains is not grave."""
    file = folder / 'train.en'
    file.write_bytes(file.read_bytes().replace(b'caf\xe9', 'A tiny café near the old church of my village.'.encode()))


def test_errors_exit_with_2_and_are_shown_first(folder, capsys):
    assert main(['check', 'mine.py']) == 2
    out = capsys.readouterr().out
    assert out.startswith('error: train: invalid_utf8: 1 of 501')
    assert 'train.en, line 31' in out
    assert r'caf\xe9' in out
    assert 'iconv' in out


def test_warnings_exit_with_0_or_1_as_asked_for_and_notes_with_0(folder, capsys):
    mend(folder)
    assert main(['check', 'mine.py', '--check.blank', '0.001']) == 0
    assert 'warning: train: blank: 2 of 501' in capsys.readouterr().out
    assert main(['check', 'mine.py', '--check.blank', '0.001', '--strict']) == 1
    capsys.readouterr()
    assert main(['check', 'mine.py', '--strict']) == 0
    assert 'note: train: blank' in capsys.readouterr().out


def test_json_is_one_object_on_standard_output(capsys):
    assert main(['check', 'mine.py', '--json']) == 2
    report = json.loads(capsys.readouterr().out)
    assert report['pairs'] == {'train': 501, 'validation': 60, 'test': 60}
    assert report['findings'][0]['severity'] == 'error'
    assert report['findings'][0]['examples'][0]['place'] == 'train.en, line 31'


def test_clean_writes_what_passes_and_says_why_the_rest_does_not(folder, capsys):
    lines = (folder / 'train.en').read_bytes().split(b'\n')
    lines[40] += b'\x07'  # two reasons: the one that is first in the table counts
    (folder / 'train.en').write_bytes(b'\n'.join(lines))
    assert main(['clean', 'mine.py', '--output', 'new']) == 0
    out = capsys.readouterr().out
    assert 'train: 496 pairs kept, 5 left out, see new/train.rejected.tsv' in out
    assert f'--data.train {folder}/new/train.{{lang}}' in out.replace("'", '')
    for count, kind in ((2, 'blank'), (1, 'invalid_utf8'), (1, 'too_long'), (1, 'duplicate')):
        assert f'{count}  {kind}\n' in out
    left_out = {10, 20, 30, 40, 500}
    for language in ('en', 'de'):
        before = (folder / f'train.{language}').read_bytes().split(b'\n')[:-1]
        after = (folder / 'new' / f'train.{language}').read_bytes().split(b'\n')[:-1]
        assert after == [line for i, line in enumerate(before) if i not in left_out]
    rows = [line.split('\t') for line in (folder / 'new' / 'train.rejected.tsv').read_text().splitlines()]
    assert [row[0] for row in rows] == ['blank', 'blank', 'invalid_utf8', 'too_long', 'duplicate']
    assert [row[1] for row in rows] == [f'train.en, line {line}' for line in (11, 21, 31, 41, 501)]
    assert all(len(row) == 4 for row in rows)
    assert main(['check', 'mine.py', '--data.train', 'new/train.{lang}', '--strict']) == 0
    assert '0 errors, 0 warnings, 0 notes' in capsys.readouterr().out


def test_clean_makes_plain_spaces_as_check_offers(folder, capsys):
    mend(folder)
    lines = (folder / 'train.de').read_text().split('\n')
    lines[3] = ' ' + lines[3].replace(' ', '\u00a0', 1).replace(' ', '\u202f\t', 1)
    (folder / 'train.de').write_text('\n'.join(lines))
    assert main(['check', 'mine.py']) == 0
    assert 'Remedy: `clean --spaces`' in capsys.readouterr().out
    assert main(['clean', 'mine.py', '--output', 'new', '--spaces']) == 0
    assert (folder / 'new' / 'train.de').read_text().split('\n')[3] == ' '.join(lines[3].split())


def test_clean_takes_held_out_sentences_out_of_the_training_data(folder, capsys):
    corpus = clean_corpus()
    corpus['train'][0][7] = corpus['test'][0][3].upper()
    corpus['train'][1][9] = corpus['validation'][1][4]
    write_corpus(folder, corpus)
    assert main(['clean', 'mine.py', '--output', 'new']) == 0
    rows = (folder / 'new' / 'train.rejected.tsv').read_text().splitlines()
    assert [row.split('\t')[:2] for row in rows] == [['leaked', 'train.en, line 8'], ['leaked', 'train.en, line 10']]


def test_clean_leaves_out_a_shifted_stretch(folder, capsys):
    corpus = clean_corpus()
    targets = corpus['train'][1]
    targets.insert(300, targets.pop(150))
    targets[200] = b''  # two reasons: the one that the line itself shows counts
    write_corpus(folder, corpus)
    assert main(['clean', 'mine.py', '--output', 'new']) == 0
    assert 'shifted' in capsys.readouterr().err
    rows = (folder / 'new' / 'train.rejected.tsv').read_text().splitlines()
    assert {row.split('\t')[0] for row in rows if ', line 201\t' not in row} == {'shifted'}
    assert next(row for row in rows if ', line 201\t' in row).startswith('blank')
    # Either side of the guard, less the pairs that have a reason of their own.
    assert abs(len(rows) - (150 + 2 * GUARD)) <= 8


def test_clean_overwrites_only_when_told_to(folder, capsys):
    assert main(['clean', 'mine.py', '--output', 'new']) == 0
    before = (folder / 'new' / 'train.en').read_bytes()
    mend(folder)
    assert main(['clean', 'mine.py', '--output', 'new']) == 2
    assert 'new/train.en' in capsys.readouterr().err
    assert (folder / 'new' / 'train.en').read_bytes() == before
    assert main(['clean', 'mine.py', '--output', 'new', '--overwrite']) == 0
    assert (folder / 'new' / 'train.en').read_bytes() != before


@pytest.mark.parametrize(
    'options', [(), ('--output', '.', '--overwrite'), ('--output', 'new', '--data.train', 'number_words:train')]
)
def test_clean_needs_a_new_folder_and_text_that_nobody_made(options, folder):
    before = (folder / 'train.en').read_bytes()
    assert main(['clean', 'mine.py', *options]) == 2
    assert (folder / 'train.en').read_bytes() == before


def test_an_interrupted_clean_leaves_no_half_file(folder, monkeypatch, capsys):
    def stop(line):
        raise KeyboardInterrupt

    monkeypatch.setattr(cleaning, 'shown', stop)
    assert main(['clean', 'mine.py', '--output', 'new']) == 130
    assert list((folder / 'new').iterdir()) == []
