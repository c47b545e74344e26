"""The server as its clients see it: a real one on a free port, with small shapes of the golden run."""

import asyncio
import collections
import contextlib
import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlencode

import fairseq_folders
import prometheus_client
import pytest
from conftest import ROOT, TESTS
from starlette.requests import Request

from flax_transformer.cli import main, serve
from flax_transformer.common.errors import UserError
from flax_transformer.data.bitext.config import CorpusConfig, DataConfig
from flax_transformer.engine.config import ParallelConfig
from flax_transformer.server import files, guard
from flax_transformer.server.app import Server
from flax_transformer.server.directions import Directions, Served
from flax_transformer.server.fields import read_fields
from flax_transformer.server.keys import Keys
from flax_transformer.server.service import Limits, Service
from flax_transformer.server.store import Store
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.inference.directions import pairs_of
from flax_transformer.tasks.translation.inference.translator import Translator

RUN = TESTS / 'golden' / 'number_words'
SMALL = {'max_source_tokens': 32, 'batch_tokens': 128, 'buckets': (32,), 'beam_width': 2}
FRENCH = 'Le chien dort dans le jardin, @anna https://example.org/the/english/words'
LINES = ['six', 'four hundred and seven', 'nine hundred and eleven', 'eighty', 'two', 'twelve']
NONE = 'xxxxxxxx yyyyyyyy zzzzzzzz'
TWO = (('de', 'en'), ('en', 'de'))
PAIR = {'source': 'en', 'target': 'de'}
PAIR_OF_TERMS = {'source_lang': 'EN', 'target_lang': 'DE'}
TERMS = {'name': 'a', **PAIR_OF_TERMS}
JSON, FORM = 'application/json', 'application/x-www-form-urlencoded'


class Reply(NamedTuple):
    status: int
    body: Any
    headers: http.client.HTTPMessage


class Client:
    def __init__(self, port: int, address: str = '') -> None:
        self.port = port
        self.source = (address, 0) if address else None

    def __call__(self, path: str, fields: Any = None, method: str = 'POST', kind: str = JSON, **headers: str) -> Reply:
        with contextlib.closing(http.client.HTTPConnection('127.0.0.1', self.port, 60, self.source)) as connection:
            encode = json.dumps if kind == JSON else lambda given: urlencode(given, doseq=True)
            body = fields if fields is None or isinstance(fields, bytes) else encode(fields)
            names = {name.replace('_', '-'): value for name, value in headers.items()}
            connection.request(method, path, body, {'Content-Type': kind} | names)
            reply = connection.getresponse()
            content = reply.read()
            is_json = reply.headers.get_content_type() == JSON
            return Reply(reply.status, json.loads(content) if is_json else content.decode(), reply.headers)

    def get(self, path: str, **headers: str) -> Reply:
        return self(path, None, 'GET', **headers)


@contextlib.contextmanager
def running(service: Service, **options: Any) -> Iterator[Client]:
    """A client of a server in a thread, which is warm."""
    with socket.create_server(('127.0.0.1', 0)) as listener:
        server = Server(service, **options)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        client = Client(listener.getsockname()[1])
        client.server, client.thread = server, thread
        while client.get('/health').status != 200:
            time.sleep(0.02)
        try:
            yield client
        finally:
            server.handle_exit(signal.SIGTERM, None)
            thread.join()


@pytest.fixture(scope='module')
def model() -> Directions:
    """English to German, and as if it went the other way too."""
    found = Directions.load(str(RUN), ParallelConfig(), **SMALL)
    return Directions(found.name, found.translator, [('en', 'de'), ('de', 'en')])


@pytest.fixture(scope='module')
def service(model: Directions) -> Service:
    return Service(
        Served([model]), Limits(max_texts=30, max_characters=2_000, max_lines=200, max_alternatives=3, max_terms=6)
    )


@pytest.fixture(scope='module')
def client(service: Service) -> Iterator[Client]:
    with running(service) as client:
        yield client


def test_requests_at_once_get_what_the_translator_gives(client: Client, model: Directions, service: Service) -> None:
    lines = [LINES[number % 6] for number in range(200)]
    expected = [each.text for each in model.translator(lines)]
    with ThreadPoolExecutor(32) as threads:
        ask = lambda line: client('/v1/translate', {'text': line, **PAIR}).body
        found = list(threads.map(ask, lines))
    assert [reply['translations'][0]['text'] for reply in found] == expected
    batches = service.metrics.registry.get_sample_value('flax_transformer_batch_lines_count')
    assert batches < len(lines)  # requests shared batches


def test_a_client_alone_is_given_again_what_it_was_given(client: Client, service: Service) -> None:
    def lines_of(client: Client, **fields: Any) -> float:
        before = service.metrics.registry.get_sample_value('flax_transformer_batch_lines_sum')
        replies = client('/v1/translate', {'text': ['seventeen'] * 9, **PAIR, **fields}).body['translations']
        assert {reply['text'] for reply in replies} == {'siebzehn'}
        return service.metrics.registry.get_sample_value('flax_transformer_batch_lines_sum') - before

    assert [lines_of(client) for _ in range(2)] == [1, 0]
    assert lines_of(Client(client.port, '127.0.0.2')) == 1  # or it would see what others have asked
    assert lines_of(client, alternatives=1) == 1
    assert lines_of(client, alignment=True) > 0


def test_libretranslates_api(client: Client) -> None:
    assert client('/translate', {'q': 'six', **PAIR}).body == {'translatedText': 'sechs'}
    assert client('/translate', {'q': 'six', **PAIR}, kind=FORM).body == {'translatedText': 'sechs'}
    assert client('/translate?q=six&source=en&target=de').body == {'translatedText': 'sechs'}
    repeated = client('/translate', {'q': ['six', 'two'], **PAIR}, kind=FORM).body
    assert repeated == client('/translate', {'q': ['six', 'two'], **PAIR}).body == {'translatedText': ['sechs', 'zwei']}
    reply = client('/translate', {'q': ['six\r\n\r\ntwo\n', ' '], 'source': 'auto', 'target': 'de', 'alternatives': 1})
    assert reply.body['translatedText'] == ['sechs\r\n\r\nzwei\n', ' ']
    assert [each['language'] for each in reply.body['detectedLanguage']] == ['en', 'en']
    assert [len(each) for each in reply.body['alternatives']] == [1, 0]
    html = client('/translate', {'q': '<p translate="no">a</p> six<br>two &amp; 2', 'format': 'html', **PAIR}).body
    assert html['translatedText'].startswith('<p translate="no">a</p> sechs<br>zwei')
    assert 'queue;dur=' in reply.headers['Server-Timing']
    assert client.get('/languages').body[0] == {'code': 'en', 'name': 'English', 'targets': ['de']}
    assert client('/detect', {'q': 'Das ist ein gutes Haus.'}).body[0]['language'] == 'de'
    assert client('/detect', {'q': '12'}).body[0]['confidence'] == 0
    settings = client.get('/frontend/settings').body
    assert (settings['charLimit'], settings['supportedFilesFormat'][:2]) == (2_000, ['.txt', '.html'])
    for _ in range(2):
        assert '/translate_file' in client.get('/spec').body['paths']


