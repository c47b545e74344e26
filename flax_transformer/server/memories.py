"""The API by which users correct translations, list what they corrected, and take it back."""

import asyncio
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from flax_transformer.tasks.translation.learning.memory import Pair, read_tmx, write_tmx

from .fields import Fields, Refused
from .service import Service
from .teaching import Teaching

_MOST = 1000  # pairs of a request


async def suggest(service: Service, request: Request) -> Any:
    """LibreTranslate's way to send a better translation: `s` for `q`."""
    fields = await service.read(request)
    pair = Pair(fields.text('q'), fields.text('s'), *_languages(service, fields), request.state.owner)
    await _do(service, request, partial(_teaching(service).add, request.state.owner, [pair]))
    return {'success': True}


async def add(service: Service, request: Request) -> Any:
    """Pairs as objects with `text` and `translation`, or a translation memory in `tmx`; all are added, or none."""
    fields = await service.read(request)
    languages = _languages(service, fields)
    owner = request.state.owner
    if 'tmx' in fields:
        pairs = [pair._replace(who=owner) for pair in read_tmx(fields.text('tmx').encode(), languages, 'tmx')]
    else:
        given = fields.objects('pairs')
        pairs = [Pair(pair.text('text'), pair.text('translation'), *languages, owner) for pair in given]
    if len(pairs) > _MOST:
        raise Refused(413, f'{len(pairs)} pairs: this server takes {_MOST} at once; send fewer')
    numbers = await _do(service, request, partial(_teaching(service).add, owner, pairs))
    return {'numbers': numbers, 'version': _teaching(service).memory(owner).version}


async def listed(service: Service, request: Request) -> Any:
    """The newest pairs first, and whether each was learned; or all of them as a translation memory."""
    fields = await service.read(request)
    teaching = _teaching(service)
    memory = teaching.memory(request.state.owner)
    pairs = memory.pairs()
    if fields.choice('format', 'json', 'tmx') == 'tmx':
        return Response(await asyncio.to_thread(write_tmx, pairs), media_type='application/x-tmx+xml')
    records = []
    for pair in reversed(pairs):
        languages = {'source': pair.source_language, 'target': pair.target_language}
        records.append({'number': pair.number, 'text': pair.source, 'translation': pair.target, **languages})
    return {'version': memory.version, 'learned': teaching.version(request.state.owner), 'pairs': records}


async def take_back(service: Service, request: Request) -> Any:
    fields = await service.read(request)
    number = fields.number('number', 0)
    await _do(service, request, partial(_teaching(service).take_back, request.state.owner, number))
    return {'version': _teaching(service).memory(request.state.owner).version}


def _teaching(service: Service) -> Teaching:
    if service.teaching is None:
        raise Refused(403, 'This server does not learn: whoever runs it starts it with --learn FOLDER')
    return service.teaching


def _languages(service: Service, fields: Fields) -> tuple[str, str]:
    source, target = service.served.pair(fields.text('source'), fields.text('target'))
    if (source, target) not in service.served.pairs:
        raise Refused(400, f'source={source}: expected a language other than the target')
    return source, target


async def _do(service: Service, request: Request, work: Any) -> Any:
    return await service.run(request, lambda errand: work())


ROUTES = {
    ('POST', '/suggest'): suggest,
    ('POST', '/v1/memory'): add,
    ('GET', '/v1/memory'): listed,
    ('DELETE', '/v1/memory/{number}'): take_back,
}
