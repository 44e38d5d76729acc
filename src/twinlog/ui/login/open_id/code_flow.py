"""Logins by an authorization code with PKCE (OpenID Connect Core 1.0, 3.1; RFC 7636), each bound to its browser.

The cookie of a browser has the logins that the browser began. State, nonce and verifier of a login are digests of its
text by a key of this process: the console keeps no memory of logins that begin, so strangers that begin logins push out
no login of a user. A page of another site is unable to end a login in a browser that began a different login.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from twinlog.clock import Clock
from twinlog.errors import RequestError
from twinlog.settings.open_id import OpenIdSettings
from twinlog.ui.login.open_id.issuer import Issuer

if TYPE_CHECKING:
    from twinlog.ui.login.open_id.id_token import IssuerUser

LOGIN_S = 600.0
"""The time that a user has at the issuer."""

MOST_OF_BROWSER = 4
"""The logins of a browser that may end, as of several tabs; a further login replaces the oldest."""

MOST_ENDED = 4096
"""The ended logins that are remembered; the issuer refuses the code of an older login."""

MOST_TARGET_BYTES = 512
"""The longest target: browsers refuse cookies of more than 4 KB."""

_BETWEEN = "~"


@dataclass(frozen=True, slots=True)
class BegunLogin:
    """A login that a browser with the cookie `cookie` ends, after a visit to the issuer at `url`."""

    cookie: str
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
    """A user that the issuer knows, the page to which the user wanted, and the cookie with the other begun logins."""

    user: IssuerUser
    target: str
    cookie: str


class CodeFlow:
    """The logins at the issuer of the settings. Its calls wait for the issuer, so they belong into threads.

    Wrong logins are counted nowhere: the issuer binds each code to the verifier of its login, so a guess of a code is
    useless, and an attacker behind the same proxy would lock all users out.
    """

    def __init__(self, settings: OpenIdSettings, clock: Clock) -> None:
        self.settings = settings
        self.issuer = Issuer(settings, clock)
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._lock = Lock()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def begin_login(self, cookie: str, target: str) -> BegunLogin:
        """Begin a login of a browser with a cookie of earlier logins, "" for none.

        A target has at most `MOST_TARGET_BYTES` bytes. Raises RequestError 502 if the issuer is out of reach.
        """
        endpoint = self.issuer.read_metadata().authorization_endpoint
        ends_s = int(self._clock.monotonic() + LOGIN_S)
        login = f"{secrets.token_urlsafe(32)}.{ends_s}.{_packed(target.encode())}"
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self.settings.client_id,
                "redirect_uri": self.settings.redirect_uri,
                "scope": self.settings.scope,
                "state": self._digest("state", login),
                "nonce": self._digest("nonce", login),
                "code_challenge": _packed(hashlib.sha256(self._digest("verifier", login).encode()).digest()),
                "code_challenge_method": "S256",
            }
        )
        kept = [one for one in cookie.split(_BETWEEN) if one][1 - MOST_OF_BROWSER :]
        return BegunLogin(_BETWEEN.join([*kept, login]), f"{endpoint}{'&' if '?' in endpoint else '?'}{query}")

    def finish_login(self, cookie: str, answer: IssuerAnswer) -> FinishedLogin:
        """End a login of a browser with the cookie of its begun logins; each login ends once.

        Raises RequestError: 403 if the browser began a different login, 401 if the issuer refuses the user or its ID
        token is wrong, and 502 if the issuer is out of reach.
        """
        begun = cookie.split(_BETWEEN)
        login = next((one for one in begun if _are_equal(self._digest("state", one), answer.state)), None)
        # The state proves that the console wrote the text of the login.
        if login is None or not self._end(login):
            raise RequestError(403, "This login began in another browser, or has ended: please log in again.")
        if answer.issuer not in ("", self.settings.issuer):
            raise RequestError(401, "The answer is of another issuer.")
        if not answer.code:
            raise RequestError(401, f"The issuer refused the login ({answer.shown_error}).")
        from twinlog.ui.login.open_id.id_token import check_id_token  # noqa: PLC0415 - cryptography is slow to import

        token = self.issuer.exchange_code(answer.code, self._digest("verifier", login))
        user = check_id_token(token, self.issuer, self._digest("nonce", login))
        self.issuer.forget_trouble()
        target = base64.urlsafe_b64decode(login.rpartition(".")[2] + "==").decode()
        return FinishedLogin(user, target, _BETWEEN.join(one for one in begun if one != login))

    def _end(self, login: str) -> bool:
        """End a login that the console wrote; False if it has ended."""
        name, ends_s, _ = login.split(".")
        with self._lock:
            if name in self._ended or self._clock.monotonic() > int(ends_s):
                return False
            self._ended[name] = None
            if len(self._ended) > MOST_ENDED:
                self._ended.popitem(last=False)
        return True

    def _digest(self, use: str, login: str) -> str:
        """A secret of a login; each use has a secret of its own."""
        return _packed(hmac.digest(self._key, f"{use} {login}".encode("utf-8", "surrogatepass"), "sha256"))


def _are_equal(known: str, given: str) -> bool:
    return hmac.compare_digest(known.encode(), given.encode("utf-8", "surrogatepass"))


def _packed(content: bytes) -> str:
    """Base64 for URLs and cookies, without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
