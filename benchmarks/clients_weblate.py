"""The calls of Weblate's services DeepL and LibreTranslate, for clients.py: its own code, without its database."""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock, patch

given = json.loads(sys.argv[-1])
for name in ('cairo', 'gi', 'gi.repository', 'standardwebhooks', 'altcha'):  # of pictures and hooks
    try:
        __import__(name)
    except ImportError:
        sys.modules[name] = MagicMock()

with tempfile.TemporaryDirectory() as folder:
    os.environ['DJANGO_SETTINGS_MODULE'] = 'weblate.settings_example'
    from weblate import settings_example

    settings_example.DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}
    settings_example.CACHES = {'default': {'BACKEND': 'django.core.cache.backends.locmem.LocMemCache'}}
    settings_example.SECRET_KEY = 'none'
    settings_example.DATA_DIR = folder
    import django

    django.setup()

from weblate.checks.tests.test_checks import MockUnit  # noqa: E402
from weblate.lang.models import Language  # noqa: E402
from weblate.machinery.deepl import DeepLTranslation  # noqa: E402
from weblate.machinery.libretranslate import LibreTranslateTranslation  # noqa: E402


def say(call: str, work: Callable[[], Any]) -> None:
    try:
        print(json.dumps({'call': call, 'got': work()}, default=str), flush=True)
    except Exception as error:
        print(json.dumps({'call': call, 'fault': f'{type(error).__name__}: {error}'}), flush=True)


def translations(service: Any, text: str) -> str:
    """What a translator sees of a message with a placeholder."""
    languages = [Language(code=given[side]) for side in ('source', 'target')]
    unit = MockUnit(code='en', source=text, flags='c-format')
    (found,) = service._translate(*service.get_languages(*languages), [(text, unit)])[text]
    return found['text']


line = given['text'].replace('\n', ' ')
message = 'Hello %s,\nthe dog sleeps in the garden.'
deepl = DeepLTranslation({'key': 'a key', 'url': f'{given["url"]}/v2/'})
deepl.request_timeout = 60  # not 5 s: what is asked for the first time is compiled
with patch('weblate.glossary.models.get_glossary_tsv', return_value=''):
    say('settings of DeepL', deepl.validate_settings)
    say('text', lambda: translations(deepl, line))
    say('message by DeepL', lambda: translations(deepl, message))
with patch('weblate.glossary.models.get_glossary_tsv', return_value='garden\tPark'):
    deepl.delete_cache()
    say('with a glossary', lambda: translations(deepl, 'The cat is in the garden.'))
    say('glossaries', deepl.list_glossaries)
libre = LibreTranslateTranslation({'key': '', 'url': given['url']})
say('settings of LibreTranslate', libre.validate_settings)
say('line by LibreTranslate', lambda: translations(libre, line))
say('message by LibreTranslate', lambda: translations(libre, message))
