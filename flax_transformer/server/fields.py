"""The fields of a request, whichever way a client sends them, and the two ways in which it ends early."""

import asyncio
import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from flax_transformer.text.tokenizer import as_text

_SECONDS_TO_READ = 10  # a request's body must have arrived by then
_DISCARDED = 1 << 24  # bytes of a body that is too long, read before it is refused
_MOST_FIELDS = 2000  # of a form
_LONGEST = 400  # characters of a header
_ITEM = re.compile(r'(\w+)\[(\d{1,3})\]\.(\w+)')  # a field of an object in a list


class Refused(Exception):
    """A request that is not served, with the status and the message of the reply."""

    def __init__(self, status: int, message: str, *, retry_after: int = 1) -> None:
        """`retry_after` seconds from now it may be served, if the status is 429 or 503."""
        super().__init__(message)
        self.status = status
        self.retry_after = max(retry_after, 1)


class Gone(Exception):
    """The client has left."""


class Fields(dict[str, Any]):
    """Values by name; a list where JSON gives one, or a form or a query repeats the name.

    Methods raise Refused for a value of another kind.
    """

    def __init__(self, *given: Any, **values: Any) -> None:
        super().__init__(*given, **values)
        self.used: set[str] = set()  # names that were looked up

    def __contains__(self, name: object) -> bool:
        self.used.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.used.add(name)
        return super().get(name, default)

    def texts(self, name: str) -> list[str]:
        """All values of a field that must be there."""
        if name not in self:
            raise Refused(400, f'Invalid request: missing {name} parameter')
        values = self[name] if isinstance(self[name], list) else [self[name]]
        if not values or not all(isinstance(value, str) for value in values):
            raise Refused(400, f'{name}: expected a string or a list of strings')
        return [as_text(value)[0] for value in values]

    def text(self, name: str, default: str | None = None) -> str:
        """The value of a field, or the default; without one it must not be empty."""
        if default is not None and name not in self:
            return default
        (value, *others) = self.texts(name)
        if others:
            raise Refused(400, f'{name}: expected one value, got {len(others) + 1}')
        if default is None and not value:
            raise Refused(400, f'{name} is empty: expected a value')
        return value

    def choice(self, name: str, *allowed: str) -> str:
        """The value of a field, by default, or if it is empty, the first one allowed."""
        value = self.text(name, '') or allowed[0]
        if value not in allowed:
            raise Refused(400, f'{name}={value[:20]!r}: expected {", ".join(dict.fromkeys(filter(None, allowed)))}')
        return value

    def names(self, name: str) -> list[str]:
        """Values that may be joined by commas."""
        return ','.join(self.texts(name)).split(',') if name in self else []

    def number(self, name: str, default: int) -> int:
        value = str(self.get(name, default))
        if not re.fullmatch(r'[0-9]{1,9}(\.0)?', value):
            raise Refused(400, f'{name}={value[:20]}: expected a whole number of at least 0')
        return int(float(value))

    def objects(self, name: str) -> list['Fields']:
        values = self.get(name)
        is_list = isinstance(values, list) and len(values) > 0
        if not is_list or not all(isinstance(value, dict) for value in values):
            raise Refused(400, f'{name}: expected a list of objects')
        return list(map(Fields, values))

    def flag(self, name: str, default: bool = False) -> bool:
        return str(self.get(name, default)).lower() in ('true', '1', 'on')

    def file(self, name: str) -> tuple[str, bytes]:
        if not isinstance(file := self.get(name), tuple):
            raise Refused(400, f'{name}: expected a file in a form (multipart/form-data)')
        return file

    @property
    def ignored(self) -> str:
        """The names that nothing looked up, joined by commas."""
        names = (name for name in self if name not in self.used and re.fullmatch(r'[\w.-]+', name, re.A))
        return ', '.join(names)[:_LONGEST]


async def read_fields(request: Request, *, most: int) -> Fields:
    """The fields of the body, JSON or a form, and of the query.

    Raises Refused for a body that is longer than `most` bytes, too slow or unreadable; Gone if the client left.
    """
    count = 0

    async def receive() -> Any:
        nonlocal count
        while True:
            message = await request.receive()
            count += len(message.get('body', b''))
            # A client that is still sending would not read the reply.
            if count <= most or not message.get('more_body') or count > _DISCARDED:
                break
        if count > most:
            raise Refused(413, f'The body is longer than the {most} bytes that this server takes; send less at once')
        return message

    bounded = Request(request.scope, receive)
    try:
        async with asyncio.timeout(_SECONDS_TO_READ):
            kind = request.headers.get('content-type', '').partition(';')[0].strip().lower()
            if kind == 'multipart/form-data':
                async with bounded.form(max_files=1, max_part_size=most) as form:
                    sent = _joined(form.multi_items())
                    for name, value in sent.items():
                        if isinstance(value, UploadFile):
                            sent[name] = (value.filename or '')[-_LONGEST:], await value.read()
            elif kind == 'application/x-www-form-urlencoded':
                body = await bounded.body()
                sent = _joined(parse_qsl(body.decode('latin-1'), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
            else:
                body = await bounded.body()
                sent = json.loads(body) if body.strip() else {}
    except TimeoutError:
        raise Refused(408, f'The body did not arrive within {_SECONDS_TO_READ} s') from None
    except ClientDisconnect:
        raise Gone from None
    except (ValueError, RecursionError, HTTPException):
        sent = None
    if not isinstance(sent, dict):
        raise Refused(400, 'The body cannot be read: expected a JSON object such as {"q": "Hello"}, or a form')
    values = _joined(request.query_params.multi_items()) | sent | request.path_params
    return Fields({name: value for name, value in values.items() if value is not None})


def _joined(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The values by name; `a[]` and `a[0]` are of a list, `a[0].b` is of an object in one."""
    lists: dict[str, list[Any]] = {}
    objects: dict[str, dict[str, dict[str, Any]]] = {}
    for name, value in pairs:  # getlist of each name would take seconds for thousands
        if item := _ITEM.fullmatch(name):
            objects.setdefault(item[1], {}).setdefault(item[2], {})[item[3]] = value
        else:
            lists.setdefault(re.sub(r'\[\d*\]$', '', name), []).append(value)
    values = {name: values if len(values) > 1 else values[0] for name, values in lists.items()}
    return values | {name: list(items.values()) for name, items in objects.items()}
