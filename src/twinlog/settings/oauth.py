"""The ways in which a client obtains its login token (OAUTHBEARER); travels to the tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from twinlog.settings.tls import TlsSettings
from twinlog.settings.written import WrittenAs, out_of

Grant = Literal["client_credentials", "jwt_bearer", "password", "refresh_token"]
Algorithm = Literal["RS256", "ES256"]


@dataclass(frozen=True, slots=True)
class AssertionSettings:
    """A signed statement of the identity that asks for a token (RFC 7523).

    The statement has three sources. `file` holds a ready statement, and is read each time. `ready` is a ready
    statement. Otherwise the statement is made: `header` and `claims` are JSON objects, `private_key` is PEM text. A
    made statement is valid for `valid_s` from now on, and for `valid_before_s` until now.
    """

    file: Annotated[str | None, out_of("sasl.oauthbearer.assertion.file")] = None
    private_key: Annotated[str | None, out_of("sasl.oauthbearer.assertion.private.key.file")] = field(
        default=None, repr=False
    )
    algorithm: Annotated[Algorithm, out_of("sasl.oauthbearer.assertion.algorithm")] = "RS256"
    header: Annotated[str, out_of("sasl.oauthbearer.assertion.template.file")] = "{}"
    claims: str = "{}"
    valid_s: Annotated[int, WrittenAs("sasl.oauthbearer.assertion.claim.exp.seconds")] = 300
    valid_before_s: Annotated[int, WrittenAs("sasl.oauthbearer.assertion.claim.nbf.seconds")] = 60
    with_id: Annotated[bool, WrittenAs("sasl.oauthbearer.assertion.claim.jti.include")] = False
    ready: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The source of tokens: a file, a token server, the ready token `text`, or this process.

    This process makes unsigned tokens: `claims` is the JSON object of a token, and `lifetime_s` its life in seconds. A
    token is renewed after `refresh_factor` of its life and up to `refresh_jitter` more. If its life is long enough for
    both limits, the renewal is at least `refresh_buffer_s` before its end and at least `refresh_period_s` after its
    begin. A token server is asked again until `retry_for_ms` have passed. `extensions` go to the broker beside the
    token.

    `grant_type` is the server's name for the login of a client by itself. A token that `may_be_opaque` ends when its
    server reports the end. A token counts for at most `longest_s`. A field without a key is an option of the JAAS line.
    """

    file: Annotated[str | None, out_of("sasl.oauthbearer.token.endpoint.url")] = None
    url: Annotated[str | None, out_of("sasl.oauthbearer.token.endpoint.url")] = None
    grant: Annotated[Grant, out_of("sasl.oauthbearer.jwt.retriever.class")] = "client_credentials"
    client_id: Annotated[str | None, out_of("sasl.oauthbearer.client.credentials.client.id")] = None
    client_secret: Annotated[str | None, out_of("sasl.oauthbearer.client.credentials.client.secret")] = field(
        default=None, repr=False
    )
    scope: Annotated[str | None, out_of("sasl.oauthbearer.scope")] = None
    encode_login: Annotated[bool, WrittenAs("sasl.oauthbearer.header.urlencode")] = False
    assertion: AssertionSettings | None = None
    tls: TlsSettings | None = None
    connect_timeout_ms: Annotated[int | None, out_of("sasl.login.connect.timeout.ms")] = None
    read_timeout_ms: Annotated[int | None, out_of("sasl.login.read.timeout.ms")] = None
    retry_backoff_ms: Annotated[int, WrittenAs("sasl.login.retry.backoff.ms")] = 100
    retry_for_ms: Annotated[int, WrittenAs("sasl.login.retry.backoff.max.ms")] = 10_000
    claims: str = "{}"
    lifetime_s: int = 3600
    subject: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    refresh_factor: Annotated[float, WrittenAs("sasl.login.refresh.window.factor")] = 0.8
    refresh_jitter: Annotated[float, WrittenAs("sasl.login.refresh.window.jitter")] = 0.05
    refresh_period_s: Annotated[int, WrittenAs("sasl.login.refresh.min.period.seconds")] = 60
    refresh_buffer_s: Annotated[int, WrittenAs("sasl.login.refresh.buffer.seconds")] = 300
    grant_type: str = "client_credentials"
    audience: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    refresh_token_file: str | None = None
    assertion_type: str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    text: str | None = field(default=None, repr=False)
    may_be_opaque: bool = False
    longest_s: int | None = None
