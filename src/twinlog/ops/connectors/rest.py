"""Asks a worker's REST API: its address, the login, and a retry while the worker starts or its group rebalances.

Passwords come from the environment or from a netrc file.
"""

from __future__ import annotations

import base64
import json
import netrc
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from twinlog.clock import SYSTEM, Clock
from twinlog.errors import ClusterError, ConfigError, RequestError
from twinlog.errors.mistakes import ConfigProblem
from twinlog.kafka.retry import CONNECT_REST

URL = "TWINLOG_CONNECT_URL"
USER, PASSWORD = "TWINLOG_CONNECT_USER", "TWINLOG_CONNECT_PASSWORD"
KEY_PASSWORD = "TWINLOG_CONNECT_KEY_PASSWORD"
CACERT, CERT, KEY = "TWINLOG_CONNECT_CACERT", "TWINLOG_CONNECT_CERT", "TWINLOG_CONNECT_KEY"
NETRC = "NETRC"
DEFAULT_URL = "http://localhost:8083"

LOGIN_HELP = (
    f"Login: {USER} and {PASSWORD}, or the entry for the worker's host in a netrc file (`{NETRC}`, otherwise "
    f"~/.netrc). Passphrase of --key: {KEY_PASSWORD}."
)

Json = Any

REQUEST_S = 120.0
"""Connect itself gives a request up after 90."""

_SHOWN = 300


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: authorities to trust besides the system's, the client's certificate, and its key if the certificate's
    file lacks it."""

    cacert: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> TlsFiles:
        """The files that the variables of `--cacert`, `--cert` and `--key` name."""
        cacert, cert, key = (Path(environment[one]) if environment.get(one) else None for one in (CACERT, CERT, KEY))
        return cls(cacert, cert, key)


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
        raise _wrong("--url", repr(url), f"an address, for example {DEFAULT_URL}")
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
        warn(f"~/.netrc is ignored: {what}")
        return None, None
    return (None, None) if found is None else (found[0], found[2])


def _netrc_trouble(error: Exception) -> str:
    if isinstance(error, netrc.NetrcParseError):
        if "permissive" in error.msg or "owner" in error.msg:
            return "other users may read it (chmod 600 ends that)"
        return f"it is wrong at line {error.lineno}"
    return "it is binary"


def _context(files: TlsFiles, environment: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if files.cacert is not None:
        try:
            context.load_verify_locations(files.cacert)
        except (OSError, ssl.SSLError) as error:
            raise _wrong("--cacert", _why(files.cacert, error), "a PEM file with certificates of authorities") from None
    if files.cert is None:
        if files.key is not None:
            raise _wrong("--key", "--cert is missing beside it", "both, or --cert alone with a file that has both")
        return context

    def passphrase() -> str:
        # If this function were missing, OpenSSL would ask at the terminal.
        return environment.get(KEY_PASSWORD, "")

    try:
        context.load_cert_chain(files.cert, files.key, passphrase)
    except (OSError, ssl.SSLError) as error:
        where = "--cert" if files.key is None else "--cert and --key"
        expected = f"PEM files of a certificate and its key, and in {KEY_PASSWORD} the passphrase of the key, if any"
        raise _wrong(where, _why(files.cert, error), expected) from None
    return context


def _why(file: Path, error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return f"{file}: {reason or 'unusable'}"


def _wrong(key: str, found: str, expected: str) -> ConfigError:
    return ConfigError([ConfigProblem("twinlog connectors", None, key, found, expected)])


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    content: bytes
    location: str | None = None

    @property
    def json(self) -> Json:
        """Its content, parsed; None if it is malformed."""
        try:
            return json.loads(self.content)
        except ValueError:
            return None

    @property
    def message(self) -> str | None:
        """The message of an error, in the form of Connect's errors; None if it has another form."""
        body = self.json
        return (
            plain(str(body["message"])) if isinstance(body, dict) and {"error_code", "message"} <= body.keys() else None
        )


