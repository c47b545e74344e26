"""The cache holds what tokenize() gives, notices what has changed, and survives whatever stops a preparation."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flax_transformer.common.errors import UserError
from flax_transformer.config import DataConfig
from flax_transformer.data import lines as text_lines
from flax_transformer.data.bitext import cache
from flax_transformer.data.bitext.cache import Settings, cached_pairs, find_cached
from flax_transformer.data.bitext.corpus import split
from flax_transformer.data.bitext.sources import open_corpus
from flax_transformer.data.bitext.tokenized import tokenize
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

LINES = ['one two three four five six', 'eins zwei drei vier', 'ein Satz mit süßen Äpfeln'] * 5
TOKENIZER = SentencePieceTokenizer.train(LINES, vocab_size=300)
TAGGED = SentencePieceTokenizer.train(LINES, vocab_size=300, languages=['de', 'en'])
HOW = Settings(24, 20)
NAME = 'train.{lang}'


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """A corpus of a few lines is read in several pieces."""
    monkeypatch.setattr('flax_transformer.data.lines.CHUNK', 16)


@pytest.fixture
def folder(tmp_path):
    """A folder with a corpus of 100 pairs, of which some are blank and some too long."""
    words = ['one', 'two', 'three', 'four', 'five', 'six', 'eins', 'zwei', 'drei', 'süßen', 'Äpfeln']
    random = np.random.default_rng(0)
    sides = [[' '.join(random.choice(words, random.integers(1, 5))) for _ in range(100)] for _ in range(2)]
    for i in (0, 17, 99):
        sides[i % 2][i] = ' \t'
    for i in (1, 40, 98):
        sides[i % 2][i] = 'one two three ' * 12
    (tmp_path / 'corpus').mkdir()
    for language, lines in zip(('en', 'de'), sides, strict=True):
        write(tmp_path / 'corpus' / f'train.{language}', lines)
    return tmp_path / 'corpus'


def write(file, lines):
    file.write_text(''.join(f'{line}\n' for line in lines), encoding='utf-8')


def corpus_in(folder, languages=('en', 'de')):
    return open_corpus(NAME, DataConfig(root=str(folder)), languages)


def in_memory(folder, tokenizer=TOKENIZER, how=HOW, languages=('en', 'de')):
    pairs = corpus_in(folder, languages).read()
    return tokenize(pairs, tokenizer, how.source_slots, how.target_slots, target_language=how.target_language)


def assert_same(ours, expected):
    assert len(ours) == len(expected)
    assert (ours.num_blank, ours.num_too_long) == (expected.num_blank, expected.num_too_long)
    for side in ('source', 'target'):
        for one, two in zip(getattr(ours, side), getattr(expected, side), strict=True):
            np.testing.assert_array_equal(one, two)


def prepared_in(path):
    """Names of the folders of a cache; asserts that nothing else is there but their locks."""
    folders = {entry.name for entry in path.iterdir() if entry.is_dir()}
    locks = {entry.name for entry in path.iterdir() if not entry.is_dir()}
    assert all(name.endswith('.lock') for name in locks)
    assert not any(name.endswith('.partial') for name in folders)
    return folders


@pytest.fixture
def never_tokenized(monkeypatch):
    """A function that makes all further tokenizing a failure."""

    def forbid(self, lines):
        raise AssertionError('tokenized again')

    return lambda: monkeypatch.setattr(SentencePieceTokenizer, 'encode_flat', forbid)


def test_the_cache_holds_what_tokenize_gives_in_memory(folder, tmp_path):
    pairs, expected = cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache'), in_memory(folder)
    assert (expected.num_blank, expected.num_too_long, len(expected)) == (3, 3, 94)
    assert_same(pairs, expected)
    assert pairs.numbers.tolist() == [i for i in range(100) if i not in (0, 17, 99, 1, 40, 98)]
    assert {pairs.source.ids.dtype, pairs.target.ids.dtype} == {np.dtype(np.uint16)}
    assert prepared_in(tmp_path / 'cache')


@pytest.mark.parametrize('name', ['vocab_size', 'target_vocab_size'])
@pytest.mark.parametrize(('vocab_size', 'dtype'), [(1 << 16, np.uint16), ((1 << 16) + 1, np.uint32)])
def test_ids_take_two_bytes_where_they_fit(folder, tmp_path, monkeypatch, vocab_size, dtype, name):
    expected, last = in_memory(folder), vocab_size - 1
    encode_flat = SentencePieceTokenizer.encode_flat

    def with_the_last_piece(self, lines):
        ids, lengths = encode_flat(self, lines)
        return np.where(ids == self.eos_id, last, ids), lengths

    monkeypatch.setattr(SentencePieceTokenizer, name, property(lambda _: vocab_size))
    monkeypatch.setattr(SentencePieceTokenizer, 'encode_flat', with_the_last_piece)
    pairs = cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache')
    assert pairs.source.ids.dtype == dtype
    np.testing.assert_array_equal(pairs.source.ids, np.where(expected.source.ids == 1, last, expected.source.ids))
    assert find_cached(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache').source.ids.dtype == dtype


def test_text_is_kept_only_where_it_is_asked_for(folder, tmp_path):
    plain = cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache')
    assert plain.text is None
    assert not list((tmp_path / 'cache').rglob('*.text*'))
    with_text = cached_pairs(corpus_in(folder), TOKENIZER, Settings(24, 20, keep_text=True), tmp_path / 'cache')
    assert_same(with_text, plain)
    lines = corpus_in(folder).read()
    for text, side in zip(with_text.text, (lines.sources, lines.targets), strict=True):
        assert [text.sentence(i).tobytes().decode() for i in range(len(plain))] == [side[n] for n in plain.numbers]


@pytest.mark.parametrize('keep_size', [True, False])
def test_a_changed_file_is_noticed(folder, tmp_path, keep_size):
    before = cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache')
    file = folder / 'train.de'
    old, stat = file.read_text(), file.stat()
    lines = old.splitlines()
    lines[50] = lines[50][::-1] if keep_size else lines[50] + ' eins'
    write(file, lines)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert file.read_text() != old
    assert (file.stat().st_size == stat.st_size) == keep_size
    assert find_cached(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache') is None
    said = []
    after = cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache', say=said.append)
    assert 'has changed; tokenized again' in said[0]
    assert_same(after, in_memory(folder))
    assert after.fingerprint != before.fingerprint
    assert len(prepared_in(tmp_path / 'cache')) == 1
    file.write_text(old)
    assert cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache').fingerprint == before.fingerprint


def test_a_file_that_was_only_touched_is_read_once_to_see_that(folder, tmp_path, never_tokenized, monkeypatch):
    cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache')
    never_tokenized()
    os.utime(folder / 'train.en', ns=(0, 12345))
    read = []
    monkeypatch.setattr(
        text_lines, 'sha256_of', lambda file, real=text_lines.sha256_of: read.append(file) or real(file)
    )
    for _ in range(2):
        cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache')
    assert read == [folder / 'train.en']


def test_what_makes_other_ids_lies_in_a_folder_of_its_own(folder, tmp_path, never_tokenized):
    other = SentencePieceTokenizer.train(LINES, vocab_size=290)
    asked = [(TOKENIZER, HOW), (other, HOW), (TOKENIZER, Settings(23, 20)), (TOKENIZER, Settings(24, 21))]
    asked += [(TAGGED, Settings(24, 20, 'de')), (TAGGED, Settings(24, 20, 'en'))]
    asked += [(TOKENIZER, Settings(24, 20, keep_text=True))]
    asked = [(*each, ('en', 'de')) for each in asked] + [(TOKENIZER, HOW, ('de', 'en'))]  # both are train.{lang}
    for tokenizer, how, languages in asked:
        pairs = cached_pairs(corpus_in(folder, languages), tokenizer, how, tmp_path / 'cache')
        assert_same(pairs, in_memory(folder, tokenizer, how, languages))
    never_tokenized()
    for tokenizer, how, languages in asked:  # none has displaced another
        cached_pairs(corpus_in(folder, languages), tokenizer, how, tmp_path / 'cache')
    assert len(prepared_in(tmp_path / 'cache')) == len(asked)


def test_a_corpus_without_files_is_told_by_its_settings(tmp_path):
    small = DataConfig(numbers_below=1000, numbers_train=100, numbers_held_out=10)
    other = DataConfig(numbers_below=2000, numbers_train=100, numbers_held_out=10)
    for config in (small, other, small):
        corpus = open_corpus('number_words:train', config)
        pairs = cached_pairs(corpus, TOKENIZER, Settings(99, 99), tmp_path / 'cache')
        assert_same(pairs, tokenize(corpus.read(), TOKENIZER))
    assert len(prepared_in(tmp_path / 'cache')) == 2


@pytest.mark.parametrize('name', ['numbers', 'target.text'])
@pytest.mark.parametrize('damage', ['cut', 'grown', 'gone', 'flipped'])
def test_a_damaged_file_is_found_and_the_corpus_tokenized_again(folder, tmp_path, name, damage):
    how, said = Settings(24, 20, keep_text=True), []
    before = cached_pairs(corpus_in(folder), TOKENIZER, how, tmp_path / 'cache')
    expected = [np.array(array) for array in (*before.source, *before.target, *before.text[0], *before.text[1])]
    file = before.folder / name
    content = file.read_bytes()
    file.unlink()
    if damage != 'gone':
        flipped = content[:-1] + bytes([content[-1] ^ 1])
        file.write_bytes({'cut': content[:-2], 'grown': content + b'\0\0', 'flipped': flipped}[damage])
    assert find_cached(corpus_in(folder), TOKENIZER, how, tmp_path / 'cache') is None
    after = cached_pairs(corpus_in(folder), TOKENIZER, how, tmp_path / 'cache', say=said.append)
    assert damage == 'gone' or ' is damaged: ' in said[0]
    assert 'tokenized again' in said[-1]
    assert after.fingerprint == before.fingerprint
    for ours, theirs in zip((*after.source, *after.target, *after.text[0], *after.text[1]), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(prepared_in(tmp_path / 'cache')) == 1


def test_a_file_of_another_size_is_not_hashed(folder, tmp_path, monkeypatch):
    pairs = cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache')
    os.truncate(pairs.folder / 'source.ids', 1 << 40)  # sparse: hashing it takes hours
    monkeypatch.setattr(cache, 'sha256_of', lambda file: pytest.fail(f'{file} is hashed'))
    assert find_cached(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache') is None


@pytest.mark.parametrize('content', [b'', b'null', b'{"files": [3, 4]}', b'{}', b'\xff'])
def test_a_damaged_meta_file_is_made_again(folder, tmp_path, content):
    cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache')
    (meta,) = (tmp_path / 'cache').rglob('meta.json')
    meta.write_bytes(content)
    assert_same(cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache'), in_memory(folder))
    assert json.loads(meta.read_text())['pairs'] == 94


# What stops a preparation.

CHILD = """
import os, sys
from pathlib import Path
from flax_transformer.config import DataConfig
from flax_transformer.data import lines
from flax_transformer.data.bitext import cache
from flax_transformer.data.bitext.sources import open_corpus
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

