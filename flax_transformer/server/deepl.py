"""The part of DeepL's API, version 2, that its own clients call to translate text."""

from functools import partial
from typing import Any

from starlette.requests import Request

from flax_transformer.tasks.translation.documents import markup
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.text.languages import name_of

from .fields import Fields, Refused
from .glossaries import find
from .service import Service

# DeepL's client refuses EN and PT as targets: it asks for one of their variants.
_VARIANTS = {
    'EN': {'EN-GB': 'English (British)', 'EN-US': 'English (American)'},
    'PT': {'PT-BR': 'Portuguese (Brazilian)', 'PT-PT': 'Portuguese (European)'},
}
_MARKS = '.!?…:;,。！？ \n'  # at the end of a sentence
_LIMIT = 10**12  # characters, where there is no quota


async def translate(service: Service, request: Request) -> Any:
    fields = await service.read(request)
    texts = service.texts(fields, 'text')
    source, target, glossary = wishes(service, request, fields)
    form = fields.choice('tag_handling', '', 'html', 'xml')
    sentences = fields.choice('split_sentences', 'nonewlines' if form == 'html' else '1', '0', '1', 'nonewlines')
    tags = markup.Tags(
        *map(fields.names, ('ignore_tags', 'splitting_tags', 'non_splitting_tags')),
        outline=fields.flag('outline_detection', True),
        line_ends=sentences == '1',
    )
    split = markup.split_lines if sentences == '1' else markup.split_paragraphs
    if form:
        split = partial(markup.split_html if form == 'html' else markup.split_xml, tags=tags)
    options = {'split': split, 'glossary': glossary}
    if 'split_sentences' in fields:  # else as the server is set
        options['split_sentences'] = sentences != '0'
    replies = await service.translate(request, texts, source, target, **options)
    extra = {'model_type_used': 'quality_optimized'} if 'model_type' in fields else {}
    keeps = not form and fields.flag('preserve_formatting')
    translations = []
    for text, reply in zip(texts, replies, strict=True):
        source = reply.direction.source.upper()
        translation = _as_formatted(text, reply.text) if keeps else reply.text
        fields = {'detected_source_language': source, 'text': translation, 'billed_characters': len(text)}
        translations.append(fields | extra)
    return {'translations': translations}


def _as_formatted(text: str, translation: str) -> str:
    """The translation with the marks that end the text, and with a capital if the text begins with one."""
    translation = translation.rstrip(_MARKS) + text[len(text.rstrip(_MARKS)) :]
    return translation[:1].upper() + translation[1:] if text[:1].isupper() else translation


def wishes(service: Service, request: Request, fields: Fields) -> tuple[str, str, Glossary | None]:
    """The source, which may be empty, the target and the terms."""
    if 'glossary_ids' in fields:
        raise Refused(400, 'glossary_ids: expected glossary_id, one for a request')
    if fields.choice('formality', 'default', 'prefer_more', 'prefer_less') != 'default':
        fields.used.discard('formality')  # no model here knows any
    target = fields.text('target_lang')
    if 'glossary_id' not in fields:
        return fields.text('source_lang', ''), target, None
    source = fields.text('source_lang')
    stored, pair = find(service, fields, request.state.owner)
    return source, target, stored.by_pair[pair]


async def usage(service: Service, request: Request) -> Any:
    await service.read(request)
    count = service.usage.characters(request.state.client)
    return {'character_count': count, 'character_limit': service.usage.quota or _LIMIT}


async def languages(service: Service, request: Request) -> Any:
    is_target = (await service.read(request)).text('type', 'source') == 'target'
    named = _targets(service) if is_target else _sources(service)
    return [{'language': code, 'name': name, 'supports_formality': False} for code, name in named.items()]


async def languages_of_resource(service: Service, request: Request) -> Any:
    """Version 3's list: both sides together, with what is done in each language."""
    (await service.read(request)).choice('resource', 'translate_text', 'glossary')
    sources = _sources(service)
    targets = _targets(service)
    features = {key: {'status': 'stable'} for key in ('auto_detection', 'glossary', 'tag_handling')}
    listed = []
    for code, name in (sources | targets).items():
        language, hyphen, variant = code.partition('-')
        usable = {'usable_as_source': code in sources, 'usable_as_target': code in targets}
        described = {'lang': language.lower() + hyphen + variant, 'name': name, 'status': 'stable'}
        listed.append({**described, **usable, 'features': features})
    return listed


async def glossary_pairs(service: Service, request: Request) -> Any:
    await service.read(request)
    pairs = service.served.pairs
    return {'supported_languages': [{'source_lang': source, 'target_lang': target} for source, target in pairs]}


def _sources(service: Service) -> dict[str, str]:
    """Names by code."""
    return {code.upper(): name_of(code) for code in service.served.targets_of}


def _targets(service: Service) -> dict[str, str]:
    named: dict[str, str] = {}
    for code in service.served.targets:
        named |= _VARIANTS.get(code.upper(), {code.upper(): name_of(code)})
    return named


ROUTES = {
    ('POST', '/v2/translate'): translate,
    ('GET', '/v2/usage'): usage,
    ('GET', '/v2/languages'): languages,
    ('GET', '/v2/glossary-language-pairs'): glossary_pairs,
    ('GET', '/v3/languages'): languages_of_resource,
}
