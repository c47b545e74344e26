"""What /metrics tells Prometheus: counts and times alone, never a text, a key or an address."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_POWERS = [2**i for i in range(14)]


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()  # not the global one: a process may hold several servers
        common = {'namespace': 'flax_transformer', 'registry': self.registry}
        self.requests = Counter('requests', 'Requests answered', ['api', 'status'], **common)
        self.characters = Counter('characters', 'Characters translated', **common)
        self.abandoned = Counter('abandoned_requests', 'Requests whose client left before the reply', **common)
        self.seconds = Histogram('request_seconds', 'From request to reply', ['route'], buckets=_SECONDS, **common)
        self.waiting = Gauge('waiting_parts', 'Parts of texts that wait for a batch', **common)
        self.compilations = Gauge('waiting_compilations', 'Compilations that are left to do', **common)
        self.queue = Histogram('queue_seconds', 'From admission to the first batch', buckets=_SECONDS, **common)
        self._batch = Histogram('batch_seconds', 'Time of a batch', buckets=_SECONDS, **common)
        self._lines = Histogram('batch_lines', 'Lines of a batch', buckets=_POWERS, **common)
        self._slots = Histogram('batch_slots', 'Source slots of a batch', buckets=_POWERS, **common)

    def observe_batch(self, lines: int, slots: int, seconds: float) -> None:
        self._batch.observe(seconds)
        self._lines.observe(lines)
        self._slots.observe(slots)
