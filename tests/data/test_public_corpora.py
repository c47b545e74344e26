"""Corpora are downloaded whole or not at all, from a server on this machine that has the original layout."""

import bz2
import contextlib
import errno
import functools
import gzip
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flax_transformer.cli import main
from flax_transformer.common.config_files import load_config
from flax_transformer.common.errors import UserError
from flax_transformer.data import public_corpora
from flax_transformer.data.bitext.sources import read_corpus
from flax_transformer.data.public_corpora import download, split_pairs


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves files; `faults` says how the next answers fail."""

    def __init__(self, folder: Path, faults: list[str], asked: list[str], *rest: object) -> None:
        self.folder, self.faults, self.asked = folder, faults, asked
        super().__init__(*rest)

    def do_GET(self) -> None:
        self.asked.append(self.path)
        fault = self.faults.pop(0) if self.faults else ''
        file = self.folder / self.path.lstrip('/')
        if fault.isdecimal() or not file.is_file():
            self.send_error(int(fault or 404), '\x1b[31mred' if fault == '418' else None)
            return
        content = file.read_bytes()
        self.send_response(200)
        self.send_header('Content-Length', str(len(content)))
        self.send_header('Last-Modified', 'Sat, 21 Nov 2026 06:00:00 GMT')
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if fault == 'cut' else content)

    def log_message(self, *_: object) -> None:
        pass


class Server:
    def __init__(self, folder: Path) -> None:
        self.folder, self.faults, self.asked = folder, [], []
        handler = functools.partial(Handler, folder, self.faults, self.asked)
        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
        self.url = f'http://127.0.0.1:{self._server.server_port}'
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ('http_proxy', 'HTTP_PROXY', 'all_proxy', 'ALL_PROXY'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(public_corpora.time, 'sleep', lambda _: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv('FLAX_TRANSFORMER_DATA', raising=False)
    (tmp_path / 'upstream').mkdir()
    with contextlib.closing(Server(tmp_path / 'upstream')) as found:
        yield found


CONTENT = bytes(range(256)) * 1000
SUM = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def file(server: Server, tmp_path: Path) -> Path:
    (server.folder / 'file').write_bytes(CONTENT)
    return tmp_path / 'new' / 'file'


def test_a_file_comes_whole_and_is_not_asked_for_twice(server: Server, file: Path) -> None:
    counts: list[int] = []
    found = download(f'{server.url}/file', file, sha256=SUM, progress=counts.append)
    assert file.read_bytes() == CONTENT
    assert (found.bytes, found.sha256, found.modified) == (len(CONTENT), SUM, 'Sat, 21 Nov 2026 06:00:00 GMT')
    assert sum(counts) == len(CONTENT)
    download(f'{server.url}/file', file, sha256=SUM)
    assert len(server.asked) == 1
    assert list(file.parent.iterdir()) == [file]


def test_a_broken_connection_is_tried_again(server: Server, file: Path) -> None:
    file.parent.mkdir()
    file.with_name('file.partial').write_bytes(b'left by a killed download')
    server.faults += ['cut', '503', 'cut']
    download(f'{server.url}/file', file)
    assert file.read_bytes() == CONTENT
    assert server.asked == ['/file'] * 4


def test_a_wrong_sum_is_refused_with_both_and_nothing_is_kept(server: Server, file: Path) -> None:
    wrong = SUM[::-1]
    with pytest.raises(UserError, match=f'got SHA-256 {SUM} .*, expected {wrong}'):
        download(f'{server.url}/file', file, sha256=wrong)
    assert list(file.parent.iterdir()) == []
    file.write_bytes(b'mine')
    with pytest.raises(UserError, match='move it away'):
        download(f'{server.url}/file', file, sha256=SUM)
    assert file.read_bytes() == b'mine'


@pytest.mark.parametrize(('faults', 'why'), [(['404'], '404 Not Found'), (['502'] * 9, '502 Bad Gateway')])
def test_a_server_that_refuses_is_named(faults: list[str], why: str, server: Server, file: Path) -> None:
    server.faults += faults
    with pytest.raises(UserError, match=f'/file .*{why}'):
        download(f'{server.url}/file', file)
    assert len(server.asked) == (1 if '404' in faults else public_corpora.TRIES)


def test_an_answer_without_an_end_is_cut_off(server: Server, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_corpora, 'MOST', 100_000)
    with pytest.raises(UserError, match='100,000 bytes'):
        download(f'{server.url}/file', file)
    assert list(file.parent.iterdir()) == []


def test_a_reason_phrase_does_not_command_the_terminal(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.faults.append('418')
    assert main(['prepare', 'tatoeba-en-de', '--mirror', server.url]) == 2
    assert 'the server says 418 \\x1b[31mred' in capsys.readouterr().err


def test_a_silent_server_is_given_up(server: Server, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(public_corpora, 'TIMEOUT', 0.05)
    with (
        socket.create_server(('127.0.0.1', 0)) as silent,
        pytest.raises(UserError, match='was not downloaded: timed out'),
    ):
        download(f'http://127.0.0.1:{silent.getsockname()[1]}/file', file)


def test_a_full_disk_is_no_matter_of_the_network(server: Server, file: Path) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, 'No space left on device')

    with pytest.raises(OSError, match=r'No space left on device.*file.partial'):
        download(f'{server.url}/file', file, sha256=SUM, progress=full)
    assert len(server.asked) == 1


def test_a_proxy_of_the_environment_is_used(server: Server, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('http_proxy', server.url)
    monkeypatch.setenv('no_proxy', '')
    with pytest.raises(UserError, match='404'):
        download('http://example.invalid/file', file)
    assert server.asked == ['http://example.invalid/file']


@pytest.fixture
def upstream_multi30k(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The files of data/task1/raw and data/task1/tok, with other text."""
    for files in ('MULTI30K_FILES', 'MULTI30K_TOKENIZED'):
        sums = {}
        for name in getattr(public_corpora, files):
            text = (f'eins {name}\n' * (3 if name.startswith('train') else 2)).encode()
            content = gzip.compress(text, mtime=0) if name.endswith('.gz') else text
            (server.folder / name).write_bytes(content)
            sums[name] = hashlib.sha256(content).hexdigest()
        monkeypatch.setattr(public_corpora, files, sums)
    return server


