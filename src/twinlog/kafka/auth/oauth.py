"""Obtains the token of a client's login, keeps it while it is good, and fetches the next token before its end.

Follows Kafka's OAuthBearerLoginCallbackHandler and ClientCredentialsJwtRetriever (KIP-768, KIP-1139, KIP-1258), and its
ExpiringCredentialRefreshingLogin for the time of a renewal. The module is idle between two logins: brokers end a
session together with its token (KIP-368), so a connection asks again in time.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from kafka.future import Future
from kafka.net.sasl.oauth import AbstractTokenProvider

from twinlog.clock import SYSTEM, Clock
from twinlog.kafka.auth.refusal import LoginRefusedError, NoTokenError
from twinlog.kafka.auth.token_server import ask_server, packed, where
from twinlog.settings.oauth import TokenSettings

_LOGIN_AGAIN = 0.85
"""The part of a session after which a connection logs in again, at the earliest.

The login needs a new token by then, because an old token would give a very short session.
"""

_OPAQUE_S = 60.0
"""The seconds after which a file is read again, if its token lacks an expiry."""

OLD_TOKEN_S = 2.0
"""The seconds that a login waits for a new token while the old token is still good."""


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token, its renewal time and its expiry (Unix, in seconds)."""

    text: str = field(repr=False)
    renew_at: float
    ends_at: float


