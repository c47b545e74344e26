"""The calls of the clients `deepl` and `libretranslatepy`, for clients.py: prints what each gave."""

import json
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

client, given = sys.argv[1], json.loads(sys.argv[2])
source, target, text = given['source'], given['target'], given['text']
line = text.replace('\n', ' ')


def say(call: str, work: Callable[[], Any]) -> Any:
    got = None
    try:
        got = work()
        print(json.dumps({'call': call, 'got': got}, default=str), flush=True)
    except Exception as error:
        print(json.dumps({'call': call, 'fault': f'{type(error).__name__}: {error}'}), flush=True)
    return got


def deepl() -> None:
    import deepl

    asks = deepl.DeepLClient('a key', server_url=given['url'])
    pair = {'source_lang': source, 'target_lang': target}
    translate = lambda text, **options: asks.translate_text(text, **pair, **options)
    say(
        'languages',
        lambda: [language.code for language in [*asks.get_source_languages(), *asks.get_target_languages()]],
    )
    say('glossary languages', lambda: len(asks.get_glossary_languages()))
    say('usage', lambda: asks.get_usage().character.count)
    say('text', lambda: translate(line).text)
    say('list', lambda: [one.text for one in translate([line, 'The cat runs.'])])
    say('detected', lambda: asks.translate_text(line, target_lang=target).detected_source_lang)
    for value in ('0', '1', 'nonewlines'):
        say(f'split_sentences {value}', lambda value=value: translate(text, split_sentences=value).text)
    say('preserve_formatting', lambda: translate('The dog sleeps', preserve_formatting=True).text)
    say('formality', lambda: translate(line, formality='prefer_more').text)
    say('context', lambda: translate(line, context='A story.', model_type='quality_optimized').text)
    tagged = '<p>The <b>dog</b> sleeps, <x id="1"></x> says.</p>'
    say('html', lambda: translate(tagged, tag_handling='html').text)
    say('xml', lambda: translate(tagged, tag_handling='xml', ignore_tags=['x'], non_splitting_tags='b').text)
    outline = '<doc><par>The dog sleeps.</par><par>The cat runs.</par></doc>'
    options = {'tag_handling': 'xml', 'outline_detection': False, 'splitting_tags': ['par']}
    say('outline_detection', lambda: translate(outline, **options).text)
    terms = {'garden': 'Park'}
    glossary = say('glossary', lambda: asks.create_glossary('a', source, target, terms).glossary_id)
    say('glossary entries', lambda: asks.get_glossary_entries(glossary))
    say('text with it', lambda: translate(line, glossary=glossary).text)
    say(
        'glossary from CSV',
        lambda: asks.create_glossary_from_csv('b', source, target, '\ufeffdog,Dackel\n').entry_count,
    )
    entries = deepl.api_data.MultilingualGlossaryDictionaryEntries(source, target, terms)
    several = say('glossary v3', lambda: asks.create_multilingual_glossary('c', [entries]).glossary_id)
    say('glossaries v3', lambda: len(asks.list_multilingual_glossaries()))
    say('glossary v3 deleted', lambda: asks.delete_multilingual_glossary(several))
    file, translated = (Path(given['folder'], name) for name in ('a.html', 'b.html'))
    file.write_text(f'<h1>{line}</h1>')
    translated.unlink(missing_ok=True)
    document = lambda: asks.translate_document_from_filepath(file, translated, **pair).status
    say('document', lambda: (document(), translated.read_text()))


def libretranslatepy() -> None:
    from libretranslatepy import LibreTranslateAPI

    asks = LibreTranslateAPI(given['url'])
    say('text', lambda: asks.translate(line, source, target))
    say('auto', lambda: asks.translate(line, 'auto', target))
    say('detect', lambda: asks.detect(line))
    say('languages', lambda: [language['code'] for language in asks.languages()])
    # This client sends no files; LibreTranslate's page does, by such a form.
    say('translate_file', lambda: translated_file('a.txt', f'{line}\n'))


def translated_file(name: str, content: str) -> str:
    fields = ''.join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (('source', source), ('target', target))
    )
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    kind = {'Content-Type': 'multipart/form-data; boundary=x'}
    body = f'{fields}{head}{content}\r\n--x--\r\n'.encode()
    with urllib.request.urlopen(urllib.request.Request(f'{given["url"]}/translate_file', body, kind)) as reply:
        url = json.loads(reply.read())['translatedFileUrl']
    with urllib.request.urlopen(url) as reply:
        return reply.read().decode()


{'deepl': deepl, 'libretranslatepy': libretranslatepy}[client]()
