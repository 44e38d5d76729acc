"""The keys of a login with tokens (OAUTHBEARER): `sasl.oauthbearer.*`, `sasl.login.*`, and options of the JAAS line.

Follows Kafka's OAuthBearerLoginCallbackHandler with its DefaultJwtRetriever (KIP-768, KIP-1139) and, if the handler is
missing, its OAuthBearerUnsecuredLoginCallbackHandler. Strimzi's handler is read by `oauth_strimzi.py`.
"""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from twinlog.config.keys.table import SECURITY
from twinlog.config.properties import PropertyEntry
from twinlog.config.security.jaas import Login
from twinlog.config.security.oauth_strimzi import HANDLER as STRIMZI
from twinlog.config.security.oauth_strimzi import StrimziOAuthOptions, in_kafkas_words
from twinlog.config.security.tls import read_tls
from twinlog.config.text.config_reader import ConfigReader, read_fields
from twinlog.config.text.values import ValueRefusedError
from twinlog.errors.mistakes import ConfigWarning
from twinlog.settings.oauth import Algorithm, AssertionSettings, TokenSettings
from twinlog.settings.tls import TlsSettings

_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
HANDLERS = (f"{_PACKAGE}OAuthBearerLoginCallbackHandler", f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler")
UNSECURED = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
BY_URL, CREDENTIALS = f"{_PACKAGE}DefaultJwtRetriever", f"{_PACKAGE}ClientCredentialsJwtRetriever"
BEARER, FROM_FILE = f"{_PACKAGE}JwtBearerJwtRetriever", f"{_PACKAGE}FileJwtRetriever"

_OAUTH = "sasl.oauthbearer."
_URL = f"{_OAUTH}token.endpoint.url"
_ID, _SECRET = f"{_OAUTH}client.credentials.client.id", f"{_OAUTH}client.credentials.client.secret"
_ISSUER, _READY = f"{_OAUTH}assertion.claim.iss", f"{_OAUTH}assertion.file"
_CLAIMS = {
    "unsecuredLoginStringClaim_": "text",
    "unsecuredLoginNumberClaim_": "number",
    "unsecuredLoginListClaim_": "list",
}
_RESERVED = frozenset({"iat", "exp"})


def read_tokens(
    reading: ConfigReader, jaas: PropertyEntry, login: Login, warnings: list[ConfigWarning]
) -> TokenSettings | None:
    """The way to obtain tokens; None if a setting is wrong, which is then a problem of `reading`."""
    handler = reading.get_entry("sasl.login.callback.handler.class")
    if handler is not None and handler.value.strip() == STRIMZI:
        try:
            reading, login, beyond = in_kafkas_words(reading, jaas, login)
        except ValueRefusedError as error:
            reading.problems.refuse(jaas, error.found, error.expected)
            return None
        settings = _TokenSettingsReader(reading, jaas, login, warnings, beyond).read()
        return None if settings is None else beyond.with_rest(settings)
    return _TokenSettingsReader(reading, jaas, login, warnings).read()


@dataclass(slots=True)
class _TokenSettingsReader:
    reading: ConfigReader
    jaas: PropertyEntry
    login: Login
    warnings: list[ConfigWarning]
    beyond: StrimziOAuthOptions = field(default_factory=StrimziOAuthOptions)

    def read(self) -> TokenSettings | None:
        try:
            settings = self._unsigned() if self._handler() == "unsecured" else self._retrieved()
        except ValueRefusedError as error:
            self.reading.problems.refuse(self.jaas, error.found, error.expected)
            return None
        return None if settings is None else replace(settings, **read_fields(TokenSettings, self.reading))

    def _handler(self) -> Literal["unsecured", "retrieved"]:
        entry = self.reading.get_entry("sasl.login.callback.handler.class")
        named = "" if entry is None else entry.value.strip()
        if named == UNSECURED:
            return "unsecured"
        if entry is not None and named and named not in HANDLERS:
            self.reading.problems.refuse(
                entry, repr(named), f"{HANDLERS[0]} or {UNSECURED}; own Java classes are unsupported here"
            )
        # Java would make an unsigned token here, and fail for want of a name in it.
        return "retrieved" if named or self.reading.get_entry(_URL) is not None else "unsecured"

    # -- tokens of this process's own making

    def _unsigned(self) -> TokenSettings | None:
        options = self.login.options
        claims: dict[str, object] = {}
        for name, value in options.items():
            prefix = next((prefix for prefix in _CLAIMS if name.startswith(prefix)), None)
            if prefix is None:
                continue
            claim = name.removeprefix(prefix)
            if claim in _RESERVED:
                raise ValueRefusedError(
                    f"it sets the claim {claim}", "claims other than iat and exp, which are computed"
                )
            try:
                claims[claim] = _claim(_CLAIMS[prefix], value)
            except ValueError:
                raise ValueRefusedError(f"{name} should be a number", "a number") from None
        subject = claims.get(options.get("unsecuredLoginPrincipalClaimName", "").strip() or "sub")
        if not isinstance(subject, str) or not subject.strip():
            raise ValueRefusedError(
                "an unsigned token that lacks a name, or the lack of a token server",
                f"unsecuredLoginStringClaim_sub for tests, or {_URL} with "
                f"sasl.login.callback.handler.class = {HANDLERS[0]}",
            )
        lifetime = options.get("unsecuredLoginLifetimeSeconds", "3600").strip()
        if not lifetime.isdigit() or int(lifetime) == 0:
            raise ValueRefusedError(
                "unsecuredLoginLifetimeSeconds should be a number of seconds", "a whole number above 0"
            )
        return TokenSettings(
            claims=json.dumps(claims),
            lifetime_s=int(lifetime),
            subject=subject,
            extensions=self._extensions("unsecuredLoginExtension_"),
        )

    # -- tokens from elsewhere

    def _retrieved(self) -> TokenSettings | None:
        if self.beyond.token is not None:
            return TokenSettings(text=self.beyond.token, extensions=self._extensions("extension_"))
        retriever = self._retriever()
        entry = self.reading.get_entry(_URL)
        url = "" if entry is None else entry.value.strip()
        parts = urllib.parse.urlsplit(url)
        if entry is None or not url:
            self._lacking(_URL, "the URL of a token endpoint, or file:///path/of/a/token")
            return None
        if parts.scheme == "file" and retriever in {BY_URL, FROM_FILE}:
            path = urllib.parse.unquote(parts.path)
            self._check_file(entry, path)
            return TokenSettings(file=path, extensions=self._extensions("extension_"))
        if parts.scheme not in {"http", "https"} or not parts.hostname or retriever == FROM_FILE:
            kinds = "file:///path" if retriever == FROM_FILE else "http://, https:// or file:// and an address"
            self.reading.problems.refuse(entry, repr(url), kinds)
            return None
        assertion = self._assertion(bearer=retriever == BEARER)
        problems = self.reading.problems.all()
        client_id, secret = self._either(_ID, "clientId"), self._either(_SECRET, "clientSecret")
        if assertion is None and retriever != BEARER and self.reading.problems.all() == problems:
            if not client_id:
                self._lacking(_ID, "the id of this client at the token server")
            if not secret and self.beyond.by_client:
                self._lacking(_SECRET, "the credentials for the token server")
        reading = self.reading
        if reading.number("sasl.login.retry.backoff.max.ms") < reading.number("sasl.login.retry.backoff.ms"):
            longest = (
                reading.layer.get("sasl.login.retry.backoff.max.ms") or reading.layer["sasl.login.retry.backoff.ms"]
            )
            reading.problems.refuse(longest, longest.value, "a longest pause that is at least the first pause")
        return TokenSettings(
            url=url,
            grant="jwt_bearer" if retriever == BEARER else "client_credentials",
            client_id=client_id,
            client_secret=secret,
            scope=self._either(f"{_OAUTH}scope", "scope"),
            assertion=assertion,
            tls=self._tls() if parts.scheme == "https" else None,
            connect_timeout_ms=self._optional_number("sasl.login.connect.timeout.ms"),
            read_timeout_ms=self._optional_number("sasl.login.read.timeout.ms"),
            extensions=self._extensions("extension_"),
        )

    def _retriever(self) -> str:
        name = f"{_OAUTH}jwt.retriever.class"
        named = self.reading.text(name).strip()
        if named not in {BY_URL, CREDENTIALS, BEARER, FROM_FILE}:
            self.reading.problems.refuse(
                self.reading.layer[name],
                repr(named),
                "a class of Kafka's own; further Java classes are unsupported here",
            )
            return BY_URL
        return named

    def _either(self, key: str, option: str) -> str | None:
        """A setting, or the option that it was before (Kafka class ConfigOrJaas)."""
        entry = self.reading.get_entry(key)
        value = self.login.options.get(option, "") if entry is None else entry.value
        return value.strip() or None

    def _optional_number(self, name: str) -> int | None:
        return None if self.reading.get_entry(name) is None else self.reading.number(name)

    def _extensions(self, prefix: str) -> tuple[tuple[str, str], ...]:
        """The extensions that go to the broker beside the token (KIP-342)."""
        found = {
            name.removeprefix(prefix): value for name, value in self.login.options.items() if name.startswith(prefix)
        }
        for name, value in found.items():
            if not name.isalpha() or not name.isascii() or name == "auth" or "\x01" in value:
                raise ValueRefusedError(f"{prefix}{name} is an invalid extension", "letters as a name, other than auth")
        return tuple(sorted(found.items()))

    def _tls(self) -> TlsSettings:
        """For a token server Kafka takes `ssl.*` from the JAAS line, and if they are missing the system's
        authorities."""
        layer = {
            name: replace(self.jaas, key=f"{self.jaas.key}: {name}", value=value, written=value)
            for name, value in self.login.options.items()
            if name.startswith("ssl.")
        }
        return read_tls(ConfigReader(layer, SECURITY, self.reading.problems), self.warnings)

    # -- assertions

    def _assertion(self, *, bearer: bool) -> AssertionSettings | None:
        """The requested assertion; None if the client's secret is shown instead."""
        reading = self.reading
        ready = reading.get_entry(_READY)
        if ready is not None and ready.value.strip():
            self._check_file(ready, ready.value.strip())
            return AssertionSettings(file=ready.value.strip())
        if self.beyond.assertion is not None:
            return AssertionSettings(ready=self.beyond.assertion)
        if not bearer and reading.get_entry(_ISSUER) is None:
            return None
        key = self._private_key()
        header, claims = self._template()
        for name in ("aud", "iss", "sub"):
            entry = reading.get_entry(f"{_OAUTH}assertion.claim.{name}")
            if entry is not None and name not in claims:
                claims[name] = entry.value.strip()
        return AssertionSettings(
            private_key=key,
            algorithm=self._algorithm(),
            header=json.dumps(header),
            claims=json.dumps(claims),
            **read_fields(AssertionSettings, reading),
        )

    def _algorithm(self) -> Algorithm:
        name = f"{_OAUTH}assertion.algorithm"
        word = self.reading.text(name).strip().upper()
        if word not in {"RS256", "ES256"}:
            self.reading.problems.refuse(self.reading.layer[name], repr(word), "RS256 or ES256")
        return "ES256" if word == "ES256" else "RS256"

    def _private_key(self) -> str | None:
        entry = self.reading.get_entry(f"{_OAUTH}assertion.private.key.file")
        if entry is None:
            self._lacking(f"{_OAUTH}assertion.private.key.file", "the file with the key that signs assertions")
            return None
        content = self._check_file(entry, entry.value.strip())
        secret = self.reading.text(f"{_OAUTH}assertion.private.key.passphrase")
        if content is None:
            return None
        # The module is slow to import, and assertions are rarely signed.
        from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
            Encoding,
            NoEncryption,
            PrivateFormat,
            load_pem_private_key,
        )

        try:
            key = load_pem_private_key(content, secret.encode() or None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            self.reading.problems.refuse(
                entry, "its key is unreadable", "a key as PEM text, and its passphrase if it is encrypted"
            )
            return None
        wanted, kind = (
            (ec.EllipticCurvePrivateKey, "EC") if self._algorithm() == "ES256" else (rsa.RSAPrivateKey, "RSA")
        )
        if not isinstance(key, wanted) or (isinstance(key, ec.EllipticCurvePrivateKey) and key.key_size != 256):
            self.reading.problems.refuse(entry, f"a key unfit for {self._algorithm()}", f"an {kind} key")
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def _template(self) -> tuple[dict[str, object], dict[str, object]]:
        entry = self.reading.get_entry(f"{_OAUTH}assertion.template.file")
        if entry is None:
            return {}, {}
        content = self._check_file(entry, entry.value.strip())
        try:
            template = json.loads(content or b"{}")
            return dict(template.get("header", {})), dict(template.get("payload", {}))
        except (ValueError, AttributeError, TypeError):
            self.reading.problems.refuse(
                entry, "its file is an invalid template", 'JSON in the form {"header": {}, "payload": {}}'
            )
            return {}, {}

    # -- problems

    def _check_file(self, entry: PropertyEntry, path: str) -> bytes | None:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            found = f"{path!r} is unreadable ({(error.strerror or str(error)).lower()})"
            self.reading.problems.refuse(entry, found, "a file that this process may read")
            return None

    def _lacking(self, key: str, expected: str) -> None:
        self.reading.problems.refuse(self.jaas, f"a login with tokens, and {key} is missing", expected)


def _claim(kind: str, value: str) -> object:
    if kind == "number":
        return float(value)
    # The first character of a list is the separator of its items.
    return value if kind == "text" else [item for item in value[1:].split(value[:1]) if item] if value else []
