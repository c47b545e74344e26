"""A trimmed run is equal where no dropped piece would be used; a language more leaves old text mostly alone."""

import contextlib
from dataclasses import replace
from pathlib import Path

import fairseq_folders
import numpy as np
import pytest
from conftest import TESTS
from drawn_params import drawn
from flax.traverse_util import flatten_dict, unflatten_dict
from num2words import num2words

from flax_transformer import Translator
from flax_transformer.cli import main
from flax_transformer.common.errors import UserError
from flax_transformer.config import Config, DataConfig, TransformerConfig
from flax_transformer.data.bitext.config import CorpusConfig
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.interop.huggingface_runs import export_huggingface, import_huggingface
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.learning.memory import Pair, read_sample, write_sample
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.tasks.translation.model import make_model
from flax_transformer.tasks.translation.run import Run
from flax_transformer.tasks.translation.vocabulary_change import add_language, add_marks, rows_of, trim_run, with_rows
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.term_marks import unmarked
from flax_transformer.text.vocabulary_change import learn_pieces, used_pieces, with_pieces
from flax_transformer.transformer.model import parameter_shapes

GOLDEN = TESTS / 'golden' / 'number_words'
FEW_NUMBERS = ['twenty-one', 'five']
MARIAN = TESTS / 'fixtures' / 'marian'
NUMBERS = ['two hundred and one', 'zweihunderteins']
FAIRSEQ = ['The quick brown fox number 7 jumps.', 'Straße und 4 süße Äpfel']
FEW = {
    'NllbTokenizer': ['eng_Latn', 'deu_Latn'],
    'NllbTokenizer 5': ['eng_Latn', 'deu_Latn'],
    'M2M100Tokenizer': ['de', 'en'],
    'MBart50Tokenizer': ['en_XX', 'de_DE'],
    'Marian': ['deu'],
    'tags': ['en', 'de'],
}
FAMILIES = [
    'ours',
    'M2M100Tokenizer',
    *(pytest.param(name, marks=pytest.mark.slow) for name in FEW if name != 'M2M100Tokenizer'),
]
# Each compiles two searches.
SEARCHED = {'ours': {}, 'NllbTokenizer': {}, 'Marian': {}, 'tags': {'target_language': 'de'}}


def run_of(family: str, folder: Path) -> tuple[Path, list[str]]:
    """A run of the family, and lines for it."""
    if family == 'ours':
        return GOLDEN, FEW_NUMBERS
    if family == 'tags':
        return tagged_run(folder / 'run'), NUMBERS
    pytest.importorskip('safetensors', reason='safetensors is not installed')
    if family == 'Marian':
        return import_huggingface(MARIAN, folder / 'run').path, NUMBERS
    kind, is_new, _ = family.partition(' ')
    fairseq_folders.write_folder(folder / 'theirs', kind)
    if is_new:
        fairseq_folders.save_as_transformers_5(folder / 'theirs', kind)
    import_huggingface(folder / 'theirs', folder / 'run', target_language='de')
    return folder / 'run', FAIRSEQ


def tagged_run(folder: Path) -> Path:
    """A run in eight bits that translates three pairs of languages, with tags; its parameters are random."""
    numbers = [num2words(n, lang=language) for language in ('en', 'de', 'fr') for n in range(0, 1000, 7)]
    tokenizer = SentencePieceTokenizer.train(numbers, vocab_size=400, languages=['de', 'en', 'fr'])
    pairs = [('en', 'fr'), ('en', 'de'), ('fr', 'en')]
    corpora = [CorpusConfig('-'.join(pair), 'train.{lang}', '', 0, None, *pair) for pair in pairs]
    sizes = {'d_model': 32, 'd_ff': 48, 'num_encoder_layers': 1, 'num_decoder_layers': 1}
    model = TransformerConfig(vocab_size=400, **sizes)
    run = Run(folder)
    data = DataConfig(target_language='fr', mixture=tuple(corpora), language_tags=True)
    run.open(Config(model=model, data=data))
    run.write_tokenizer(tokenizer)
    write_sample(folder, [Pair('one', 'two', *pair) for pair in pairs])
    with contextlib.closing(Checkpoints(run.checkpoints)) as checkpoints:
        checkpoints.save_params(drawn(parameter_shapes(model)), int8=True)
    return folder


