"""Reads what to log in with out of a `sasl.jaas.config` line.

The line has the form of one entry of a JAAS file: `<LoginModule class> <flag> <name>=<value> ... ;` (Kafka class
JaasConfig). Only the modules that log in with a password or a token are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Family = Literal["PLAIN", "SCRAM", "OAUTHBEARER"]

EXPECTED: Mapping[str, str] = {
    "PLAIN": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";',
    "SCRAM": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="...";',
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required; "
    "with the client's id and secret in sasl.oauthbearer.client.credentials.*",
}
"""What the line looks like for the mechanisms of a family."""

_MODULES: dict[str, Family] = {
    "PlainLoginModule": "PLAIN",
    "ScramLoginModule": "SCRAM",
    "OAuthBearerLoginModule": "OAUTHBEARER",
}
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
# A quoted value may hold escaped quotes; an unquoted word ends at a blank, an equals sign or the semicolon.
_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([=;])|([^\s=;"']+))""", re.DOTALL)


class JaasError(ValueError):
    """The line is not of the accepted form. The text never repeats what the line holds."""


@dataclass(frozen=True, slots=True)
class Login:
    """The options of the module, and the family of mechanisms it is for.

    A module for passwords always has `username` and `password`.
    """

    family: Family
    options: Mapping[str, str] = field(repr=False)

    @property
    def username(self) -> str:
        return self.options["username"]

    @property
    def password(self) -> str:
        return self.options["password"]


def parse_jaas(text: str) -> Login:
    """The login that `text` describes. Raises JaasError."""
    tokens = _tokens(text)
    if len(tokens) < 2 or tokens[-1] != ";":
        raise JaasError("the line does not end in a semicolon")
    module = tokens[0].rsplit(".", 1)[-1]
    family = _MODULES.get(module)
    if family is None:
        raise JaasError("the login module is none of PlainLoginModule, ScramLoginModule and OAuthBearerLoginModule")
    if tokens[1].lower() not in _FLAGS:
        raise JaasError("the word 'required' does not follow the login module")
    options = _options(tokens[2:-1])
    for name in () if family == "OAUTHBEARER" else ("username", "password"):
        if name not in options:
            raise JaasError(f"{name} is missing")
    if family == "SCRAM" and options.get("tokenauth", "").lower() == "true":
        raise JaasError("it logs in with a delegation token, which is not supported here")
    return Login(family, options)


def _options(tokens: list[str]) -> dict[str, str]:
    if len(tokens) % 3:
        raise JaasError("an option is not of the form name=value")
    options: dict[str, str] = {}
    for name, equals, value in zip(tokens[::3], tokens[1::3], tokens[2::3], strict=True):
        if equals != "=":
            raise JaasError("an option is not of the form name=value")
        options[name] = value
    return options


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise JaasError("a quote is never closed")
        double, single, sign, word = match.groups()
        quoted = double if double is not None else single
        tokens.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted is not None else sign or word)
        at = match.end()
    return tokens
