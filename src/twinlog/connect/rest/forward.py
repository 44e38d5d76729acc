"""Forwards a request to the worker that can fulfil it (Kafka class HerderRequestHandler).

A request passes two workers at most: `forward=true` marks the first hop and `forward=false` the second, which is final.
A forwarded request keeps only the headers of the login and of the signature of a worker's own request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from twinlog.connect.rest.responses import error
from twinlog.errors import NotOwnerError, RequestError, UndeliveredError
from twinlog.worker.connectors.model import Config, ConnectorName

SIGNATURE = "X-Connect-Authorization"
ALGORITHM = "X-Connect-Request-Signature-Algorithm"

_DIGESTS: Mapping[str, str] = {
    "hmacmd5": "md5",
    "hmacsha1": "sha1",
    "hmacsha224": "sha224",
    "hmacsha256": "sha256",
    "hmacsha384": "sha384",
    "hmacsha512": "sha512",
    "hmacsha512/224": "sha512_224",
    "hmacsha512/256": "sha512_256",
    "hmacsha3-224": "sha3_224",
    "hmacsha3-256": "sha3_256",
    "hmacsha3-384": "sha3_384",
    "hmacsha3-512": "sha3_512",
}
"""The Mac algorithms of Java, by their names in lower case."""

_LOG = logging.getLogger(__name__)
_HEADERS = ("authorization", "x-connect-authorization", "x-connect-request-signature-algorithm")
_LARGEST = 64 * 1024 * 1024
_FAILED = "IO Error trying to forward REST request"
_CLOSED = (ConnectionError, ssl.SSLEOFError)
"""The errors of a connection that the other worker has closed."""

_REPEATABLE = ("GET", "PUT")
"""The methods of requests that have the same effect once and twice."""

_NOBODY_KNOWN = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)
_TWO_HOPS = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


def supported(algorithm: str) -> bool:
    """Whether `algorithm` is a Mac algorithm of Java that this process can compute."""
    digest = _DIGESTS.get(algorithm.lower())
    return digest is not None and digest in hashlib.algorithms_available


def sign(key: bytes, body: bytes, algorithm: str) -> bytes:
    """The signature of a request's body; the header has it in base64. Raises KeyError for an unknown algorithm."""
    return hmac.digest(key, body, _DIGESTS[algorithm.lower()])


