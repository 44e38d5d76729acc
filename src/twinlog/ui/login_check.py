"""Checks logins, and slows wrong logins down by user and by address, with a bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from twinlog.clock import LONG_AGO, Clock
from twinlog.connect.rest.thread_pools import ThreadPool
from twinlog.connect.rest.users import Credentials, Users
from twinlog.errors import RequestError

FREE_OF_USER, FREE_OF_ADDRESS = 5, 20
"""The wrong logins before the first pause; users behind a proxy share their address."""

FIRST_S, MOST_S = 1.0, 60.0
"""The pause after a further wrong login, and the limit to which it grows, doubled each time."""

FORGET_S = 900.0
MOST_ENTRIES = 4096
_LONGEST = 200


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last_at: float = LONG_AGO


class LoginThrottle:
    """Counts the wrong logins of each user and of each address."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._users: OrderedDict[str, _Failures] = OrderedDict()
        self._addresses: OrderedDict[str, _Failures] = OrderedDict()

    def wait_s(self, user: str, address: str) -> float:
        """The seconds until a login of this user from this address is looked at again, 0 for now."""
        with self._lock:
            return max(
                self._wait_s(self._users.get(user[:_LONGEST]), FREE_OF_USER),
                self._wait_s(self._addresses.get(address), FREE_OF_ADDRESS),
            )

    def note_wrong(self, user: str, address: str) -> None:
        """Count a wrong login."""
        with self._lock:
            for entries, name in ((self._users, user[:_LONGEST]), (self._addresses, address)):
                self._count(entries, name)

    def note_good(self, user: str) -> None:
        """Forget the wrong logins of a user. The address keeps its count: an attacker may have a login of his own."""
        with self._lock:
            self._users.pop(user[:_LONGEST], None)

    def __len__(self) -> int:
        return len(self._users) + len(self._addresses)

    def _wait_s(self, found: _Failures | None, free: int) -> float:
        if found is None or found.count < free:
            return 0.0
        pause_s = min(MOST_S, FIRST_S * (1 << min(found.count - free, 10)))
        return max(0.0, found.last_at + pause_s - self._clock.monotonic())

    def _count(self, entries: OrderedDict[str, _Failures], name: str) -> None:
        now = self._clock.monotonic()
        found = entries.pop(name, None)
        if found is None or now - found.last_at > FORGET_S:
            found = _Failures()
        found.count += 1
        found.last_at = now
        while len(entries) >= MOST_ENTRIES:
            entries.popitem(last=False)
        entries[name] = found


class LoginCheck:
    """Checks logins against the users of the REST API; `pool` has the threads in which passwords are hashed."""

    def __init__(self, users: Users | None, pool: ThreadPool, clock: Clock) -> None:
        self._users = users
        self._pool = pool
        self._throttle = LoginThrottle(clock)

    async def check(self, login: Credentials, address: str) -> None:
        """Raises RequestError 401 for a wrong login, and 429 while further tries have to wait."""
        users = self._users
        assert users is not None
        wait_s = self._throttle.wait_s(login.user, address)
        if wait_s > 0:
            raise RequestError(429, f"Too many wrong logins: try again in {wait_s:.0f} s.")
        good = users.known(login)
        if good is None:
            good = await self._pool.run(lambda: users.compare(login))
        if not good:
            self._throttle.note_wrong(login.user, address)
            raise RequestError(401, "The user or the password is wrong.")
        self._throttle.note_good(login.user)
