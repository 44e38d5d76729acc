"""How a client obtains the token that it logs in with (OAUTHBEARER); travels to the tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from twinlog.settings.tls import TlsSettings

Grant = Literal["client_credentials", "jwt_bearer"]
Algorithm = Literal["RS256", "ES256"]


@dataclass(frozen=True, slots=True)
class AssertionSettings:
    """A signed statement of who asks for a token (RFC 7523).

    Either `file` holds one that is ready, and is read each time, or one is made: `header` and `claims` are JSON
    objects, `private_key` is PEM text. It is valid for `valid_s` from now on, and for `valid_before_s` until now.
    """

    file: str | None = None
    private_key: str | None = field(default=None, repr=False)
    algorithm: Algorithm = "RS256"
    header: str = "{}"
    claims: str = "{}"
    valid_s: int = 300
    valid_before_s: int = 60
    with_id: bool = False


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Where tokens come from: a file, a token server, or this process itself, which then makes an unsigned one.

    `claims` is the JSON object of an unsigned token, and `lifetime_s` how long that is good for. A token is renewed
    after `refresh_factor` of its life and up to `refresh_jitter` more, but `refresh_buffer_s` before its end and no
    sooner than after `refresh_period_s`, where its life is long enough for both. A token server is asked again until
    `retry_for_ms` have passed. `extensions` go to the broker beside the token.
    """

    file: str | None = None
    url: str | None = None
    grant: Grant = "client_credentials"
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    encode_login: bool = False
    assertion: AssertionSettings | None = None
    tls: TlsSettings | None = None
    connect_timeout_ms: int | None = None
    read_timeout_ms: int | None = None
    retry_backoff_ms: int = 100
    retry_for_ms: int = 10_000
    claims: str = "{}"
    lifetime_s: int = 3600
    subject: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    refresh_factor: float = 0.8
    refresh_jitter: float = 0.05
    refresh_period_s: int = 60
    refresh_buffer_s: int = 300
