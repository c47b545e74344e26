"""The web application: its routes, what every reply carries, and how the server starts and stops."""

import contextlib
import re
import secrets
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import prometheus_client
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from flax_transformer.common.errors import UserError
from flax_transformer.server import deepl, libretranslate, native
from flax_transformer.server.fields import Gone, Refused
from flax_transformer.server.served import PAGE
from flax_transformer.server.service import Service

Handler = Callable[[Service, Request], Awaitable[Any]]
_APIS = (libretranslate, deepl, native)  # each has its routes and the name of an error's field
_CLIENT_LEFT = 499  # nginx's code, for metrics alone: nobody reads the reply
_MOST_CONNECTIONS = 1024
_REQUEST_ID = re.compile(r'[\w.:/+=-]{1,128}', re.ASCII)
_HEADERS = {
    'Content-Security-Policy': "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
}


def make_app(service: Service, *, cors_origins: Sequence[str] = ()) -> Starlette:
    """The application of a service, whose thread it starts and stops."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        service.batcher.stop()

    async def health(request: Request) -> Response:
        status = 'stopping' if service.is_draining else 'ok' if service.is_warm else 'warming up'
        return JSONResponse({'status': status}, 200 if status == 'ok' else 503)

    async def metrics(request: Request) -> Response:
        registry = service.metrics.registry
        return Response(prometheus_client.generate_latest(registry), media_type='text/plain; version=0.0.4')

    routes: list[Route | Mount] = [Route('/health', health), Route('/metrics', metrics)]
    for api in _APIS:
        for (method, path), handler in api.ROUTES.items():
            routes.append(Route(path, _endpoint(service, api, handler), methods=[method]))
    routes.append(Mount('/', _Page(directory=PAGE, html=True)))
    cors = Middleware(CORSMiddleware, allow_origins=list(cors_origins), allow_methods=['*'], allow_headers=['*'])
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[cors] if cors_origins else [],
        exception_handlers={HTTPException: _not_found},
    )


class _Page(StaticFiles):
    """The files of the page, which may load nothing from elsewhere."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers.update(_HEADERS)
        return response


class Server(uvicorn.Server):
    """Serves until SIGTERM or Ctrl-C; then refuses new requests and finishes those that were admitted."""

    def __init__(self, service: Service, *, cors_origins: Sequence[str] = ()) -> None:
        self._service = service
        config = uvicorn.Config(
            make_app(service, cors_origins=cors_origins),
            log_level='warning',
            access_log=False,  # addresses of requests may hold texts and keys
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=int(service.limits.drain),
            server_header=False,
        )
        super().__init__(config)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._service.is_draining = True
        super().handle_exit(sig, frame)


def _endpoint(service: Service, api: Any, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """A handler as an endpoint: JSON, errors in the form of its API, and the request's identifier."""

    async def endpoint(request: Request) -> Response:
        given = request.headers.get('x-request-id', '')
        headers = {**_HEADERS, 'X-Request-ID': given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)}
        try:
            status, body = 200, await handler(service, request)
            if timing := getattr(request.state, 'timing', ''):
                headers['Server-Timing'] = timing
        except Refused as refused:
            status, body = refused.status, {api.ERROR: refused.message}
            if status in (408, 413, 503):  # what was not read must not be taken for the next request
                headers['Connection'] = 'close'
            if status in (429, 503):
                headers['Retry-After'] = '1'
        except UserError as error:
            status, body = 400, {api.ERROR: str(error)}
        except Gone:
            status, body = _CLIENT_LEFT, None
        except Exception as error:
            # Without the message, which may quote a text.
            print(*traceback.format_tb(error.__traceback__), type(error).__name__, file=sys.stderr, flush=True)
            status, body = 500, {api.ERROR: 'Internal error: a bug of the server, which its log describes'}
        service.metrics.requests.labels(api.__name__.rpartition('.')[2], str(status)).inc()
        return JSONResponse(body, status, headers)

    return endpoint


async def _not_found(request: Request, error: Exception) -> Response:
    """An unknown path or a wrong method, in the form of the API that the path belongs to."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    field = deepl.ERROR if path.startswith('/v2/') else libretranslate.ERROR
    methods = {path: method for api in _APIS for method, path in api.ROUTES} | {'/health': 'GET', '/metrics': 'GET'}
    if path in methods:
        message = f'Method Not Allowed: use {methods[path]}'
        return JSONResponse({field: message}, 405, {'Allow': methods[path]})
    return JSONResponse({field: f'Not Found: {path[:80]}; /docs/ lists what there is'}, 404)