@pytest.mark.parametrize('language', ['en', 'de'])
def test_a_text_in_the_target_language_comes_back_as_it_is(client: Client, language: str) -> None:
    text = (
        '<p class="the one that has been read">Der <b>Hund</b> schläft.\n Im Garten.</p>'
        if language == 'de'
        else 'The dog sleeps\n\n in the garden. '
    )
    asked = {'q': text, 'target': f'{language.upper()}-{language}', 'format': 'html' if '<' in text else 'text'}
    reply = client('/translate', {'source': 'auto', 'alternatives': 1, **asked}).body
    assert reply['translatedText'] == text
    assert reply['detectedLanguage']['language'] == language
    assert reply['detectedLanguage']['confidence'] > 90
    assert client('/translate', {'source': language, **asked}).body == {'translatedText': text}

    found = client('/v2/translate', {'text': text, 'target_lang': language, 'tag_handling': 'html'}).body
    assert (found['translations'][0]['text'], found['translations'][0]['detected_source_language']) == (
        text,
        language.upper(),
    )
    (native,) = client('/v1/translate', {'text': text, 'target': language}).body['translations']
    assert (native['text'], native['source'], native['confidence'] > 90) == (text, language, True)


def test_a_short_text_is_rather_translated(client: Client) -> None:
    for text, target, source in (
        ('No', 'en', 'de'),
        ('OK', 'de', 'en'),
        ('12', 'en', 'de'),
        ('Hallo', 'en', 'de'),
        (NONE, 'de', 'en'),
    ):
        reply = client('/translate', {'q': text, 'source': 'auto', 'target': target}).body
        assert reply['detectedLanguage']['language'] == source
    among = client('/translate', {'q': [FRENCH, 'six'], 'source': 'auto', 'target': 'de'}).body
    assert among['translatedText'] == [FRENCH, 'sechs']
    assert [seen['language'] for seen in among['detectedLanguage']] == ['fr', 'en']
    assert client('/detect', {'q': FRENCH}).body[0]['language'] == 'fr'


def test_deepls_api(client: Client) -> None:
    reply = client('/v2/translate', {'text': ['six', 'two'], 'target_lang': 'DE'}).body['translations']
    assert reply[1] == {'detected_source_language': 'EN', 'text': 'zwei', 'billed_characters': 3}
    asked = {'text': 'six', 'target_lang': 'EN-GB', 'source_lang': 'DE', 'model_type': 'latency_optimized'}
    assert client('/v2/translate', asked, kind=FORM).body['translations'][0]['model_type_used'] == 'quality_optimized'
    assert client('/v2/languages', {'type': 'target'}, 'GET', FORM).body[1]['language'] == 'EN-GB'
    assert client.get('/v2/languages').body[1]['language'] == 'DE'
    german, english = (client.get('/v3/languages?resource=translate_text').body[i] for i in (1, 2))
    assert (german['lang'], german['usable_as_source'], german['usable_as_target']) == ('de', True, True)
    assert (english['lang'], english['usable_as_source'], english['usable_as_target']) == ('en-GB', False, True)
    assert client.get('/v2/glossary-language-pairs').body['supported_languages'][1] == {
        'source_lang': 'de',
        'target_lang': 'en',
    }
    tagged = {'text': ['<p><b>six</b></p><x>two</x>'], 'target_lang': 'DE', 'tag_handling': 'xml', 'ignore_tags': 'x,y'}
    expected = '<p><b>sechs</b></p><x>two</x>'
    assert client('/v2/translate', tagged, kind=FORM).body['translations'][0]['text'] == expected
    tagged |= {'text': '<p>six<p>two', 'tag_handling': 'html', 'non_splitting_tags': ['b']}
    assert client('/v2/translate', tagged).body['translations'][0]['text'] == '<p>sechs<p>zwei'
    assert client.get('/v2/usage').body['character_count'] > 0


@pytest.mark.parametrize(
    ('text', 'options', 'expected'),
    [
        ('four hundred\nand seven', {'split_sentences': 'nonewlines'}, 'vierhundertsieben'),
        (' four hundred\r\n and seven \n\nsix\n', {'split_sentences': '0'}, ' vierhundertsieben \n\nsechs\n'),
        ('six\ntwo', {'split_sentences': '1'}, 'sechs\nzwei'),
        ('<p>four hundred\nand seven</p>', {'tag_handling': 'html'}, '<p>vierhundertsieben</p>'),
        ('<p>six\ntwo</p>', {'tag_handling': 'html', 'split_sentences': '1'}, '<p>sechs\nzwei</p>'),
        ('<p>six\ntwo</p>', {'tag_handling': 'xml'}, '<p>sechs\nzwei</p>'),
        ('four hundred<b>and seven</b>', {'tag_handling': 'xml', 'splitting_tags': 'b'}, 'vierhundert<b>sieben</b>'),
        (
            '<a><b>four hundred</b> <b>and seven</b></a>',
            {'tag_handling': 'xml', 'outline_detection': False},
            '<a><b>vierhundertsieben</b> <b></b></a>',
        ),
        ('four hundred and seven;', {'preserve_formatting': True}, 'vierhundertsieben;'),
    ],
)
def test_deepls_options_say_where_sentences_end(client: Client, text: str, options: Any, expected: str) -> None:
    reply = client('/v2/translate', {'text': text, 'source_lang': 'EN', 'target_lang': 'DE', **options})
    assert (reply.body['translations'][0]['text'], reply.headers['X-Ignored']) == (expected, None)


def test_what_is_not_done_is_named(client: Client) -> None:
    asked = {'text': 'six', 'target_lang': 'DE', 'source_lang': None, 'model_type': 'latency_optimized', 'a\n': '1'}
    wishes = {'context': 'a', 'formality': 'prefer_more', 'tag_handling': 'xml', 'preserve_formatting': True}
    reply = client('/v2/translate', asked | wishes)
    assert reply.headers['X-Ignored'] == 'context, formality, preserve_formatting'
    assert client('/translate', {'q': 'six', **PAIR, 'secret': 1}).headers['X-Ignored'] == 'secret'


def test_fields_are_taken_as_the_originals_take_them(client: Client) -> None:
    auto = {'q': 'six', 'source': 'AUTO', 'target': 'de', 'format': '', 'alternatives': 1.0}
    assert client('/translate', auto).body.keys() == {'translatedText', 'detectedLanguage', 'alternatives'}
    for name in ('text', 'text[]'):
        translated = client('/v2/translate', {name: ['six', 'two'], 'target_lang': 'DE'}, kind=FORM).body
        assert [each['text'] for each in translated['translations']] == ['sechs', 'zwei']
    numbered = {'text[0]': 'six', 'text[1]': 'two', 'target_lang': 'DE', 'source_lang': 'auto'}
    assert client('/v2/translate', numbered, kind=FORM).body == translated
    fields = {f'dictionaries[0].{name}': value for name, value in PAIR_OF_TERMS.items()}  # as deepl-node does
    fields |= {'dictionaries[0].entries': '\ufeffsix,acht', 'dictionaries[0].entries_format': 'csv', 'name': 'a'}
    made = client('/v3/glossaries', fields, kind=FORM)
    assert (made.status, made.body['entry_count'], made.headers['X-Ignored']) == (201, 1, None)
    path = f'/v3/glossaries/{made.body["glossary_id"]}'
    assert client.get(f'{path}/entries').body == 'six\tacht'
    assert client(path, None, 'DELETE').status == 204


