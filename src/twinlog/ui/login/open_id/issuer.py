"""An issuer of OpenID Connect: its metadata, its keys, and the exchange of a code for an ID token.

Follows OpenID Connect Core 1.0 and Discovery 1.0. Each request has a bound in time and in bytes, and follows no
redirect, so the console only asks addresses of the issuer's metadata.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

from twinlog.clock import LONG_AGO, Clock
from twinlog.errors import RequestError
from twinlog.settings.open_id import OpenIdSettings
from twinlog.settings.tls import TlsSettings, tls_context
from twinlog.settings.worker import is_loopback

ANSWER_S = 5.0
"""The time for the issuer to connect, and for each part of its answer."""

KEPT_S = 3600.0
"""The time for which metadata and keys are kept: a key that the issuer withdrew is accepted for this time at most."""

KEYS_EVERY_S = 5.0
"""The least time between two looks for new keys."""

FAILED_S = 2.0
"""The time for which a failure of metadata or keys counts for further logins: logins that waited for a silent issuer
fail together, in place of a further wait for each login."""

_MOST_BYTES = 1 << 20
_SHOWN = 200
_WELL_KNOWN = "/.well-known/openid-configuration"

_LOG = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IssuerMetadata:
    """The addresses of an issuer. With `posts_secret` it takes the secret of a client only in the form of a request."""

    authorization_endpoint: str
    token_endpoint: str
    keys_uri: str
    posts_secret: bool


class Issuer:
    """The issuer of the settings. Its calls wait for its answers, and raise RequestError 502 if one is missing.

    The log has the reason of a failure, each reason once until the next good answer; the page of the login only has
    the way out.
    """

    def __init__(self, settings: OpenIdSettings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._lock = Lock()
        self._metadata: IssuerMetadata | None = None
        self._metadata_at = LONG_AGO
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._keys_at = LONG_AGO
        self._trouble = ""
        self._failed_at = LONG_AGO

    def read_metadata(self) -> IssuerMetadata:
        """The metadata, asked for again once an hour."""
        with self._lock:
            now = self._clock.monotonic()
            if self._metadata is None or now - self._metadata_at >= KEPT_S:
                self._metadata = self._shared(self._asked_metadata)
                self._metadata_at = now
            return self._metadata

    def read_keys(self, *, again: bool = False) -> Sequence[Mapping[str, Any]]:
        """The public keys as JSON web keys. With `again` keys of the last seconds count, and older keys are asked for
        again: the issuer may have a new key."""
        metadata = self.read_metadata()
        with self._lock:
            now = self._clock.monotonic()
            if now - self._keys_at >= (KEYS_EVERY_S if again else KEPT_S):
                self._keys = self._shared(lambda: self._asked_keys(metadata.keys_uri))
                self._keys_at = now
            return self._keys

    def exchange_code(self, code: str, verifier: str) -> str:
        """The ID token for a code. Raises RequestError 401 for a code that the issuer refuses: it is too old, used
        before, or of another login."""
        metadata, settings = self.read_metadata(), self.settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": settings.redirect_uri,
            "code_verifier": verifier,
        }
        headers = {}
        if settings.client_secret is None or metadata.posts_secret:
            form["client_id"] = settings.client_id
        if settings.client_secret is not None:
            if metadata.posts_secret:
                form["client_secret"] = settings.client_secret
            else:
                login = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}"
                headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        status, fields = self._ask(metadata.token_endpoint, form, headers)
        if fields.get("error") == "invalid_grant":
            raise RequestError(401, "The issuer refuses this login: it is too old, or was used before.")
        token = fields.get("id_token")
        if status != 200 or not isinstance(token, str):
            error = str(fields.get("error", ""))[:_SHOWN]
            raise self.failure(
                f"{metadata.token_endpoint} answers {status} {error} without an ID token: check "
                "twinlog.console.oauth.client.id, .client.secret and .scope"
            )
        return token

    def forget_trouble(self) -> None:
        """A login was good: the next failure is logged, whatever its reason."""
        self._trouble = ""

    def failure(self, reason: str) -> RequestError:
        """Log the reason of a failure; returns the error for the page."""
        if reason != self._trouble:
            self._trouble = reason
            _LOG.warning("TW-REST-10: a login at the issuer %s failed: %s", self.settings.issuer, ascii(reason)[1:-1])
        return self._refusal()

    def _refusal(self) -> RequestError:
        return RequestError(
            502,
            f"The issuer {self.settings.issuer} gave a wrong answer, or was silent. Try again; the log of the console "
            "has the reason (TW-REST-10).",
        )

    def _shared(self, ask: Callable[[], T]) -> T:
        """The answer to a question of all logins; a failure of the last seconds is the answer, too."""
        if self._clock.monotonic() - self._failed_at < FAILED_S:
            raise self._refusal()
        try:
            return ask()
        except RequestError:
            self._failed_at = self._clock.monotonic()
            raise

    def _asked_keys(self, url: str) -> Sequence[Mapping[str, Any]]:
        status, fields = self._ask(url)
        keys = fields.get("keys")
        if status != 200 or not isinstance(keys, list):
            raise self.failure(f"{url} answers {status} without keys")
        return [key for key in keys if isinstance(key, dict)]

    def _asked_metadata(self) -> IssuerMetadata:
        url = self.settings.issuer.removesuffix("/") + _WELL_KNOWN
        status, fields = self._ask(url)
        if status != 200:
            raise self.failure(f"{url} answers {status}")
        if fields.get("issuer") != self.settings.issuer:
            named = str(fields.get("issuer", ""))[:_SHOWN]
            raise self.failure(f"{url} is of the issuer {named!r}: twinlog.console.oauth.issuer has to equal this text")
        methods = fields.get("token_endpoint_auth_methods_supported")
        return IssuerMetadata(
            self._address(fields, "authorization_endpoint"),
            self._address(fields, "token_endpoint"),
            self._address(fields, "jwks_uri"),
            isinstance(methods, list) and "client_secret_post" in methods and "client_secret_basic" not in methods,
        )

    def _address(self, fields: Mapping[str, Any], name: str) -> str:
        """An address of the metadata: https, or of this machine if the issuer itself is at http."""
        found, clear = fields.get(name), self.settings.issuer.lower().startswith("http:")
        try:
            parts = urlsplit(found if isinstance(found, str) else "")
            good = parts.scheme == "https" or (clear and parts.scheme == "http" and is_loopback(parts.hostname or ""))
            good = good and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good or not isinstance(found, str) or not found.isascii() or not found.isprintable() or " " in found:
            raise self.failure(f"its metadata lacks an https address as {name}")
        return found

    def _ask(
        self, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, Any]]:
        """The status and the JSON object of an answer; the object is empty for any other answer."""
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        sent = {"Accept": "application/json", **(headers or {})}
        if form is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        connection: http.client.HTTPConnection
        try:
            if parts.scheme == "https":
                context = tls_context(self.settings.tls or TlsSettings())
                connection = http.client.HTTPSConnection(
                    parts.hostname or "", parts.port, timeout=ANSWER_S, context=context
                )
            else:
                connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_S)
            try:
                connection.request(
                    "GET" if form is None else "POST", target, None if form is None else urlencode(form), sent
                )
                # The answer holds parts of the connection, and outlives the connection.
                with connection.getresponse() as answer:
                    status, content = answer.status, answer.read(_MOST_BYTES)
            finally:
                connection.close()
        except ssl.SSLCertVerificationError as error:
            raise self.failure(
                f"the certificate of {parts.netloc} is untrusted: {error.verify_message}; "
                "twinlog.console.oauth.https.ssl.truststore.location names an authority"
            ) from None
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise self.failure(f"{parts.netloc} failed to answer: {reason or type(error).__name__}") from None
        try:
            fields = json.loads(content)
        except (ValueError, RecursionError):
            fields = None
        return status, fields if isinstance(fields, dict) else {}
