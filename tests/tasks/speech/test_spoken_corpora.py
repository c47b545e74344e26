"""What is wrong with recordings and transcripts is found before the first step."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile
from tiny_speech import tiny_config

from flax_transformer.tasks.speech.corpus_checks import read_corpora, report_of, usable
from flax_transformer.tasks.speech.run import Run
from flax_transformer.tasks.speech.training import prepare_run
from flax_transformer.tasks.speech.units import Units

RATE = 8_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Manifests of recordings, some of which are bad."""
    rows = {
        'train': [
            ('a.wav', 0.5, 'one', 'ann'),
            ('b.wav', 0.5, 'two', 'ann'),
            ('long.wav', 0.9, 'one', 'bob'),
            ('short.wav', 0.06, 'one two one two', 'bob'),
            ('nothing.wav', 0.4, '', 'bob'),
        ],
        'test': [('c.wav', 0.5, '"""three"""', 'ann'), ('d.wav', 0.5, 'one', 'cid')],
    }
    for name, recordings in rows.items():
        lines = ['path\ttext\tspeaker']
        for file, seconds, text, speaker in recordings:
            noise = np.random.default_rng(0).normal(0, 3000, round(seconds * RATE)).astype(np.int16)
            wavfile.write(tmp_path / file, RATE, noise)
            lines.append(f'{file}\t{text}\t{speaker}')
        (tmp_path / f'{name}.tsv').write_text('\n'.join(lines) + '\n', encoding='utf-8')
    return tmp_path


def config_of(folder: Path):
    config = tiny_config()
    data = replace(config.data, train='train.tsv', validation='', test='test.tsv', root=str(folder))
    return replace(config, data=data, strings=replace(config.strings, most=0))


def test_what_is_wrong_with_recordings_is_found(folder: Path) -> None:
    report = report_of(config_of(folder), None)
    found = {(each.corpus, each.kind): each.count for each in report.findings}
    assert found == {
        ('train', 'too_long'): 1,
        ('train', 'too_short'): 1,
        ('train', 'no_transcript'): 1,
        ('test', 'quoted'): 1,
        ('test', 'unknown_unit'): 1,
        ('test', 'known_speaker'): 1,
    }
    assert '\'"""three"""\' (1)' in str(report)
    assert 'short.wav' not in str(report), 'places are those of the manifest'
    assert 'train.tsv:5' in str(report)


def test_what_cannot_be_learned_from_is_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = config_of(folder)
    (corpus,) = read_corpora(config, ['train'], say=lambda _: None).values()
    units = Units.learn([each.text for each in corpus.recordings], config.tokenizer, 20)
    assert [each.text for each in usable(corpus, config, units).recordings] == ['one', 'two', '']
    prepared = prepare_run(config, Run(folder / 'run'))
    assert (prepared.train.count, prepared.most_labels) == (3, 1)
    said = ''.join(capsys.readouterr())
    assert 'warning: train: too_long: 1 of 5 (20.00%): the longest has 0.9 s' in said
    assert 'a frame of the encoder has 40 ms' in said
