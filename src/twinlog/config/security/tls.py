"""The keys `ssl.*` of a client, with the files they name and the cipher suites; mistakes show before a start.

Allowed combinations follow Kafka's class DefaultSslEngineFactory. Java and OpenSSL use the same names of cipher suites
for TLS 1.3. Suites that Java 17 or OpenSSL 3 have dropped are left out.
"""

from __future__ import annotations

import difflib
import re
import ssl
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from twinlog.config.properties import PropertyEntry
from twinlog.config.security.store_error import StoreError, StoreType
from twinlog.config.text.config_reader import ConfigReader
from twinlog.errors.mistakes import ConfigWarning, MistakeKind
from twinlog.settings.tls import LEVEL_0, TlsSettings, Version, tls_context

if TYPE_CHECKING:
    from twinlog.config.security.stores import Identity

SUITES = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""The suites of TLS 1.3 that Java and OpenSSL offer."""

OPENSSL_NAMES = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_DSS_WITH_AES_256_GCM_SHA384": "DHE-DSS-AES256-GCM-SHA384",
    "TLS_DHE_DSS_WITH_AES_128_GCM_SHA256": "DHE-DSS-AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": "DHE-RSA-AES128-SHA256",
    "TLS_DHE_DSS_WITH_AES_256_CBC_SHA256": "DHE-DSS-AES256-SHA256",
    "TLS_DHE_DSS_WITH_AES_128_CBC_SHA256": "DHE-DSS-AES128-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA": "DHE-RSA-AES256-SHA",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA": "DHE-RSA-AES128-SHA",
    "TLS_DHE_DSS_WITH_AES_256_CBC_SHA": "DHE-DSS-AES256-SHA",
    "TLS_DHE_DSS_WITH_AES_128_CBC_SHA": "DHE-DSS-AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
}
"""The suites of TLS 1.2, by Java's names, with OpenSSL's names."""


_SUITES = "ssl.cipher.suites"
_LEVEL = re.compile(r"DEFAULT@SECLEVEL=([0-5])")
_VERSIONS: tuple[Version, ...] = ("TLSv1.2", "TLSv1.3")
_OLD_VERSIONS = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
_ANY_VERSION = ("TLS", "SSL")
_TYPES: tuple[StoreType, ...] = ("PEM", "PKCS12", "JKS")

Store = Literal["ssl.keystore.", "ssl.truststore."]


def read_tls(reading: ConfigReader, warnings: list[ConfigWarning]) -> TlsSettings:
    """The TLS settings of a client. A wrong setting becomes a problem of `reading`."""
    before = len(reading.problems.all())
    trust = _StoreSettings(reading, "ssl.truststore.").trusted()
    who = _StoreSettings(reading, "ssl.keystore.").identity()
    versions = _Versions(reading, warnings)
    allowed = _Ciphers.of(reading)
    ciphers, suites = versions.narrowed_to((allowed.ciphers, allowed.suites))
    settings = TlsSettings(
        authorities=trust,
        certificates=who.certificates if who else None,
        private_key=who.private_key if who else None,
        subject=who.subject if who else None,
        check_host=_checks_host(reading),
        lowest=versions.lowest,
        highest=versions.highest,
        ciphers=ciphers,
        suites=suites,
        security_level=allowed.level,
    )
    if len(reading.problems.all()) == before:
        _try(settings, reading)
    return _shared(settings)


@lru_cache(maxsize=32)
def _shared(settings: TlsSettings) -> TlsSettings:
    """A single object for equal settings: pickled with a flow, it travels once rather than with each client."""
    return settings


def _checks_host(reading: ConfigReader) -> bool:
    name = "ssl.endpoint.identification.algorithm"
    algorithm = reading.text(name).strip().lower()
    if algorithm not in {"", "https"}:
        entry = reading.layer[name]
        reading.problems.refuse(entry, repr(entry.value), "https, or an empty text to turn the check off")
    return algorithm != ""


@dataclass(slots=True)
class _StoreSettings:
    """The settings of a store, below `prefix`."""

    reading: ConfigReader
    prefix: Store

    def _entry(self, name: str) -> PropertyEntry | None:
        entry = self.reading.get_entry(name if name == "ssl.key.password" else self.prefix + name)
        return None if entry is None or not entry.value.strip() else entry

    def trusted(self) -> str | None:
        location, inline = self._entry("location"), self._entry("certificates")
        kind = self._kind(location, inline)
        if not self._agree(location, inline, kind) or kind is None:
            return None
        # The modules that open stores are slow to import, and most files lack stores.
        from twinlog.config.security.stores import pem_certificates, trusted_certificates  # noqa: PLC0415

        try:
            if inline is not None:
                return pem_certificates(inline.value, "certificates")
            content = self._content(location)
            return None if content is None else trusted_certificates(content, kind, self._secret("password"))
        except StoreError as error:
            self._blame(error)
            return None

    def identity(self) -> Identity | None:
        location, key, chain = self._entry("location"), self._entry("key"), self._entry("certificate.chain")
        kind = self._kind(location, key or chain)
        if not self._agree(location, key or chain, kind) or kind is None:
            return None
        from twinlog.config.security.stores import identity, pem_identity  # noqa: PLC0415

        key_password = self._entry("ssl.key.password")
        secret = None if key_password is None else key_password.value.strip()
        try:
            if key is not None or chain is not None:
                if key is None or chain is None:
                    lone, lacking = (chain, "key") if key is None else (key, "certificate.chain")
                    assert lone is not None
                    self.reading.problems.refuse(lone, f"without {self.prefix}{lacking}", "both of them")
                    return None
                return pem_identity(key.value, chain.value, secret, "key", "certificate.chain")
            content = self._content(location)
            if content is None:
                return None
            return identity(content, kind, self._secret("password"), secret)
        except StoreError as error:
            self._blame(error)
            return None

    def _kind(self, location: PropertyEntry | None, inline: PropertyEntry | None) -> StoreType | None:
        """The type of the store; None if the store is missing, or if its type is unreadable."""
        if location is None and inline is None:
            return None
        word = self.reading.text(f"{self.prefix}type").strip().upper()
        if word in _TYPES:
            return word
        entry = self.reading.layer[f"{self.prefix}type"]
        self.reading.problems.refuse(
            entry, repr(entry.value), "PEM, PKCS12 or JKS; other stores of Java's have to be converted with keytool"
        )
        return None

    def _agree(self, location: PropertyEntry | None, inline: PropertyEntry | None, kind: StoreType | None) -> bool:
        password = self._entry("password")
        problems = self.reading.problems
        if password is not None and location is None and inline is None:
            problems.refuse(password, f"without {self.prefix}location", "both keys, or both absent")
            return False
        if password is not None and kind == "PEM":
            more = "; the password of a key is ssl.key.password" if self.prefix == "ssl.keystore." else ""
            problems.refuse(
                password, "beside a store of type PEM", f"an absent key: PEM lacks a password of its own{more}"
            )
            return False
        if inline is None:
            return True
        if location is not None:
            problems.refuse(inline, f"beside {location.named}", "one of the two")
            return False
        if kind is not None and kind != "PEM":
            problems.refuse(inline, f"beside the type {kind}", f"{self.prefix}type = PEM")
            return False
        return True

    def _content(self, location: PropertyEntry | None) -> bytes | None:
        if location is None:
            return None
        path = Path(location.value.strip())
        try:
            return path.read_bytes()
        except OSError as error:
            found = f"{str(path)!r} is unreadable ({(error.strerror or str(error)).lower()})"
            self.reading.problems.refuse(location, found, "a file that this process may read", MistakeKind.STORE)
            return None

    def _secret(self, name: str) -> str | None:
        entry = self._entry(name)
        return None if entry is None else entry.value.strip()

    def _blame(self, error: StoreError) -> None:
        name = "ssl.key.password" if error.setting == "key.password" else self.prefix + error.setting
        entry = self._entry("ssl.key.password" if error.setting == "key.password" else error.setting)
        if entry is not None:
            self.reading.problems.refuse(entry, error.found, error.expected, MistakeKind.STORE)
            return
        present = ("location", "key", "certificates", "certificate.chain")
        beside = next(entry for entry in map(self._entry, present) if entry is not None)
        self.reading.problems.refuse(beside, f"{name} {error.found}", error.expected, MistakeKind.STORE)


class _Versions:
    """The versions of TLS that may be used."""

    def __init__(self, reading: ConfigReader, warnings: list[ConfigWarning]) -> None:
        self._reading = reading
        self.lowest: Version = "TLSv1.2"
        self.highest: Version = "TLSv1.3"
        enabled = self._enabled(warnings)
        if enabled:
            self.lowest, self.highest = enabled[0], enabled[-1]
        self._cap()

    def _enabled(self, warnings: list[ConfigWarning]) -> list[Version]:
        name = "ssl.enabled.protocols"
        items = self._reading.items(name)
        entry = self._reading.layer.get(name)
        if entry is None or not items:
            return list(_VERSIONS)
        unknown = [item for item in items if item not in (*_VERSIONS, *_OLD_VERSIONS)]
        enabled = [version for version in _VERSIONS if version in items]
        if unknown or not enabled:
            found = repr(unknown[0]) if unknown else repr(entry.value)
            self._reading.problems.refuse(entry, found, "TLSv1.2, TLSv1.3 or both; older versions are unsupported")
        elif set(items) & set(_OLD_VERSIONS):
            warning = entry.warning("versions of TLS before 1.2 are unsupported", MistakeKind.TLS)
            if warning not in warnings:
                warnings.append(warning)
        return enabled

    def _cap(self) -> None:
        name = "ssl.protocol"
        word = self._reading.text(name).strip()
        if word in _ANY_VERSION or word == "TLSv1.3":
            return
        entry = self._reading.layer[name]
        if word not in _VERSIONS:
            self._reading.problems.refuse(entry, repr(entry.value), "TLSv1.2, TLSv1.3 or TLS")
        elif self.lowest == "TLSv1.3":
            self._reading.problems.refuse(entry, repr(entry.value), "TLSv1.3, the only entry of ssl.enabled.protocols")
        else:
            self.highest = "TLSv1.2"

    def narrowed_to(self, allowed: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """If only suites of a single version are allowed, only that version is used."""
        ciphers, suites = allowed
        if not ciphers and not suites:
            return allowed
        entry = self._reading.layer[_SUITES]
        if not suites:
            if self.lowest == "TLSv1.3":
                self._reading.problems.refuse(
                    entry, "suites of TLS 1.2 alone", f"a suite of TLS 1.3: {', '.join(SUITES)}"
                )
            else:
                self.highest = "TLSv1.2"
        elif not ciphers:
            if self.highest == "TLSv1.2":
                self._reading.problems.refuse(
                    entry, "suites of TLS 1.3 alone", "a suite of TLS 1.2, or TLSv1.3 enabled"
                )
            else:
                self.lowest = "TLSv1.3"
        return allowed


@dataclass(frozen=True, slots=True)
class _Ciphers:
    """The values that `ssl.cipher.suites` allows: for TLS 1.2 by OpenSSL's names, for TLS 1.3, and OpenSSL's security
    level."""

    ciphers: tuple[str, ...]
    suites: tuple[str, ...]
    level: int | None

    @classmethod
    def of(cls, reading: ConfigReader) -> _Ciphers:
        items = reading.items(_SUITES)
        levels = [int(found[1]) for item in items if (found := _LEVEL.fullmatch(item)) is not None]
        for item in items:
            if item not in OPENSSL_NAMES and item not in SUITES and _LEVEL.fullmatch(item) is None:
                near = difflib.get_close_matches(item, (*SUITES, *OPENSSL_NAMES), 1)
                guess = f"; did you mean {near[0]}?" if near else ""
                expected = f"suites of TLS 1.2 or 1.3 by their names in Java, or {LEVEL_0[:-1]}0 to 5{guess}"
                reading.problems.refuse(reading.layer[_SUITES], repr(item), expected)
        return cls(
            tuple(OPENSSL_NAMES[item] for item in items if item in OPENSSL_NAMES),
            tuple(item for item in items if item in SUITES),
            levels[-1] if levels else None,
        )


def _try(settings: TlsSettings, reading: ConfigReader) -> None:
    """OpenSSL itself decides about the accepted settings."""
    entry = next((entry for name, entry in reading.layer.items() if name.startswith("ssl.")), None)
    if entry is None:
        return
    try:
        context = tls_context(settings)
    except ssl.SSLError as error:
        if settings.ciphers and "CIPHER" in str(error).upper():
            reading.problems.refuse(reading.layer[_SUITES], "OpenSSL here lacks all of them", "others")
            return
        named = reading.layer.get("ssl.keystore.location") or reading.layer.get("ssl.keystore.key") or entry
        reading.problems.refuse(
            named,
            f"OpenSSL refuses it ({error.reason or error})",
            f"stronger keys and certificates, or {_SUITES} = {LEVEL_0}",
        )
        return
    offered = {str(cipher["name"]) for cipher in context.get_ciphers()}
    for java, name in OPENSSL_NAMES.items():
        if name in settings.ciphers and name not in offered:
            reading.problems.refuse(reading.layer[_SUITES], repr(java), "suites that OpenSSL here has")
