"""Asks a token server for a token, as a client, a user, or by a signed statement (RFC 6749, RFC 7523).

Follows Kafka's HttpJwtRetriever and ClientCredentialsJwtRetriever (KIP-768, KIP-1258).
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.parse
import uuid
from collections.abc import Callable
from typing import Any

from twinlog.clock import Clock
from twinlog.kafka.auth.refusal import JAAS, LoginRefusedError, NoTokenError
from twinlog.kafka.auth.refusal import of_tls as tls_refusal
from twinlog.settings.oauth import AssertionSettings, TokenSettings
from twinlog.settings.tls import TlsSettings, tls_context


def assertion(settings: AssertionSettings, now: float) -> str:
    """A ready statement out of its file, or a statement made and signed at `now` (Unix, in seconds).

    Raises NoTokenError.
    """
    if settings.ready is not None:
        return settings.ready.strip()
    if settings.file is not None:
        try:
            with open(settings.file, encoding="utf-8") as file:
                return file.read().strip()
        except OSError as error:
            raise NoTokenError(f"the assertion file {settings.file} cannot be read: {error.strerror}") from error
    header = {**json.loads(settings.header), "alg": settings.algorithm, "typ": "JWT"}
    claims = {
        **json.loads(settings.claims),
        "iat": int(now),
        "exp": int(now) + settings.valid_s,
        "nbf": int(now) - settings.valid_before_s,
    }
    if settings.with_id:
        claims["jti"] = str(uuid.uuid4())
    content = f"{packed(json.dumps(header).encode())}.{packed(json.dumps(claims).encode())}"
    return f"{content}.{packed(_signature(content.encode(), settings))}"


def _signature(content: bytes, settings: AssertionSettings) -> bytes:
    # Loaded here, because few clients sign and the import takes a tenth of a second.
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    key: Any = load_pem_private_key((settings.private_key or "").encode(), None)
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(content, padding.PKCS1v15(), SHA256())
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    first, second = utils.decode_dss_signature(key.sign(content, ec.ECDSA(SHA256())))
    return first.to_bytes(32, "big") + second.to_bytes(32, "big")


def packed(content: bytes) -> str:
    """A part of a JSON web token (RFC 7515)."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


_FINAL_STATUS = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 413, 414, 415, 501, 505})
"""Status codes after which another try would get the same answer (Kafka class HttpJwtRetriever)."""

PATIENCE_S = 30.0
"""The default seconds for a token server to connect and to answer; Java waits for ever."""

_MAX_ANSWER = 1 << 20
_SHOWN = 300


def ask_server(
    settings: TokenSettings, clock: Clock, failed: Callable[[NoTokenError], None]
) -> tuple[str, float | None]:
    """The token of the server, and the seconds for which it is good, if the server reports them.

    A server in trouble is asked again for a while (Kafka class Retry). `failed` is called with each error before a
    retry.
    """
    deadline = clock.monotonic() + settings.retry_for_ms / 1000
    pause = settings.retry_backoff_ms / 1000
    while True:
        try:
            return _asked(settings, clock)
        except NoTokenError as error:
            failed(error)
            left = deadline - clock.monotonic()
            if left <= 0:
                raise
            clock.sleep(min(pause, left))
            pause = max(pause * 2, 0.01)


def _asked(settings: TokenSettings, clock: Clock) -> tuple[str, float | None]:
    url = urllib.parse.urlsplit(settings.url or "")
    connection = _connection(url, settings)
    server = where(settings)
    try:
        connection.timeout = _patience_s(settings.connect_timeout_ms)
        connection.connect()
        connection.sock.settimeout(_patience_s(settings.read_timeout_ms))
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request("POST", path, body(settings, clock.wall()), headers(settings))
        # The answer holds parts of the connection, and outlives the connection.
        with connection.getresponse() as answer:
            content = answer.read(_MAX_ANSWER)
    except ssl.SSLError as error:
        refusal = tls_refusal(error, f"{url.hostname}", certificate=_tls(settings).certificates is not None)
        if refusal is not None:
            raise LoginRefusedError(f"{server}: {refusal} (its ssl.* settings stand in {JAAS})") from error
        raise NoTokenError(f"{server}: {error}") from error
    except (OSError, http.client.HTTPException) as error:
        raise NoTokenError(f"{server} does not answer: {error or type(error).__name__}") from error
    finally:
        connection.close()
    if answer.status not in {200, 201}:
        text = f"{server} answers {answer.status} {answer.reason}{_complaint(content)}"
        if answer.status in _FINAL_STATUS:
            raise LoginRefusedError(f"{text}; check sasl.oauthbearer.* and the client's id and secret")
        raise NoTokenError(text)
    try:
        fields = json.loads(content)
        token, lasts = fields["access_token"], fields.get("expires_in")
    except (ValueError, KeyError, TypeError, AttributeError):
        token = lasts = None
    if not isinstance(token, str) or not token.strip():
        raise NoTokenError(f"{server} answers without an access_token; is that the URL of its token endpoint?")
    return token.strip(), float(lasts) if isinstance(lasts, int | float) else None


def where(settings: TokenSettings) -> str:
    """The token server by its URL; a user and password in the URL are removed."""
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


def headers(settings: TokenSettings) -> dict[str, str]:
    """The headers of a request for a token, with the client's login if the grant needs it there."""
    found = {
        "Accept": "application/json",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    if settings.assertion is None and (settings.grant != "refresh_token" or settings.client_secret):
        names = [settings.client_id or "", settings.client_secret or ""]
        if settings.encode_login:
            names = [urllib.parse.quote_plus(name) for name in names]
        found["Authorization"] = "Basic " + base64.b64encode(":".join(names).encode()).decode()
    return found


def body(settings: TokenSettings, now: float) -> str:
    """The form of a request for a token at `now` (Unix, in seconds). Raises NoTokenError if a file is missing."""
    fields: dict[str, str] = {}
    if settings.grant == "jwt_bearer":
        assert settings.assertion is not None
        fields["grant_type"] = "urn:ietf:params:oauth:grant-type:jwt-bearer"
        fields["assertion"] = assertion(settings.assertion, now)
    elif settings.grant == "password":
        fields = {"grant_type": "password", "username": settings.username or "", "password": settings.password or ""}
    elif settings.grant == "refresh_token":
        fields = {"grant_type": "refresh_token", "refresh_token": _refresh_token(settings)}
        fields["client_id"] = settings.client_id or ""
    else:
        if settings.assertion is not None:
            fields["client_assertion_type"] = settings.assertion_type
            fields["client_assertion"] = assertion(settings.assertion, now)
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
    """The error in the server's answer (RFC 6749, section 5.2), which contains no secret."""
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
