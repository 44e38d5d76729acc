"""Obtains the token that a client logs in with, keeps it while it is good, and fetches the next before it ends.

Follows Kafka's OAuthBearerLoginCallbackHandler and ClientCredentialsJwtRetriever (KIP-768, KIP-1139, KIP-1258), and
its ExpiringCredentialRefreshingLogin for when a token is renewed. Nothing runs between two logins: brokers end the
session of a token when it ends (KIP-368), so a connection asks again in time.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import random
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from kafka.future import Future
from kafka.net.sasl.oauth import AbstractTokenProvider

from twinlog.kafka.auth.assertions import assertion, packed
from twinlog.kafka.auth.refusal import JAAS, LoginRefusedError, NoTokenError
from twinlog.kafka.auth.refusal import of_tls as tls_refusal
from twinlog.settings.oauth import TokenSettings
from twinlog.settings.tls import TlsSettings, tls_context

_FINAL_STATUS = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 413, 414, 415, 501, 505})
"""Answers that another try would not change (Kafka class HttpJwtRetriever)."""

_LOGIN_AGAIN = 0.85
"""The part of a session after which a connection logs in again, at the earliest; with a new token by then, because an
old one would give a very short session."""

PATIENCE_S = 30.0
"""How long a token server may take to connect and to answer without a setting; Java waits for ever."""

_OPAQUE_S = 60.0
"""How often a file is read again whose token has no time at which it ends."""

OLD_TOKEN_S = 2.0
"""How long a login waits for a new token while the old one is still good."""

_MAX_ANSWER = 1 << 20
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and the times (Unix, in seconds) at which to renew it and at which it expires."""

    text: str = field(repr=False)
    renew_at: float
    ends_at: float


