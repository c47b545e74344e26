"""Keys that requests bring, what each client has used, and how much it may."""

import collections
import hashlib
import hmac
import time
from collections.abc import Sequence

from flax_transformer.common.errors import UserError

from .fields import Refused
from .store import Store


class Keys:
    def __init__(self, lines: Sequence[str] = ()) -> None:
        """`lines` have a key each, `KEY` or `NAME: KEY`; without a name, a part of a digest is one."""
        self._names: dict[bytes, str] = {}
        for line in filter(None, map(str.strip, lines)):
            name, _, key = line.rpartition(': ')
            self._names[key.encode()] = name or f'key {hashlib.sha256(key.encode()).hexdigest()[:8]}'
        if len({*self._names.values()}) < len(self._names):
            raise UserError('two keys have the same name; expected another for each')

    def __bool__(self) -> bool:
        return bool(self._names)

    def name(self, given: Sequence[bytes]) -> str:
        """The name of the first known key among those given, '' for none."""
        # Every pair is compared, in constant time, which says nothing of the keys.
        matches = [name for key in given for known, name in self._names.items() if hmac.compare_digest(key, known)]
        return matches[0] if matches else ''


class Usage:
    """What each client has used today (UTC), and its requests of this minute."""

    def __init__(self, store: Store, quota: int, rate: int) -> None:
        """At most `quota` characters a day and `rate` requests a minute; 0: any number."""
        self.quota = quota
        self._store = store
        self._rate = rate
        self._minute = 0
        self._requests: collections.Counter[str] = collections.Counter()

    def characters(self, client: str) -> int:
        rows = self._store('select characters from usage where day = ? and client = ?', _today(), client)
        return rows[0][0] if rows else 0

    def count_request(self, client: str) -> None:
        """Raises Refused for one too many."""
        minute, gone = divmod(int(time.time()), 60)
        if minute != self._minute:
            self._minute = minute
            self._requests.clear()
        self._requests[client] += 1
        if 0 < self._rate < self._requests[client]:
            left = 60 - gone
            raise Refused(429, f'{self._rate} requests a minute are allowed here; wait {left} s', retry_after=left)

    def take(self, client: str, count: int, status: int) -> None:
        """Counts characters. Raises Refused, with that status, for more than are left."""
        if not count:
            return
        left = max(self.quota - self.characters(client), 0)
        if self.quota and count > left:
            raise Refused(status, f'{count} characters: {left} are left of the {self.quota} for this day (UTC)')
        self._count(client, count)

    def give_back(self, client: str, count: int) -> None:
        """Takes back characters that were not translated."""
        if count:
            self._count(client, -count)

    def _count(self, client: str, count: int) -> None:
        today = _today()
        self._store('delete from usage where day < ?', today)
        more = 'on conflict do update set characters = max(characters + ?, 0)'
        self._store(f'insert into usage values (?, ?, max(?, 0)) {more}', today, client, count, count)


def _today() -> int:
    return int(time.time()) // 86_400
