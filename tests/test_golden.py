"""A run directory of an earlier version still translates as it did: tests/golden, written once, never written anew.

number_words: version 0.1.0 (its config with the header of schema 2); numbers below 1,000, English to German, 1,000
steps of a model of width 32.
"""

from pathlib import Path

import pytest

from flax_transformer import Translator
from flax_transformer.tasks.translation.run import Run

RUN = Path(__file__).parent / 'golden' / 'number_words'
# Source, translation, its log-probability then.
TRANSLATIONS = [
    ('one', 'eins', -0.3356),
    ('seven', 'sieben', -0.2031),
    ('twelve', 'zwölf', -0.6604),
    ('twenty-one', 'einundzwanzig', -0.7495),
    ('ninety-nine', 'neunundneunzig', -0.5266),
    ('one hundred', 'einhundert', -0.2042),
    ('three hundred and thirty-three', 'dreihundertdreiunddreißig', -0.6226),
    ('five hundred and eighty-six', 'fünfhundertsechsundachtzig', -0.7307),
    ('six hundred and twelve', 'sechshundertzwölf', -0.7649),
    ('nine hundred and ninety-nine', 'neunhundertneunundneunzig', -0.622),
]


def test_the_golden_run_translates_as_it_did() -> None:
    found = Translator.from_run(RUN)([source for source, _, _ in TRANSLATIONS])
    assert [translation.text for translation in found] == [text for _, text, _ in TRANSLATIONS]
    # Other sums of float32, on another machine or in another version, differ in the sixth digit.
    assert [translation.log_prob for translation in found] == pytest.approx([p for _, _, p in TRANSLATIONS], abs=1e-3)


def test_the_golden_config_is_read_as_it_was_meant() -> None:
    config = Run(RUN).read_config()
    assert (config.model.d_model, config.model.pad_id, config.model.pad_row) == (32, 119, 'neither')
    assert (config.training.steps, config.data.numbers_below) == (1000, 1000)
    assert (config.decoding.beam_width, config.decoding.length_penalty, config.decoding.max_tokens) == (4, 'power', 30)