def test_multi30k_is_what_its_configs_read(
    upstream_multi30k: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['prepare', 'multi30k', '--mirror', upstream_multi30k.url]) == 0
    out = capsys.readouterr().out
    assert 'no license' in out
    assert 'flax-transformer train multi30k_en_de\n' in out
    for config in ('multi30k_en_de', 'multi30k_en_de_tok'):
        data = load_config(config).data
        assert [len(read_corpus(name, data)) for name in (data.train, data.validation, data.test)] == [3, 2, 2]
    assert (tmp_path / 'data/multi30k/val.en').read_text() == 'eins val.en.gz\n' * 2
    assert main(['prepare', 'multi30k', '--mirror', upstream_multi30k.url]) == 0
    assert len(upstream_multi30k.asked) == 18
    multilingual = load_config('multi30k_multilingual').data
    assert all(len(read_corpus(each.validation, multilingual, each.languages)) == 2 for each in multilingual.corpora)


def test_without_a_network_it_is_said_what_to_put_where(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for corpus, file, folder in (
        ('multi30k', 'train.en.gz', 'elsewhere/multi30k'),
        ('tatoeba-en-de', 'eng/eng-deu_links.tsv.bz2', 'elsewhere/tatoeba_en_de.exports'),
    ):
        assert main(['prepare', corpus, '--mirror', 'http://127.0.0.1:9', '--root', 'elsewhere']) == 2
        message = capsys.readouterr().err
        assert 'Connection refused' in message
        assert file in message
        assert folder in message


@pytest.fixture
def upstream_tatoeba(server: Server) -> Server:
    """The layout of exports/per_language: numbered sentences of two languages, and their links."""
    sentences = {'eng': [], 'deu': []}
    links = []
    for i in range(400):
        for language, words in (('eng', 'number'), ('deu', 'Nummer')):
            sentences[language].append(f'{1000 + 2 * i + (language == "deu")}\t{language}\t{words} {i}.\n')
        links.append(f'{1000 + 2 * i}\t{1001 + 2 * i}\n')
    links += ['1000\t1003\n', '1000\t99\n']  # a second translation, and one that is not there
    for language, lines in sentences.items():
        folder = server.folder / language
        folder.mkdir()
        (folder / f'{language}_sentences.tsv.bz2').write_bytes(bz2.compress(''.join(lines).encode()))
    (server.folder / 'eng' / 'eng-deu_links.tsv.bz2').write_bytes(bz2.compress(''.join(links).encode()))
    return server


def test_tatoeba_is_split_and_its_source_recorded(
    upstream_tatoeba: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['prepare', 'tatoeba-en-de', '--mirror', upstream_tatoeba.url]) == 0
    assert 'CC BY 2.0 FR' in (out := capsys.readouterr().out)
    assert 'flax-transformer new tatoeba-en-de.py' in out
    folder = tmp_path / 'data' / 'tatoeba_en_de'
    names = {f'{name}.{language}' for name in ('dev', 'test') for language in ('en', 'de')}
    names |= {'train.en.gz', 'train.de.gz', 'dev.allrefs.de.tsv', 'test.allrefs.de.tsv', 'source.json'}
    assert {file.name for file in folder.iterdir()} == names
    assert [file.name for file in folder.parent.iterdir()] == ['tatoeba_en_de']
    source = (folder / 'test.en').read_text().splitlines()
    target = (folder / 'test.de').read_text().splitlines()
    assert len(source) == len(target) == 20
    assert [line.replace('number', 'Nummer') for line in source] == target
    record = json.loads((folder / 'source.json').read_text())
    assert [each['url'].rpartition('/')[2] for each in record['files']] == [
        *('eng_sentences.tsv.bz2', 'deu_sentences.tsv.bz2', 'eng-deu_links.tsv.bz2')
    ]
    export = upstream_tatoeba.folder / 'eng' / 'eng_sentences.tsv.bz2'
    assert record['files'][0]['sha256'] == hashlib.sha256(export.read_bytes()).hexdigest()
    assert main(['prepare', 'tatoeba-en-de', '--mirror', upstream_tatoeba.url]) == 0
    assert 'is there already' in capsys.readouterr().err
    assert len(upstream_tatoeba.asked) == 3


def test_a_download_that_fails_half_way_goes_on(upstream_tatoeba: Server, tmp_path: Path) -> None:
    upstream_tatoeba.faults += ['', '404']
    command = ['prepare', 'tatoeba-en-de', '--mirror', upstream_tatoeba.url]
    assert main(command) == 2
    assert [file.name for file in (tmp_path / 'data').iterdir()] == ['tatoeba_en_de.exports']
    assert main(command) == 0
    assert sum('eng_sentences' in asked for asked in upstream_tatoeba.asked) == 1


def test_splits_share_no_sentence_and_stay_when_the_corpus_grows() -> None:
    pairs = [(f'Word {i}!', f'wort {i % 450}') for i in range(600)]
    split = split_pairs(pairs, held_out=25)
    sides = [
        {text.casefold() for source, targets in rows for text in (source, *targets)} for rows in (split.dev, split.test)
    ]
    sides.append({text.casefold() for pair in split.train for text in pair})
    assert [len(split.dev), len(split.test)] == pytest.approx([25, 25], abs=3)
    assert not sides[0] & sides[1]
    assert not sides[2] & (sides[0] | sides[1])
    more = split_pairs([*pairs, *((f'more {i}', f'mehr {i}') for i in range(20))], held_out=25)
    assert len({row[0] for row in more.test} & {row[0] for row in split.test}) > 20
    again = split_pairs([('A b.', 'x'), ('a B', 'y'), *pairs], held_out=25)
    everywhere = [{row[0].casefold() for row in rows} for rows in (again.train, again.dev, again.test)]
    assert sum(bool(names & {'a b.', 'a b'}) for names in everywhere) == 1


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        ('tatoeba-en', 'tatoeba-en-de'),
        ('tatoeba-en-xx', "got the language 'xx'"),
    ],
)
def test_a_corpus_that_is_none_is_refused(name: str, message: str, server: Server, capsys) -> None:
    assert main(['prepare', name, '--mirror', server.url]) == 2
    assert message in capsys.readouterr().err
