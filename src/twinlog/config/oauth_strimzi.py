"""A login with tokens as Strimzi's client library is told of it: `oauth.*` options of the JAAS line, in Kafka's words.

The handler is io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler; its options are those of Strimzi's
classes ClientConfig and Config. The library also reads them from the environment, which is not done here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from twinlog.config.jaas import Login
from twinlog.config.properties import Entry
from twinlog.config.reading import Reading
from twinlog.config.refused import ValueRefusedError

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
_REFUSED = {
    "oauth.access.token": "oauth.access.token.location, a file that holds it",
    "oauth.client.assertion": "oauth.client.assertion.location, a file that holds it",
    "oauth.refresh.token": "oauth.client.secret; Kafka's own client has no refresh tokens either",
    "oauth.password.grant.username": "oauth.client.secret; Kafka's own client has no login with a password either",
    "oauth.audience": "oauth.scope; Kafka's own client names no audience either",
}
_GRANTS = {"", "client_credentials"}
_EXTENSION, _TLS = "oauth.sasl.extension.", "oauth.ssl."


def in_kafkas_words(reading: Reading, jaas: Entry, login: Login) -> tuple[Reading, Login]:
    """Settings and options that mean the same to Kafka's own handler. Raises ValueRefusedError for what has none."""
    options = {name: value for name, value in login.options.items() if name.startswith("oauth.")}
    for name, expected in _REFUSED.items():
        if options.get(name):
            raise ValueRefusedError(f"the option {name}", expected)
    grant = options.get("oauth.client.credentials.grant.type", "")
    if grant not in _GRANTS:
        raise ValueRefusedError("another grant type", "client_credentials, which is the default")
    made = {"sasl.login.callback.handler.class": _KAFKAS}
    made |= {key: options[name] for name, key in _SETTINGS.items() if options.get(name)}
    made |= {key: _milliseconds(name, options) for name, key in _SECONDS.items() if options.get(name)}
    token = options.get("oauth.access.token.location")
    if token:
        made["sasl.oauthbearer.token.endpoint.url"] = Path(token).absolute().as_uri()
    layer: Mapping[str, Entry] = {
        **reading.layer,
        **{key: replace(jaas, key=f"{jaas.key}: {key}", value=value, written=value) for key, value in made.items()},
    }
    own = {kafkas: options[name] for name, kafkas in _OPTIONS.items() if name in options}
    own |= {name.removeprefix("oauth."): value for name, value in options.items() if name.startswith(_TLS)}
    own |= {
        f"extension_{name.removeprefix(_EXTENSION)}": value
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    }
    return reading.of(layer), replace(login, options=own)


def _milliseconds(name: str, options: Mapping[str, str]) -> str:
    text = options[name].strip()
    if not text.isdigit():
        raise ValueRefusedError(f"{name} is no number of seconds", "a whole number")
    return str(int(text) * 1000)
