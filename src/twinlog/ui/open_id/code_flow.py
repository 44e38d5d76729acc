"""Logins by an authorization code with PKCE (OpenID Connect Core 1.0, 3.1; RFC 7636), each bound to its browser.

A login that began is a session of its own, whose name only the browser has. The state of the request is a digest of
this name, so a page of another site is unable to end a login in a browser that began a different one.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from twinlog.clock import Clock
from twinlog.errors import RequestError
from twinlog.settings.open_id import OpenIdSettings
from twinlog.ui.login_check import LoginThrottle
from twinlog.ui.open_id.issuer import Issuer
from twinlog.ui.sessions import SessionStore

if TYPE_CHECKING:
    from twinlog.ui.open_id.id_token import IssuerUser

LOGIN_S = 600.0
"""The time that a user has at the issuer."""

MOST_BEGUN, MOST_OF_ADDRESS = 4096, 64
"""The logins that have begun and may end, of all browsers and of an address; a further login replaces the oldest."""

_KEPT = "login"


@dataclass(frozen=True, slots=True)
class BegunLogin:
    """A login that a browser ends with the cookie `name`, after a visit to the issuer at `url`."""

    name: str
    url: str


@dataclass(frozen=True, slots=True)
class IssuerAnswer:
    """The answer that the issuer sends by way of the browser; each part is "" if it is missing."""

    state: str
    code: str
    error: str
    issuer: str

    @property
    def shown_error(self) -> str:
        """The name of the error, if it has only letters and underscores."""
        plain = self.error.isascii() and self.error.replace("_", "").isalpha() and len(self.error) <= 64
        return self.error if plain else "the reason is missing"


@dataclass(frozen=True, slots=True)
class FinishedLogin:
    """A user that the issuer knows, and the page to which the user wanted."""

    user: IssuerUser
    target: str


class CodeFlow:
    """The logins at the issuer of the settings. Its calls wait for the issuer, so they belong into threads."""

    def __init__(self, settings: OpenIdSettings, clock: Clock) -> None:
        self.settings = settings
        self.issuer = Issuer(settings, clock)
        self._begun = SessionStore(
            clock, idle_s=LOGIN_S, absolute_s=LOGIN_S, most=MOST_BEGUN, most_of_user=MOST_OF_ADDRESS
        )
        self._throttle = LoginThrottle(clock)

    def begin_login(self, address: str, target: str) -> BegunLogin:
        """Begin a login of a browser at an address. Raises RequestError 502 if the issuer is out of reach."""
        endpoint = self.issuer.read_metadata().authorization_endpoint
        session = self._begun.begin(address)
        nonce, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        session.keep_secrets(_KEPT, {"nonce": nonce, "verifier": verifier, "target": target})
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self.settings.client_id,
                "redirect_uri": self.settings.redirect_uri,
                "scope": self.settings.scope,
                "state": self._begun.token(session.name),
                "nonce": nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        return BegunLogin(session.name, f"{endpoint}{'&' if '?' in endpoint else '?'}{query}")

    def finish_login(self, name: str, answer: IssuerAnswer, address: str) -> FinishedLogin:
        """End the login of a browser with the cookie `name`; each login ends once.

        Raises RequestError: 403 if the browser began a different login, 401 if the issuer refuses the user or its ID
        token is wrong, 429 after too many refused logins of the address, and 502 if the issuer is out of reach.
        """
        begun = self._begun.find(name)
        if begun is None or not self._begun.is_token(name, answer.state) or not self._begun.end(name):
            raise RequestError(403, "This login began in another browser, or has ended: please log in again.")
        if answer.issuer not in ("", self.settings.issuer):
            raise RequestError(401, "The answer is of another issuer.")
        if not answer.code:
            raise RequestError(401, f"The issuer refused the login ({answer.shown_error}).")
        from twinlog.ui.open_id.id_token import check_id_token  # noqa: PLC0415 - cryptography is slow to import

        # Until the answer of the issuer the user is unknown, so wrong logins count by address.
        counted = self._throttle.count_login(address, address)
        kept = begun.kept_secrets[_KEPT]
        try:
            token = self.issuer.exchange_code(answer.code, kept["verifier"])
            user = check_id_token(token, self.issuer, kept["nonce"])
        except RequestError as error:
            if error.status == 502:
                # The trouble of the issuer is no wrong login.
                self._throttle.take_back(counted)
            raise
        self._throttle.take_back(counted)
        self.issuer.forget_trouble()
        return FinishedLogin(user, kept["target"])
