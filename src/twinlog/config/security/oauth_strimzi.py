"""A login with tokens in the words of Strimzi's client library, `oauth.*` options of the JAAS line, put into Kafka's.

The handler is io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler; its options follow Strimzi's classes
ClientConfig and Config, its requests class OAuthAuthenticator. The library also reads them from the environment, which
is ignored here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from twinlog.config.properties import PropertyEntry
from twinlog.config.security.jaas import Login
from twinlog.config.text.config_reader import ConfigReader
from twinlog.config.text.values import ValueRefusedError
from twinlog.settings.oauth import Grant, TokenSettings

HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
_KAFKAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_OPTIONS = {"oauth.client.id": "clientId", "oauth.client.secret": "clientSecret", "oauth.scope": "scope"}
_SETTINGS = {
    "oauth.token.endpoint.uri": "sasl.oauthbearer.token.endpoint.url",
    "oauth.client.assertion.location": "sasl.oauthbearer.assertion.file",
}
_SECONDS = {
    "oauth.connect.timeout.seconds": "sasl.login.connect.timeout.ms",
    "oauth.read.timeout.seconds": "sasl.login.read.timeout.ms",
}
_LEAST_S = 60
_EXTENSION, _TLS = "oauth.sasl.extension.", "oauth.ssl."


@dataclass(frozen=True, slots=True)
class StrimziOAuthOptions:
    """The options that Kafka's own handler lacks."""

    grant: Grant = "client_credentials"
    grant_type: str = "client_credentials"
    audience: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    refresh_token_file: str | None = None
    assertion: str | None = field(default=None, repr=False)
    assertion_type: str | None = None
    token: str | None = field(default=None, repr=False)
    longest_s: int | None = None

    @property
    def by_client(self) -> bool:
        """Whether the client logs in as itself, for which it needs a secret or an assertion."""
        return self.grant == "client_credentials"

    def with_rest(self, settings: TokenSettings) -> TokenSettings:
        """The settings with Strimzi's additional options."""
        return replace(
            settings,
            grant=self.grant if self.token is None else settings.grant,
            grant_type=self.grant_type,
            audience=self.audience,
            username=self.username,
            password=self.password,
            refresh_token=self.refresh_token,
            refresh_token_file=self.refresh_token_file,
            assertion_type=self.assertion_type or settings.assertion_type,
            longest_s=self.longest_s,
            may_be_opaque=True,
        )


def in_kafkas_words(
    reading: ConfigReader, jaas: PropertyEntry, login: Login
) -> tuple[ConfigReader, Login, StrimziOAuthOptions]:
    """Equivalent settings and options of Kafka's own handler, and the options that it lacks.

    Raises ValueRefusedError for a wrong option.
    """
    options = {name: value for name, value in login.options.items() if name.startswith("oauth.") and value}
    beyond = _beyond(options)
    if options.get("oauth.client.secret") or not beyond.by_client:
        # Strimzi's handler takes the first that it finds, and an assertion comes last.
        options.pop("oauth.client.assertion.location", None)
        beyond = replace(beyond, assertion=None)
    # It encodes them in any case, as RFC 6749 has it.
    made = {"sasl.login.callback.handler.class": _KAFKAS, "sasl.oauthbearer.header.urlencode": "true"}
    made |= {key: options[name] for name, key in _SETTINGS.items() if name in options}
    made |= {key: str(_seconds(name, options) * 1000) for name, key in _SECONDS.items() if name in options}
    token = options.get("oauth.access.token.location")
    if token:
        made["sasl.oauthbearer.token.endpoint.url"] = Path(token).absolute().as_uri()
    layer: Mapping[str, PropertyEntry] = {
        **reading.layer,
        **{key: replace(jaas, key=f"{jaas.key}: {key}", value=value, written=value) for key, value in made.items()},
    }
    own = {kafkas: options[name] for name, kafkas in _OPTIONS.items() if name in options}
    # An empty option has a meaning, too.
    own |= {name.removeprefix("oauth."): value for name, value in login.options.items() if name.startswith(_TLS)}
    own |= {
        f"extension_{name.removeprefix(_EXTENSION)}": value
        for name, value in login.options.items()
        if name.startswith(_EXTENSION)
    }
    return reading.with_layer(layer), replace(login, options=own), beyond


def _beyond(options: Mapping[str, str]) -> StrimziOAuthOptions:
    username, password = (options.get(f"oauth.password.grant.{part}") for part in ("username", "password"))
    refresh, file = (options.get(f"oauth.refresh.token{part}") for part in ("", ".location"))
    token = None if options.get("oauth.access.token.location") else options.get("oauth.access.token")
    grant: Grant = "client_credentials"
    if refresh is not None or file is not None:
        grant = "refresh_token"
    elif username is not None:
        grant = "password"
        if password is None:
            raise ValueRefusedError(
                "oauth.password.grant.username, but the password is missing", "oauth.password.grant.password"
            )
    longest = "oauth.max.token.expiry.seconds"
    if longest in options and _seconds(longest, options) < _LEAST_S:
        raise ValueRefusedError(f"{longest} below {_LEAST_S}", f"at least {_LEAST_S}, or an absent key")
    return StrimziOAuthOptions(
        grant=grant,
        grant_type=options.get("oauth.client.credentials.grant.type", "client_credentials"),
        audience=options.get("oauth.audience"),
        username=username if grant == "password" else None,
        password=password if grant == "password" else None,
        refresh_token=None if file is not None else refresh,
        refresh_token_file=file,
        assertion=None if options.get("oauth.client.assertion.location") else options.get("oauth.client.assertion"),
        assertion_type=options.get("oauth.client.assertion.type"),
        token=token,
        longest_s=_seconds(longest, options) if longest in options else None,
    )


def _seconds(name: str, options: Mapping[str, str]) -> int:
    text = options[name].strip()
    if not text.isdigit():
        raise ValueRefusedError(f"{name} should be a number of seconds", "a whole number")
    return int(text)