@dataclass(frozen=True, slots=True)
class Forwarder:
    """Calls other workers; `tls` has the certificates for the check of other workers, and this worker's own.

    A worker has `connect_s` seconds to accept a connection, and `timeout_s` seconds to answer. The host of a killed
    worker is silent, and another worker replaces the killed worker meanwhile.
    """

    tls: ssl.SSLContext | None = None
    timeout_s: float = 90.0
    connect_s: float = 5.0

    def sending(self, request: Request, owner: NotOwnerError, body: bytes) -> Callable[[], Response]:
        """A function that forwards the request to the owner, waits, and returns the owner's answer.

        Raises RequestError 409 when the owner is unknown, or when another worker has forwarded the request already. The
        function raises UndeliveredError when the request misses the owner, as the workers still disagree about the
        owner.
        """
        again = request.query_params.get("forward")
        if again is not None and again.lower() != "true":
            raise RequestError(409, _TWO_HOPS)
        if not owner.url:
            raise RequestError(409, _NOBODY_KNOWN)
        query = [
            pair
            for pair in parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
            if pair[0] != "forward"
        ]
        query.append(("forward", "true" if again is None else "false"))
        raw_path: bytes = request.scope["raw_path"]
        target = f"{raw_path.decode('ascii')}?{urlencode(query)}"
        headers = {"Accept": "application/json", "User-Agent": "kafka-connect"}
        headers |= {name: request.headers[name] for name in _HEADERS if name in request.headers}
        if body:
            headers["Content-Type"] = "application/json"

        def send() -> Response:
            answer = self._send(urlsplit(owner.url), request.method, target, headers, body)
            if again is None and answer.status_code == 409 and _TWO_HOPS.encode() in bytes(answer.body):
                raise UndeliveredError(_TWO_HOPS, 409)
            return answer

        return send

    def put_task_configs(
        self, leader_url: str, name: ConnectorName, configs: Sequence[Config], key: bytes | None, algorithm: str
    ) -> None:
        """Ask the leader, as its group's workers do, to store the configurations of a connector's tasks.

        `key` is the group's session key, None for unsigned requests. Raises RequestError.
        """
        body = json.dumps([dict(config) for config in configs]).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "kafka-connect"}
        if key is not None:
            headers[SIGNATURE] = base64.b64encode(sign(key, body, algorithm)).decode()
            headers[ALGORITHM] = algorithm
        answer = self._send(urlsplit(leader_url), "POST", f"/connectors/{quote(name, safe='')}/tasks", headers, body)
        if answer.status_code >= 300:
            raise RequestError(answer.status_code, json.loads(bytes(answer.body))["message"])

    def _send(self, worker: SplitResult, method: str, target: str, headers: dict[str, str], body: bytes) -> Response:
        target = worker.path.rstrip("/") + target
        try:
            connection = self._connection(worker)
            try:
                self._connect(connection, worker)
                _request(connection, worker, method, target, headers, body)
                answer = connection.getresponse()
                content = answer.read(_LARGEST)
                if answer.length:
                    raise http.client.IncompleteRead(content, answer.length)
                if answer.status == HTTPStatus.SERVICE_UNAVAILABLE and answer.getheader("Retry-After"):
                    text = f"{_FAILED}: {worker.netloc} is stopping"
                    raise UndeliveredError(text, message_id="TW-REST-05")
            finally:
                connection.close()
        except (OSError, http.client.HTTPException, ValueError) as failure:
            if method in _REPEATABLE and isinstance(failure, (*_CLOSED, http.client.IncompleteRead)):
                # The other worker may have fulfilled the request, and ended before its answer.
                raise UndeliveredError(_failed(worker, failure), message_id="TW-REST-05") from None
            _LOG.warning("TW-REST-05: cannot pass %s %s on to %s: %s", method, target, worker.netloc, _reason(failure))
            raise RequestError(500, _failed(worker, failure), message_id="TW-REST-05") from None
        return _response(answer.status, content)

    def _connect(self, connection: http.client.HTTPConnection, worker: SplitResult) -> None:
        try:
            connection.connect()
        except ssl.SSLError:
            # The certificates are the same at the next try.
            raise
        except OSError as failure:
            raise UndeliveredError(_failed(worker, failure), message_id="TW-REST-05") from None
        connection.sock.settimeout(self.timeout_s)

    def _connection(self, worker: SplitResult) -> http.client.HTTPConnection:
        host, port = worker.hostname or "", worker.port
        if worker.scheme.lower() == "https":
            context = self.tls or ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self.connect_s, context=context)
        return http.client.HTTPConnection(host, port, timeout=self.connect_s)


def _request(
    connection: http.client.HTTPConnection,
    worker: SplitResult,
    method: str,
    target: str,
    headers: dict[str, str],
    body: bytes,
) -> None:
    try:
        connection.request(method, target, body or None, headers)
    except _CLOSED as failure:
        # A part of the request is missing at the other worker, so that the worker cannot have fulfilled it.
        raise UndeliveredError(_failed(worker, failure), message_id="TW-REST-05") from None


def _failed(worker: SplitResult, failure: Exception) -> str:
    return f"{_FAILED}: {worker.netloc}: {_reason(failure)}"


def _reason(failure: Exception) -> str:
    return str(failure) or type(failure).__name__


def _response(status: int, content: bytes) -> Response:
    """The other worker's answer as this worker's answer."""
    if 200 <= status < 300:
        return Response(content, status, media_type="application/json" if content else None)
    if status < 400:
        message = f"Unexpected status code when handling forwarded request: {status}"
        raise RequestError(500, message)
    try:
        failure = json.loads(content)
        return error(status, str(failure["message"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return error(status, f"The worker that was asked answered {status} without a reason.")
