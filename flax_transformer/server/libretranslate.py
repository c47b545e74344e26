"""LibreTranslate's API: what Mastodon, browser extensions and a dozen clients speak."""

from typing import Any

from starlette.requests import Request

from flax_transformer.server.served import name_of
from flax_transformer.server.service import Service, split_lines
from flax_transformer.tasks.translation.documents.markup import split_html

ERROR = 'error'  # the field of an error's text


async def translate(service: Service, request: Request) -> Any:
    fields = await service.read(request)
    texts = service.texts(fields, 'q')
    source, target = fields.text('source'), fields.text('target')
    split = {'text': split_lines, 'html': split_html}[fields.choice('format', 'text', 'html')]
    wanted = fields.number('alternatives', 0)
    is_auto = source == 'auto'
    found = [service.direction(text, '' if is_auto else source, target) for text in texts]
    directions = [direction for direction, _ in found]
    replies = await service.translate(request, texts, directions, split=split, alternatives=wanted)
    columns: dict[str, list[Any]] = {'translatedText': [reply.text for reply in replies]}
    if is_auto:
        columns['detectedLanguage'] = [
            {'language': direction.source, 'confidence': round(confidence)} for direction, confidence in found
        ]
    if wanted:
        columns['alternatives'] = [reply.alternatives for reply in replies]
    return columns if fields.is_list('q') else {name: column[0] for name, column in columns.items()}


async def detect(service: Service, request: Request) -> Any:
    (text, *_) = service.texts(await service.read(request), 'q')
    found = service.served.detect(text)
    return [{'language': code, 'confidence': round(confidence)} for code, confidence in found]


async def languages(service: Service, request: Request) -> Any:
    served = service.served
    # Clients look for the target's code too in this list.
    codes = dict.fromkeys([*served.sources, *served.targets])
    return [{'code': code, 'name': name_of(code), 'targets': served.targets_of(code)} for code in codes]


async def settings(service: Service, request: Request) -> Any:
    source, target = next(iter(service.served.directions))
    named = lambda code: {'code': code, 'name': name_of(code)}
    return {
        'charLimit': service.limits.max_characters,
        'frontendTimeout': 500,  # milliseconds after the last key
        'apiKeys': bool(service.keys),
        'keyRequired': bool(service.keys),
        **{'suggestions': False, 'filesTranslation': False, 'supportedFilesFormat': []},
        'language': {'source': named(source), 'target': named(target)},
        'alternatives': min(service.limits.max_alternatives, service.served.num_alternatives),
    }


ROUTES = {
    ('POST', '/translate'): translate,
    ('POST', '/detect'): detect,
    ('GET', '/languages'): languages,
    ('GET', '/frontend/settings'): settings,
}
