"""Reads the login from a `sasl.jaas.config` line.

The line has the form of an entry of a JAAS file: `<LoginModule class> <flag> <name>=<value> ... ;` (Kafka class
JaasConfig). Only the modules that log in with a password or a token are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from twinlog.config.security.stream_tokenizer import EQUALS, SEMICOLON, tokens_of

Family = Literal["PLAIN", "SCRAM", "OAUTHBEARER"]

EXPECTED: Mapping[str, str] = {
    "PLAIN": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";',
    "SCRAM": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="...";',
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required; "
    "with the client's id and secret in sasl.oauthbearer.client.credentials.*",
}
"""The form of the line for the mechanisms of a family."""

_MODULES: dict[str, Family] = {
    "PlainLoginModule": "PLAIN",
    "ScramLoginModule": "SCRAM",
    "OAuthBearerLoginModule": "OAUTHBEARER",
}
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})


class JaasError(ValueError):
    """The line differs from the accepted form. The text never repeats the content of the line."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """A login module with its control flag, in lower case, and its options."""

    module: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


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
    entry = parse_entry(text)
    options = entry.options
    family = _MODULES.get(entry.module.rsplit(".", 1)[-1])
    if family is None:
        raise JaasError("the login module is none of PlainLoginModule, ScramLoginModule and OAuthBearerLoginModule")
    for name in () if family == "OAUTHBEARER" else ("username", "password"):
        if name not in options:
            raise JaasError(f"{name} is missing")
    if family == "SCRAM" and options.get("tokenauth", "").lower() == "true":
        raise JaasError("it logs in with a delegation token, which is not supported here")
    return Login(family, options)


def parse_entry(text: str) -> JaasEntry:
    """The single entry that `text` holds, as Kafka's class JaasConfig reads it. Raises JaasError."""
    tokens = iter(tokens_of(text))
    module, flag = next(tokens, SEMICOLON), next(tokens, SEMICOLON)
    if module.sign:
        raise JaasError("the line does not begin with a login module and does not end in a semicolon")
    if flag.sign or flag.text.lower() not in _FLAGS:
        raise JaasError("the word 'required' does not follow the login module")
    options: dict[str, str] = {}
    for name in tokens:
        if name == SEMICOLON:
            if next(tokens, None) is not None:
                raise JaasError("something follows the semicolon; the line has one login module")
            return JaasEntry(module.text, flag.text.lower(), options)
        equals, value = next(tokens, None), next(tokens, None)
        if equals != EQUALS or value is None or value.sign:
            raise JaasError(f"an option is not of the form name=value{_hint(text)}")
        if not name.sign:
            options[name.text] = value.text
    raise JaasError(f"the line does not end in a semicolon{_hint(text)}")


def _hint(text: str) -> str:
    """The place at which the line differs from the probable intention."""
    for token in tokens_of(text, comments=True):
        if not token.closed:
            return "; a quote is never closed"
        if token.comment:
            return "; a '/' outside of quotes begins a comment"
        if token.sign and token not in {SEMICOLON, EQUALS}:
            return "; a value that is no plain word needs quotes"
    return ""
