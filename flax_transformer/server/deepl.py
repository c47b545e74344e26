"""The part of DeepL's API, version 2, that its own clients call to translate text."""

from functools import partial
from typing import Any

from starlette.requests import Request

from flax_transformer.server.fields import Refused
from flax_transformer.server.served import name_of
from flax_transformer.server.service import Service, split_lines
from flax_transformer.tasks.translation.documents.markup import Tags, split_html, split_xml

ERROR = 'message'  # the field of an error's text
# DeepL's client refuses EN and PT as targets: it asks for one of their variants.
_VARIANTS = {
    'EN': {'EN-GB': 'English (British)', 'EN-US': 'English (American)'},
    'PT': {'PT-BR': 'Portuguese (Brazilian)', 'PT-PT': 'Portuguese (European)'},
}
_LIMIT = 10**12  # characters; nobody is billed here


async def translate(service: Service, request: Request) -> Any:
    fields = await service.read(request)
    texts = service.texts(fields, 'text')
    target, source = fields.text('target_lang'), fields.text('source_lang', '')
    if fields.text('glossary_id', ''):
        raise Refused(400, 'glossary_id: this server has no glossaries')
    fields.choice('formality', '', 'default', 'prefer_more', 'prefer_less')  # no model here knows any
    form = fields.choice('tag_handling', '', 'html', 'xml')
    tags = Tags(*map(fields.names, ('ignore_tags', 'splitting_tags', 'non_splitting_tags')))
    split = {'html': partial(split_html, tags=tags), 'xml': partial(split_xml, tags=tags), '': split_lines}[form]
    directions = [service.direction(text, source, target)[0] for text in texts]
    replies = await service.translate(request, texts, directions, split=split)
    extra = {'model_type_used': 'quality_optimized'} if fields.has('model_type') else {}
    found = [{'detected_source_language': reply.direction.source.upper(), 'text': reply.text} for reply in replies]
    counts = [{'billed_characters': len(text)} | extra for text in texts]
    return {'translations': [each | count for each, count in zip(found, counts, strict=True)]}


async def usage(service: Service, request: Request) -> Any:
    await service.read(request)
    return {'character_count': service.num_characters, 'character_limit': _LIMIT}


async def languages(service: Service, request: Request) -> Any:
    is_target = (await service.read(request)).text('type', 'source') == 'target'
    named: dict[str, str] = {}
    for code in service.served.targets if is_target else service.served.sources:
        one = {code.upper(): name_of(code)}
        named |= _VARIANTS.get(code.upper(), one) if is_target else one
    return [{'language': code, 'name': name, 'supports_formality': False} for code, name in named.items()]


ROUTES = {
    ('POST', '/v2/translate'): translate,
    ('GET', '/v2/usage'): usage,
    ('GET', '/v2/languages'): languages,
}
