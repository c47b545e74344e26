"""The part of DeepL's API, version 2, that its own clients call to translate text."""

from functools import partial
from typing import Any

from starlette.requests import Request

from flax_transformer.tasks.translation.documents.markup import Tags, split_html, split_lines, split_xml
from flax_transformer.text.languages import name_of

from .fields import Refused
from .glossaries import find
from .service import Service

# DeepL's client refuses EN and PT as targets: it asks for one of their variants.
_VARIANTS = {
    'EN': {'EN-GB': 'English (British)', 'EN-US': 'English (American)'},
    'PT': {'PT-BR': 'Portuguese (Brazilian)', 'PT-PT': 'Portuguese (European)'},
}
_LIMIT = 10**12  # characters, where there is no quota


async def translate(service: Service, request: Request) -> Any:
    fields = await service.read(request)
    texts = service.texts(fields, 'text')
    if 'glossary_ids' in fields:
        raise Refused(400, 'glossary_ids: expected glossary_id, one for a request')
    target = fields.text('target_lang')
    glossary = None
    if 'glossary_id' in fields:
        source = fields.text('source_lang')
        stored, pair = find(service, fields, request.state.owner)
        glossary = stored.by_pair[pair]
    else:
        source = fields.text('source_lang', '')
    fields.choice('formality', '', 'default', 'prefer_more', 'prefer_less')  # no model here knows any
    form = fields.choice('tag_handling', '', 'html', 'xml')
    tags = Tags(*map(fields.names, ('ignore_tags', 'splitting_tags', 'non_splitting_tags')))
    split = {'html': partial(split_html, tags=tags), 'xml': partial(split_xml, tags=tags), '': split_lines}[form]
    replies = await service.translate(request, texts, source, target, split=split, glossary=glossary)
    extra = {'model_type_used': 'quality_optimized'} if 'model_type' in fields else {}
    translations = []
    for text, reply in zip(texts, replies, strict=True):
        source = reply.direction.source.upper()
        fields = {'detected_source_language': source, 'text': reply.text, 'billed_characters': len(text)}
        translations.append(fields | extra)
    return {'translations': translations}


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
