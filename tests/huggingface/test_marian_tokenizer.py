"""Marian's tokenizer without torch: the ids that transformers gave (make_marian_fixture.py), and ours as theirs."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import TESTS, corpus
from hostile_lines import HOSTILE

from flax_transformer.common.errors import UserError
from flax_transformer.data.lines import read_lines
from flax_transformer.huggingface.folder import as_marian, read_folder
from flax_transformer.huggingface.marian_tokenizer import MarianTokenizer
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.text.tokenizer import Tokenizer

FIXTURE = TESTS / 'fixtures' / 'marian'
EXPECTED = json.loads((FIXTURE / 'expected.json').read_text(encoding='utf-8'))


@pytest.fixture(scope='module')
def tokenizer() -> MarianTokenizer:
    return MarianTokenizer.load(FIXTURE)


def test_ids_are_those_of_transformers(tokenizer: MarianTokenizer) -> None:
    assert tokenizer.encode(EXPECTED['lines']) == EXPECTED['ids']
    assert tokenizer.encode_target(EXPECTED['lines']) == EXPECTED['target_ids']


def test_special_ids_and_languages(tokenizer: MarianTokenizer) -> None:
    assert (tokenizer.eos_id, tokenizer.unk_id, tokenizer.pad_id) == (0, 1, 135)
    assert (tokenizer.vocab_size, tokenizer.target_vocab_size) == (136, 136)
    assert tokenizer.languages == {'deu': 2, 'fra': 3}
    assert tokenizer.encode(['>>fra<< one']) == [[3, *tokenizer.encode(['one'])[0]]]
    assert tokenizer.encode(['one'], target_language='fra') == tokenizer.encode(['>>fra<< one'])
    assert tokenizer.encode(['one'], target_language='French') == tokenizer.encode(['>>fra<< one'])
    with pytest.raises(UserError, match=r"target_language='frq': expected one of deu, fra\. Did you mean fra\?"):
        tokenizer.encode(['one'], target_language='frq')


def test_lone_surrogates_become_question_marks(tokenizer: MarianTokenizer) -> None:
    assert tokenizer.encode(['a\ud800']) == tokenizer.encode(['a?'])


def test_decoding_leaves_out_special_pieces(tokenizer: MarianTokenizer) -> None:
    ids = tokenizer.encode_target(['hundert eins'])[0]
    assert tokenizer.decode([135, 1, *ids, 0, 135]) == 'hundert eins'
    assert tokenizer.decode([]) == ''


def test_a_folder_of_an_older_transformers_decodes_as_that_does(tmp_path: Path) -> None:
    """What save_pretrained of 4.40 writes unasked; its decode gave the same for these lines."""
    folder = Path(shutil.copytree(FIXTURE, tmp_path / 'old'))
    settings = {'clean_up_tokenization_spaces': True, 'model_max_length': None, 'tokenizer_class': None}
    (folder / 'tokenizer_config.json').write_text(json.dumps(settings | {'separate_vocabs': False}))
    _, _, tokenizer, decoding = read_folder(folder)
    assert decoding.max_source_tokens == 512
    tokenizer._target, line = SimpleNamespace(decode_pieces=''.join), "really ? he is n't , I 'm . we 've , ' x ' 's"
    tokenizer._pieces = dict(enumerate(line))
    assert tokenizer.decode(range(len(line))) == "really? he isn't, I'm. we've,'x''s"


def test_what_is_saved_loads_as_the_same(tokenizer: MarianTokenizer, tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write_tokenizer(tokenizer)
    again = run.read_tokenizer()
    assert isinstance(again, MarianTokenizer)
    assert again.encode(HOSTILE) == tokenizer.encode(HOSTILE)
    assert again.settings == tokenizer.settings


def test_fewer_pieces_split_the_lines_that_they_are_for_as_before(tokenizer: MarianTokenizer) -> None:
    lines = ['>>fra<<seven', 'two hundred</s>', 'zweihunderteins']
    few = tokenizer.fewer(lines, ['fra'])
    assert few.languages.keys() == {'fra'}
    assert few.vocab_size < 60 < tokenizer.vocab_size
    assert few.pad_id == few.vocab_size - 1
    for encode, piece in (('encode', 'source_piece'), ('encode_target', 'piece')):
        pieces = [[map(getattr(one, piece), ids) for ids in getattr(one, encode)(lines)] for one in (few, tokenizer)]
        assert [[*line] for line in pieces[0]] == [[*line] for line in pieces[1]]
    assert few.unk_id not in few.encode(['nineteen'])[0], 'spelled in characters'


def test_two_vocabularies_give_two_sides(tmp_path: Path) -> None:
    shutil.copytree(FIXTURE, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns('*.bin', 'expected.*'))
    ids = json.loads((tmp_path / 'vocab.json').read_text(encoding='utf-8'))
    turned = {piece: len(ids) - 1 - id_ for piece, id_ in ids.items()} | {'neu': len(ids)}
    (tmp_path / 'target_vocab.json').write_text(json.dumps(turned), encoding='utf-8')
    (tmp_path / 'tokenizer_config.json').write_text('{"separate_vocabs": true}')
    tokenizer = MarianTokenizer.load(tmp_path)
    assert tokenizer.encode(['seven']) == [[ids['▁seven'], ids['</s>']]]
    assert tokenizer.encode_target(['hundert'])[0][-1] == turned['</s>']
    assert (tokenizer.vocab_size, tokenizer.target_vocab_size) == (136, 137)
    assert (tokenizer.piece(136), tokenizer.source_piece(0)) == ('neu', '</s>')
    with pytest.raises(UserError, match='vocabulary each'):
        tokenizer.fewer([], [])


def joint(lines: list[str]) -> Tokenizer:
    return SentencePieceTokenizer.train(lines, vocab_size=500, pad_id=499, eos_id=0, unk_id=1)


def test_a_joint_tokenizer_gives_the_same_ids_as_theirs() -> None:
    """Over Multi30k's lines, both sides, and hostile ones; theirs is proven equal to that of transformers."""
    lines = [line for side in ('en', 'de') for line in read_lines(corpus('multi30k', f'train.{side}.gz'))[:5000]]
    ours = joint(lines[::10])
    theirs = as_marian(ours, ('en', 'de'), 512)
    assert theirs.encode(lines) == ours.encode(lines)
    assert theirs.encode_target(HOSTILE) == ours.encode(HOSTILE)
    assert (theirs.pad_id, theirs.eos_id, theirs.unk_id) == (499, 0, 1)


def test_lines_that_their_tokenizer_parses_are_the_exception() -> None:
    ours = joint([line for line in HOSTILE if line.strip()] * 5)
    theirs = as_marian(ours, ('en', 'de'), 512)
    for line in ('a </s> b', '<unk>', 'x<pad>', '>>fr<< a', '>>a b<< c'):
        assert theirs.encode([line]) != ours.encode([line])
    assert theirs.encode(['a >>fr<< b']) == ours.encode(['a >>fr<< b'])


def test_our_language_tags_become_theirs() -> None:
    """Without a space behind the tag: our models keep spaces, and it would be one of the line's."""
    lines = ['a b c d e f g h', 'h g f e d c b a'] * 20
    ours = SentencePieceTokenizer.train(
        lines, vocab_size=20, byte_fallback=False, character_coverage=1.0, languages=['de', 'fr'], pad_id=19
    )
    theirs = as_marian(ours, ('en', 'de'), 512)
    assert theirs.languages == ours.languages
    for language in ours.languages:
        assert theirs.encode([f'>>{language}<<{lines[0]}']) == ours.encode(lines[:1], target_language=language)