class TokenSource(AbstractTokenProvider):  # type: ignore[misc]
    """The tokens of a login; shared by all connections of the process with this login."""

    def __init__(self, settings: TokenSettings, clock: Clock = SYSTEM) -> None:
        self._settings = settings
        self._clock = clock
        self._fetching = threading.Lock()
        self._token: BearerToken | None = None
        self._lock = threading.Lock()
        self._waiting: list[tuple[Any, Future]] = []
        """Logins that wait for the fetch of a thread, each with its loop."""
        self._trouble = ""

    def token(self) -> str:
        """The token to log in with; `prepare` has obtained it."""
        assert self._token is not None
        return self._token.text

    def extensions(self) -> dict[str, str]:
        return dict(self._settings.extensions)

    async def prepare(self, net: Any, timeout_at: float) -> None:
        """Wait until there is a good token, while the loop `net` runs, until `timeout_at` (monotonic seconds) at most.

        Raises LoginRefusedError or NoTokenError.
        """
        if self._fresh():
            return
        done = Future()
        with self._lock:
            first = not self._waiting
            self._waiting.append((net, done))
        if first:
            try:
                threading.Thread(target=self._fetch, name="token", daemon=True).start()
            except RuntimeError as error:
                # All waiting logins end here, because the thread that they wait for never started.
                failure = None if self._good() else NoTokenError(f"no token can be fetched: {error}")
                self._end_waiting(failure, besides=done)
                if failure is not None:
                    raise failure from error
                return
        now = net.now()
        # The login gives up a moment before the connection's own time-out, whose error lacks a reason.
        timeout_at = now + 0.8 * (timeout_at - now)
        if self._good():
            timeout_at = min(timeout_at, now + OLD_TOKEN_S)

        def give_up() -> None:
            _ending(done, None if self._good() else self._late())()

        timer = net.call_at(timeout_at, give_up)
        try:
            await done
        finally:
            net.cancel(timer)

    def renew_token(self) -> None:
        """Fetch a token unless another thread just did; if that fails, a token that is still valid stays."""
        with self._fetching:
            if self._fresh():
                return
            try:
                text, lasts_s = _obtained(self._settings, self._clock, self._note)
                self._token = _dated(text, self._settings, self._clock.wall(), lasts_s)
            except NoTokenError:
                if not self._good():
                    raise

    def _fetch(self) -> None:
        failure: Exception | None = None
        try:
            self.renew_token()
        except Exception as error:
            failure = error
        self._end_waiting(failure)

    def _end_waiting(self, failure: Exception | None, besides: Future | None = None) -> None:
        """Let all waiting logins continue, or end them with this failure."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._trouble = ""
        for net, done in waiting:
            if done is besides:
                continue
            # The loop may have ended meanwhile, and the login with it.
            with contextlib.suppress(RuntimeError):
                net.call_soon_threadsafe(_ending(done, failure))

    def _note(self, error: NoTokenError) -> None:
        self._trouble = error.sentence

    def _late(self) -> NoTokenError:
        return NoTokenError(self._trouble or f"{where(self._settings)} has not answered in time")

    def _good(self) -> bool:
        return self._token is not None and self._clock.wall() < self._token.ends_at

    def _fresh(self) -> bool:
        return self._token is not None and self._clock.wall() < self._token.renew_at


def _ending(done: Future, failure: Exception | None) -> Callable[[], None]:
    """Make a function that resolves a waiting login once. A loop of kafka-python takes only plain functions."""

    def resolve() -> None:
        if done.is_done:
            return
        if failure is None:
            done.success(None)
        else:
            done.failure(failure)

    return resolve


@lru_cache(maxsize=32)
def token_source(settings: TokenSettings, clock: Clock) -> TokenSource:
    """The source for these settings; equal settings and the same clock share a source."""
    return TokenSource(settings, clock)


def _obtained(
    settings: TokenSettings, clock: Clock, failed: Callable[[NoTokenError], None]
) -> tuple[str, float | None]:
    """A token, and the seconds for which it is good, if its server reports them."""
    if settings.text is not None:
        return settings.text.strip(), None
    if settings.file is not None:
        try:
            with open(settings.file, encoding="utf-8") as file:
                return file.read().strip(), None
        except OSError as error:
            raise NoTokenError(f"the token file {settings.file} cannot be read: {error.strerror}") from error
    if settings.url is not None:
        return ask_server(settings, clock, failed)
    return _unsigned(settings, clock.wall()), None


def _unsigned(settings: TokenSettings, now: float) -> str:
    claims = {**json.loads(settings.claims), "iat": now, "exp": now + settings.lifetime_s}
    head, body = (packed(json.dumps(part).encode()) for part in ({"alg": "none"}, claims))
    return f"{head}.{body}."


# -- the time of a renewal


def _dated(text: str, settings: TokenSettings, now: float, lasts_s: float | None = None) -> BearerToken:
    """The token with its times.

    Raises LoginRefusedError for a text that is no JSON web token or lacks an expiry, NoTokenError for an expired token.
    """
    try:
        claims = _claims(text)
    except LoginRefusedError:
        if not settings.may_be_opaque:
            raise
        claims = {}
    if settings.may_be_opaque and "exp" not in claims:
        if lasts_s is None and settings.url is not None:
            raise LoginRefusedError(f"{where(settings)} does not report when its token ends (expires_in)") from None
        # A token from a file counts until the file has another token.
        claims = {"exp": now + (lasts_s or _OPAQUE_S / _LOGIN_AGAIN)}
    ends, begins = claims.get("exp"), claims.get("iat")
    if not isinstance(ends, int | float):
        raise LoginRefusedError("the token that was obtained has no time at which it ends (claim exp)")
    if ends <= now:
        raise NoTokenError("the token that was obtained has ended already; do the clocks of both hosts agree?")
    if settings.longest_s is not None:
        ends = min(ends, (begins if isinstance(begins, int | float) else now) + settings.longest_s)
    return BearerToken(text, renewal(now, begins if isinstance(begins, int | float) else now, ends, settings), ends)


def renewal(now: float, begins: float, ends: float, settings: TokenSettings) -> float:
    """The time to renew a token obtained `now` that is good from `begins` to `ends`; times in seconds.

    (Kafka class ExpiringCredentialRefreshingLogin)
    """
    part = min(settings.refresh_factor + settings.refresh_jitter * random.random(), _LOGIN_AGAIN)
    if now + settings.refresh_period_s + settings.refresh_buffer_s > ends:
        return now + (ends - now) * part
    return max(min(begins + (ends - begins) * part, ends - settings.refresh_buffer_s), now + settings.refresh_period_s)


def _claims(text: str) -> dict[str, Any]:
    parts = text.split(".")
    try:
        if len(parts) != 3:
            raise ValueError
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        if not isinstance(claims, dict):
            raise ValueError
    except ValueError:
        raise LoginRefusedError("what was obtained is no JSON web token, which OAUTHBEARER wants") from None
    return claims