class TokenSource(AbstractTokenProvider):  # type: ignore[misc]
    """The tokens of one login; shared by all connections of the process that log in so."""

    def __init__(self, settings: TokenSettings) -> None:
        self._settings = settings
        self._fetching = threading.Lock()
        self._token: Token | None = None
        self._lock = threading.Lock()
        self._waiting: list[tuple[Any, Future]] = []
        """Logins that wait for what one thread is fetching, each with its loop."""
        self._trouble = ""

    def token(self) -> str:
        """The token to log in with; `prepare` has obtained it."""
        assert self._token is not None
        return self._token.text

    def extensions(self) -> dict[str, str]:
        return dict(self._settings.extensions)

    async def prepare(self, net: Any, timeout_at: float) -> None:
        """Wait until there is a good token, while the loop `net` goes on, until `timeout_at` (monotonic) at most.

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
                # Otherwise every login would wait for ever for a thread that does not fetch.
                failure = None if self._good() else NoTokenError(f"no token can be fetched: {error}")
                self._end_waiting(failure, besides=done)
                if failure is not None:
                    raise failure from error
                return
        now = net.now()
        # A moment before the connection's own time-out, whose error has no reason.
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

    def renew(self) -> None:
        """Fetch a token unless another thread just did; without a new one a token that is still valid stays."""
        with self._fetching:
            if self._fresh():
                return
            try:
                text, lasts_s = _obtained(self._settings, self._note)
                self._token = _dated(text, self._settings, lasts_s)
            except NoTokenError:
                if not self._good():
                    raise

    def _fetch(self) -> None:
        failure: Exception | None = None
        try:
            self.renew()
        except Exception as error:
            failure = error
        self._end_waiting(failure)

    def _end_waiting(self, failure: Exception | None, besides: Future | None = None) -> None:
        """Let all waiting logins go on, or end them with this failure."""
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
        return NoTokenError(self._trouble or f"{_where(self._settings)} has not answered in time")

    def _good(self) -> bool:
        return self._token is not None and time.time() < self._token.ends_at

    def _fresh(self) -> bool:
        return self._token is not None and time.time() < self._token.renew_at


def _ending(done: Future, failure: Exception | None) -> Callable[[], None]:
    """Resolves a waiting login once. A loop of kafka-python takes a plain function only."""

    def resolve() -> None:
        if done.is_done:
            return
        if failure is None:
            done.success(None)
        else:
            done.failure(failure)

    return resolve


@lru_cache(maxsize=32)
def token_source(settings: TokenSettings) -> TokenSource:
    """The source for these settings; the same one for equal settings."""
    return TokenSource(settings)


def _obtained(settings: TokenSettings, failed: Callable[[NoTokenError], None]) -> tuple[str, float | None]:
    """A token, and for how many seconds it is good, if its server reports that."""
    if settings.text is not None:
        return settings.text.strip(), None
    if settings.file is not None:
        try:
            with open(settings.file, encoding="utf-8") as file:
                return file.read().strip(), None
        except OSError as error:
            raise NoTokenError(f"the token file {settings.file} cannot be read: {error.strerror}") from error
    if settings.url is not None:
        return _from_server(settings, failed)
    return _unsigned(settings), None


def _unsigned(settings: TokenSettings) -> str:
    now = time.time()
    claims = {**json.loads(settings.claims), "iat": now, "exp": now + settings.lifetime_s}
    head, body = (packed(json.dumps(part).encode()) for part in ({"alg": "none"}, claims))
    return f"{head}.{body}."


# -- token servers


def _from_server(settings: TokenSettings, failed: Callable[[NoTokenError], None]) -> tuple[str, float | None]:
    """The token that the server gives; asked again for a while when it is in trouble (Kafka class Retry).

    `failed` is called with each error before a retry.
    """
    deadline = time.monotonic() + settings.retry_for_ms / 1000
    pause = settings.retry_backoff_ms / 1000
    while True:
        try:
            return _asked(settings)
        except NoTokenError as error:
            failed(error)
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            time.sleep(min(pause, left))
            pause = max(pause * 2, 0.01)


def _asked(settings: TokenSettings) -> tuple[str, float | None]:
    url = urllib.parse.urlsplit(settings.url or "")
    connection = _connection(url, settings)
    where = _where(settings)
    try:
        connection.timeout = _patience_s(settings.connect_timeout_ms)
        connection.connect()
        connection.sock.settimeout(_patience_s(settings.read_timeout_ms))
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request("POST", path, _body(settings), _headers(settings))
        # What it holds of the connection outlives that.
        with connection.getresponse() as answer:
            content = answer.read(_MAX_ANSWER)
    except ssl.SSLError as error:
        refusal = tls_refusal(error, f"{url.hostname}", certificate=_tls(settings).certificates is not None)
        if refusal is not None:
            raise LoginRefusedError(f"{where}: {refusal} (its ssl.* settings stand in {JAAS})") from error
        raise NoTokenError(f"{where}: {error}") from error
    except (OSError, http.client.HTTPException) as error:
        raise NoTokenError(f"{where} does not answer: {error or type(error).__name__}") from error
    finally:
        connection.close()
    if answer.status not in {200, 201}:
        text = f"{where} answers {answer.status} {answer.reason}{_complaint(content)}"
        if answer.status in _FINAL_STATUS:
            raise LoginRefusedError(f"{text}; check sasl.oauthbearer.* and the client's id and secret")
        raise NoTokenError(text)
    try:
        fields = json.loads(content)
        token, lasts = fields["access_token"], fields.get("expires_in")
    except (ValueError, KeyError, TypeError, AttributeError):
        token = lasts = None
    if not isinstance(token, str) or not token.strip():
        raise NoTokenError(f"{where} answers without an access_token; is that the URL of its token endpoint?")
    return token.strip(), float(lasts) if isinstance(lasts, int | float) else None


def _where(settings: TokenSettings) -> str:
    """The token server by its URL, without a user and password in it."""
    url = urllib.parse.urlsplit(settings.url or "")
    return f"the token server {url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"


def _patience_s(timeout_ms: int | None) -> float:
    return PATIENCE_S if timeout_ms is None or timeout_ms <= 0 else timeout_ms / 1000


def _connection(url: urllib.parse.SplitResult, settings: TokenSettings) -> http.client.HTTPConnection:
    host = url.hostname or ""
    if url.scheme == "https":
        return http.client.HTTPSConnection(host, url.port, context=tls_context(_tls(settings)))
    return http.client.HTTPConnection(host, url.port)


def _tls(settings: TokenSettings) -> TlsSettings:
    return settings.tls or TlsSettings()


def _headers(settings: TokenSettings) -> dict[str, str]:
    headers = {
        "Accept": "application/json",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    if settings.assertion is None and (settings.grant != "refresh_token" or settings.client_secret):
        names = [settings.client_id or "", settings.client_secret or ""]
        if settings.encode_login:
            names = [urllib.parse.quote_plus(name) for name in names]
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(names).encode()).decode()
    return headers


def _body(settings: TokenSettings) -> str:
    fields: dict[str, str] = {}
    if settings.grant == "jwt_bearer":
        assert settings.assertion is not None
        fields["grant_type"] = "urn:ietf:params:oauth:grant-type:jwt-bearer"
        fields["assertion"] = assertion(settings.assertion)
    elif settings.grant == "password":
        fields = {"grant_type": "password", "username": settings.username or "", "password": settings.password or ""}
    elif settings.grant == "refresh_token":
        fields = {"grant_type": "refresh_token", "refresh_token": _refresh_token(settings)}
        fields["client_id"] = settings.client_id or ""
    else:
        if settings.assertion is not None:
            fields["client_assertion_type"] = settings.assertion_type
            fields["client_assertion"] = assertion(settings.assertion)
            if settings.client_id:
                fields["client_id"] = settings.client_id
        fields["grant_type"] = settings.grant_type
    if settings.scope:
        fields["scope"] = settings.scope
    if settings.audience:
        fields["audience"] = settings.audience
    return urllib.parse.urlencode(fields)


def _refresh_token(settings: TokenSettings) -> str:
    if settings.refresh_token_file is None:
        return settings.refresh_token or ""
    try:
        with open(settings.refresh_token_file, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        reason = error.strerror
        raise NoTokenError(f"the refresh token {settings.refresh_token_file} cannot be read: {reason}") from error


def _complaint(content: bytes) -> str:
    """The error in the server's answer (RFC 6749, section 5.2), which holds no secret."""
    try:
        fields = json.loads(content)
        parts = [
            fields.get("error") or fields.get("errorCode"),
            fields.get("error_description") or fields.get("errorSummary"),
        ]
    except (ValueError, AttributeError):
        return ""
    words = ", ".join(str(part) for part in parts if part)[:_SHOWN]
    return f" ({words})" if words else ""


