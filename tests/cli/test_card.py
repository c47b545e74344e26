"""`flax-transformer card`."""

import json
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

from flax_transformer.cli import main

GOLDEN = str(ROOT / 'tests' / 'golden' / 'number_words')


def test_a_card_says_what_was_given_and_what_was_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = tmp_path / 'scores.json'
    of_set = {'set': str(tmp_path / 'mine.en'), 'direction': 'en to de', 'bleu': 41.256, 'bleu_signature': 'a|b'}
    scores.write_text(json.dumps({**of_set, 'loss': 2.5, 'num_lines': 7}))
    assert main(['card', GOLDEN, '--scores', str(scores), '--license', 'cc0-1.0']) == 0
    _, front, card = capsys.readouterr().out.split('---\n', 2)

    expected = {'language': ['en', 'de'], 'license': 'cc0-1.0', 'library_name': 'flax-transformer'}
    assert yaml.safe_load(front) == {**expected, 'pipeline_tag': 'translation'}
    assert r'| mine.en, en to de | bleu | 41.26 | a\|b |' in card
    assert 'loss' not in card
    assert '- train: `number_words:train`' in card
    assert 'The license of these data was not given' in card
    assert 'flax-transformer translate number_words' in card


def test_scores_of_another_form_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ('BLEU 12', '[1, 2]', '{"bleu": 1.5}'):
        (tmp_path / 'scores').write_text(text)
        assert main(['card', GOLDEN, '--scores', str(tmp_path / 'scores')]) == 2
        assert 'evaluate RUN --json` prints for a run' in capsys.readouterr().err
