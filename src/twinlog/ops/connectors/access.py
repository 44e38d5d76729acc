"""The address of a worker's REST API and its login; passwords come from the environment or from a netrc file."""

from __future__ import annotations

import base64
import netrc
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from twinlog.errors import ConfigError, ConfigProblem

URL = "TWINLOG_CONNECT_URL"
USER, PASSWORD = "TWINLOG_CONNECT_USER", "TWINLOG_CONNECT_PASSWORD"
KEY_PASSWORD = "TWINLOG_CONNECT_KEY_PASSWORD"
NETRC = "NETRC"
DEFAULT_URL = "http://localhost:8083"

LOGIN_HELP = (
    f"Login: {USER} and {PASSWORD}, or the entry for the worker's host in a netrc file (`{NETRC}`, otherwise "
    f"~/.netrc). Passphrase of --key: {KEY_PASSWORD}."
)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: authorities to trust besides the system's, the client's certificate, and its key if the certificate's
    file lacks it."""

    cacert: Path | None = None
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """An address with its TLS context and its login. `path` is the prefix of the API, as behind a proxy."""

    host: str
    port: int
    path: str = ""
    tls: ssl.SSLContext | None = None
    authorization: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The address for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}{self.path}"


def access(
    url: str,
    files: TlsFiles,
    environment: Mapping[str, str] = os.environ,
    warn: Callable[[str], None] = lambda text: None,
) -> Access:
    """The way to the worker at `url`. Raises ConfigError for a wrong address, file or variable."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.username is not None or parts.password is not None:
        raise _wrong("--url", "a login in it, which everybody sees", f"{USER} and {PASSWORD}, or a netrc file")
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == -1 or parts.query or parts.fragment:
        raise _wrong("--url", repr(url), f"an address such as {DEFAULT_URL}")
    secure = parts.scheme == "https"
    if not secure and files != TlsFiles():
        raise _wrong("--url", repr(url), "https, since --cacert, --cert and --key are for that")
    return Access(
        parts.hostname,
        port or (443 if secure else 80),
        parts.path.rstrip("/"),
        _context(files, environment) if secure else None,
        _authorization(parts.hostname, environment, warn),
    )


def _authorization(host: str, environment: Mapping[str, str], warn: Callable[[str], None]) -> str | None:
    """The header of a login; None if both the environment and the netrc file lack a login."""
    user, password = environment.get(USER), environment.get(PASSWORD)
    if user is None and password is not None:
        raise _wrong(USER, "missing", f"the user whose password is in {PASSWORD}")
    if user is None:
        user, password = _of_netrc(host, environment, warn)
    if not user:
        return None
    return "Basic " + base64.b64encode(f"{user}:{password or ''}".encode()).decode()


def _of_netrc(host: str, environment: Mapping[str, str], warn: Callable[[str], None]) -> tuple[str | None, str | None]:
    named = environment.get(NETRC)
    try:
        # With name None, Python takes ~/.netrc, and refuses a file that other users may read.
        found = netrc.netrc(named).authenticators(host)
    except FileNotFoundError as error:
        if named is None:
            return None, None
        raise _wrong(NETRC, f"{error.strerror}: {named}", "a netrc file") from None
    except (netrc.NetrcParseError, OSError, UnicodeError) as error:
        # The text of this error may be a part of the file.
        what = error.strerror if isinstance(error, OSError) else _netrc_trouble(error)
        if named is not None:
            raise _wrong(NETRC, f"{named}: {what}", "a netrc file") from None
        warn(f"~/.netrc is not used: {what}")
        return None, None
    return (None, None) if found is None else (found[0], found[2])


def _netrc_trouble(error: Exception) -> str:
    if isinstance(error, netrc.NetrcParseError):
        if "permissive" in error.msg or "owner" in error.msg:
            return "others may read it (chmod 600 ends that)"
        return f"it cannot be understood at line {error.lineno}"
    return "it is no text"


def _context(files: TlsFiles, environment: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if files.cacert is not None:
        try:
            context.load_verify_locations(files.cacert)
        except (OSError, ssl.SSLError) as error:
            raise _wrong("--cacert", _why(files.cacert, error), "a PEM file with certificates of authorities") from None
    if files.cert is None:
        if files.key is not None:
            raise _wrong("--key", "given without --cert", "both, or --cert alone with a file that has both")
        return context

    def passphrase() -> str:
        # If this function were missing, OpenSSL would ask at the terminal.
        return environment.get(KEY_PASSWORD, "")

    try:
        context.load_cert_chain(files.cert, files.key, passphrase)
    except (OSError, ssl.SSLError) as error:
        where = "--cert" if files.key is None else "--cert and --key"
        expected = f"PEM files of a certificate and its key, and in {KEY_PASSWORD} the passphrase if it has one"
        raise _wrong(where, _why(files.cert, error), expected) from None
    return context


def _why(file: Path, error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return f"{file}: {reason or 'cannot be used'}"


def _wrong(key: str, found: str, expected: str) -> ConfigError:
    return ConfigError([ConfigProblem("twinlog connectors", None, key, found, expected)])