def test_the_tags_and_corpora_of_other_languages_go_with_the_pieces(tmp_path: Path, capsys) -> None:
    run, text = tagged_run(tmp_path / 'run'), tmp_path / 'text'
    text.write_text('\n'.join(NUMBERS))
    out = tmp_path / 'small'
    argv = ['trim', str(run), '--text', str(text), '--output', str(out), '--languages']
    assert main([*argv, 'fr']) == 2
    assert 'both sides of a pair: en-fr, en-de, fr-en' in capsys.readouterr().err
    assert main([*argv, 'German,en']) == 0
    assert 'MB of parameters' in capsys.readouterr().out

    old, new = load_run(run), load_run(out)
    data = new.config.data
    assert new.tokenizer.languages.keys() == {'de'}
    assert [corpus.name for corpus in data.mixture] == ['en-de']
    assert (data.source_language, data.target_language) == ('en', 'de')
    assert [pair.target_language for pair in read_sample(out)] == ['de']
    assert (out / 'checkpoints' / '0' / 'int8').is_dir()
    kept = np.array(rows_of(old.tokenizer, new.tokenizer))
    encoded = [run.tokenizer.encode(NUMBERS, target_language='de') for run in (old, new)]
    assert [kept[ids].tolist() for ids in encoded[1]] == encoded[0]
    tables = [np.asarray(run.params['embedding']['table']) for run in (old, new)]
    np.testing.assert_allclose(tables[1], tables[0][kept], rtol=1e-6)


@pytest.mark.parametrize('family', FAMILIES)
@pytest.mark.slow
def test_a_trimmed_run_is_equal_where_no_dropped_piece_is_used(family: str, tmp_path: Path) -> None:
    run, lines = run_of(family, tmp_path)
    old, new = trim_run(run, tmp_path / 'small', lines, FEW.get(family, ()))
    assert new.tokenizer.vocab_size < 0.9 * old.tokenizer.vocab_size
    kept = np.array(rows_of(old.tokenizer, new.tokenizer))
    encoded = new.tokenizer.encode(lines)
    assert [kept[ids].tolist() for ids in encoded] == old.tokenizer.encode(lines)
    decoded = [run.tokenizer.decode(run.tokenizer.encode_target(lines)[0]) for run in (old, new)]
    assert decoded[0] == decoded[1]

    source, target = np.array(encoded[:1]), np.array(new.tokenizer.encode_target(lines)[:1])
    logits = make_model(new.config.model).apply({'params': new.params}, source, target)
    expected = make_model(old.config.model).apply({'params': old.params}, kept[source], kept[target])
    np.testing.assert_allclose(logits, expected[..., kept], rtol=0, atol=1e-4)  # sums in another order
    if family not in SEARCHED:
        return

    dropped = {*range(old.tokenizer.vocab_size)} - {*kept.tolist()}
    search = {'beam_width': 2, 'max_tokens': 12, 'renormalize': True, 'split_sentences': False} | SEARCHED[family]
    again = Translator.from_run(tmp_path / 'small', **search)(lines)
    banned = (*old.config.decoding.banned_ids, *sorted(dropped))
    theirs = Translator.from_run(run, **search, banned_ids=banned)(lines)
    assert [translation.text for translation in again] == [translation.text for translation in theirs]
    assert [kept[list(one.token_ids)].tolist() for one in again] == [list(one.token_ids) for one in theirs]


