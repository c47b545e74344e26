"""Files that clients send: LibreTranslate's, and DeepL's documents. Translations are kept in memory for a while."""

import asyncio
import copy
import secrets
from dataclasses import replace
from functools import partial
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.documents.formats import format_of, read_document
from flax_transformer.tasks.translation.documents.markup import Part
from flax_transformer.text.languages import two_letters

from .deepl import wishes
from .fields import Refused
from .service import Service

_SECONDS_KEPT = 1800
_MOST = 100  # files that are kept
_MOST_OF_ONE = 10  # of a client
_PATIENCE = 10  # times max_wait, in which a part of a file is translated
_AT_ONCE = 2000  # characters of a part
_LINE = 60  # of them, for each line


class File(NamedTuple):
    client: str
    task: asyncio.Task[tuple[bytes, int]]  # gives the translation, and how many characters were translated


async def translate_file(service: Service, request: Request) -> Any:
    fields = await service.read(request)
    name, content = fields.file('file')
    key = _begin(service, request, name, content, fields.text('source'), fields.text('target'))
    await service.files[key].task
    return {'translatedFileUrl': f'{request.base_url}download_file/{key}{Path(name).suffix}'}


async def download(service: Service, request: Request) -> Response:
    """Needs no key, without which browsers follow a link."""
    return await _content(service.files.get(request.path_params['name'].partition('.')[0]))


async def upload(service: Service, request: Request) -> Any:
    """Begins to translate a document."""
    fields = await service.read(request)
    name, content = fields.file('file')
    stays = Request(request.scope, asyncio.Event().wait)  # though its client leaves
    key = _begin(service, stays, fields.text('filename', '') or name, content, *wishes(service, request, fields))
    return {'document_id': key[:8], 'document_key': key}


async def status(service: Service, request: Request) -> Any:
    task = (await _document(service, request)).task
    named = {'document_id': request.path_params['document_id'], 'status': 'translating'}
    if not task.done():
        return named
    try:
        _, count = await task
    except (Refused, UserError) as error:
        return named | {'status': 'error', 'error_message': str(error)}
    return named | {'status': 'done', 'billed_characters': count}


async def result(service: Service, request: Request) -> Response:
    return await _content(await _document(service, request))


async def _document(service: Service, request: Request) -> File:
    """What a request names, if its client has sent it."""
    fields = await service.read(request)
    key = fields.text('document_key')
    file = service.files.get(key)
    if file and file.client == request.state.client and fields.text('document_id') == key[:8]:
        return file
    raise Refused(404, 'No such document, or no more')


async def _content(file: File | None) -> Response:
    if file is None:
        raise Refused(404, 'No such file, or no more')
    if not file.task.done():
        raise Refused(503, 'This file is still being translated')
    content, _ = await file.task
    return Response(content, media_type='application/octet-stream')


def _begin(service: Service, request: Request, name: str, content: bytes, *asked: Any) -> str:
    """Begins to translate a file; returns its key in `service.files`, which nobody can guess. Raises Refused."""
    files = service.files
    client = request.state.client
    own = [key for key, file in files.items() if file.client == client]
    if len(own) >= _MOST_OF_ONE or len(files) >= _MOST:
        keys = own if len(own) >= _MOST_OF_ONE else files
        done = next((key for key in keys if files[key].task.done()), None)
        if done is None:
            raise Refused(429, f'{len(keys)} files are being translated; wait for one of them')
        del files[done]
    key = secrets.token_hex()
    task = asyncio.create_task(_translate(service, request, name, content, *asked))
    task.add_done_callback(lambda task: task.cancelled() or task.exception())  # perhaps nobody asks for it
    files[key] = File(client, task)
    asyncio.get_running_loop().call_later(_SECONDS_KEPT, files.pop, key, None)
    return key


async def _translate(
    service: Service, request: Request, name: str, content: bytes, source: str, target: str, glossary: Any = None
) -> tuple[bytes, int]:
    patient = copy.copy(service)
    patient.limits = replace(service.limits, max_wait=_PATIENCE * service.limits.max_wait, max_lines=_AT_ONCE)
    document = await patient.run(request, lambda errand: read_document(content, format_of(Path(name), content), name))
    lines = document.lines
    ends = accumulate(len(line.text) + _LINE for line in lines)
    texts: list[str] = []
    # Other requests come between the parts.
    for _, group in groupby(zip(lines, ends, strict=True), lambda pair: pair[1] // _AT_ONCE):
        part = [line for line, _ in group]
        text = '\n'.join(line.text for line in part)
        split = partial(_given, part)
        (reply,) = await patient.translate(request, [text], source, target, split=split, glossary=glossary)
        source = reply.direction.source
        texts += [line.text for line in reply.lines]
    language = two_letters(target)
    translated = await patient.run(request, lambda errand: document.with_texts(texts, language).encode())
    return translated, sum(len(line.text) for line in lines)


def _given(parts: list[Part], text: str) -> list[Part]:
    return parts


ROUTES = {
    ('POST', '/translate_file'): translate_file,
    ('GET', '/download_file/{name}'): download,
    ('POST', '/v2/document'): upload,
    ('POST', '/v2/document/{document_id}'): status,
    ('POST', '/v2/document/{document_id}/result'): result,
}
