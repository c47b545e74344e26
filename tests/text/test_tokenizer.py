"""Text survives the tokenizer, ids never break a line, and what cannot be trained says why."""

import os
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizer_lines import LINES

from flax_transformer.common.errors import UserError
from flax_transformer.text.sentencepiece_tokenizer import MODEL_FILE, SentencePieceTokenizer
from flax_transformer.text.tokenizer import DESCRIPTION_FILE

VOCAB_SIZE = 400
PROPERTY = settings(derandomize=True, deadline=None, max_examples=300)

# A line is what stands between two "\n"; U+2581 is SentencePiece's own space and comes back as one.
lines = st.text(st.characters(exclude_categories=['Cs'], exclude_characters='\n\u2581'), max_size=60)


def train(corpus=LINES, **settings):
    return SentencePieceTokenizer.train(corpus, **{'vocab_size': VOCAB_SIZE, **settings})


def pieces(tokenizer):
    return [tokenizer.piece(i) for i in range(tokenizer.vocab_size)]


TOKENIZER = train()
ID_OF = {piece: i for i, piece in enumerate(pieces(TOKENIZER))}
BYTE_IDS = [ID_OF[f'<0x{byte:02X}>'] for byte in range(256)]


def round_trip(line, tokenizer=TOKENIZER):
    return tokenizer.decode(tokenizer.encode([line])[0])


@PROPERTY
@given(lines)
@example('')
@example('   two spaces  before and after   ')
@example('\t\ttabs\t')
@example('\x00 and a\x00b')
@example('one sentence\u2028still the same\u2029and still')
@example('\x85\x0b\x0c\x1c\x1d\x1e')
@example('👩\u200d👩\u200d👧 🏳️\u200d🌈 \U0001f9d1\U0001f3fd')
@example('</s> ends nothing')
@example('<0x0A>')
@example('\ufeffbyte order mark')
@example('\ufffd \uffff \U0010ffff')
@example('שלום, 你好, नमस्ते')
def test_every_valid_line_comes_back_from_its_ids(line):
    assert round_trip(line) == line


@PROPERTY
@given(st.lists(lines, max_size=5))
def test_eos_ends_every_encoding_and_stands_nowhere_else(batch):
    encoded = TOKENIZER.encode(batch)
    assert len(encoded) == len(batch)
    for ids in encoded:
        assert ids[-1] == TOKENIZER.eos_id
        assert TOKENIZER.eos_id not in ids[:-1]
        assert TOKENIZER.pad_id not in ids


def test_without_byte_fallback_an_unseen_character_becomes_unk():
    tokenizer = train(byte_fallback=False, vocab_size=100)
    assert tokenizer.unk_id in tokenizer.encode(['你'])[0]
    assert TOKENIZER.unk_id not in TOKENIZER.encode(['你'])[0]


def test_nmt_nfkc_rewrites_what_identity_keeps():
    line = 'ﬁne  spaces'
    assert round_trip(line, train(normalization='nmt_nfkc')) != line
    assert round_trip(line) == line


@PROPERTY
@given(st.lists(st.integers(0, VOCAB_SIZE - 1) | st.sampled_from(BYTE_IDS), max_size=40))
@example([ID_OF['<0x0A>']])
@example([ID_OF['<0x0D>'], ID_OF['<0x0A>']])
@example([])
def test_any_ids_decode_to_one_line_of_valid_utf_8(ids):
    text = TOKENIZER.decode(ids)
    assert '\n' not in text
    text.encode('utf-8')


def test_what_a_line_cannot_hold_is_replaced():
    """U+2581, which is SentencePiece's space; lone surrogates; a line break and half a character, from bytes."""
    assert round_trip('a\u2581b') == 'a b'
    assert round_trip('a\udc00b\ud800') == 'a?b?'
    assert TOKENIZER.decode([ID_OF['<0x61>'], ID_OF['<0x0A>'], ID_OF['<0x62>']]) == 'a b'
    assert TOKENIZER.decode([ID_OF['<0xC3>']]) == '\ufffd'
    assert TOKENIZER.decode([ID_OF['<0xC3>'], ID_OF['<0xA9>']]) == 'é'


def test_special_ids_decode_to_nothing():
    ids = TOKENIZER.encode(['lazy dog'])[0]
    pad, eos = TOKENIZER.pad_id, TOKENIZER.eos_id
    assert TOKENIZER.decode([pad, *ids, eos, pad, pad]) == 'lazy dog'
    assert TOKENIZER.decode([pad, eos]) == ''


@pytest.mark.parametrize(('pad_id', 'eos_id', 'unk_id'), [(2, 1, 0), (300, 301, 302), (VOCAB_SIZE - 1, 0, 1)])
def test_special_ids_lie_where_they_were_asked_for(pad_id, eos_id, unk_id):
    tokenizer = train(pad_id=pad_id, eos_id=eos_id, unk_id=unk_id)
    assert (tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id) == (pad_id, eos_id, unk_id)
    assert tokenizer.vocab_size == VOCAB_SIZE
    ids = tokenizer.encode(['Größe 你好 <pad></s>'])[0]
    assert ids.count(eos_id) == 1
    assert ids[-1] == eos_id
    assert pad_id not in ids
    assert tokenizer.decode(ids) == 'Größe 你好 <pad></s>'


def test_an_unk_id_beyond_the_vocabulary_is_refused_by_name():
    with pytest.raises(UserError, match=rf'unk_id[= ]{VOCAB_SIZE + 1}'):
        train(unk_id=VOCAB_SIZE + 1)


