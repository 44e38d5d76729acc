"""Checks logins, and slows wrong logins down by user and address, with a bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from twinlog.clock import LONG_AGO, Clock
from twinlog.connect.rest.thread_pools import ThreadPool
from twinlog.connect.rest.users import Credentials, Users
from twinlog.errors import RequestError

K = TypeVar("K")
V = TypeVar("V")

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


@dataclass(frozen=True, slots=True)
class CountedLogin:
    """A login that counts as wrong until its password is known to be right, each count with its moment before."""

    user: str
    address: str
    at: float
    counts: tuple[tuple[_Failures, float], ...]


class LoginThrottle:
    """Counts the wrong logins of each user from each address, of each address, and of each user from strange addresses.

    The strange addresses of a user are all addresses without a good login of this user: an attacker slows down further
    strangers, and no user at an own address.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._pairs: OrderedDict[tuple[str, str], _Failures] = OrderedDict()
        self._users: OrderedDict[str, _Failures] = OrderedDict()
        self._addresses: OrderedDict[str, _Failures] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        """The users with the addresses of their good logins."""

    def count_login(self, user: str, address: str) -> CountedLogin:
        """Count a login as wrong before its password is compared, so that parallel guesses count, too.

        Raises RequestError 429 while a login of this user from this address has to wait.
        """
        user = user[:_LONGEST]
        with self._lock:
            wait_s = self._wait_s(user, address)
            if wait_s > 0:
                raise RequestError(429, f"Too many wrong logins: try again in {wait_s:.0f} s.")
            now = self._clock.monotonic()
            counts = [_count(self._pairs, (user, address), now), _count(self._addresses, address, now)]
            if (user, address) not in self._known:
                counts.append(_count(self._users, user, now))
            return CountedLogin(user, address, now, tuple(counts))

    def take_back(self, login: CountedLogin) -> None:
        """Uncount a good login; the address is known from now on, and the wrong logins of its user are forgotten.

        All other wrong logins of the address count on: an attacker may have a login of his own.
        """
        pair = login.user, login.address
        with self._lock:
            for found, before_at in login.counts:
                found.count -= 1
                if found.last_at == login.at:
                    found.last_at = before_at
            _drop_unused(self._addresses, login.address)
            _drop_unused(self._users, login.user)
            self._pairs.pop(pair, None)
            self._known.pop(pair, None)
            _make_room(self._known)
            self._known[pair] = None

    def __len__(self) -> int:
        return len(self._pairs) + len(self._users) + len(self._addresses) + len(self._known)

    def _wait_s(self, user: str, address: str) -> float:
        """The seconds until a login of this user from this address is looked at again, 0 for now."""
        pair = user, address
        own_s = max(
            self._rest_s(self._pairs.get(pair), FREE_OF_USER),
            self._rest_s(self._addresses.get(address), FREE_OF_ADDRESS),
        )
        return own_s if pair in self._known else max(own_s, self._rest_s(self._users.get(user), FREE_OF_USER))

    def _rest_s(self, found: _Failures | None, free: int) -> float:
        if found is None or found.count < free:
            return 0.0
        pause_s = min(MOST_S, FIRST_S * (1 << min(found.count - free, 10)))
        return max(0.0, found.last_at + pause_s - self._clock.monotonic())


def _count(entries: OrderedDict[K, _Failures], name: K, now: float) -> tuple[_Failures, float]:
    """Count a wrong login; returns the count, and the moment of the wrong login before."""
    found = entries.pop(name, None)
    if found is None or now - found.last_at > FORGET_S:
        found = _Failures()
    before_at, found.last_at = found.last_at, now
    found.count += 1
    _make_room(entries)
    entries[name] = found
    return found, before_at


def _drop_unused(entries: dict[str, _Failures], name: str) -> None:
    found = entries.get(name)
    if found is not None and not found.count:
        del entries[name]


def _make_room(entries: OrderedDict[K, V]) -> None:
    """Drop the oldest entries until there is room for a further entry."""
    while len(entries) >= MOST_ENTRIES:
        entries.popitem(last=False)


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
        counted = self._throttle.count_login(login.user, address)
        good = users.known(login)
        if good is None:
            good = await self._pool.run(lambda: users.compare(login))
        if not good:
            raise RequestError(401, "The user or the password is wrong.")
        self._throttle.take_back(counted)
