"""The TLS settings for a cluster, which travel to the tasks, and the `ssl` context made from them.

The driver has read the contents of all files, so a task works without files on its host. Names of protocols are Java's
(`TLSv1.2`).
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Literal

from twinlog.settings.written import out_of

Version = Literal["TLSv1.2", "TLSv1.3"]

LEVEL_0 = "DEFAULT@SECLEVEL=0"
"""OpenSSL's name of the level at which keys and digests of any strength are accepted."""

ClientAuth = Literal["none", "requested", "required"]
"""Whether clients show a certificate."""

_CLIENTS: dict[ClientAuth, ssl.VerifyMode] = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: dict[Version, ssl.TLSVersion] = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The trusted certificates, the certificate of this process, and the allowed versions and ciphers.

    `authorities` are certificates as PEM text. As in Java, each of them is trusted, whether self-signed or signed by
    another certificate; None means the authorities of the operating system. `certificates` (this process's own, then
    its signers) and `private_key` are PEM text; either both are set, or both are None. `ciphers` are for TLS 1.2 by
    OpenSSL's names, `suites` for TLS 1.3 by their standard names; empty means the library's choice. `security_level` is
    OpenSSL's (SSL_CTX_set_security_level), from 0, at which keys and digests of any strength are accepted, to 5; None
    is the library's own, which is 2 with Python. `subject` is the name in this process's certificate, as brokers see
    it.
    """

    authorities: Annotated[str | None, out_of("ssl.truststore.location")] = field(default=None, repr=False)
    certificates: Annotated[str | None, out_of("ssl.keystore.location")] = field(default=None, repr=False)
    private_key: Annotated[str | None, out_of("ssl.keystore.key")] = field(default=None, repr=False)
    subject: str | None = None
    check_host: Annotated[bool, out_of("ssl.endpoint.identification.algorithm")] = True
    lowest: Annotated[Version, out_of("ssl.enabled.protocols")] = "TLSv1.2"
    highest: Annotated[Version, out_of("ssl.enabled.protocols")] = "TLSv1.3"
    ciphers: Annotated[tuple[str, ...], out_of("ssl.cipher.suites")] = ()
    suites: Annotated[tuple[str, ...], out_of("ssl.cipher.suites")] = ()
    security_level: Annotated[int | None, out_of("ssl.cipher.suites")] = None


class TlsContext(ssl.SSLContext):
    """A context that checks the suite of TLS 1.3: before Python 3.15 `ssl` cannot choose among these suites."""

    suites: tuple[str, ...] = ()
    shows_certificate = False

    def refused_suite(self, connection: ssl.SSLSocket) -> str | None:
        """The suite that the other side chose, if it is a forbidden suite of TLS 1.3."""
        agreed = connection.cipher()
        if not self.suites or agreed is None or connection.version() != "TLSv1.3" or agreed[0] in self.suites:
            return None
        return agreed[0]


@lru_cache(maxsize=32)
def tls_context(settings: TlsSettings) -> TlsContext:
    """A context for client connections, cached by the settings. Raises ssl.SSLError for unusable settings."""
    context = TlsContext(ssl.PROTOCOL_TLS_CLIENT)
    context.suites = settings.suites
    context.check_hostname = settings.check_host
    _load(context, settings, ssl.Purpose.SERVER_AUTH)
    context.shows_certificate = settings.certificates is not None
    return context


def server_context(settings: TlsSettings, client_auth: ClientAuth) -> ssl.SSLContext:
    """A context for the listeners of clients.

    Raises ssl.SSLError for unusable settings.

    A client that shows an untrusted certificate is refused unless `client_auth` is `none`. With `required`, a client
    that shows no certificate is refused, too. The suite of TLS 1.3 is OpenSSL's choice.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _CLIENTS[client_auth]
    _load(context, settings, ssl.Purpose.CLIENT_AUTH)
    return context


def _load(context: ssl.SSLContext, settings: TlsSettings, purpose: ssl.Purpose) -> None:
    context.minimum_version = _VERSIONS[settings.lowest]
    context.maximum_version = _VERSIONS[settings.highest]
    # Java takes every certificate of a trust store as an anchor, OpenSSL by itself only self-signed certificates.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.authorities is None:
        context.load_default_certs(purpose)
    else:
        context.load_verify_locations(cadata=settings.authorities)
    if settings.ciphers or settings.security_level is not None:
        level = "" if settings.security_level is None else f":@SECLEVEL={settings.security_level}"
        context.set_ciphers(":".join(settings.ciphers or ["DEFAULT"]) + level)
    if settings.certificates is not None and settings.private_key is not None:
        with _file_of(settings.certificates + settings.private_key) as path:
            context.load_cert_chain(path)


@contextmanager
def _file_of(text: str) -> Iterator[str]:
    """The path of a file with `text`, which only this process may read: `ssl` takes keys from files alone."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("twinlog", os.MFD_CLOEXEC)
        path = f"/proc/self/fd/{number}"
        if os.path.exists(path):
            with open(number, "w", encoding="ascii") as file:
                file.write(text)
                file.flush()
                yield path
            return
        os.close(number)
    number, path = tempfile.mkstemp(prefix="twinlog-")
    try:
        with open(number, "w", encoding="ascii") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)