@pytest.mark.parametrize('algorithm', ['bpe', 'unigram'])
def test_a_vocabulary_too_big_for_the_text_names_the_limit_and_the_limit_works(algorithm):
    with pytest.raises(UserError, match=r'vocab_size=100000 .*--model\.vocab-size \d+') as caught:
        train(vocab_size=100_000, algorithm=algorithm)
    limit = int(re.search(r'--model\.vocab-size (\d+)', str(caught.value))[1])
    assert train(vocab_size=limit, algorithm=algorithm).vocab_size == limit
    with pytest.raises(UserError, match=f'at most {limit}'):
        train(vocab_size=limit + 1, algorithm=algorithm)


def test_a_vocabulary_too_small_for_bytes_and_characters_names_the_limit_and_the_remedy_works():
    with pytest.raises(UserError, match=r'--tokenizer\.character-coverage') as caught:
        train(vocab_size=100)
    limit = int(re.search(r'--model\.vocab-size above (\d+)', str(caught.value))[1])
    assert train(vocab_size=limit + 1).vocab_size == limit + 1
    with pytest.raises(UserError, match=f'above {limit}'):
        train(vocab_size=limit - 1)


@pytest.mark.parametrize('corpus', [[], ['', '']], ids=['no lines', 'blank lines'])
def test_an_empty_corpus_is_called_empty(corpus):
    with pytest.raises(UserError, match='empty'):
        train(corpus)


def test_the_pieces_of_bpe_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(os, 'cpu_count', lambda: 1)
    one = pieces(train())
    monkeypatch.setattr(os, 'cpu_count', lambda: 5)
    assert pieces(train()) == one


def test_a_saved_tokenizer_loads_as_it_was(tmp_path):
    saved = train(pad_id=7, eos_id=0, unk_id=3)
    saved.save(tmp_path / 'new' / 'tokenizer')
    loaded = SentencePieceTokenizer.load(tmp_path / 'new' / 'tokenizer')
    assert pieces(loaded) == pieces(saved)
    assert (loaded.pad_id, loaded.eos_id, loaded.unk_id) == (7, 0, 3)
    assert loaded.encode(['Größe  </s>']) == saved.encode(['Größe  </s>'])
    assert sorted(file.name for file in (tmp_path / 'new' / 'tokenizer').iterdir()) == [MODEL_FILE, DESCRIPTION_FILE]


@pytest.mark.parametrize('content', [None, b'', b'{"kind": ', b'[]', b'\xff'])
@pytest.mark.parametrize('name', [MODEL_FILE, DESCRIPTION_FILE])
def test_a_missing_or_damaged_file_is_named(tmp_path, name, content):
    TOKENIZER.save(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=re.escape(name) + (' is missing' if content is None else '')):
        SentencePieceTokenizer.load(tmp_path)


TAGGED = train(languages=['de', 'pt-BR', 'en'])


def test_languages_have_a_tag_each():
    assert sorted(TAGGED.languages) == ['de', 'en', 'pt-BR']
    assert len(set(TAGGED.languages.values())) == 3
    for language, tag in TAGGED.languages.items():
        assert TAGGED.piece(tag) == f'<2{language}>'
        assert TAGGED.tag_id(language) == tag
        assert TAGGED.encode(['lazy dog'], target_language=language)[0] == [tag, *TAGGED.encode(['lazy dog'])[0]]
        assert TAGGED.decode([tag, *TAGGED.encode(['lazy dog'])[0]]) == 'lazy dog'
    assert TOKENIZER.languages == {}
    assert TOKENIZER.tag_id(None) is None


def test_no_text_gives_a_tag():
    line = '<2de> <2en>x<2pt-BR>'
    assert not set(TAGGED.encode([line])[0]) & set(TAGGED.languages.values())
    assert round_trip(line, TAGGED) == line


@pytest.mark.parametrize('language', ['fr', 'dee', '', None])
def test_a_language_without_a_tag_is_refused_with_those_that_have_one(language):
    with pytest.raises(UserError, match=r'expected one of (de|en|pt-BR)(, (de|en|pt-BR)){2}\.'):
        TAGGED.tag_id(language)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.lists(st.text(max_size=30), max_size=6))
def test_flat_ids_are_those_of_encode_one_behind_the_other(batch):
    ids, lengths = TOKENIZER.encode_flat(batch)
    expected = TOKENIZER.encode(batch)
    assert ids.tolist() == [i for line in expected for i in line]
    assert lengths.tolist() == [len(line) for line in expected]
    assert (ids.dtype, lengths.dtype) == ('int32', 'int64')


UNIGRAM = train(algorithm='unigram', vocab_size=330)


def sample(tokenizer, line, *, seed, alpha):
    return tokenizer.sample_flat([line], seeds=np.array([seed]), alpha=alpha)[0].tolist()


@pytest.mark.parametrize(('tokenizer', 'alpha'), [(TOKENIZER, 0.5), (UNIGRAM, 0.1)], ids=['bpe', 'unigram'])
@settings(derandomize=True, deadline=None, max_examples=100)
@given(line=lines, seed=st.integers(1, 2**32 - 2))
def test_a_drawn_segmentation_is_of_the_same_text(tokenizer, alpha, line, seed):
    ids = sample(tokenizer, line, seed=seed, alpha=alpha)
    assert tokenizer.decode(ids) == line
    assert ids.index(tokenizer.eos_id) == len(ids) - 1


def test_the_digest_tells_tokenizers_apart(tmp_path):
    TOKENIZER.save(tmp_path)
    assert SentencePieceTokenizer.load(tmp_path).digest == train().digest == TOKENIZER.digest
    others = [train(vocab_size=VOCAB_SIZE - 1), train(unk_id=3), TAGGED, UNIGRAM]
    assert len({TOKENIZER.digest, *(other.digest for other in others)}) == 5
