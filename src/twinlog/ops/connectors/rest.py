"""Asks a worker's REST API, and asks again while the worker starts or its group rebalances."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from twinlog.clock import SYSTEM, Clock
from twinlog.errors import RequestError, TwinlogError
from twinlog.ops.connectors.access import NETRC, PASSWORD, USER, Access

Json = Any

PATIENCE_S = 60.0
REQUEST_S = 120.0
"""Connect itself gives a request up after 90."""
AGAIN_S = (0.5, 5.0)
"""First and longest wait before a request is sent again; it doubles in between."""
_SHOWN = 300


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
    """The REST API of a worker. A failed request raises TwinlogError, a request that the worker refuses RequestError.

    A request that the worker cannot fulfil now, while its group rebalances (409, or 500 with that reason) or it still
    starts (503), is sent again for `patience_s` seconds. With `listens_later` this includes refused connections. `note`
    gets a line for each thing that is waited for.
    """

    def __init__(
        self,
        access: Access,
        note: Callable[[str], None],
        *,
        patience_s: float = PATIENCE_S,
        listens_later: bool = False,
        clock: Clock = SYSTEM,
    ) -> None:
        self.access = access
        self.note = note
        self.clock = clock
        self._patience_s = patience_s
        self._listens_later = listens_later

    def get(self, *path: str, **query: str) -> Json:
        return self.send_request("GET", *path, query=query)[1]

    def send_request(
        self, method: str, *path: str, query: Mapping[str, str] | None = None, body: Json = None
    ) -> tuple[int, Json]:
        """Return the status and the JSON of the answer, None if its body is empty. Each item of `path` is a part of the
        path, in clear form."""
        until = self.clock.monotonic() + self._patience_s
        target = self.access.path + "".join(f"/{quote(part, safe='')}" for part in path)
        if query:
            target += f"?{urlencode(query)}"
        content = None if body is None else json.dumps(body).encode()
        wait_s, noted = AGAIN_S[0], ""
        while True:
            answer, waits_for = self._try(method, target, content)
            if answer is not None and waits_for is None:
                if answer.status == 400 and answer.message is None and any("/" in part for part in path):
                    # Jetty's word for it is "Ambiguous URI path separator".
                    raise RequestError(400, "this worker takes no request about a name with a slash in it")
                return self._read(answer)
            left_s = until - self.clock.monotonic()
            if left_s < wait_s:
                if answer is None:
                    raise TwinlogError(f"{waits_for}")
                raise RequestError(answer.status, f"{waits_for}, and that did not end in {self._patience_s:g} s")
            if waits_for != noted:
                self.note(f"{waits_for}; trying again for at most {left_s:.0f} s")
                noted = waits_for or ""
            self.clock.sleep(wait_s)
            wait_s = min(2 * wait_s, AGAIN_S[1])

    def _try(self, method: str, target: str, content: bytes | None) -> tuple[_Response | None, str | None]:
        """Return an answer, and the condition to wait for before the next attempt; None if the answer is final."""
        try:
            answer = self._send(method, target, content)
        except ConnectionRefusedError:
            nothing = f"nothing listens at {self.access.url}"
            if self._listens_later:
                return None, nothing
            raise TwinlogError(
                f"{nothing}: name the address of a worker with --url; --listens-later waits until one listens"
            ) from None
        message = answer.message
        # For requests that only read, Kafka's worker answers a rebalance with 500 in place of 409.
        if answer.status == 500 and "rebalance is expected" in (message or ""):
            return answer, f"the workers rebalance: {message}"
        if answer.status == 409 and "already exists" not in (message or ""):
            return answer, f"the workers rebalance: {message}"
        if answer.status == 503:
            return answer, f"the worker cannot answer yet: {message or 'HTTP 503'}"
        if answer.status == 404 and message is None and self._starts():
            return answer, "the worker still starts"
        return answer, None

    def _starts(self) -> bool:
        """Whether the worker still lacks its paths: Kafka's worker listens before it has them."""
        return self._send("GET", f"{self.access.path}/health", None).status == 503

    def _send(self, method: str, target: str, content: bytes | None) -> _Response:
        """Raises ConnectionRefusedError if the address refuses connections, TwinlogError for any other missing
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
            connection = http.client.HTTPConnection(access.host, access.port, timeout=REQUEST_S)
        else:
            connection = http.client.HTTPSConnection(access.host, access.port, timeout=REQUEST_S, context=access.tls)
        try:
            connection.request(method, target, content, headers)
            response = connection.getresponse()
            return _Response(response.status, response.read(), response.getheader("Location"))
        except ConnectionRefusedError:
            raise
        except TimeoutError:
            raise TwinlogError(f"{access.url} did not answer within {REQUEST_S:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise TwinlogError(
                f"the certificate of {access.url} is not trusted: {error.verify_message}; --cacert names an authority"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            changed = "" if method == "GET" else "; whether it did what was asked is not known"
            raise TwinlogError(f"no answer of {access.url}: {reason or type(error).__name__}{changed}") from None
        finally:
            connection.close()

    def _read(self, answer: _Response) -> tuple[int, Json]:
        """Raises RequestError for every status but a success."""
        if answer.status < 300:
            if answer.content and answer.json is None:
                raise TwinlogError(f"{self.access.url} answers, but not as a worker of Kafka Connect does")
            return answer.status, answer.json
        if answer.status == 401:
            way_in = f"{USER} and {PASSWORD}, or the entry for {self.access.host} in the netrc file ({NETRC})"
            sent = "does not let the given login in" if self.access.authorization else "asks for a login"
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
