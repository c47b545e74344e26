"""The web application: its routes, what every reply carries, and how the server starts and stops."""

import asyncio
import contextlib
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import prometheus_client
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Match, Mount, Route
from starlette.staticfiles import StaticFiles

from flax_transformer.common.errors import UserError

from . import deepl, files, glossaries, guard, libretranslate, memories, native
from .batcher import ThreadFailed
from .fields import Fields, Gone, Refused
from .service import Service
from .watch import Watched

Handler = Callable[[Service, Request], Awaitable[Any]]
_CLIENT_LEFT = 499  # nginx's code, for metrics alone
_TICKS_TO_TELL = 20  # 2 seconds for whoever polls /health to learn why the server ends
_TO_WRITE = 0.5  # seconds for the last replies
_TO_END = 2.0  # seconds for these and the end
_PAGE = Path(__file__).parent / 'page'
_LARGE = 10_000  # bytes; larger replies are compressed
_HEADERS = {
    'Content-Security-Policy': "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
}


def make_app(
    service: Service, *, root_path: str = '', cors_origins: Sequence[str] = (), host_names: Sequence[str] = ()
) -> Watched:
    """The application of a service, whose thread it starts and stops."""

    glossaries.restore(service)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.batcher.start()
        if service.teaching:
            service.teaching.start()
        yield
        service.batcher.stop()
        if service.teaching:
            service.teaching.stop()
        await asyncio.sleep(_TO_WRITE)  # whoever waited is told

    async def health(request: Request) -> Response:
        batcher = service.batcher
        if batcher.failure is not None:
            return JSONResponse({'status': 'failed', 'reason': batcher.failure}, 503)
        status = 'ok' if batcher.is_warm else 'warming up'
        if service.is_draining:
            status = 'stopping'
        return JSONResponse({'status': status, 'models': service.served.engines}, 200 if status == 'ok' else 503)

    async def metrics(request: Request) -> Response:
        text = prometheus_client.generate_latest(service.metrics.registry)
        return Response(text, media_type='text/plain; version=0.0.4')

    routes = [
        Route(path, _endpoint(service, handler), methods=[method])
        for api in (libretranslate, deepl, glossaries, files, memories, native)
        for (method, path), handler in api.ROUTES.items()
    ]

    def refusal(request: Request) -> Response | None:
        try:
            guard.check_host(request.headers, host_names)
            guard.check_site(request.method, request.headers, cors_origins)
        except Refused as error:
            return _error(request, error.status, str(error))

    page = Mount('/', StaticFiles(directory=_PAGE, html=True))
    cors = Middleware(CORSMiddleware, allow_origins=list(cors_origins), allow_methods=['*'], allow_headers=['*'])
    gzip = Middleware(GZipMiddleware, minimum_size=_LARGE, compresslevel=1)
    app = Starlette(
        routes=[
            Route('/health', health),
            Route('/metrics', metrics),
            Route('/spec', FileResponse(_PAGE / 'openapi.json')),
            *routes,
            page,
        ],
        lifespan=lifespan,
        middleware=[*[cors] * bool(cors_origins), gzip],
        exception_handlers={HTTPException: _not_found, Exception: _failed},
    )
    return Watched(app, service.metrics, refusal, root_path)


class Server(uvicorn.Server):
    """Serves until SIGTERM or Ctrl-C, or until some moments after the thread that translates has failed.

    Then refuses new requests and finishes those that were admitted.
    """

    def __init__(self, service: Service, **options: Any) -> None:
        """`options` are those of `make_app`."""
        self._service = service
        self._ticks_left = _TICKS_TO_TELL
        config = uvicorn.Config(
            make_app(service, **options),
            log_config=None,  # its own closes the handlers that are there, and absl's closes its stream
            log_level='warning',
            access_log=False,  # it has addresses, which may hold texts and keys
            http=guard.Protocol,
            limit_concurrency=guard.MOST_CONNECTIONS + 64,
            timeout_graceful_shutdown=max(service.limits.drain - _TO_END, service.limits.drain / 4),
            server_header=False,
            headers=list(_HEADERS.items()),
        )
        super().__init__(config)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._service.is_draining = True
        if not self._service.batcher.is_warm:
            self.config.timeout_graceful_shutdown = 0  # nothing would be translated
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop; uvicorn asks every 0.1 seconds."""
        if self._service.batcher.failure is not None:
            self._ticks_left -= 1
        return await super().on_tick(counter) or self._ticks_left <= 0


def _endpoint(service: Service, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            response = await handler(service, request)
            if not isinstance(response, Response):
                response = JSONResponse(response)
            if timing := getattr(request.state, 'timing', ''):
                response.headers['Server-Timing'] = timing
                response.headers['X-Engine'] = ', '.join(request.state.engines)
            if ignored := getattr(request.state, 'fields', Fields()).ignored:
                response.headers['X-Ignored'] = ignored
        except (Refused, UserError) as error:
            if getattr(error, 'status', 400) in (413, 429, 503):
                await service.refusals.wait(getattr(request.state, 'client', ''))
            response = _error(request, getattr(error, 'status', 400), str(error), getattr(error, 'retry_after', 1))
        except ThreadFailed as error:
            response = _error(request, 503, f'The server has failed and ends: {error}')
        except Gone:
            response = Response(status_code=_CLIENT_LEFT)
        except asyncio.CancelledError:
            response = _error(request, 503, 'The server is stopping; ask another, or later')
        except Exception as error:
            response = await _failed(request, error)
        service.metrics.requests.labels(handler.__module__.rpartition('.')[2], str(response.status_code)).inc()
        return response

    return endpoint


async def _failed(request: Request, error: Exception) -> Response:
    # The message may quote a text.
    name = request.state.request_id
    print(name, *traceback.format_tb(error.__traceback__), type(error).__name__, file=sys.stderr, flush=True)
    return _error(request, 500, f'Internal error {name}: a bug of the server, which its log describes')


def _error(request: Request, status: int, message: str, retry_after: int = 1) -> Response:
    field = 'message' if request.url.path.startswith(('/v2/', '/v3/')) else 'error'
    text = message.encode(errors='replace').decode()  # JSON may bring halves of surrogate pairs
    response = JSONResponse({field: text}, status)
    if status in (408, 413, 503):  # what was not read is not the next request
        response.headers['Connection'] = 'close'
    if status in (429, 503):
        response.headers['Retry-After'] = str(retry_after)
    return response


async def _not_found(request: Request, error: Exception) -> Response:
    """An unknown path or a wrong method."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] is Match.PARTIAL]
    if not routes:
        return _error(request, 404, f'Not Found: {request.url.path[:80]}; /docs/ lists what there is')
    methods = ', '.join(sorted(set[str]().union(*(route.methods for route in routes)) - {'HEAD'}))
    response = _error(request, 405, f'Method Not Allowed: use {methods}')
    response.headers['Allow'] = methods
    return response
