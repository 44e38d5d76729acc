"""The identity and the trust of a client, from the keys that are the same for every client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from twinlog.config.properties import PropertyEntry
from twinlog.config.security.jaas import EXPECTED, JaasError, Login, parse_jaas
from twinlog.config.security.oauth import read_tokens
from twinlog.config.security.tls import read_tls
from twinlog.config.text.config_reader import ConfigReader
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, MistakeKind
from twinlog.settings.oauth import TokenSettings
from twinlog.settings.tls import TlsSettings

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_TOKENS = "OAUTHBEARER"
_INSTEAD = {
    "GSSAPI": ("Kerberos is unsupported", "the brokers need a listener for it"),
    "AWS_MSK_IAM": (
        "the Java login of Amazon MSK for IAM is unsupported",
        (
            "on MSK either turn on SASL/SCRAM and use SCRAM-SHA-512 at port 9096, or keep IAM with OAUTHBEARER at port "
            "9098: have aws-msk-iam-sasl-signer write its token to a file, and name this file by Strimzi's handler as "
            "docs/security.md#amazon-msk-with-iam shows"
        ),
    ),
}
"""Mechanisms that are unsupported, with the way out."""

Called = Callable[[str], str]
"""From the name of a setting to its key as the user writes it for a cluster."""


@dataclass(frozen=True, slots=True)
class Security:
    """The part of ClientSettings that is about security."""

    protocol: str
    tls: TlsSettings | None = None
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tokens: TokenSettings | None = None


def read_security(reading: ConfigReader, called: Called, file: str, warnings: list[ConfigWarning]) -> Security:
    """The security of the client whose settings `reading` reads; `called` is how the keys of its cluster are written.

    A problem with a missing key names `file`.
    """
    return _SecurityReader(reading, called, file, warnings).read()


@dataclass(slots=True)
class _SecurityReader:
    reading: ConfigReader
    called: Called
    file: str
    warnings: list[ConfigWarning]

    def read(self) -> Security:
        protocol = self.reading.text("security.protocol")
        tls = None
        if protocol.endswith("SSL"):
            tls = read_tls(self.reading, self.warnings)
        else:
            self._warn_of_unused("ssl.", protocol)
        if not protocol.startswith("SASL_"):
            self._warn_of_unused("sasl.jaas.config", protocol)
            return Security(protocol, tls)
        mechanism = self._mechanism()
        entry, login = self._login(mechanism)
        if entry is None or login is None:
            return Security(protocol, tls, mechanism)
        if login.family == _TOKENS:
            tokens = read_tokens(self.reading, entry, login, self.warnings)
            return Security(protocol, tls, mechanism, tokens=tokens)
        handler = self.reading.layer.get("sasl.login.callback.handler.class")
        if handler is not None:
            self._warn(handler, f"ignored, because sasl.mechanism is {mechanism}")
        return Security(protocol, tls, mechanism, login.username, login.password)

    def _mechanism(self) -> str:
        mechanism = self.reading.text("sasl.mechanism").strip()
        written = self.reading.get_entry("sasl.mechanism")
        if written is None and "sasl.mechanism" not in self.reading.layer:
            self._missing("sasl.mechanism", _or(MECHANISMS))
        elif written is not None and mechanism not in MECHANISMS:
            why, instead = _INSTEAD.get(mechanism, ("", ""))
            found = f"{mechanism!r}: {why}" if why else repr(mechanism)
            self.reading.problems.refuse(written, found, "; ".join(filter(None, (_or(MECHANISMS), instead))))
        return mechanism

    def _login(self, mechanism: str) -> tuple[PropertyEntry | None, Login | None]:
        family = mechanism.partition("-")[0]
        expected = EXPECTED.get(family, EXPECTED["PLAIN"])
        entry = self.reading.get_entry("sasl.jaas.config")
        if entry is None:
            if "sasl.jaas.config" not in self.reading.layer:
                self._missing("sasl.jaas.config", expected)
            return None, None
        try:
            login = parse_jaas(entry.value)
        except JaasError as error:
            if mechanism in _INSTEAD:
                # Its login module is unsupported, too, which is said at the mechanism.
                return entry, None
            self.reading.problems.refuse(entry, str(error), expected)
            return entry, None
        if mechanism in MECHANISMS and family != login.family:
            self.reading.problems.refuse(
                entry, f"a login module for {login.family}", f"a login for {mechanism}: {expected}"
            )
            return entry, None
        return entry, login

    def _warn_of_unused(self, prefix: str, protocol: str) -> None:
        """Settings of this cluster that its protocol ignores; settings at top level may be for another cluster."""
        written = self.reading.layer.get("security.protocol")
        if written is not None and written.unresolved is not None:
            # The protocol is unknown.
            return
        own = self.called("")
        for name, entry in self.reading.layer.items():
            if name.startswith(prefix) and (name == prefix or (own and entry.key.startswith(own))):
                self._warn(entry, f"ignored, because security.protocol is {protocol}")

    def _warn(self, entry: PropertyEntry, text: str) -> None:
        warning = entry.warning(text, MistakeKind.IGNORED)
        if warning not in self.warnings:
            self.warnings.append(warning)

    def _missing(self, key: str, expected: str) -> None:
        self.reading.problems.add(ConfigProblem(self.file, None, self.called(key), "missing", expected))


def _or(choices: tuple[str, ...]) -> str:
    return ", ".join(choices[:-1]) + " or " + choices[-1]
