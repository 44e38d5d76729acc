"""The sessions of browsers: random names in a cookie, and tokens that show that a form came from a page of the console.

A session ends at the logout, some time after the last request of its user, and at a fixed age. The
console keeps sessions in memory, so a restart ends all sessions.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from twinlog.clock import Clock

COOKIE = "twinlog-console"
SECURE_COOKIE = "__Host-twinlog-console"
"""The name of the cookie under TLS: a browser refuses to let a neighbour host set a cookie of this name."""

FORM_COOKIE = "twinlog-console-form"
"""The name of the cookie of the form of the login."""

ISSUER_COOKIE, SECURE_ISSUER_COOKIE = "twinlog-console-issuer", "__Host-twinlog-console-issuer"
"""The names of the cookie of a login that continues at the issuer, the second under TLS."""

MOST_FORMS = 20
"""The forms of a session whose secrets are kept at a time."""


def cookie_of(name: str, port: int) -> str:
    """The cookie of the console at a port: browsers send the cookies of a host to each of its ports."""
    return f"{name}-{port}"


@dataclass(slots=True)
class ConsoleSession:
    """A session of `user`, "" before a login. `began_at` and `used_at` are monotonic seconds.

    `authorization` is the header of the login, None if the console forgets logins. `kept_secrets` has the secrets that
    the user typed into forms that came back, by the id of the form.
    """

    name: str
    user: str
    began_at: float
    used_at: float
    authorization: str | None = field(default=None, repr=False)
    kept_secrets: dict[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def keep_secrets(self, form_id: str, values: Mapping[str, str]) -> None:
        """Keep the secrets of a form for its next step; only the last `MOST_FORMS` forms are kept."""
        self.forget_secrets(form_id)
        self.kept_secrets[form_id] = values
        while len(self.kept_secrets) > MOST_FORMS:
            del self.kept_secrets[next(iter(self.kept_secrets))]

    def forget_secrets(self, form_id: str) -> None:
        """Drop the secrets of a form; an unknown form is ignored."""
        self.kept_secrets.pop(form_id, None)


class SessionStore:
    """The sessions of all browsers, `most` at most: a further session ends the session with the longest idle time."""

    def __init__(self, clock: Clock, *, idle_s: float, absolute_s: float, most: int, most_of_user: int) -> None:
        self._clock = clock
        self._idle_s = idle_s
        self._absolute_s = absolute_s
        self._most = most
        self._most_of_user = most_of_user
        self._key = secrets.token_bytes(32)
        self._lock = Lock()
        self._sessions: OrderedDict[str, ConsoleSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, user: str, authorization: str | None = None) -> ConsoleSession:
        """A new session with a new name."""
        now = self._clock.monotonic()
        session = ConsoleSession(secrets.token_urlsafe(32), user, now, now, authorization)
        with self._lock:
            own = [one.name for one in self._sessions.values() if one.user == user] if user else []
            for name in own[: max(0, len(own) + 1 - self._most_of_user)]:
                del self._sessions[name]
            while len(self._sessions) >= self._most:
                self._sessions.popitem(last=False)
            self._sessions[session.name] = session
        return session

    def find(self, name: str, *, uses: bool = True) -> ConsoleSession | None:
        """The session of this name, None if it has ended. With `uses` the user made the request;
        otherwise a script made it that keeps a page up to date."""
        now = self._clock.monotonic()
        with self._lock:
            session = self._sessions.get(name)
            if session is None:
                return None
            if now - session.used_at > self._idle_s or now - session.began_at > self._absolute_s:
                del self._sessions[name]
                return None
            if uses:
                session.used_at = now
                self._sessions.move_to_end(name)
        return session

    def end(self, name: str) -> bool:
        """End a session; False for an unknown name."""
        with self._lock:
            return self._sessions.pop(name, None) is not None

    def token(self, name: str) -> str:
        """The token of the forms of a session, or of the login form of a browser with the cookie `name`."""
        return hmac.digest(self._key, name.encode("utf-8", "surrogatepass"), "sha256").hex()

    def is_token(self, name: str, token: str) -> bool:
        """Whether a form of this session was sent."""
        return bool(name) and hmac.compare_digest(self.token(name).encode(), token.encode("utf-8", "surrogatepass"))


def transient_session() -> ConsoleSession:
    """The session of a single request, as of a script: the store lacks it."""
    return ConsoleSession("", "", 0.0, 0.0)