# -- when to renew


def _dated(text: str, settings: TokenSettings, lasts_s: float | None = None) -> Token:
    """The token with its times. Raises LoginRefusedError for what is no JSON web token, or one that has ended."""
    now = time.time()
    try:
        claims = _claims(text)
    except LoginRefusedError:
        if not settings.may_be_opaque:
            raise
        claims = {}
    if settings.may_be_opaque and "exp" not in claims:
        if lasts_s is None and settings.url is not None:
            raise LoginRefusedError(f"{_where(settings)} does not report when its token ends (expires_in)") from None
        # One out of a file counts until the file has another one.
        claims = {"exp": now + (lasts_s or _OPAQUE_S / _LOGIN_AGAIN)}
    ends, begins = claims.get("exp"), claims.get("iat")
    if not isinstance(ends, int | float):
        raise LoginRefusedError("the token that was obtained has no time at which it ends (claim exp)")
    if ends <= now:
        raise NoTokenError("the token that was obtained has ended already; do the clocks of both hosts agree?")
    if settings.longest_s is not None:
        ends = min(ends, (begins if isinstance(begins, int | float) else now) + settings.longest_s)
    return Token(text, renewal(now, begins if isinstance(begins, int | float) else now, ends, settings), ends)


def renewal(now: float, begins: float, ends: float, settings: TokenSettings) -> float:
    """When to renew a token obtained `now` that is good from `begins` to `ends`; times in seconds.

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