folder, tokenizer, where = map(Path, sys.argv[1:])
lines.CHUNK, read = 16, []
def progress(count):
    read.append(count)
    if sum(read) == 48:
        print('half', flush=True)
        sys.stdin.readline()
corpus = open_corpus('train.{lang}', DataConfig(root=str(folder)))
tokenizer = SentencePieceTokenizer.load(tokenizer)
pairs = cache.cached_pairs(corpus, tokenizer, cache.Settings(24, 20), where, progress=progress)
print(pairs.fingerprint, sum(read), flush=True)
"""


@pytest.mark.parametrize('ends', ['well', 'killed'])
@pytest.mark.slow_cases('killed')
def test_one_process_waits_for_another_that_prepares_the_same(folder, tmp_path, never_tokenized, ends):
    """And does the work itself where the other is killed in the middle of it; nothing is left of that."""
    TOKENIZER.save(tmp_path / 'tokenizer')
    expected, where = in_memory(folder), tmp_path / 'cache'
    command = [sys.executable, '-c', CHILD, *map(str, (folder, tmp_path / 'tokenizer', where))]
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True, 'cwd': Path(cache.__file__).parents[3]}
    said = []

    def say(text):
        said.append(text)
        assert len(list(where.glob('*.partial'))) == 1
        if ends == 'killed':
            child.kill()
        else:
            child.stdin.write('go on\n')
            child.stdin.flush()

    with subprocess.Popen(command, **pipes) as child:
        assert child.stdout.readline() == 'half\n'
        if ends == 'well':
            never_tokenized()
        pairs = cached_pairs(corpus_in(folder), TOKENIZER, HOW, where, say=say)
        told = child.stdout.readline()
        child.stdin.close()
    assert len(said) == 1
    assert_same(pairs, expected)
    assert told == ('' if ends == 'killed' else f'{pairs.fingerprint} 100\n')
    assert len(prepared_in(where)) == 1


def test_a_cache_that_may_only_be_read_serves(folder, tmp_path, monkeypatch):
    """Also where the corpus was copied, so that its times are other ones."""
    expected = cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache')
    os.utime(folder / 'train.en', ns=(0, 12345))
    opened = Path.open

    def read_only(self, mode='r', *args, **kwargs):
        if set(mode) & set('wax+'):
            raise OSError(errno.EROFS, 'Read-only file system', str(self))
        return opened(self, mode, *args, **kwargs)

    def refused(self, *_, **__):
        raise OSError(errno.EROFS, 'Read-only file system', str(self))

    monkeypatch.setattr(Path, 'open', read_only)
    for name in ('mkdir', 'rename', 'replace', 'unlink', 'write_text', 'write_bytes'):
        monkeypatch.setattr(Path, name, refused)
    found = cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache')
    assert_same(found, expected)


def test_a_file_that_changes_while_it_is_read_is_refused(folder, tmp_path):
    def touch(_):
        os.utime(folder / 'train.de', ns=(0, 1))

    with pytest.raises(UserError, match=r'train\.\{lang\} was changed'):
        cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache', progress=touch)
    assert prepared_in(tmp_path / 'cache') == set()


def test_a_fault_at_the_end_of_a_corpus_leaves_no_half_of_it(folder, tmp_path):
    with (folder / 'train.en').open('a') as file:
        file.write('one more\n')
    read = []
    with pytest.raises(UserError, match=r'has 101 lines, .* has 100'):
        cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache', progress=read.append)
    assert sum(read) == 100  # all that both files have
    assert prepared_in(tmp_path / 'cache') == set()


def test_a_corpus_of_which_nothing_is_left_is_refused(folder, tmp_path):
    with pytest.raises(UserError, match=r'3 .*blank.* 97 .*longer'):
        cached_pairs(corpus_in(folder), TOKENIZER, Settings(1, 1), tmp_path / 'cache')
    assert prepared_in(tmp_path / 'cache') == set()


def test_what_is_mapped_outlives_its_folder(folder, tmp_path):
    """Another process may replace the folder while this one trains on it."""
    pairs, expected = cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache'), in_memory(folder)
    shutil.rmtree(tmp_path / 'cache')
    assert_same(pairs, expected)


def test_a_corpus_that_was_moved_is_found(folder, tmp_path, never_tokenized):
    before = cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache')
    never_tokenized()
    moved = folder.rename(tmp_path / 'elsewhere')
    assert cached_pairs(corpus_in(moved), TOKENIZER, HOW, tmp_path / 'cache').fingerprint == before.fingerprint


def test_what_is_held_out_is_not_in_what_the_cache_has_of_the_rest(folder, tmp_path):
    whole = cached_pairs(corpus_in(folder), TOKENIZER, HOW, tmp_path / 'cache')
    rest, _ = split(corpus_in(folder), 6)
    assert len(cached_pairs(rest, TOKENIZER, HOW, tmp_path / 'cache')) == len(whole) - 6
