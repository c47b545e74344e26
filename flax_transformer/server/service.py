"""Admits requests within limits, has their texts translated, and puts the lines together again."""

import asyncio
import hmac
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request

from flax_transformer.common.fields import check_positive, check_types
from flax_transformer.server.batcher import Batcher, Job
from flax_transformer.server.fields import Fields, Gone, Refused, read_fields
from flax_transformer.server.metrics import Metrics
from flax_transformer.server.served import Direction, Served, served_language
from flax_transformer.tasks.translation.documents.marked import Marked, translate_marked
from flax_transformer.tasks.translation.documents.markup import Part
from flax_transformer.tasks.translation.inference.batch_runner import bucket
from flax_transformer.tasks.translation.inference.result import Translation

_LINE_ENDS = re.compile('(\r\n|\r|\n)')


def split_lines(text: str) -> list[Part]:
    return [Marked(part) if part.strip() else part for part in _LINE_ENDS.split(text)]


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may ask for."""

    max_requests: int = 256  # waiting or being translated at once; one more is answered with 429
    max_texts: int = 128  # texts in a request
    max_characters: int = 20_000  # characters in all texts of a request
    max_lines: int = 1000  # lines in them
    max_alternatives: int = 10  # alternatives to each text; the search finds no more than decoding.beam_width - 1
    max_wait: float = 30.0  # seconds from admission to the reply, else 503
    drain: float = 30.0  # seconds for what was admitted, after SIGTERM

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, 'max_requests', 'max_texts', 'max_characters', 'max_lines', 'max_wait', 'drain')


class Reply(NamedTuple):
    """The translation of one text."""

    direction: Direction
    text: str
    alternatives: list[str]  # distinct, the best first, without `text`
    lines: list[Translation]  # one for each line that is not blank


class Service:
    """What all APIs of the server share."""

    def __init__(self, served: Served, limits: Limits, keys: Sequence[str] = ()) -> None:
        self.served, self.limits, self.metrics = served, limits, Metrics()
        self.keys = [key.encode() for key in keys]
        batch_tokens = max(each.best.decoding.batch_tokens for each in served.directions.values())
        self.batcher = Batcher(self.metrics, batch_tokens=batch_tokens, warm_up=self._warm_up)
        self._num_waiting = self.num_characters = 0  # requests now, and what they have had translated so far
        self.is_warm = self.is_draining = False

    async def read(self, request: Request) -> Fields:
        """The fields of a request that may be served. Raises Refused, or Gone."""
        # JSON may spell a character in 12 bytes, as \ud83d\ude00; names and other fields need room too.
        fields = await read_fields(request, most=12 * self.limits.max_characters + 16_384)
        header = request.headers.get('authorization', '').partition(' ')[2].strip()
        named = [fields.text(name, '').encode() for name in ('api_key', 'apiKey')]
        # The header's characters are bytes: of UTF-8 from curl, of Latin-1 from Python's clients.
        given = [key for key in (header.encode('latin-1'), header.encode(), *named) if key]
        # Every pair is compared, each in constant time, so that the time says nothing of the keys.
        matches = [hmac.compare_digest(key, known) for key in given for known in self.keys]
        if self.keys and not any(matches):
            raise Refused(403, 'Invalid API key' if given else 'This server needs an API key: ask whoever runs it')
        return fields

    def texts(self, fields: Fields, name: str) -> list[str]:
        """The texts of a request. Raises Refused for more than it may have, before anything looks into them."""
        texts = fields.texts(name)
        self._refuse_more(len(texts), 'texts')
        self._refuse_more(sum(map(len, texts)), 'characters')
        return texts

    def _refuse_more(self, count: int, what: str) -> None:
        if count > (most := getattr(self.limits, f'max_{what}')):
            raise Refused(413, f'{count} {what}: this server takes {most} at once; send fewer')

    def direction(self, text: str, source: str, target: str) -> tuple[Direction, float]:
        """The direction between two languages, and the confidence that the text is in the first, 0 to 100.

        With `source` empty, from the language of the text. Raises Refused, which lists what is served.
        """
        wanted = served_language(target, self.served.targets)
        found, confidence = served_language(source, self.served.sources), 100.0
        if not source and wanted:
            found, confidence = self.served.detect(text, wanted)[0]
        if (direction := self.served.directions.get((found, wanted))) is None:
            unknown = target if wanted is None else source if found is None else f'{source}-{target}'
            raise Refused(400, f'{unknown[:80]} is not supported; this server translates {self.served.pairs}')
        return direction, confidence

    async def translate(
        self,
        request: Request,
        texts: Sequence[str],
        directions: Sequence[Direction],
        *,
        split: Callable[[str], list[Part]] = split_lines,
        alternatives: int = 0,
        alignment: bool = False,
    ) -> list[Reply]:
        """A reply to each text; all are admitted or none. Raises Refused, Gone, or UserError."""
        if alternatives > self.limits.max_alternatives:
            raise Refused(400, f'alternatives={alternatives}: this server gives {self.limits.max_alternatives} at most')
        parts_of = [split(text) for text in texts]
        self._refuse_more(sum(isinstance(part, Marked) for parts in parts_of for part in parts), 'lines')
        jobs = []
        for parts, direction in zip(parts_of, directions, strict=True):
            translator = direction.every if alternatives else direction.best
            call, key = partial(translate_marked, translator, alignment=alignment), (id(translator), alignment)
            jobs.append(self._job(direction, [part for part in parts if isinstance(part, Marked)], call, key))
        await self._run(request, jobs, sum(map(len, texts)))
        done = zip(parts_of, directions, (iter(job.results) for job in jobs), strict=True)
        return [_reply(*each, alternatives) for each in done]

    async def call(self, request: Request, direction: Direction, line: str, call: Callable[[str], Any]) -> Any:
        """The result of a call with a line, made by the thread that owns the translators."""
        job = self._job(direction, [Marked(line)], lambda lines: [call(each.text) for each in lines], object())
        await self._run(request, [job], len(line))
        return job.results[0]

    def _job(self, direction: Direction, lines: list[Marked], call: Callable, key: Any) -> Job:
        buckets = direction.best.decoding.buckets
        slots = [bucket(len(ids), buckets) for ids in direction.best.tokenizer.encode([line.text for line in lines])]
        return Job(lines, slots, call, key)

    async def _run(self, request: Request, jobs: Sequence[Job], num_characters: int) -> None:
        """Waits until the jobs are done, or raises."""
        if self.is_draining:
            raise Refused(503, 'The server is stopping; ask another, or later')
        if self._num_waiting >= self.limits.max_requests:
            raise Refused(429, f'{self._num_waiting} requests are waiting already; try again in a moment')
        jobs = [job for job in jobs if job.lines]
        if not jobs:
            return
        self._num_waiting += 1
        left = asyncio.ensure_future(_left(request))
        done = asyncio.gather(*(job.done for job in jobs))
        try:
            self.batcher.submit(jobs)
            await asyncio.wait({done, left}, timeout=self.limits.max_wait, return_when=asyncio.FIRST_COMPLETED)
            if done.done():
                done.result()  # raises what the translator raised
            elif left.done():
                self.metrics.abandoned.inc()
                raise Gone
            else:
                raise Refused(503, f'No reply within {self.limits.max_wait:g} s: the server is busy; try again later')
        finally:
            self._num_waiting -= 1
            left.cancel()
            done.cancel()
            for job in jobs:
                job.is_dropped = True
        self.num_characters += num_characters
        self.metrics.characters.inc(num_characters)
        began = min(job.started for job in jobs)
        queue, work = began - jobs[0].admitted, max(job.finished for job in jobs) - began
        self.metrics.queue.observe(queue)
        request.state.timing = f'queue;dur={1000 * queue:.1f}, translate;dur={1000 * work:.1f}'

    def _warm_up(self) -> None:
        for direction in {id(each.best.programs): each for each in self.served.directions.values()}.values():
            direction.best.warm_up()
        self.is_warm = True


async def _left(request: Request) -> None:
    """Returns when the client has closed its connection."""
    while (await request.receive())['type'] != 'http.disconnect':
        pass


def _reply(parts: Sequence[Part], direction: Direction, done: Iterator[Translation], alternatives: int) -> Reply:
    """Puts translations in the place of the parts of a text that were to be translated."""
    found = [next(done) if isinstance(part, Marked) else part for part in parts]
    ranked = [[each] if isinstance(each, str) else [one.text for one in each.n_best or (each,)] for each in found]
    most = max(map(len, ranked), default=1)
    texts = (''.join(each[min(rank, len(each) - 1)] for each in ranked) for rank in range(most))
    first, *others = dict.fromkeys(texts)
    return Reply(direction, first, others[:alternatives], [each for each in found if not isinstance(each, str)])
