"""Admits requests within limits, has their texts translated, and puts the lines together again."""

import asyncio
import hmac
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request

from flax_transformer.common.fields import check_positive, check_types
from flax_transformer.tasks.translation.documents.markup import Part, split_lines
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.inference.batch_runner import bucket
from flax_transformer.tasks.translation.inference.marked import Marked
from flax_transformer.tasks.translation.inference.result import Translation

from .batcher import Batcher, Job
from .directions import Direction, Served
from .fields import Fields, Gone, Refused, read_fields
from .metrics import Metrics


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may ask for."""

    max_requests: int = 256  # waiting or being translated at once; one more is answered with 429
    max_texts: int = 128  # texts in a request
    max_characters: int = 20_000  # characters in all texts of a request
    max_lines: int = 1000  # lines in them
    max_alternatives: int = 10  # alternatives to each text; the search finds no more than decoding.num_candidates - 1
    max_terms: int = 50_000  # terms in all glossaries that clients keep here
    max_wait: float = 30.0  # seconds from admission to the reply, else 503
    drain: float = 30.0  # seconds for what was admitted, after SIGTERM

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'max_requests', 'max_texts', 'max_characters', 'max_lines', 'max_wait', 'drain')


class Reply(NamedTuple):
    """The translation of one text."""

    direction: Direction
    confidence: float  # 0 to 100: how sure it is that the text is in its source language
    text: str
    alternatives: list[str]  # distinct, the best first, without `text`
    lines: list[Translation]  # one for each line that is not blank


class Service:
    """What all APIs share."""

    def __init__(self, served: Served, limits: Limits, keys: Sequence[str] = ()) -> None:
        self.served = served
        self.limits = limits
        self.metrics = Metrics()
        self.glossaries: dict[str, Any] = {}  # keys are identifiers
        self.keys = [key.encode() for key in keys]
        batch_tokens = max(model.translator.decoding.batch_tokens for model in served.models)
        observe = self.metrics.observe_batch
        self.batcher = Batcher(batch_tokens=batch_tokens, warm_up=self._warm_up, observe=observe)
        self._num_waiting = 0  # requests
        self.num_characters = 0  # translated so far
        self.is_draining = False

    async def read(self, request: Request) -> Fields:
        """The fields of a request that may be served. Raises Refused, or Gone."""
        # JSON may spell a character in 12 bytes.
        fields = await read_fields(request, most=12 * self.limits.max_characters + 16_384)
        header = request.headers.get('authorization', '').partition(' ')[2].strip()
        named = [fields.text(name, '').encode() for name in ('api_key', 'apiKey')]
        # The header's characters are bytes: of UTF-8 from curl, of Latin-1 from Python's clients.
        given = [key for key in (header.encode('latin-1'), header.encode(), *named) if key]
        # Every pair is compared, in constant time, which says nothing of the keys.
        matches = [hmac.compare_digest(key, known) for key in given for known in self.keys]
        if self.keys and not any(matches):
            raise Refused(403, 'Invalid API key' if given else 'This server needs an API key: ask whoever runs it')
        return fields

    def texts(self, fields: Fields, name: str) -> list[str]:
        texts = fields.texts(name)
        self._refuse_more(len(texts), 'texts')
        self._refuse_more(sum(map(len, texts)), 'characters')
        return texts

    def _refuse_more(self, count: int, what: str) -> None:
        most = getattr(self.limits, f'max_{what}')
        if count > most:
            raise Refused(413, f'{count} {what}: this server takes {most} at once; send fewer')

    async def translate(
        self,
        request: Request,
        texts: Sequence[str],
        source: str,
        target: str,
        *,
        split: Callable[[str], list[Part]] = split_lines,
        glossary: Glossary | None = None,
        alternatives: int = 0,
        alignment: bool = False,
    ) -> list[Reply]:
        """A reply to each text; all are admitted or none. Without a source, each text's is detected."""
        if alternatives > self.limits.max_alternatives:
            raise Refused(400, f'alternatives={alternatives}: this server gives {self.limits.max_alternatives} at most')
        directions = self.served.directions(texts, source, target)
        parts_of = [split(text) for text in texts]
        lines_of = [[part for part in parts if isinstance(part, Marked)] for parts in parts_of]
        self._refuse_more(sum(map(len, lines_of)), 'lines')
        jobs = []
        for lines, (direction, _) in zip(lines_of, directions, strict=True):
            translator = direction.every if alternatives else direction.best
            call = partial(translator, glossary=glossary, alignment=alignment)
            jobs += self._jobs(direction, lines, call, (translator, glossary, alignment))
        done = iter(await self._run(request, jobs, sum(map(len, texts))))
        replies = []
        for (direction, confidence), parts in zip(directions, parts_of, strict=True):
            lines, (text, *others) = _versions(parts, done)
            replies.append(Reply(direction, confidence, text, others[:alternatives], lines))
        return replies

    async def call(self, request: Request, direction: Direction, line: str, call: Callable[[str], Any]) -> Any:
        """The result of a call with a line, made by the thread that owns the translators."""

        def call_each(lines: list[Marked]) -> list[Any]:
            return [call(line.text) for line in lines]

        jobs = self._jobs(direction, [Marked(line)], call_each, object())
        return (await self._run(request, jobs, len(line)))[0]

    def _jobs(self, direction: Direction, lines: list[Marked], call: Callable, key: Hashable) -> list[Job]:
        buckets = direction.best.decoding.buckets
        encoded = direction.best.tokenizer.encode([line.text for line in lines])
        return [Job(line, bucket(len(ids), buckets), call, key) for line, ids in zip(lines, encoded, strict=True)]

    async def _run(self, request: Request, jobs: Sequence[Job], num_characters: int) -> list[Any]:
        if self.is_draining:
            raise Refused(503, 'The server is stopping; ask another, or later')
        if self._num_waiting >= self.limits.max_requests:
            raise Refused(429, f'{self._num_waiting} requests are waiting already; try again in a moment')
        if not jobs:
            return []
        self._num_waiting += 1
        admitted = time.monotonic()
        left = asyncio.ensure_future(_left(request))
        done = asyncio.gather(*(job.result for job in jobs), return_exceptions=True)
        try:
            self.batcher.submit(jobs)
            await asyncio.wait({done, left}, timeout=self.limits.max_wait, return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                if left.done():
                    self.metrics.abandoned.inc()
                    raise Gone
                raise Refused(503, f'No reply within {self.limits.max_wait:g} s: the server is busy; try again later')
        finally:
            self._num_waiting -= 1
            left.cancel()
            for job in jobs:
                job.result.cancel()
        results = done.result()
        for result in results:
            if isinstance(result, Exception):
                raise result
        self.num_characters += num_characters
        self.metrics.characters.inc(num_characters)
        began = min(job.started for job in jobs)
        queue = began - admitted
        work = time.monotonic() - began
        self.metrics.queue.observe(queue)
        request.state.timing = f'queue;dur={1000 * queue:.1f}, translate;dur={1000 * work:.1f}'
        return results

    def _warm_up(self) -> None:
        for model in self.served.models:
            model.translator.warm_up()


async def _left(request: Request) -> None:
    """Waits until the client has left."""
    while (await request.receive())['type'] != 'http.disconnect':
        pass


def _versions(parts: Sequence[Part], done: Iterator[Translation]) -> tuple[list[Translation], list[str]]:
    """The next translations, one for each part to translate, and the distinct texts with them, best first."""
    lines = []
    choices = []  # the texts of each part, the best first
    for part in parts:
        if isinstance(part, Marked):
            line = next(done)
            lines.append(line)
            choices.append([ranked.text for ranked in line.n_best or (line,)])
        else:
            choices.append([part])
    most = max(map(len, choices), default=1)
    texts = (''.join(texts[min(rank, len(texts) - 1)] for texts in choices) for rank in range(most))
    return lines, list(dict.fromkeys(texts))
