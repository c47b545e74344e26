"""A server that learns from its users: what they correct is answered at once, each sees what is theirs."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import TESTS
from num2words import num2words
from test_serving import PAIR, SMALL, Client, running

from flax_transformer.engine.config import ParallelConfig
from flax_transformer.server.directions import Directions, Served
from flax_transformer.server.keys import Keys
from flax_transformer.server.service import Limits, Service
from flax_transformer.server.teaching import Teaching
from flax_transformer.tasks.translation.learning.memory import Pair
from flax_transformer.tasks.translation.run import SAMPLE


@pytest.fixture(scope='module')
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that keeps pairs of its training."""
    run = tmp_path_factory.mktemp('teaching') / 'run'
    shutil.copytree(TESTS / 'golden' / 'number_words', run)
    pairs = [Pair(num2words(number), num2words(number, lang='de'), 'en', 'de')._asdict() for number in range(100, 310)]
    (run / SAMPLE).write_text(''.join(f'{json.dumps(pair)}\n' for pair in pairs))
    return run


def service_of(run: Path, folder: Path) -> Service:
    model = Directions.load(str(run), ParallelConfig(), **SMALL)
    keys = Keys(['ann: a', 'bob: b'])
    return Service(Served([model]), Limits(), keys, teaching=Teaching(folder, model))


@pytest.fixture
def client(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(Teaching, 'start', lambda teaching: None)  # without a process that learns
    with running(service_of(run, tmp_path / 'memory')) as client:
        yield client


def test_what_a_user_corrected_is_answered_to_that_user_alone(client: Client) -> None:
    def texts(key: str, text: str = 'six', **fields: str) -> list[str]:
        reply = client('/v1/translate', {'text': text, **PAIR, **fields, 'api_key': key}).body
        return [each['text'] for each in reply['translations']]

    assert client('/suggest', {'q': 'six', 's': 'SECHSE', **PAIR}).status == 403
    assert client('/suggest', {'q': 'six', 's': 'SECHSE', **PAIR, 'api_key': 'a'}).body == {'success': True}
    assert texts('a') == ['SECHSE']
    assert texts('a', 'two\nsix\n') == ['zwei\nSECHSE\n']
    assert texts('b') == ['sechs']
    assert client('/translate', {'q': 'six', **PAIR, 'api_key': 'a'}).body == {'translatedText': 'SECHSE'}

    shown = client('/v1/translate', {'text': 'six six', **PAIR, 'memory': True, 'api_key': 'a'}).body['translations'][0]
    assert shown['memory'] == []
    client('/v1/memory', {'pairs': [{'text': 'one two six', 'translation': 'x y z'}], **PAIR, 'api_key': 'a'})
    shown = client('/v1/translate', {'text': 'one two ten', **PAIR, 'memory': True, 'api_key': 'a'}).body
    assert shown['translations'][0]['memory'] == [
        {'similarity': 0.67, 'number': 2, 'text': 'one two six', 'translation': 'x y z'}
    ]

    listed = client.get('/v1/memory?api_key=a').body
    assert [pair['number'] for pair in listed['pairs']] == [2, 1]
    assert client.get('/v1/memory?api_key=b').body['pairs'] == []
    assert '<seg>SECHSE</seg>' in client.get('/v1/memory?format=tmx&api_key=a').body
    assert client('/v1/memory/1', None, 'DELETE', Authorization='Bearer b').status == 400
    assert client('/v1/memory/1', None, 'DELETE', Authorization='Bearer a').body == {'version': 3}
    assert texts('a') == ['sechs']


@pytest.mark.slow
def test_poison_is_refused(client: Client) -> None:
    for fields, why in (
        ({'q': 'six', 's': ' '}, 's is empty|translation is empty'),
        ({'q': 'The dog sleeps in the garden today.', 's': 'Le chien dort dans le jardin.'}, 'in French'),
    ):
        reply = client('/suggest', {**fields, **PAIR, 'api_key': 'a'})
        assert reply.status == 400
        assert any(part in reply.body['error'] for part in why.split('|'))
    many = [{'text': 'six', 'translation': 'acht'}] * 1001
    assert client('/v1/memory', {'pairs': many, **PAIR, 'api_key': 'a'}).status == 413


@pytest.mark.slow
def test_a_process_learns_while_the_server_translates(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'memory'

    def version(client: Client, key: str) -> int:
        return client.get(f'/v1/memory?api_key={key}').body['learned']

    def wait_for(number: int, client: Client) -> None:
        until = time.monotonic() + 120
        while version(client, 'a') != number and time.monotonic() < until:
            time.sleep(0.2)
        assert version(client, 'a') == number

    with running(service_of(run, folder)) as client:
        untouched = client('/v1/translate', {'text': 'ninety-one', **PAIR, 'api_key': 'b'}).body['translations'][0]
        for text, translation in (('one dozen', 'zwölf'), ('two dozen', 'vierundzwanzig')):
            assert client('/suggest', {'q': text, 's': translation, **PAIR, 'api_key': 'a'}).status == 200
        wait_for(2, client)
        learned = client('/v1/translate', {'text': 'ninety-one', **PAIR, 'api_key': 'a'}).body['translations'][0]
        assert learned['version'] == 2
        again = client('/v1/translate', {'text': 'ninety-one', **PAIR, 'api_key': 'b'}).body['translations'][0]
        assert again == untouched
        service = client.server._service
        service.teaching._helper.kill()  # another is started
        client('/v1/memory/1', None, 'DELETE', Authorization='Bearer a')
        wait_for(3, client)

        # A run that rehearses other pairs learns anew, when its server has read it again.
        sample = run / SAMPLE
        sample.write_text(''.join(reversed(sample.read_text().splitlines(keepends=True))))
        service.serve(Served([Directions.load(str(run), ParallelConfig(), **SMALL)]))
        assert version(client, 'a') == 0
        wait_for(3, client)
    with running(service_of(run, folder)) as client:
        assert version(client, 'a') == 3
