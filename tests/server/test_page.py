"""The page in a real browser, Debian's Chromium, by the WebDriver protocol."""

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_serving import RUN, SMALL, running

from flax_transformer.engine.config import ParallelConfig
from flax_transformer.server.directions import Directions, Served
from flax_transformer.server.service import Limits, Service
from flax_transformer.server.teaching import Teaching

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which('chromedriver'), reason='needs Chromium and its driver (chromium-driver)'),
]
OPTIONS = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']
PICTURES = os.environ.get('FLAX_TRANSFORMER_PICTURES')  # a folder for what the browser shows


class Browser:
    def __init__(self, port: int) -> None:
        self._address, self._session = f'http://127.0.0.1:{port}', ''
        options = {'goog:chromeOptions': {'args': OPTIONS}, 'goog:loggingPrefs': {'browser': 'ALL'}}
        created = self('POST', '/session', {'capabilities': {'alwaysMatch': options}})
        self._session = f'/session/{created["sessionId"]}'

    def __call__(self, method: str, path: str, body: dict | None = None) -> Any:
        data = None if method in ('GET', 'DELETE') else json.dumps(body or {}).encode()
        request = urllib.request.Request(self._address + self._session + path, data, method=method)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)['value']

    def run(self, script: str) -> Any:
        """The value that a script returns, such as `return document.title`."""
        return self('POST', '/execute/sync', {'script': script, 'args': []})

    def text(self, name: str) -> str:
        return self.run(f'return document.getElementById("{name}").textContent')

    def type(self, name: str, text: str) -> None:
        """Types into a field in place of what is there."""
        self.run(f'const field = document.getElementById("{name}"); field.focus(); field.select()')
        (found,) = self('POST', '/element', {'using': 'css selector', 'value': f'#{name}'}).values()
        self('POST', f'/element/{found}/value', {'text': text})

    def wait(self, name: str, text: str) -> None:
        end = time.monotonic() + 20
        while text not in self.text(name) or self.run('return !!document.querySelector(".waiting")'):
            assert time.monotonic() < end, f'#{name} shows {self.text(name)!r}, expected {text!r}'
            time.sleep(0.05)

    def picture(self, name: str) -> None:
        if PICTURES:
            Path(PICTURES, f'{name}.png').write_bytes(base64.b64decode(self('GET', '/screenshot')))

    def look(self, width: int, height: int, scheme: str) -> None:
        self.command(
            'Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        self.command('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': scheme}])

    def command(self, name: str, **params: Any) -> Any:
        return self('POST', '/goog/cdp/execute', {'cmd': name, 'params': params})


@pytest.fixture(scope='module')
def browser() -> Iterator[Browser]:
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(['chromedriver', f'--port={port}'], stdout=subprocess.DEVNULL) as process:
        while True:
            try:
                urllib.request.urlopen(f'http://127.0.0.1:{port}/status').close()
                break
            except urllib.error.URLError:
                time.sleep(0.1)
        browser = Browser(port)
        yield browser
        browser('DELETE', '')
        process.terminate()


@pytest.fixture(scope='module')
def address() -> Iterator[str]:
    found = Directions.load(str(RUN), ParallelConfig(), **SMALL)
    both = Directions(found.name, found.translator, [('en', 'de'), ('de', 'en')])
    with running(Service(Served([both]), Limits(max_characters=400))) as client:
        yield f'http://127.0.0.1:{client.port}/'


def test_one_types_reads_swaps_and_sees_where_words_come_from(browser: Browser, address: str) -> None:
    browser.look(1200, 900, 'light')
    browser('POST', '/url', {'url': address})
    browser.wait('count', '0 / 400')
    browser.type('text', 'four hundred and seven')
    browser.wait('translation', 'vierhundertsieben')
    browser.wait('source', 'Auto: English')
    browser.wait('count', '22 / 400')
    both = '[...document.querySelectorAll("textarea, #translation")]'
    languages = f'return {both}.map((text) => [text.lang, text.dir])'
    assert browser.run(languages) == [['en', 'ltr'], ['de', 'ltr'], ['de', 'ltr']]
    alternative = browser.run('return document.querySelector("#alternatives button").textContent')

    browser.run('document.querySelector("#translation span").click()')
    browser.wait('origin', 'hundred')
    marked = browser.run('return [...document.querySelectorAll("#mirror .marked")].map((word) => word.textContent)')
    assert 'hundred' in marked
    browser.run('document.querySelector("#inside summary").click()')
    browser.wait('map', 'vier')
    assert browser.run('return document.querySelectorAll("#map td svg").length') >= 20
    browser.picture('desktop')
    browser.look(360, 800, 'dark')
    assert browser.run('return document.documentElement.scrollWidth <= innerWidth')
    browser.picture('phone')
    browser.look(1200, 900, 'dark')
    browser.picture('desktop_dark')

    browser.run('document.querySelector("#alternatives button").click()')
    browser.wait('translation', alternative)
    browser.run('document.getElementById("swap").click()')
    fields = 'return ["source", "target", "text"].map((name) => document.getElementById(name).value)'
    assert browser.run(fields) == ['de', 'en', alternative]
    browser.run('document.getElementById("clear").click()')
    browser.wait('count', '0 / 400')
    assert browser.run(fields) == ['de', 'en', '']
    browser('POST', '/url', {'url': 'about:blank'})
    browser('POST', '/url', {'url': address + '#source=en&target=de&q=four+hundred+and+seven'})
    browser.wait('translation', 'vierhundertsieben')


def test_errors_are_shown_and_the_page_loads_nothing_from_elsewhere(browser: Browser, address: str) -> None:
    browser('POST', '/url', {'url': address})
    browser.type('text', 'six')
    browser.wait('translation', 'sechs')
    browser.look(360, 800, 'light')
    browser.type('text', 'x' * 404)
    browser.wait('error', '404 characters: this server takes 400 at once')
    assert browser.text('translation') == 'sechs'  # the last one is not lost
    assert browser.run('return document.documentElement.scrollWidth <= innerWidth')
    browser.picture('error')
    browser.type('text', 'seven')
    browser.wait('translation', 'sieben')
    assert browser.run('return document.getElementById("failure").hidden')
    hosts = browser.run('return performance.getEntriesByType("resource").map((each) => new URL(each.name).origin)')
    assert set(hosts) == {address.rstrip('/')}
    browser('POST', '/url', {'url': address + 'docs/'})
    browser.wait('routes', 'POST /v2/document/{document_id}/result')  # the last
    browser.picture('docs')
    severe = [each['message'] for each in browser('POST', '/se/log', {'type': 'browser'}) if each['level'] == 'SEVERE']
    assert all('413' in message for message in severe), severe


def test_the_map_shows_characters_rather_than_bytes_and_no_tags(browser: Browser, address: str) -> None:
    browser('POST', '/url', {'url': address})
    pieces = ['<2de>', '▁a', '<0x3C>', '<0xE2>', '<0x82>', '<0xAC>', '▁', '</s>']
    script = f'return import("/attention.js").then((map) => map.readable({pieces}))'
    shown = [(group['label'], group['pieces']) for group in browser.run(script)]
    assert shown == [('a', [1]), ('<', [2]), ('€', [3, 4, 5]), ('␣', [6]), ('end', [7])]


def test_a_key_survives_a_reload(browser: Browser, address: str) -> None:
    browser('POST', '/url', {'url': address})
    browser.wait('count', '0 / 400')
    browser.run('const key = document.getElementById("key"); key.value = "k"; key.dispatchEvent(new Event("change"))')
    browser('POST', '/refresh')
    browser.wait('count', '0 / 400')
    assert browser.run('return document.getElementById("key").value') == 'k'


def test_one_corrects_sees_it_remembered_and_takes_it_back(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Teaching, 'start', lambda teaching: None)  # without a process that learns
    model = Directions.load('everyday', ParallelConfig(), **SMALL)
    corrected = 'Soll die Datei gespeichert werden?'
    with running(Service(Served([model]), Limits(), teaching=Teaching(tmp_path, model))) as client:
        browser('POST', '/url', {'url': f'http://127.0.0.1:{client.port}/#source=en&target=de'})
        browser.wait('count', '0 / ')
        browser.type('text', 'Save the file?')
        browser.wait('translation', 'Datei')
        browser.run('document.getElementById("correct").click()')
        browser.type('corrected', corrected)
        browser.run('document.getElementById("use").click()')
        browser.wait('memory-pairs', corrected)
        browser.wait('translation', corrected)
        assert browser.text('memory-count') == '1, the newest not learned yet'
        assert browser.run('return document.getElementById("failure").hidden')
        browser.picture('corrected')
        browser.run('document.querySelector("#memory-pairs button").click()')
        end = time.monotonic() + 20
        while not browser.run('return document.getElementById("memory").hidden'):
            assert time.monotonic() < end
        browser.wait('translation', 'Datei')
        assert browser.text('translation') != corrected
