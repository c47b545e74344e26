"""LibreTranslate's API: what Mastodon, browser extensions and a dozen clients speak."""

from typing import Any

from starlette.requests import Request

from flax_transformer.tasks.translation.documents.formats import FORMATS
from flax_transformer.tasks.translation.documents.markup import split_html, split_lines
from flax_transformer.text.languages import name_of

from .errand import Errand
from .service import Service


async def translate(service: Service, request: Request) -> Any:
    fields = await service.read(request)
    texts = service.texts(fields, 'q')
    source = fields.text('source')
    target = fields.text('target')
    split = {'text': split_lines, 'html': split_html}[fields.choice('format', 'text', 'html')]
    wanted = fields.number('alternatives', 0)
    replies = await service.translate(request, texts, source, target, split=split, alternatives=wanted)
    columns: dict[str, list[Any]] = {'translatedText': [reply.text for reply in replies]}
    if source.lower() == 'auto':
        columns['detectedLanguage'] = [_detected(reply.direction.source, reply.confidence) for reply in replies]
    if wanted:
        columns['alternatives'] = [reply.alternatives for reply in replies]
    return columns if isinstance(fields['q'], list) else {name: column[0] for name, column in columns.items()}


async def detect(service: Service, request: Request) -> Any:
    (text, *_) = service.texts(await service.read(request), 'q')

    def detected(errand: Errand) -> Any:
        return [_detected(*ranked) for ranked in service.served.detect(text)]

    return await service.run(request, detected)


def _detected(language: str, confidence: float) -> dict[str, Any]:
    return {'language': language, 'confidence': round(confidence)}


async def languages(service: Service, request: Request) -> Any:
    served = service.served
    # Clients look for the target's code too in this list.
    codes = dict.fromkeys([*served.targets_of, *served.targets])
    return [_named(code) | {'targets': served.targets_of.get(code, [])} for code in codes]


def _named(code: str) -> dict[str, Any]:
    return {'code': code, 'name': name_of(code)}


async def settings(service: Service, request: Request) -> Any:
    source, target = next(iter(service.served.pairs))
    return {
        'charLimit': service.limits.max_characters,
        'frontendTimeout': 500,  # milliseconds after the last key
        'apiKeys': bool(service.keys),
        'keyRequired': bool(service.keys),
        'suggestions': service.teaching is not None,
        'filesTranslation': True,
        'supportedFilesFormat': ['.txt', *' '.join(form.suffixes for form in FORMATS.values()).split()],
        'language': {'source': _named(source), 'target': _named(target)},
        'alternatives': min(service.limits.max_alternatives, service.served.num_alternatives),
    }


ROUTES = {
    ('POST', '/translate'): translate,
    ('POST', '/detect'): detect,
    ('GET', '/languages'): languages,
    ('GET', '/frontend/settings'): settings,
}
