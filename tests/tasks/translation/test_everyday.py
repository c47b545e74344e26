"""The model that comes with the package is the one that its card describes."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

from flax_transformer import Translator, UserError
from flax_transformer.cli.train import train_options
from flax_transformer.engine.runs.checksums import MANIFEST
from flax_transformer.engine.runs.run_directory import shipped_models
from flax_transformer.tasks.translation.metrics import score

FOLDER = shipped_models()['everyday']
CARD = (FOLDER / 'README.md').read_text(encoding='utf-8')
PUBLISHED = ROOT / 'benchmarks' / 'scores' / 'tatoeba_en_de.tsv'  # the test set, after a comment and a head


def test_its_card_has_its_checksum_its_license_and_whom_to_thank() -> None:
    assert hashlib.sha256((FOLDER / 'checkpoints' / '0' / MANIFEST).read_bytes()).hexdigest() in CARD
    assert 'CC BY 2.0 FR' in CARD
    assert 'www.manythings.org/anki and tatoeba.org' in CARD


def test_it_translates_both_ways() -> None:
    translator = Translator.from_run('everyday', beam_width=1)
    one = translator('Tom is my brother.')
    assert one.text == 'Tom ist mein Bruder.'
    assert one.word_quality == pytest.approx((0.851, 0.835, 0.846, 0.799), abs=0.003)
    compiled = translator.runner.num_compilations
    for languages in ({'target_language': 'English'}, {'source_language': 'de'}):
        assert translator('Tom ist mein Bruder.', **languages).text == 'Tom is my brother.'
    assert translator('Das ist\tTom.', source_language='de', target_language='de').text == 'Das ist\tTom.'
    assert translator.runner.num_compilations == compiled
    megabytes = 8.6 if translator.programs.uses_int8 else 33.4
    shown = f'<Translator: Transformer, en to de, {megabytes} MB of parameters on 1 cpu device'
    assert repr(translator).startswith(shown)
    np.testing.assert_array_equal(translator.encode('a line'), translator.encode(['a line']))
    with pytest.raises(UserError, match="source_language='fr': expected one of en, de"):
        translator('Bonjour', source_language='fr')


def test_what_is_no_language_comes_out_once_and_in_place() -> None:
    translator = Translator.from_run('everyday', beam_width=1)
    expected = {
        '12345': '12345',
        ' --- ': ' --- ',
        'See https://example.org/a?b=1!': 'https://example.org/a?b=1',
        '3,250.50 EUR to Anna by 14:30': '3,250.50 EUR',
        'Tom has 2 dogs and 13 cats. 😀': '2 Hunde und 13 Katzen. 😀',
        'She works at Siemens.': 'bei Siemens',
        'PLEASE CLOSE THE DOOR!': 'TÜR',
        'How to Close Your Door': 'Tür',
        'Dear Mr. Müller,': 'Herr Müller,',
        'Привет means hello.': 'Привет',
        '| Tom | 12 | Mary |': '| 12 |',
        'A <em class="a">small</em> house<br/>': '<em class="a">klein',
        ' '.join(f'See {number}.5 km.' for number in range(8)): '7.5 km',
    }
    lines = [*expected, 'Tom is my brother.']
    translations = translator(lines)
    for translation, literal in zip(translations, expected.values(), strict=False):
        assert translation.text.count(literal) == 1, translation.text
    assert translations[6].text.isupper()
    assert 'schließ' in translations[7].text
    english = translator('ICH WEISS, DIE STRASSE IST 12.5 KM LANG.', source_language='de').text
    assert 'KNOW' in english
    assert 'ROAD' in english
    assert english.count('12.5 KM') == 1
    alone = translator.with_decoding(replace(translator.decoding, literals='ignored'))
    assert translations[-1].tokens == alone('Tom is my brother.').tokens
    assert 'Привет' not in alone('Привет means hello.').text


@pytest.mark.slow
def test_numbers_of_the_target_are_in_the_n_best_and_after_prefixes() -> None:
    local = Translator.from_run('everyday', beam_width=2, n_best=2, literals='localized')
    best = local('It costs 1,234.50 EUR.', prefixes='Es kostet')
    assert {text.count('1.234,50 EUR') for text in (best.text, *map(str, best.n_best))} == {1}


def test_the_command_says_the_direction_and_what_to_look_at(call_command: Callable[..., Any]) -> None:
    options = ('--decoding.beam-width', '1', '--decoding.batch-tokens', '16')  # batches of one line
    lines = 'Tom ist mein Bruder.\nThis line is in another language.\nSarah Connor, Rio, Oslo\n'
    code, output, error = call_command('translate', 'everyday', '--from=German', *options, text=lines)
    assert (code, output.splitlines()[0]) == (0, 'Tom is my brother.')
    assert 'translating de to en\n' in error
    assert 'lines that are not in German: 1; input line 2\n' in error
    assert 'doubtful translations, of a quality below 0.5' in error
    for more, direction in ((), 'de to en'), (('--to', 'de'), 'en to de'):
        _, output, error = call_command('translate', 'everyday', *options, *more, text='Tom ist mein Bruder.\n')
        assert f'translating {direction}\n' in error
        assert output == 'Tom is my brother.\n' or more


def test_what_is_resumed_goes_on_in_its_direction(call_command: Callable[..., Any], tmp_path: Path) -> None:
    text, output = tmp_path / 'text', tmp_path / 'output'
    text.write_text('Tom ist mein Bruder, und das ist sein Haus.\nHello\n')
    output.write_text('Tom is my brother.\n')
    argv = ('translate', 'everyday', '--decoding.beam-width', '1', '--output', output, '--resume')
    code, _, error = call_command(*argv, text=text.read_text())
    assert (code, 'give --from or --to' in error) == (2, True), error
    code, _, error = call_command(*argv, '--input', text)
    assert (code, 'translating de to en\n' in error) == (0, True), error
    xliff = '<xliff version="1.2"><file source-language="en" target-language="de" original="a" datatype="x"><body>'
    unit = '<trans-unit id="1"><source>Bernd Müller</source></trans-unit></body></file></xliff>'
    (tmp_path / 'names.xlf').write_text(xliff + unit)
    code, _, error = call_command('translate', 'everyday', '--input', tmp_path / 'names.xlf')
    assert (code, 'translating en to de\n' in error) == (0, True), error


@pytest.mark.parametrize('runs', [('everday',), ('Hello world',), ('everyday', 'Hello world')])
def test_a_text_in_place_of_a_run_is_told_where_texts_go(call_command: Callable[..., Any], runs: tuple) -> None:
    code, _, error = call_command('translate', *runs)
    assert code == 2
    assert 'texts come from standard input.' in error
    assert ('Did you mean everyday?' in error) == (runs == ('everday',))


def test_training_from_it_tags_sources_as_it_expects() -> None:
    options = train_options('number_words', ['--init-from', 'everyday'])
    assert options.config.data.language_tags
    assert options.config.model.d_model == 256


@pytest.mark.slow
@pytest.mark.parametrize(('source', 'target'), [('en', 'de'), ('de', 'en')])
def test_200_lines_score_what_its_card_says(source: str, target: str) -> None:
    said = re.search(rf'{source}-{target}, first 200 lines \| ([\d.]+)', CARD)[1]
    rows = [line.split('\t')[:2] for line in PUBLISHED.read_text(encoding='utf-8').splitlines()[2:202]]
    sources, references = zip(*(row if source == 'en' else row[::-1] for row in rows), strict=True)
    texts = [one.text for one in Translator.from_run('everyday', target_language=target)(sources)]
    assert score(texts, references).bleu == pytest.approx(float(said), abs=0.5)  # another CPU rounds otherwise