def sent(name: str, content: str, **fields: str) -> dict[str, Any]:
    """A form with a file, as the arguments of a client."""
    parts = [f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{fields[key]}\r\n' for key in fields]
    file = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n{content}\r\n--x--\r\n'
    return {'fields': ''.join([*parts, file]).encode(), 'kind': 'multipart/form-data; boundary=x'}


FILES = {
    'a.txt': ('\ufeffsix\r\n\r\n two \n', '\ufeffsechs\r\n\r\n zwei \n'),
    'A.HTML': ('<html lang="en"><p>six<p>two', '<html lang="de"><p>sechs<p>zwei'),
    'a.xml': ('<xliff><a/></xliff>', '<xliff><a/></xliff>'),
    'a.json': ('{"a": "six", "b": 2}', '{"a": "sechs", "b": 2}'),
    '../../ä.po': ('msgid "six"\nmsgstr ""\n', 'msgid "six"\nmsgstr "sechs"\n'),
}


@pytest.mark.parametrize('name', FILES)
def test_files_are_translated_and_downloaded(client: Client, name: str) -> None:
    source, expected = FILES[name]
    reply = client('/translate_file', **sent(name, source, source='AUTO' if name == 'a.txt' else 'en', target='de'))
    path = reply.body['translatedFileUrl'].removeprefix(f'http://127.0.0.1:{client.port}')
    assert re.fullmatch(r'/download_file/[0-9a-f]{64}\.\w+', path)
    found = client.get(path)
    assert (found.body.encode('utf-8'), found.headers['Content-Type']) == (
        expected.encode(),
        'application/octet-stream',
    )


@pytest.mark.parametrize(
    ('path', 'given', 'status', 'text'),
    [
        ('/translate_file', sent('a.docx', 'six', **PAIR), 400, 'a.docx: got a file of an unknown format'),
        ('/translate_file', sent('a.jsonl', '{}', **PAIR), 400, 'a.jsonl: got jsonl, expected a document'),
        ('/translate_file', sent('a.xml', '<a>', **PAIR), 400, 'a.xml, line 1: '),
        ('/translate_file', sent('a.txt', 'six', source='en', target='xx'), 400, 'xx is not supported'),
        ('/translate_file', sent('a.txt', FRENCH, source='auto', target='de'), 400, 'fr-de (the text is in French)'),
        ('/translate_file', sent('a.txt', 'six' * 99_999, **PAIR), 413, 'The body is longer than'),
        ('/translate_file', {'fields': {'file': 'six', **PAIR}}, 400, 'file: expected a file in a form'),
        ('/translate', sent('a.txt', 'six', q='six', source='en', target='de'), 200, ''),
        ('/download_file/x.txt', {'method': 'GET'}, 404, 'No such file'),
        ('/v2/document', {'fields': {'file': [1], 'target_lang': 'DE'}}, 400, 'file: expected a file in a form'),
        ('/v2/document/x', {'fields': {'document_key': 'x'}}, 404, 'No such document'),
    ],
)
def test_a_file_that_cannot_be_translated_is_refused(
    client: Client, path: str, given: dict[str, Any], status: int, text: str
) -> None:
    reply = client(path, **given)
    message, *_ = reply.body.values()
    assert (reply.status, message[: len(text)]) == (status, text), message
    assert status != 200 or reply.headers['X-Ignored'] == 'file'


def test_deepls_client_translates_documents_which_are_its_own(
    model: Directions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deepl = pytest.importorskip('deepl')
    quick = SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(seconds / 100))
    monkeypatch.setattr(deepl.translator, 'time', quick)  # between questions for the status
    limits = Limits(max_lines=3)  # of a text; a file has any number
    with running(Service(Served([model]), limits, Keys(['ann: 1', 'bob: 2']))) as client:
        asks = deepl.DeepLClient('1', server_url=f'http://127.0.0.1:{client.port}')
        (tmp_path / 'a.txt').write_text('six\n' * 9)
        status = asks.translate_document_from_filepath(tmp_path / 'a.txt', tmp_path / 'b.txt', target_lang='DE')
        assert (status.done, status.billed_characters) == (True, 9 * 3)
        assert (tmp_path / 'b.txt').read_text() == 'sechs\n' * 9
        handle = asks.translate_document_upload('two', target_lang='DE', filename='a.txt')
        other = deepl.DeepLClient('2', server_url=f'http://127.0.0.1:{client.port}')
        with pytest.raises(deepl.DeepLException, match='No such document'):
            other.translate_document_get_status(handle)
        bad = asks.translate_document_upload('<a>', target_lang='DE', filename='a.xml')
        status = asks.translate_document_wait_until_done(bad)
        assert (status.ok, status.error_message[:13]) == (False, 'a.xml, line 1')


@pytest.mark.slow
def test_files_are_few_and_kept_for_a_while(model: Directions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, '_MOST_OF_ONE', 2)
    monkeypatch.setattr(files, '_MOST', 3)
    gate = threading.Event()
    translate = Translator.translate_parts
    monkeypatch.setattr(Translator, 'translate_parts', lambda *given: gate.wait(60) and translate(*given))
    gate.set()
    with running(service := Service(Served([model]), Limits(cache=0))) as client:
        upload = lambda client: client('/v2/document', **sent('a.txt', 'six', target_lang='DE'))
        others = [Client(client.port, f'127.0.0.{number}') for number in (2, 3)]
        first, *_ = [upload(one).body for one in (client, *others)]
        status = lambda: client(f'/v2/document/{first["document_id"]}', first).body.get('status')
        while status() != 'done':
            time.sleep(0.02)
        gate.clear()
        assert [upload(others[0]).status for _ in range(3)] == [200, 200, 429]  # its own make room, then another's
        assert (status(), len(service.files)) == (None, 3)
        gate.set()
        monkeypatch.setattr(files, '_SECONDS_KEPT', 0.1)
        while (short := upload(client)).status == 429:  # until one of the others is done
            time.sleep(0.02)
        assert short.status == 200
        while len(service.files) == 3:
            time.sleep(0.02)


def test_the_native_api_gives_all_that_the_translator_knows(client: Client) -> None:
    asked = {'text': 'four hundred and seven', 'target': 'de', 'alternatives': 1, 'alignment': True}
    (reply,) = client('/v1/translate', asked, X_Request_ID='mine').body['translations']
    (line,) = reply['lines']
    assert (reply['text'], len(reply['alternatives']), len(line['n_best'])) == ('vierhundertsieben', 1, 2)
    assert line['alignment']
    assert sum(line['token_log_probs']) == pytest.approx(line['log_prob'], rel=1e-4)
    asked = {'text': 'six', 'translation': 'sechs', **PAIR}
    seen = client('/v1/attention', asked, X_Request_ID='mine')
    assert len(seen.body['weights']) == len(seen.body['target'])
    assert sum(seen.body['weights'][0]) == pytest.approx(1, abs=0.01)
    assert seen.headers['X-Request-ID'] == 'mine'


@pytest.mark.parametrize(
    ('path', 'fields', 'status', 'text'),
    [
        ('/translate', {}, 400, 'Invalid request: missing q parameter'),
        ('/translate', {'q': 'a', 'source': 'zz', 'target': 'de'}, 400, 'zz is not supported; this server translates '),
        ('/translate', {'q': 'a', 'source': 'zz', 'target': 'zz'}, 400, 'zz is not supported; '),
        ('/translate', {'q': FRENCH, 'source': 'auto', 'target': 'de'}, 400, 'fr-de (the text is in French) is not '),
        ('/translate', {'q': 7, **PAIR}, 400, 'q: expected a string'),
        ('/translate', {'q': [], **PAIR}, 400, 'q: expected a string'),
        ('/translate', {'q': 'a', **PAIR, 'alternatives': 10_000}, 400, 'alternatives=10000: '),
        ('/translate', {'q': 'a', **PAIR, 'alternatives': -1}, 400, 'alternatives=-1: '),
        ('/translate', {'q': 'a', **PAIR, 'format': 'pdf'}, 400, "format='pdf': expected text, html"),
        ('/translate', {'q': 'a' * 2_001, **PAIR}, 413, '2001 characters: '),
        ('/translate', {'q': ['a'] * 31, **PAIR}, 413, '31 texts: '),
        ('/translate', {'q': 'a\n' * 201, **PAIR}, 413, '201 lines: '),
        ('/translate', b'{' * 1_000_000, 413, 'The body is longer than '),
        ('/translate', b'[1', 400, 'The body cannot be read: '),
        ('/translate', b'[' * 30_000, 400, 'The body cannot be read: '),
        ('/translate', b'[1]', 400, 'The body cannot be read: '),
        ('/detect', {'q': ['a', 'b'], 'api_key': [1]}, 400, 'api_key: expected a string'),
        ('/v1/attention', {'text': 'a\nb', 'translation': 'c', **PAIR}, 400, 'text: expected one'),
        ('/v2/translate', {'text': ['a'], 'target_lang': 'FR'}, 400, 'FR is not supported; '),
        ('/v2/translate', {'text': ['<a>'], 'target_lang': 'DE', 'tag_handling': 'xml'}, 400, 'XML, line 1: '),
        ('/v2/translate', {'text': ['a'], 'target_lang': 'DE', 'formality': 'more'}, 400, "formality='more': "),
        ('/v2/translate', {'text': 'a', 'target_lang': 'DE', 'split_sentences': 2}, 400, 'split_sentences: expected'),
        ('/v3/languages', {}, 405, 'Method Not Allowed: use GET'),
        ('/v2/nothing', {}, 404, 'Not Found: '),
        ('/v2/usage', {}, 405, 'Method Not Allowed: use GET'),
        ('/health', {}, 405, 'Method Not Allowed: use GET'),
        ('/translate', {'q': 'a', **PAIR, 'alternatives': '\ud800'}, 400, 'alternatives=?: '),
        ('/v1/attention', {'text': 'a', 'translation': 'six ' * 200, **PAIR}, 400, 'translation: '),
        ('/nothing', {}, 404, 'Not Found: '),
        (f'/v{"9" * 4301}/glossaries', {}, 404, 'Not Found: '),
        ('/v2/glossaries', TERMS | {'entries': 'a\tb\nc'}, 400, 'entries, line 2: got 1 column; '),
        ('/v2/glossaries', TERMS | {'entries': f'a\t{"b" * 101}'}, 400, "entries: 'a' has 101 characters; expected"),
        ('/v2/glossaries', TERMS | {'entries': ''.join(f'{n}\tb\n' for n in range(7))}, 413, '7 terms in all'),
        ('/v2/glossaries', TERMS | {'source_lang': ''}, 400, 'source_lang is empty: '),
        ('/v3/glossaries', TERMS | {'dictionaries': [3]}, 400, 'dictionaries: expected a list of objects'),
        ('/v3/glossaries/x', {}, 405, 'Method Not Allowed: use DELETE, GET, PATCH'),
        ('/v2/translate', {'text': 'a', 'target_lang': 'DE', 'source_lang': 'EN', 'glossary_id': 'x'}, 404, 'x is no'),
    ],
)
def test_an_error_says_in_the_form_of_its_api_what_is_wrong(
    client: Client, path: str, fields: Any, status: int, text: str
) -> None:
    reply = client(path, fields)
    (message,) = reply.body.values()
    assert list(reply.body) == (['message'] if path.startswith(('/v2', '/v3')) else ['error'])
    assert (reply.status, message.startswith(text)) == (status, True), message


def test_deepls_client_makes_uses_and_deletes_glossaries(client: Client, model: Directions) -> None:
    deepl = pytest.importorskip('deepl')
    asks = deepl.DeepLClient('any key', server_url=f'http://127.0.0.1:{client.port}')
    first = asks.create_glossary('numbers', 'EN', 'DE', {'six': 'acht', 'Two': 'elf'})
    second = asks.create_glossary_from_csv('others', 'EN', 'DE', 'two,neun,EN,DE\n')
    assert [each.name for each in asks.list_glossaries()] == ['numbers', 'others']
    assert asks.get_glossary_entries(second) == {'two': 'neun'}
    # Requests with different glossaries at once get what the translator gives for each.
    terms = {first: {'six': ['acht'], 'Two': ['elf']}, second: {'two': ['neun']}, None: {}}
    asked = [(line, glossary) for line in LINES for glossary in terms]
    ask = lambda each: asks.translate_text(each[0], source_lang='EN', target_lang='DE', glossary=each[1]).text
    with ThreadPoolExecutor(6) as threads:
        found = dict(zip(asked, threads.map(ask, asked), strict=True))
    for glossary, given in terms.items():
        expected = model.translator(LINES, glossary=Glossary(given))
        assert [found[line, glossary] for line in LINES] == [each.text for each in expected]
    assert 'acht' in found['six', first]

    entries = lambda terms: deepl.api_data.MultilingualGlossaryDictionaryEntries('EN', 'DE', terms)
    several = asks.create_multilingual_glossary('several', [entries({'two': 'neun'})])
    several = asks.update_multilingual_glossary_dictionary(several, entries({'six': 'neun'}))
    assert several.dictionaries[0].entry_count == 2
    assert asks.replace_multilingual_glossary_dictionary(several, entries({'two': 'zwei'})).entry_count == 1
    assert asks.update_multilingual_glossary_name(several, 'new').name == 'new'
    (only,) = asks.get_multilingual_glossary_entries(several, 'EN', 'DE').dictionaries
    assert only.entries == 'two\tzwei'
    asks.delete_multilingual_glossary_dictionary(several, source_lang='EN', target_lang='DE')
    asks.delete_glossary(first)
    assert [each.name for each in asks.list_multilingual_glossaries()] == ['others']
    asks.delete_glossary(second)
    with pytest.raises(deepl.GlossaryNotFoundException):
        asks.get_glossary_entries(first)


def test_a_request_replaces_terms_in_the_room_that_they_had_or_changes_nothing(client: Client) -> None:
    named = lambda source, target, terms: {'source_lang': source, 'target_lang': target, 'entries': terms}
    terms = {'dictionaries': [named('EN', 'DE', 'a\tb\nc\td\ne\tf\ng\th'), named('DE', 'EN', 'a\tb')]}
    path = f'/v3/glossaries/{client("/v3/glossaries", terms | {"name": "a"}).body["glossary_id"]}'
    assert client(path, terms, 'PATCH').status == 200
    assert client(f'{path}/dictionaries', terms, 'PUT').body['entry_count'] == 4
    assert client(path, {'name': 'b' * 101} | named('DE', 'EN', 'c\td'), 'PATCH').status == 400
    assert [each['entry_count'] for each in client.get(path).body['dictionaries']] == [4, 1]
    assert client(f'{path}/dictionaries', None, 'DELETE').status == 400  # it names no languages
    client(path, None, 'DELETE')


async def nothing() -> dict[str, Any]:
    return {'type': 'http.request', 'body': b'', 'more_body': False}


def test_thousands_of_names_do_not_stop_the_server() -> None:
    names = '&'.join(f'{number:x}=' for number in range(20_000))
    request = Request({'type': 'http', 'query_string': names.encode(), 'headers': []}, nothing)
    began = time.process_time()
    assert '4e1f' in asyncio.run(read_fields(request, most=100))
    assert time.process_time() - began < 1


def test_a_line_at_fault_does_not_fail_the_others_of_its_batch(
    client: Client, model: Directions, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = model.translator.programs.check_numbers

    def check(params: Any, scores: Any) -> None:
        whole(params, scores)
        if any(len(line) == 2 for line in batch):
            raise UserError('a bad line')

    batch: list[Any] = []
    translate = type(model.translator).translate_parts
    monkeypatch.setattr(model.translator.programs, 'check_numbers', check)
    monkeypatch.setattr(
        type(model.translator),
        'translate_parts',
        lambda self, asked: batch.__setitem__(slice(None), asked.sources) or translate(self, asked),
    )
    with ThreadPoolExecutor(8) as threads:
        ask = lambda line: client('/translate', {'q': line, **PAIR})
        found = list(threads.map(ask, ['four hundred and six', 'nine'] * 4))
    assert {reply.status for reply in found[::2]} == {200}
    assert {(reply.status, reply.body['error']) for reply in found[1::2]} == {(400, 'a bad line')}


def test_limits_keys_origins_and_the_end(model: Directions, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, translate = threading.Event(), Translator.translate_parts
    gate.set()
    monkeypatch.setattr(
        Translator, 'translate_parts', lambda *given, **options: gate.wait(60) and translate(*given, **options)
    )
    service = Service(Served([model]), Limits(max_requests=4, max_wait=1.0, cache=0), Keys(['secret', 'schlüssel']))
    asked, known = {'q': 'six', **PAIR}, {'Authorization': 'Bearer secret'}
    with running(service, cors_origins=['https://a.example']) as client, ThreadPoolExecutor(8) as threads:
        assert client('/translate', asked).status == 403
        wrong = client.get('/v2/usage', Authorization='DeepL-Auth-Key wrong')
        assert (wrong.status, wrong.body) == (403, {'message': 'Invalid API key'})
        assert client('/translate', asked | {'apiKey': 'secret'}).status == 200
        sent = [client.get('/v2/usage', Authorization=f'Bearer {x}').status for x in ('schlüssel', 'schl\xc3\xbcssel')]
        assert sent == [200, 200]  # one as Latin-1, one as UTF-8
        origins = [client('/translate', asked, Origin=f'https://{x}.example', **known).headers for x in 'ab']
        assert [each['Access-Control-Allow-Origin'] for each in origins] == ['https://a.example', None]

        gate.clear()  # the translators stand still from here on
        several = lambda count: [threads.submit(client, '/translate', asked, **known) for _ in range(count)]
        found = [each.result() for each in several(5)]
        assert sorted(each.status for each in found) == [429, 429, 429, 503, 503]
        assert all(each.headers['Retry-After'] for each in found)
        left = http.client.HTTPConnection('127.0.0.1', client.port)
        left.request('POST', '/translate', json.dumps(asked), {'Content-Type': JSON, **known})
        time.sleep(0.1)
        left.close()
        value = service.metrics.registry.get_sample_value
        while not value('flax_transformer_abandoned_requests_total'):
            time.sleep(0.02)

        object.__setattr__(service.limits, 'max_wait', 60.0)
        open_before = http.client.HTTPConnection('127.0.0.1', client.port)
        open_before.request('GET', '/health')
        open_before.getresponse().read()
        admitted = several(2)
        while service._waiting.total() < 2:
            time.sleep(0.02)
        service.is_draining = True  # what SIGTERM does first
        open_before.request('POST', '/translate', json.dumps(asked), {'Content-Type': JSON, **known})
        refused = open_before.getresponse()
        assert (refused.status, refused.headers['Connection']) == (503, 'close')
        open_before.close()
        threading.Timer(0.3, gate.set).start()
    assert [each.result().body for each in admitted] == [{'translatedText': 'sechs'}] * 2
    text = prometheus_client.generate_latest(service.metrics.registry).decode()
    assert 'requests_total{api="libretranslate",status="429"} 3.0' in text
    assert 'six' not in text
    assert 'secret' not in text


def test_what_cannot_be_done_in_time_is_refused_before_it_is_begun(model: Directions) -> None:
    service = Service(Served([model]), Limits(max_wait=30.0))
    with running(service) as client:
        num_tokens = len(model.translator.tokenizer.encode(['six'])[0])
        service._seconds[model.translator.programs] = 32 / num_tokens
        reply = client('/translate', {'q': 'six', **PAIR})
        assert (reply.status, reply.body['error'][:27]) == (413, 'This would take about 32 s;')
        object.__setattr__(service.limits, 'max_wait', 40.0)
        service.batcher._costs['127.0.0.1'] = 10.0  # seconds of work that waits
        service.batcher._costs['127.0.0.2'] = 1e9  # another's counts no more than one's own
        reply = client('/translate', {'q': 'six', **PAIR})
        assert (reply.status, reply.headers['Retry-After']) == (503, '28')
        assert reply.body['error'].startswith('With what waits already this would take about 68 s')


def test_a_server_that_is_told_to_stop_tells_those_who_still_wait(
    model: Directions, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    translate = Translator.translate_parts
    service = Service(Served([model]), Limits(drain=2.0))
    with running(service) as client, ThreadPoolExecutor(3) as threads:
        monkeypatch.setattr(Translator, 'translate_parts', lambda *given: gate.wait(60) and translate(*given))
        asked = [threads.submit(client, path, fields) for path, fields in STOPPED]
        while service._waiting.total() < len(asked):
            time.sleep(0.02)
        signaled = time.monotonic()
        client.server.handle_exit(signal.SIGTERM, None)
        replies = [reply.result() for reply in asked]
        client.thread.join(10)
        assert time.monotonic() - signaled < 3
        gate.set()
    assert [(reply.status, *reply.body) for reply in replies] == [(503, 'error'), (503, 'message')]


def test_a_key_has_glossaries_usage_a_quota_and_a_rate_of_its_own(model: Directions) -> None:
    keys = Keys(['ann: 1', 'bob: 2', 'all: 3', '4'])
    limits = Limits(max_terms=2, quota=20, rate=14)
    with running(Service(Served([model]), limits, keys, shared='all')) as client:
        made = TERMS | {'entries': 'six\tacht\ntwo\telf', 'auth_key': '1'}
        own = client('/v2/glossaries', made).body['glossary_id']
        assert client('/v2/glossaries', made).status == 413
        common = client('/v2/glossaries', made | {'auth_key': '3'}).body['glossary_id']
        listed = lambda key: client.get('/v2/glossaries', **bearer(key)).body['glossaries']
        names = lambda key: [each['glossary_id'] for each in listed(key)]
        assert [names(key) for key in '124'] == [[own, common], [common], [common]]
        assert client.get(f'/v2/glossaries/{own}', **bearer('2')).status == 404
        assert client(f'/v2/glossaries/{common}', None, 'DELETE', **bearer('2')).status == 404
        asked = {'text': 'six', 'source_lang': 'EN', 'target_lang': 'DE', 'glossary_id': common}
        assert 'acht' in client('/v2/translate', asked, **bearer('2')).body['translations'][0]['text']

        usage = lambda key: client.get('/v2/usage', **bearer(key)).body
        assert [usage(key)['character_count'] for key in '12'] == [0, 3]
        assert usage('2')['character_limit'] == 20
        asked = {'text': 'six ' * 5, 'target_lang': 'DE'}
        assert client('/v2/translate', asked, **bearer('2')).status == 456
        assert client('/translate', {'q': 'six ' * 5, **PAIR}, **bearer('2')).status == 403
        assert client('/v2/translate', asked, **bearer('4')).status == 200

        last = [client.get('/v2/usage', **bearer('4')) for _ in range(14)][-1]
        assert last.status == 429
        assert 0 < int(last.headers['Retry-After']) <= 60
        assert client.get('/v2/usage', **bearer('3')).status == 200


@pytest.mark.slow
def test_quota_and_rate_hold_whoever_asks_at_once_or_from_neighboring_addresses(
    model: Directions, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    translate = Translator.translate_parts
    with running(Service(Served([model]), Limits(quota=9, rate=7))) as client, ThreadPoolExecutor(5) as threads:
        assert client('/translate', {'q': 'seven', 'source': 'en', 'target': 'xx'}).status == 400  # costs nothing
        monkeypatch.setattr(Translator, 'translate_parts', lambda *given: gate.wait(60) and translate(*given))
        asked = [threads.submit(client, '/translate', {'q': 'six', **PAIR}) for _ in range(4)]
        wait(asked, 10, return_when='FIRST_COMPLETED')
        gate.set()
        assert sorted(reply.result().status for reply in asked) == [200, 200, 200, 403]
        assert client.get('/v2/usage').body['character_count'] == 9
        ask = lambda address: client.get('/v2/usage', X_Forwarded_For=address).status
        same = [f'2001:db8::{number}' for number in range(8)]
        assert [ask(address) for address in same] == [200] * 7 + [429]
        others = [f'::ffff:192.0.2.{number}' for number in range(8)] + ['unknown', '::ffff:z', 'fe80::1%a']
        assert {ask(address) for address in others} == {200}


@pytest.mark.slow
def test_glossaries_and_usage_are_there_after_a_restart(model: Directions, tmp_path: Path) -> None:
    file = tmp_path / 'store'
    made = TERMS | {'dictionaries': [{**PAIR_OF_TERMS, 'entries': 'six\tacht\ntwo\t"|elf'}]}
    keys = Keys(['ann: 1', 'bob: 2'])
    serves = lambda: Service(Served([model]), Limits(quota=8), keys, store=Store(file))
    with running(first := serves()) as client:
        identifier = client('/v3/glossaries', made, **bearer('1')).body['glossary_id']
        client(f'/v3/glossaries/{identifier}', {'name': 'b'}, 'PATCH', **bearer('1'))
        dropped = client('/v3/glossaries', made, **bearer('1')).body['glossary_id']
        assert client(f'/v3/glossaries/{dropped}', None, 'DELETE', **bearer('1')).status == 204
        before = client.get(f'/v3/glossaries/{identifier}/entries', **bearer('1')).body
        asked = {'text': 'six', 'target_lang': 'DE'}
        assert client('/v2/translate', asked, **bearer('1')).status == 200
        with pytest.raises(UserError, match='locked'):
            Store(file)
    first.store._base.close()
    with running(last := serves()) as client:
        (stored,) = client.get('/v3/glossaries', **bearer('1')).body['glossaries']
        assert (stored['name'], client.get('/v3/glossaries', **bearer('2')).body) == ('b', {'glossaries': []})
        assert client.get(f'/v3/glossaries/{identifier}/entries', **bearer('1')).body == before
        assert [client('/v2/translate', asked, **bearer('1')).status for _ in range(2)] == [200, 456]
        last.store('pragma max_page_count = 1')  # as if the disk is full
        many = {**PAIR_OF_TERMS, 'entries': ''.join(f'{number}\tb\n' for number in range(999))}
        refused = client('/v3/glossaries', TERMS | {'dictionaries': [many]}, **bearer('1'))
    assert (refused.status, refused.body.get('message', '')[:31]) == (503, 'This server cannot keep what it')
    last.store._base.close()
    file.with_name('other').write_text('no base ' * 200)
    with pytest.raises(UserError, match='not a database'):
        Store(file.with_name('other'))


def bearer(key: str) -> dict[str, str]:
    return {'Authorization': f'Bearer {key}'}


@pytest.mark.parametrize(
    ('headers', 'status'),
    [
        ({}, 200),
        ({'Host': 'evil.example'}, 403),  # its name leads here: DNS rebinding
        ({'Host': 'evil.example', 'Sec-Fetch-Site': 'same-origin'}, 403),
        ({'Host': '[::1'}, 403),
        ({'Origin': 'https://[::1'}, 403),
        ({'Host': 'mine.example:5000', 'Origin': 'https://mine.example:5000'}, 200),
        ({'Host': '192.0.2.1'}, 200),
        ({'Origin': 'https://evil.example'}, 403),
        ({'Origin': 'null'}, 403),
        ({'Origin': 'https://evil.example', 'Content-Type': 'text/plain'}, 403),
        ({'Sec-Fetch-Site': 'cross-site'}, 403),
        ({'Sec-Fetch-Site': 'same-site', 'Origin': 'http://localhost:8080'}, 403),
        ({'Sec-Fetch-Site': 'same-origin', 'Origin': 'https://behind.a.proxy'}, 200),
        ({'Sec-Fetch-Site': 'cross-site', 'Origin': 'https://friend.example'}, 200),
        ({'Sec-Fetch-Site': 'cross-site', 'Origin': 'moz-extension://1'}, 200),
    ],
)
def test_pages_of_other_sites_may_not_ask(guarded: Client, headers: dict[str, str], status: int) -> None:
    names = {name.replace('-', '_'): value for name, value in headers.items()}
    reply = guarded('/translate', {'q': 'six', **PAIR}, **names)
    assert (reply.status, *reply.body) == (status, 'translatedText' if status == 200 else 'error')


def test_probes_by_http_1_0_need_no_host(guarded: Client) -> None:
    with socket.create_connection(('127.0.0.1', guarded.port), timeout=10) as connection:
        connection.sendall(b'GET /health HTTP/1.0\r\n\r\n')
        assert connection.recv(1000).split()[1] == b'200'


@pytest.fixture(scope='module')
def guarded(model: Directions) -> Iterator[Client]:
    service = Service(Served([model]), Limits())
    allowed = {'cors_origins': ['https://friend.example'], 'host_names': ['mine.example']}
    with running(service, root_path='/mt/', **allowed) as client:
        yield client


def test_each_request_is_logged_and_counted_without_its_text(
    guarded: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*given: Any) -> None:
        raise RuntimeError(given)

    monkeypatch.setattr(Served, 'detect', fail)
    assert guarded('/translate?a=secret', {'q': 'six', **PAIR}, X_Request_ID='mine').headers['X-Request-ID'] == 'mine'
    assert guarded('/v2/secret', {}, 'PUT', X_Request_ID='no\tid').status == 404
    failed = guarded('/detect', {'q': 'secret'})
    assert (failed.status, failed.headers['X-Request-ID'] in failed.body['error']) == (500, True)
    text = guarded.get('/metrics').body
    assert 'request_seconds_count{route="/detect"} 1.0' in text
    assert 'waiting_parts 0.0' in text
    first, second, *trace, third, _ = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r'\d{4}-\d\d-\d\dT\S+Z mine POST /translate 200 \d+ ms', first)
    assert re.fullmatch(r'\S+Z [0-9a-f]{16} PUT / 404 \d+ ms', second)
    assert trace[0].startswith(failed.headers['X-Request-ID'])
    assert ' POST /detect 500 ' in third
    assert 'secret' not in text + first + second + '\n'.join(trace) + third


def test_a_proxy_may_keep_or_take_off_the_path_to_the_server(guarded: Client) -> None:
    for prefix in ('', '/mt'):
        assert guarded(f'{prefix}/translate', {'q': 'six', **PAIR}).body == {'translatedText': 'sechs'}
        assert [*guarded(f'{prefix}/v2/translate', {}).body] == ['message']
        assert guarded.get(f'{prefix}/docs?a').headers['Location'] == 'docs/?a'
        assert guarded.get(f'{prefix}/docs/').status == 200
    assert guarded.get('/mt').headers['Location'] == 'mt/'


def test_silent_connections_make_room_and_are_closed(guarded: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, 'MOST_CONNECTIONS', 8)
    monkeypatch.setattr(guard, '_SECONDS_TO_ASK', 0.5)
    monkeypatch.setattr(f'{read_fields.__module__}._SECONDS_TO_READ', 0.5)
    silent = [socket.create_connection(('127.0.0.1', guarded.port)) for _ in range(20)]
    silent[-1].sendall(b'GET /health HTT')  # half a request is none
    for connection in silent[-8:-1]:  # nor is one without its body
        connection.sendall(b'POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n')
    assert guarded.get('/health').status == 200
    for connection in silent:
        connection.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100)[9:12] in (b'', b'408')
        connection.close()


STOPPED = [('/translate', {'q': 'six', **PAIR}), ('/v2/translate', {'text': 'six', 'target_lang': 'DE'})]


@pytest.mark.slow
def test_a_server_that_is_told_to_stop_does_not_wait_until_it_is_warm(
    model: Directions, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    monkeypatch.setattr('flax_transformer.server.service.usual_programs', lambda translator: gate.wait(60))
    with socket.create_server(('127.0.0.1', 0)) as listener:
        service = Service(Served([model]), Limits())
        server = Server(service)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        client = Client(listener.getsockname()[1])
        assert client.get('/health').body['status'] == 'warming up'
        with ThreadPoolExecutor(1) as other:
            waiting = other.submit(client, '/v2/translate', {'text': 'six', 'target_lang': 'DE'})
            while not service._waiting:
                time.sleep(0.02)
            server.handle_exit(signal.SIGTERM, None)
            thread.join(10)
            assert not thread.is_alive()
            assert (waiting.result().status, *waiting.result().body) == (503, 'message')
    gate.set()


@pytest.mark.slow
def test_the_command_says_why_its_thread_failed_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gate, began = threading.Event(), time.monotonic()

    def fail(translator: Translator) -> None:
        gate.wait(60)
        raise RuntimeError('no such device')

    def ask() -> tuple[Reply, ...]:
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                assert client.get('/health').body['status'] == 'warming up'
                break
            time.sleep(0.02)
        with ThreadPoolExecutor(1) as other:
            waiting = other.submit(client, '/translate', {'q': 'six', **PAIR})
            time.sleep(0.2)
            gate.set()
            return waiting.result(), client('/translate', {'q': 'two', **PAIR}), client.get('/health')

    monkeypatch.setattr('flax_transformer.server.service.usual_programs', fail)
    with socket.create_server(('127.0.0.1', 0)) as listener:
        client = Client(listener.getsockname()[1])
    with ThreadPoolExecutor(1) as clients:
        asked = clients.submit(ask)
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        assert main(['serve', str(RUN), '--port', str(client.port)]) == 1
        for number, handler in before.items():
            signal.signal(number, handler)
        *refused, health = asked.result()
    assert time.monotonic() - began < 20  # requests would wait for 30 s
    assert (health.status, health.body) == (503, {'status': 'failed', 'reason': 'RuntimeError: no such device'})
    for reply in refused:
        assert (reply.status, reply.body['error'].endswith('RuntimeError: no such device')) == (503, True)
    assert 'RuntimeError: no such device' in capsys.readouterr().err


@pytest.mark.slow
def test_sighup_reads_keys_and_models_again_or_leaves_them_as_they_are(
    model: Directions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(*given: Any, **changes: Any) -> Directions:
        if not pairs:
            raise UserError('no such run')
        return Directions(model.name, model.translator, pairs.pop())

    def ask(number: int) -> None:
        while not is_over.is_set():
            with contextlib.suppress(ConnectionRefusedError):
                codes[client('/translate', {'q': LINES[number], **PAIR}, **bearer('2')).status] += 1

    def control() -> None:
        text = ''

        def signaled(ends: str) -> None:
            nonlocal text
            os.kill(os.getpid(), signal.SIGHUP)
            while text.count(ends) < 1:
                time.sleep(0.02)
                text += capsys.readouterr().err

        try:
            while 'http://' not in text or client.get('/health').status != 200:
                text += capsys.readouterr().err
            assert '(float32 on cpu)' in text
            assert client.get('/health').body == {'status': 'ok', 'models': ['float32 on cpu']}
            keys.write_text('2\n')
            signaled('the models were read again')
            assert [client.get('/v2/usage', **bearer(key)).status for key in '12'] == [403, 200]
            assert client.get('/languages').body[1]['targets'] == []
            keys.write_text('')
            signaled('no such run; the models stay as they were')
            assert 'has no keys; expected one a line; the keys stay as they were' in text
            assert client('/translate', {'q': 'six', **PAIR}, **bearer('2')).status == 200
            is_right.set()
        finally:
            is_over.set()
            wait(asking)
            os.kill(os.getpid(), signal.SIGTERM)

    def end(code: int) -> None:
        """Does not end pytest, as `serve` ends its process if a program is still compiled."""
        assert is_right.is_set()

    pairs = [[('en', 'de')], [('en', 'de'), ('de', 'en')]]
    is_right = threading.Event()
    codes = collections.Counter[int]()
    is_over = threading.Event()
    keys = tmp_path / 'keys'
    keys.write_text('1\n2\n')
    monkeypatch.setattr(Directions, 'load', load)
    monkeypatch.setattr(serve, 'end_process', end)
    with socket.create_server(('127.0.0.1', 0)) as listener:
        client = Client(listener.getsockname()[1])
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    with ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask, number) for number in range(3)]
        controlling = threads.submit(control)
        assert main(['serve', str(RUN), '--port', str(client.port), '--keys', str(keys)]) == 0
    for number, handler in zip((signal.SIGTERM, signal.SIGHUP), before, strict=True):
        signal.signal(number, handler)
    assert [task.result() for task in (controlling, *asking)] == [None] * 4
    assert codes.keys() == {200}


def test_models_that_are_read_again_compile_nothing(model: Directions) -> None:
    own = model.translator
    service = Service(Served([model]), Limits())
    same = {'parallel': own.programs.parallel, 'pairs': own.pairs}
    again = Translator(own.models, own.params, own.tokenizer, own.decoding, **same)
    assert again.programs is not own.programs
    service.serve(Served([Directions('again', again, model.pairs.values())]))
    assert again.programs is own.programs
    wider = Translator(own.models, own.params, own.tokenizer, replace(own.decoding, beam_width=3), **same)
    wider.share_programs(own)
    assert wider.programs is not own.programs


@pytest.mark.slow
def test_a_model_of_many_languages_serves_each_pair_by_its_usual_names(tmp_path: Path) -> None:
    pytest.importorskip('safetensors', reason='safetensors is not installed')
    folder = fairseq_folders.write_folder(tmp_path, 'NllbTokenizer')
    small = {'max_source_tokens': 16, 'batch_tokens': 16, 'buckets': (16,), 'beam_width': 2, 'max_tokens': 5}
    model = Directions.load(str(folder), ParallelConfig(), **small)
    with running(Service(Served([model]), Limits())) as client:
        assert len(model.pairs) == 202 * 201
        sent = http.client.HTTPConnection('127.0.0.1', client.port)
        sent.request('GET', '/languages', headers={'Accept-Encoding': 'gzip'})
        content = sent.getresponse().read()
        sent.close()
        assert len(content) < 20_000
        languages = {each['code']: each for each in json.loads(gzip.decompress(content))}
        assert {'zh', 'zho_Hant'} < {*languages['de']['targets']}
        assert languages['zho_Hant']['name'] == 'Chinese (Hant)'
        for source, target, codes in [
            ('de', 'fr', ('deu_Latn', 'fra_Latn')),
            ('zh-TW', 'en', ('zho_Hant', 'eng_Latn')),
        ]:
            reply = client('/translate', {'q': 'Straße', 'source': source, 'target': target}).body['translatedText']
            alone = model.translator.with_decoding(
                replace(model.translator.decoding, source_language=codes[0], target_language=codes[1])
            )
            assert reply == alone('Straße').text
        error = client('/translate', {'q': 'a', 'source': 'de', 'target': 'xx'}).body['error']
        assert error.endswith(' and 40,582 more pairs, which /languages lists')
    both = tuple(CorpusConfig(source, 'a', source_language=source, target_language=target) for source, target in TWO)
    data = DataConfig('en', 'de', mixture=both, language_tags=True)
    assert pairs_of(data, SimpleNamespace(languages={'de': 3, 'en': 4})) == [('en', 'de'), ('de', 'en')]
    marian = SimpleNamespace(languages={'deu': 3, 'fra': 4})
    assert pairs_of(DataConfig(), marian) == [('en', 'deu'), ('en', 'fra')]


@pytest.mark.slow
def test_the_command_loses_nothing_that_it_admitted_when_it_is_told_to_stop(tmp_path: Path) -> None:
    command = [sys.executable, '-m', 'flax_transformer', 'serve', str(RUN), '--port', '0']
    options = [f'--decoding.{name.replace("_", "-")}={value}' for name, value in SMALL.items() if name != 'buckets']
    with (tmp_path / 'log').open('w') as log:  # a pipe would fill
        process = subprocess.Popen([*command, *options], stderr=log, cwd=ROOT)
    while not (found := re.search(r'http://[^:]+:(\d+) ', (tmp_path / 'log').read_text())):
        assert process.poll() is None
        time.sleep(0.1)
    client = Client(int(found[1]))
    while client.get('/health').status != 200:
        time.sleep(0.1)
    codes = collections.Counter[Any]()
    is_over = threading.Event()

    def ask(number: int) -> None:
        while not is_over.is_set():
            try:
                codes[client('/translate', {'q': LINES[number % 6], **PAIR}).status] += 1
            except ConnectionRefusedError:  # it no longer listens: nothing was admitted
                return
            except (ConnectionError, http.client.HTTPException) as error:
                codes[type(error)] += 1

    with ThreadPoolExecutor(16) as threads:
        done = [threads.submit(ask, number) for number in range(16)]
        time.sleep(3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        is_over.set()
    assert codes[200] > 16
    assert codes[http.client.RemoteDisconnected] == 0
    assert all(each.exception() is None for each in done)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (['--host', '192.0.2.1'], 'cannot listen on 192.0.2.1:5000'),
        (['--keys', 'pyproject.toml.none'], 'pyproject.toml.none'),
    ],
)
def test_the_command_says_what_is_wrong_with_its_options(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['serve', str(RUN), *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_plain_texts_go_to_ctranslate2_and_what_it_cannot_do_to_our_search(model: Directions) -> None:
    pytest.importorskip('ctranslate2')
    from flax_transformer.interop.ctranslate2 import CTranslate2Translator

    fast = Directions.load(str(RUN), ParallelConfig(), CTranslate2Translator.of, **SMALL, force_eos=False)
    with running(Service(Served([fast]), Limits(cache=0))) as client:
        for fields, engine in (({}, 'ctranslate2'), ({'alignment': True}, 'jax'), ({'alternatives': 1}, 'jax')):
            reply = client('/v1/translate', {'text': LINES, **PAIR, **fields})
            assert reply.headers['X-Engine'] == engine
            texts = [each['text'] for each in reply.body['translations']]
            assert texts == [each.text for each in model.translator(LINES)]