@pytest.mark.parametrize('family', ['M2M100Tokenizer', pytest.param('NllbTokenizer 5', marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_trimmed_run_goes_to_huggingfaces_format_and_back(family: str, tmp_path: Path) -> None:
    run, lines = run_of(family, tmp_path)
    _, new = trim_run(run, tmp_path / 'small', lines, FEW[family])
    export_huggingface(tmp_path / 'small', tmp_path / 'out', new.config.decoding)
    import_huggingface(tmp_path / 'out', tmp_path / 'back', target_language='de')
    back = load_run(tmp_path / 'back')
    assert back.tokenizer.encode(lines) == new.tokenizer.encode(lines)
    assert back.tokenizer.languages == new.tokenizer.languages
    assert back.config.model == replace(new.config.model, max_length=back.config.model.max_length)


def test_every_array_of_a_vocabulary_is_changed() -> None:
    shapes = {'source_embedding/table': (5, 2), 'projection': (2, 5), 'logits_bias': (5,), 'other': (5,)}
    params = {name: np.arange(np.prod(shape)).reshape(shape) for name, shape in shapes.items()}
    changed = flatten_dict(with_rows(unflatten_dict(params, sep='/'), [0, 3, 0], {2: [1, 3]}), sep='/')
    assert changed['source_embedding/table'].tolist() == [[0, 1], [6, 7], [4, 5]]
    assert changed['projection'].tolist() == [[0, 3, 2], [5, 8, 7]]
    assert changed['logits_bias'].tolist() == [0, 3, 2]
    assert len(changed['other']) == 5


def test_what_bpe_merges_on_its_way_is_kept() -> None:
    """Random text, in which most pieces are never seen whole."""
    rng = np.random.default_rng(0)
    lines = [' '.join(''.join(rng.choice(list('abcd'), 9)) for _ in range(8)) for _ in range(200)]
    for algorithm in ('bpe', 'unigram'):
        whole = SentencePieceTokenizer.train(lines, vocab_size=600, algorithm=algorithm)
        some = [*lines[:20], 'an unseen é', '']
        kept = used_pieces(whole.model, some)
        small = SentencePieceTokenizer(with_pieces(whole.model, kept)[0])
        assert len(kept) < 0.8 * whole.vocab_size
        assert [[kept[i] for i in ids] for ids in small.encode(some)] == whole.encode(some)
        assert small.decode(small.encode([lines[30]])[0]) == lines[30], 'what was not seen is spelled'


@pytest.mark.parametrize('algorithm', ['bpe', 'unigram'])
@pytest.mark.parametrize('byte_fallback', [True, False])
def test_new_pieces_stand_for_what_they_were_split_into(algorithm: str, byte_fallback: bool) -> None:
    numbers = [num2words(n, lang=language) for language in ('en', 'de') for n in range(0, 1000, 90)]
    lines = [num2words(n, lang='fr').replace('vingt', 'vîngt') for n in range(0, 3000, 7)]
    size = 60 + 256 * byte_fallback
    old = SentencePieceTokenizer.train(numbers * 20, vocab_size=size, algorithm=algorithm, byte_fallback=byte_fallback)
    learned = learn_pieces(old.model, lines, 60)
    new = SentencePieceTokenizer(with_pieces(old.model, range(old.vocab_size), learned)[0])
    assert len(learned) == 60
    assert 'î' in [piece.piece for piece in learned]
    assert not any('-' in piece.piece for piece in learned if piece.piece != '-'), 'no signs among letters'
    encoded = new.encode(lines)
    assert [new.decode(ids) for ids in encoded][1:] == lines[1:], 'é is seen once'
    assert sum(map(len, encoded)) < 0.6 * sum(map(len, old.encode(lines)))
    if byte_fallback:
        ids = {old.piece(i): i for i in range(old.vocab_size)}
        parts = {old.vocab_size + i: [ids[part] for part in piece.parts] for i, piece in enumerate(learned)}
        split = [[part for i in line for part in parts.get(i, (i,))] for line in encoded]
        same = sum(a == b for a, b in zip(split, old.encode(lines), strict=True))
        assert same > 0.9 * len(lines)
    changed = sum(a != b for a, b in zip(new.encode(numbers), old.encode(numbers), strict=True))
    assert changed < 0.5 * len(numbers)


@pytest.mark.parametrize(('family', 'language'), [('NllbTokenizer', 'gsw_Latn'), ('M2M100Tokenizer', 'gsw')])
@pytest.mark.slow_cases('M2M100Tokenizer-gsw')
def test_a_language_is_added_to_an_imported_run(family: str, language: str, tmp_path: Path) -> None:
    run, _ = run_of(family, tmp_path)
    lines = ['die füchse schpringed über de hund'] * 12
    old, new = add_language(run, tmp_path / 'more', language, lines, 9)
    new = load_run(tmp_path / 'more')
    assert new.tokenizer.languages.keys() - old.tokenizer.languages.keys() == {language}
    tags = [*old.tokenizer.languages.values()]
    assert new.tokenizer.vocab_size == min(tags) + len(tags) + 10
    table, before = (np.asarray(run.params['embedding']['table']) for run in (new, old))
    np.testing.assert_allclose(table[new.tokenizer.languages[language]], before[tags].mean(axis=0), atol=1e-6)
    np.testing.assert_array_equal(
        table[[new.tokenizer.languages[code] for code in old.tokenizer.languages]], before[tags]
    )
    (ids,) = new.tokenizer.encode_target(lines[:1])
    assert len(ids) < len(old.tokenizer.encode_target(lines[:1])[0])
    assert new.tokenizer.decode(ids) == lines[0]
    before, after = ([*map(run.tokenizer.piece, run.tokenizer.encode(FAIRSEQ[:1])[0])] for run in (old, new))
    assert after == before


@pytest.mark.parametrize(
    ('argv', 'expected'),
    [
        (['--output', 'out'], '--text FILE'),
        (['--text', 'text', '--output', 'text'], 'exists already'),
        (['--text', 'empty', '--output', 'out'], 'expected lines'),
        (['--text', 'text', '--output', 'out', '--languages', 'fr'], 'no tags of languages'),
        (['add-language', 'fr', '--text', 'text', '--output', 'out'], 'with tags of languages'),
        (['add-language', '--text', 'text', '--output', 'out'], 'expected RUN LANGUAGE'),
    ],
)
def test_what_cannot_be_is_refused(argv, expected, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path('empty').touch()
    Path('text').write_text('two\n')
    command, *rest = argv if argv[0] == 'add-language' else ['trim', *argv]
    assert main([command, str(GOLDEN), *rest]) == 2
    assert expected in capsys.readouterr().err
    assert not Path('out').exists()


@pytest.mark.slow
def test_a_glossary_is_written_into_the_source_where_the_vocabulary_has_marks(tmp_path: Path) -> None:
    old, new = add_marks(GOLDEN, tmp_path / 'marked')
    assert new.config.model.vocab_size == old.config.model.vocab_size + 3
    search = {'beam_width': 2, 'max_tokens': 12}
    plain, marked = Translator.from_run(GOLDEN, **search), Translator.from_run(tmp_path / 'marked', **search)
    line = 'one hundred and twenty-five'
    assert marked(line).text == plain(line).text

    questions = []
    own = marked.translate_parts
    marked.translate_parts = lambda asked: questions.append(asked) or own(asked)
    found = marked(
        [line, 'five'], glossary=Glossary({'hundred': ['hundert', 'Hundert'], 'one': ['ein']}), alignment=True
    )
    (asked,) = questions
    sources = asked.sources
    begin, translated, end = new.tokenizer.marks
    assert [sources[0].count(mark) for mark in (begin, translated, end)] == [2, 2, 2]
    encode = new.tokenizer.encode
    assert unmarked(sources[0], new.tokenizer.marks)[0] == encode([line])[0]
    assert encode(['ein'])[0][:-1] == sources[0][sources[0].index(translated) + 1 : sources[0].index(end)]
    assert sources[1] == encode(['five'])[0]
    assert not {*new.tokenizer.marks} & {*found[0].token_ids}
    assert all(word < 4 for word, _ in found[0].alignment)
    assert 'hundert' in found[0].text.lower() or found[0].missing

    without = asked.without_marks([0], new.tokenizer.marks)
    assert without.sources == encode([line])
    words = [encode([text])[0][:-1] for text in ('one', 'one hundred')]
    assert without.demands.places[0, :2].tolist() == [[0, len(words[0])], [len(words[0]), len(words[1])]]
    both = [marked._search(each, each.sources)[0] for each in (asked, without)]
    best = min(both, key=lambda each: (len(each.missing), -each.score))
    assert found[0].tokens == best.tokens
    assert found[0].score == pytest.approx(best.score)

    with pytest.raises(UserError, match='marks'):
        add_marks(tmp_path / 'marked', tmp_path / 'again')
