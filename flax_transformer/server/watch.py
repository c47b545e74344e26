"""What is said of each request in its reply, the log and the metrics: never a text, a key or an address."""

import re
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flax_transformer.common.quiet import say

from .metrics import Metrics

_REQUEST_ID = re.compile(r'[\w.:/+=-]{1,128}', re.ASCII)


class Watched:
    """An application, below a root path that a proxy may have taken off."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, refusal: Callable[[Request], Response | None], root_path: str
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._refusal = refusal
        self._root_path = f'/{root_path.strip("/")}'.rstrip('/')

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope['type'] != 'http':
            await self._app(scope, receive, send)
            return

        path = scope['path']
        scope['root_path'] = self._root_path
        if path.startswith(f'{self._root_path}/'):
            scope['path'] = path.removeprefix(self._root_path)
        request = Request(scope)
        given = request.headers.get('x-request-id', '')
        name = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        request.state.request_id = name
        began = time.monotonic()
        status = 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message['type'] == 'http.response.start':
                status = message['status']
                headers = MutableHeaders(scope=message)
                headers['X-Request-ID'] = name
                if 'location' in headers:  # redirects add a slash; only the client knows what stands before
                    query = urlsplit(headers['location']).query
                    headers['Location'] = f'{path.rpartition("/")[2]}/?{query}'.rstrip('?')
            await send(message)

        try:
            await (self._refusal(request) or self._app)(scope, receive, answer)
        finally:
            seconds = time.monotonic() - began
            route = scope['route'].path or '/' if 'route' in scope else '-'  # a path may have a text
            self._metrics.seconds.labels(route).observe(seconds)
            if route != '/health':
                say(f'{datetime.now(UTC):%FT%TZ} {name} {scope["method"]} {route} {status} {1000 * seconds:.0f} ms')
