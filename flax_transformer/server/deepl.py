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
_LIMIT = 10**12  # characters; nobody is billed here


async def translate(service: Service, request: Request) -> Any:
    fields = await service.read(request)
    texts = service.texts(fields, 'text')
    if 'glossary_ids' in fields:
        raise Refused(400, 'glossary_ids: expected glossary_id, one for a request')
    target = fields.text('target_lang')
    glossary = None
    if 'glossary_id' in fields:
        source = fields.text('source_lang')
        stored, pair = find(service, fields)
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
    return {'character_count': service.num_characters, 'character_limit': _LIMIT}


async def languages(service: Service, request: Request) -> Any:
    is_target = (await service.read(request)).text('type', 'source') == 'target'
    named: dict[str, str] = {}
    for code in service.served.targets if is_target else service.served.targets_of:
        name = {code.upper(): name_of(code)}
        named |= _VARIANTS.get(code.upper(), name) if is_target else name
    return [{'language': code, 'name': name, 'supports_formality': False} for code, name in named.items()]


ROUTES = {
    ('POST', '/v2/translate'): translate,
    ('GET', '/v2/usage'): usage,
    ('GET', '/v2/languages'): languages,
}