class ConnectRest:
    """The REST API of a worker. A failed request raises ClusterError, a request that the worker refuses RequestError.

    A request that the worker refuses for now, while its group rebalances (409, or 500 with that reason) or it still
    starts (503), is sent again for `patience_s` seconds. With `listens_later` this includes refused connections. `note`
    gets a line for each thing that is waited for.
    """

    def __init__(
        self,
        access: Access,
        note: Callable[[str], None],
        *,
        patience_s: float = CONNECT_REST.patience_s,
        listens_later: bool = False,
        request_s: float = REQUEST_S,
        clock: Clock = SYSTEM,
    ) -> None:
        self.access = access
        self.note = note
        self.clock = clock
        self._patience_s = patience_s
        self._listens_later = listens_later
        self._request_s = request_s

    def get(self, *path: str, **query: str) -> Json:
        return self.send_request("GET", *path, query=query)[1]

    def send_request(
        self, method: str, *path: str, query: Mapping[str, str] | None = None, body: Json = None
    ) -> tuple[int, Json]:
        """Return the status and the JSON of the answer, None if its body is empty. Each item of `path` is a part of the
        path, in clear form."""
        until = self.clock.monotonic() + self._patience_s
        target = self.access.path + "".join(f"/{_quoted(part)}" for part in path)
        if query:
            target += f"?{urlencode(query)}"
        content = None if body is None else json.dumps(body).encode()
        backoff, noted = CONNECT_REST.backoff(), ""
        while True:
            answer, waits_for = self._try(method, target, content)
            if answer is not None and waits_for is None:
                if answer.status == 400 and answer.message is None and any("/" in part for part in path):
                    # Jetty's word for it is "Ambiguous URI path separator".
                    raise RequestError(400, "this worker refuses requests about a name with a slash in it")
                return self._read(answer)
            wait_s, left_s = backoff.count_failure(), until - self.clock.monotonic()
            if left_s < wait_s:
                if answer is None:
                    raise ClusterError(f"{waits_for}")
                raise RequestError(answer.status, f"{waits_for}, and that took longer than {self._patience_s:g} s")
            if waits_for != noted:
                self.note(f"{waits_for}; trying again for at most {left_s:.0f} s")
                noted = waits_for or ""
            self.clock.sleep(wait_s)

    def _try(self, method: str, target: str, content: bytes | None) -> tuple[_Response | None, str | None]:
        """Return an answer, and the condition to wait for before the next attempt; None if the answer is final."""
        try:
            answer = self._send(method, target, content)
        except ConnectionRefusedError:
            nothing = f"the port is closed at {self.access.url}"
            if self._listens_later:
                return None, nothing
            raise ClusterError(
                f"{nothing}: name the address of a worker with --url; --listens-later waits until a worker listens"
            ) from None
        message = answer.message
        # For requests that only read, Kafka's worker answers a rebalance with 500 in place of 409.
        if answer.status == 500 and "rebalance is expected" in (message or ""):
            return answer, f"the workers rebalance: {message}"
        if answer.status == 409 and "already exists" not in (message or ""):
            return answer, f"the workers rebalance: {message}"
        if answer.status == 503:
            return answer, f"the worker is still starting: {message or 'HTTP 503'}"
        if answer.status == 404 and message is None and self._starts():
            return answer, "the worker still starts"
        return answer, None

    def _starts(self) -> bool:
        """Whether the worker still lacks its paths: Kafka's worker listens before it has them."""
        return self._send("GET", f"{self.access.path}/health", None).status == 503

    def _send(self, method: str, target: str, content: bytes | None) -> _Response:
        """Raises ConnectionRefusedError if the address refuses connections, ClusterError for any other missing
        answer."""
        import http.client  # noqa: PLC0415 - --help must not wait for it

        access = self.access
        headers = {"Accept": "application/json"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        if access.authorization is not None:
            headers["Authorization"] = access.authorization
        connection: http.client.HTTPConnection
        if access.tls is None:
            connection = http.client.HTTPConnection(access.host, access.port, timeout=self._request_s)
        else:
            connection = http.client.HTTPSConnection(
                access.host, access.port, timeout=self._request_s, context=access.tls
            )
        try:
            connection.request(method, target, content, headers)
            response = connection.getresponse()
            return _Response(response.status, response.read(), response.getheader("Location"))
        except ConnectionRefusedError:
            raise
        except TimeoutError:
            raise ClusterError(f"{access.url} was silent for {self._request_s:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise ClusterError(
                f"the certificate of {access.url} is untrusted: {error.verify_message}; --cacert names an authority"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            changed = "" if method == "GET" else "; the outcome of the request is unknown"
            raise ClusterError(f"{access.url} failed to answer: {reason or type(error).__name__}{changed}") from None
        finally:
            connection.close()

    def _read(self, answer: _Response) -> tuple[int, Json]:
        """Raises RequestError for every status but a success."""
        if answer.status < 300:
            if answer.content and answer.json is None:
                raise ClusterError(f"{self.access.url} answers, but differs from a worker of Kafka Connect")
            return answer.status, answer.json
        if answer.status == 401:
            way_in = f"{USER} and {PASSWORD}, or the entry for {self.access.host} in the netrc file ({NETRC})"
            sent = "refuses the given login" if self.access.authorization else "asks for a login"
            raise RequestError(401, f"{self.access.url} {sent}: set {way_in}")
        if answer.status < 400:
            raise RequestError(
                answer.status, f"{self.access.url} sends on to {answer.location}; name that address with --url"
            )
        text = answer.message
        if text is None:
            text = plain(f"HTTP {answer.status}: {answer.content[:_SHOWN].decode('utf-8', 'replace').strip()}")
        raise RequestError(answer.status, text)


def plain(text: str) -> str:
    """Text of another process, freed from control characters of a terminal."""
    return "".join(char for char in text if char.isprintable() or char in "\n\t")


def _quoted(part: str) -> str:
    """A part of a path; a part of dots alone would lead to another path."""
    return part.replace(".", "%2E") if part in (".", "..") else quote(part, safe="")
