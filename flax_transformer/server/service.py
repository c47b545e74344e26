"""Admits requests within limits, has their texts translated, and puts the lines together again."""

import asyncio
import collections
import ipaddress
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from starlette.requests import Request

from flax_transformer.common.fields import check_positive, check_types
from flax_transformer.common.memory import give_memory_back
from flax_transformer.tasks.translation.documents.markup import Part, split_lines
from flax_transformer.tasks.translation.glossary import Glossary
from flax_transformer.tasks.translation.inference.asked import Asked
from flax_transformer.tasks.translation.inference.batch_runner import Program
from flax_transformer.tasks.translation.inference.marked import Marked
from flax_transformer.tasks.translation.inference.result import Translation, unchanged
from flax_transformer.tasks.translation.inference.translator import Translator

from .batcher import Batcher
from .directions import Direction, Served
from .errand import Errand
from .fields import Fields, Gone, Refused, read_fields
from .guard import Refusals
from .job import Job
from .keys import Keys, Usage
from .metrics import Metrics
from .programs import programs_of_batch, seconds_per_token, usual_programs
from .store import Store
from .teaching import Teaching
from .turns import Baton

_MOST_PLACES = 300_000  # tags of a sentence times its words: each tag is looked for among them
_LINES = 64  # read at a time
_MOST_CHARACTERS = 6  # of a token, in the mean of a text
_NEWEST = 0.2  # weight of the newest batch in the mean seconds of a token
_SPARE = 1  # programs kept for requests that are not usual, if no batch needs more


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may ask for."""

    max_requests: int = 256  # waiting or being translated at once; one more is answered with 429
    max_texts: int = 128  # texts in a request
    max_characters: int = 20_000  # characters in all texts of a request
    max_lines: int = 1000  # lines in them
    max_alternatives: int = 10  # alternatives to each text; the search finds no more than decoding.num_candidates - 1
    cache: int = 32  # MB of translations, which a client that asks for the same again is given at once; 0: none
    max_terms: int = 50_000  # terms in all glossaries that a key, or all without keys, keeps here
    quota: int = 0  # characters of a client (a key, else an address) in a day; 0: any number
    rate: int = 0  # requests of a client in a minute; 0: any number
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

    def __init__(
        self,
        served: Served,
        limits: Limits,
        keys: Keys | None = None,
        *,
        shared: str = '',
        store: Store | None = None,
        teaching: Teaching | None = None,
    ) -> None:
        """The glossaries of the key named `shared` are for all. Without `teaching`, nothing is learned."""
        self.teaching = teaching
        self.store = store or Store()
        self.served = served
        self.limits = limits
        self.metrics = Metrics()
        self.glossaries: dict[str, Any] = {}  # keys are identifiers
        self.files: dict[str, Any] = {}  # that are being translated, or are
        self.keys = keys or Keys()
        self.shared = shared
        self.usage = Usage(self.store, limits.quota, limits.rate)
        self.batcher = Batcher(
            warm_up=self._warm_up, observe=self._observe, rest=give_memory_back, cache=limits.cache << 20
        )
        self.metrics.waiting.set_function(self.batcher.num_waiting)
        self.metrics.compilations.set_function(self.batcher.compilations.num_left)
        self._baton = Baton()
        self._threads = ThreadPoolExecutor(limits.max_requests, 'requests')
        self._waiting: collections.Counter[Hashable] = collections.Counter()  # requests of each client
        self._seconds: dict[Hashable, float] = {}  # of a token in a full batch, by programs
        self.refusals = Refusals()
        self.is_draining = False
        self.changing = threading.Lock()  # for who changes keys or models

    async def read(self, request: Request) -> Fields:
        """The fields of a request that may be served. Raises Refused, or Gone."""
        # JSON may spell a character in 12 bytes.
        fields = await read_fields(request, most=12 * self.limits.max_characters + 16_384)
        request.state.fields = fields
        header = request.headers.get('authorization', '').partition(' ')[2].strip()
        named = [fields.text(name, '').encode() for name in ('api_key', 'apiKey', 'auth_key')]
        # The header's characters are bytes: of UTF-8 from curl, of Latin-1 from Python's clients.
        given = [key for key in (header.encode('latin-1'), header.encode(), *named) if key]
        request.state.owner = self.keys.name(given)
        if self.keys and not request.state.owner:
            raise Refused(403, 'Invalid API key' if given else 'This server needs an API key: ask whoever runs it')
        request.state.client = request.state.owner or _network(request.client.host if request.client else '')
        self.usage.count_request(request.state.client)
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
        split_sentences: bool | None = None,
        glossary: Glossary | None = None,
        alternatives: int = 0,
        alignment: bool = False,
    ) -> list[Reply]:
        """A reply to each text; all are admitted or none. Without a source, each text's is detected."""
        if alternatives > self.limits.max_alternatives:
            raise Refused(400, f'alternatives={alternatives}: this server gives {self.limits.max_alternatives} at most')

        # The least that they may take: most of what is refused need not be read.
        least = 0.0
        for text in texts:
            lines = sum(map(bool, map(str.strip, text.split('\n')))) if split is split_lines else 0
            least += len(text) / _MOST_CHARACTERS + lines
        self._admit(request.state.client, least * min(self._seconds.values(), default=0.0))

        owner = request.state.owner

        def work(errand: Errand) -> list[Reply]:
            directions = []
            parts_of = []
            for text, (direction, sure) in zip(texts, self.served.directions(texts, source, target), strict=True):
                taught = self.teaching.direction(owner, direction) if self.teaching else direction
                directions.append((taught, sure))
                parts_of.append(split(text))
                errand.lend()
            lines_of = [[part for part in parts if isinstance(part, Marked)] for parts in parts_of]
            self._refuse_more(sum(map(len, lines_of)), 'lines')
            self._admit(errand.client, self._cost(errand, directions, lines_of))

            translations: dict[int, list[Translation]] = {}  # by the number of the text
            for direction in dict.fromkeys(direction for direction, _ in directions):
                numbers = [number for number, (other, _) in enumerate(directions) if other is direction]
                translator = direction.every if alternatives else direction.best
                shared = translator.through(partial(self._translate_parts, errand))
                if split_sentences is not None:
                    shared.decoding = replace(shared.decoding, split_sentences=split_sentences)
                lines = [line for number in numbers for line in lines_of[number]]
                known = self._known(owner, direction, lines, glossary)
                asked = [line for line, answer in zip(lines, known, strict=True) if answer is None]
                new = iter(shared(asked, glossary=glossary, alignment=alignment))
                done = iter(answer or next(new) for answer in known)
                translations |= {number: list(islice(done, len(lines_of[number]))) for number in numbers}

            replies = []
            for number, (direction, confidence) in enumerate(directions):
                text, *others = _versions(parts_of[number], iter(translations[number]))
                replies.append(Reply(direction, confidence, text, others[:alternatives], translations[number]))
            return replies

        return await self.run(request, work, sum(map(len, texts)))

    def _known(
        self, owner: str, direction: Direction, lines: Sequence[Marked], glossary: Glossary | None
    ) -> list[Translation | None]:
        """What the memory of corrected translations has of each line; terms of a glossary come before it."""
        if self.teaching is None or glossary is not None:
            return [None] * len(lines)
        exact = partial(self.teaching.memory(owner).exact, languages=(direction.source, direction.target))
        texts = [None if line.spans else exact(line.text) for line in lines]
        return [None if text is None else unchanged(text) for text in texts]

    async def run(self, request: Request, work: Callable[[Errand], Any], num_characters: int = 0) -> Any:
        """What `work` gives, done in a thread, within the limits. Raises Refused, Gone, or what it raises."""
        client = request.state.client
        if self.is_draining:
            raise Refused(503, 'The server is stopping; ask another, or later')
        # However much one client asks for, there is room for others.
        if self._waiting[client] >= max(self.limits.max_requests - self._waiting.total(), 1):
            raise Refused(429, f'{self._waiting[client]} of your requests wait already; try again in a moment')
        self.usage.take(client, num_characters, 456 if request.url.path.startswith('/v2/') else 403)
        self._waiting[client] += 1
        admitted = time.monotonic()
        errand = Errand(client, self.batcher, self._baton)
        left = asyncio.ensure_future(_left(request))
        done = asyncio.get_running_loop().run_in_executor(self._threads, errand.run, work)
        done.add_done_callback(partial(self._finished, client))
        is_translated = False
        try:
            await asyncio.wait({done, left}, timeout=self.limits.max_wait, return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                if left.done():
                    self.metrics.abandoned.inc()
                    raise Gone
                raise _busy(f'No reply within {self.limits.max_wait:g} s', self.limits.max_wait)
            result = done.result()
            is_translated = bool(errand.jobs)
        finally:
            left.cancel()
            errand.cancel()
            if not is_translated:
                self.usage.give_back(client, num_characters)
        if is_translated:
            self.metrics.characters.inc(num_characters)
            began = min(job.started for job in errand.jobs)
            queue = began - admitted
            work = time.monotonic() - began
            self.metrics.queue.observe(queue)
            request.state.engines = sorted({job.engine for job in errand.jobs} - {''})
            request.state.timing = f'queue;dur={1000 * queue:.1f}, translate;dur={1000 * work:.1f}'
        return result

    def _finished(self, client: Hashable, done: asyncio.Future[Any]) -> None:
        self._waiting[client] -= 1
        if not self._waiting[client]:
            del self._waiting[client]
        if not done.cancelled():
            done.exception()  # it was seen

    def _cost(
        self, errand: Errand, directions: Sequence[tuple[Direction, float]], lines_of: Sequence[Sequence[Marked]]
    ) -> float:
        """About the seconds that the lines of each text take, alone."""
        cost = 0.0
        for (direction, _), lines in zip(directions, lines_of, strict=True):
            if direction.best.gives_back:
                continue
            for first in range(0, len(lines), _LINES):
                errand.lend()
                some = lines[first : first + _LINES]
                seconds = self._seconds.get(direction.best.programs, 0.0)
                cost += seconds * sum(map(len, direction.best.tokenizer.encode([line.text for line in some])))
                for line in some:
                    words = len(line.text.split())
                    if len(line.spans) * words > _MOST_PLACES:
                        got = f'{len(line.spans)} tags and literals among {words} words of a sentence'
                        raise Refused(413, f'{got}: their product may be {_MOST_PLACES} here; send shorter ones')
        return cost

    def _admit(self, client: Hashable, cost: float) -> None:
        """Refuses what cannot be translated in time, before it is begun."""
        most = self.limits.max_wait
        if cost > most:
            raise Refused(413, f'This would take about {cost:.0f} s; a request has {most:g} s here: send it in parts')
        wait = self.batcher.wait_for(client, cost)
        if wait > most:
            raise _busy(f'With what waits already this would take about {wait:.0f} s', wait - most)

    def _translate_parts(self, errand: Errand, translator: Translator, asked: Asked) -> list[Translation]:
        """The translations of parts, in batches with those of other requests."""
        runner = translator.runner

        def together(parts: Sequence[Asked]) -> list[Translation]:
            return translator.translate_parts(Asked.joined(parts))

        jobs = []
        for part in asked.parts():
            slots = runner.slots(len(part.sources[0]))
            shape = part.demands.shape if part.demands else None
            engine = translator.engine_of(part)
            cost = len(part.sources[0]) * self._seconds.get(translator.programs, 0.0)
            wanted = {'demands': shape or (), 'alignment': any(part.alignment), 'engine': engine}
            needs = partial(programs_of_batch, translator, slots, wanted)
            needs(1)  # refuses what cannot be compiled
            most = translator.most(slots, engine)
            width = slots if engine == 'jax' else most  # the other compiles nothing for a width
            kind = translator, width, part.alignment, shape, engine
            key = None
            if self.limits.cache:  # for nobody to see by the time whether others have asked
                phrases = repr(part.demands and part.demands.wanted)
                model = translator.origin, translator.programs, translator.version
                own = part.texts[0], phrases, part.alignment, engine
                key = errand.client, *model, translator.decoding, *own
            jobs.append(Job(errand.client, part, together, kind, most, slots, cost, key, needs, engine))
        return errand.results(jobs)

    def _observe(self, batch: Sequence[Job], seconds: float) -> None:
        self.metrics.observe_batch(len(batch), sum(job.slots for job in batch), seconds)
        first = batch[0]
        if not isinstance(first.line, Asked) or first.line.demands:  # terms take a second search
            return
        programs = first.kind[0].programs
        if programs in self._seconds and len(batch) == first.most:
            before = self._seconds[programs]
            tokens = sum(len(job.line.sources[0]) for job in batch)
            # A batch beside which a program is compiled says little.
            self._seconds[programs] = before + _NEWEST * (min(seconds / tokens, 2 * before) - before)

    def _warm_up(self) -> None:
        with self.changing:
            self.serve(self.served)

    def serve(self, served: Served) -> None:
        """Serves models from when they are warm; what was begun with others ends with them."""
        seconds = {}
        rest = []
        is_start = served is self.served  # teaching knows these models already
        teaching = None if is_start else self.teaching
        digest = teaching.digest_of(served.models[0]) if teaching else ''
        for model in served.models:
            for other in self.served.models:  # nothing is compiled for new weights of the same shapes
                model.translator.share_programs(other.translator)
            common, others = usual_programs(model.translator)
            with ThreadPoolExecutor() as threads:
                list(threads.map(Program.compile, common))
            model.translator.runner.usual = frozenset(program.key for program in (*common, *others))
            model.translator.runner.most_programs = _SPARE
            seconds[model.translator.programs] = seconds_per_token(model.translator)
            rest += others
        self._seconds = seconds
        self.served = served
        if teaching:
            teaching.use(served.models[0], digest)
        self.batcher.forget()
        for program in rest:
            self.batcher.compilations.ask([program])


def _network(address: str) -> str:
    """The address, or of IPv6 the network of one customer; what a proxy calls its client, if that is no address."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if known.version == 6 and known.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(known), 64), strict=False))
    return str(getattr(known, 'ipv4_mapped', None) or known)


def _busy(reason: str, seconds: float) -> Refused:
    return Refused(503, f'{reason}: the server is busy; try again later', retry_after=math.ceil(seconds))


async def _left(request: Request) -> None:
    """Waits until the client has left."""
    while (await request.receive())['type'] != 'http.disconnect':
        pass


def _versions(parts: Sequence[Part], done: Iterator[Translation]) -> list[str]:
    """The distinct texts with the next translations in place of the parts to translate, the best first."""
    choices = []  # the texts of each part, the best first
    for part in parts:
        if isinstance(part, Marked):
            line = next(done)
            choices.append([ranked.text for ranked in line.n_best or (line,)])
        else:
            choices.append([part])
    most = max(map(len, choices), default=1)
    texts = (''.join(texts[min(rank, len(texts) - 1)] for texts in choices) for rank in range(most))
    return list(dict.fromkeys(texts))
