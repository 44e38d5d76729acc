"""Moves whole frames between a socket and memory: the part of kafka-python that twinlog replaces for speed.

kafka-python's `kafka.net` does connections, TLS, SASL, versions, metadata and back-off. Its receive loop reads 4 KiB at
a time and copies each response three times, and its encoder copies each produced batch twice. Here a response is
received straight into a writable buffer, so that fetched batches can be restamped in place. The system copies the large
batches of a produce request out of their own memory.

Only this module, `connections`, `transport` and `selector` use these inner layers;
`tests/integration/test_wire_contract.py` checks that the library keeps them.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

from kafka.errors import (
    AuthorizationError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslHandshakeRequest

from twinlog.kafka.auth.oauth import TokenSource
from twinlog.kafka.auth.refusal import LoginRefusedError
from twinlog.kafka.net.contact import note_failure
from twinlog.kafka.net.frame_memory import FrameMemory
from twinlog.kafka.net.transport import ClosedHereError, PlainTransport, TlsTransport
from twinlog.kafka.net.wire import Wire
from twinlog.kafka.protocol.layout import ExpectedResponse, Part, RawRequest
from twinlog.kafka.record.varint import skip_tags

_REFUSALS = (AuthorizationError, LoginRefusedError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError)
_INT = struct.Struct(">i")


class UndecodedResponse:
    """A response to a repeated request, which is decoded only when it differs from the previous response.

    `content` is the response after the throttle time at its beginning.
    """

    __slots__ = ("_body", "_response_type", "_version", "throttle_time_ms")

    def __init__(self, body: bytes, response_type: Any, version: int) -> None:
        self._body = body
        self._response_type = response_type
        self._version = version
        (self.throttle_time_ms,) = _INT.unpack_from(body)

    @property
    def content(self) -> bytes:
        return self._body[_INT.size :]

    def decode(self) -> Any:
        """The response as kafka-python reads it."""
        return _decode(self._response_type, memoryview(self._body), self._version)


class FrameParser(KafkaProtocol):  # type: ignore[misc]
    """Decodes a response in its receive buffer; record bytes stay writable views of that buffer."""

    def send_request(self, request: Any, correlation_id: int | None = None) -> int:
        if not isinstance(request, RawRequest):
            return cast(int, super().send_request(request, correlation_id))
        correlation: int = self._next_correlation_id() if correlation_id is None else correlation_id
        self.bytes_to_send += request.parts(correlation, self._client_id)
        self.in_flight_requests.append(ExpectedResponse(correlation, request.layout, request.read))
        return correlation

    bytes_to_send: list[Part]

    def send_bytes(self) -> list[Part]:
        """The parts of all waiting requests; kafka-python would join them."""
        waiting, self.bytes_to_send = self.bytes_to_send, []
        return waiting

    def receive_bytes(self, data: memoryview) -> list[tuple[int, Any]]:
        """Take a whole frame, after its length, as a writable view; returns [(correlation id, response)]."""
        header = self.in_flight_requests.popleft()
        (correlation_id,) = _INT.unpack_from(data, 0)
        if correlation_id != header.correlation_id:
            raise KafkaProtocolError(f"sent correlation id {header.correlation_id}, received {correlation_id}")
        try:
            return [(correlation_id, self._read(header, data))]
        except Exception as error:
            # The error ends this connection, and keeps the thread of all connections running.
            raise KafkaProtocolError(f"a response cannot be read: {error!r}") from error

    def _read(self, header: Any, data: memoryview) -> Any:
        if type(header) is ExpectedResponse:
            return header.read(data, header.layout.skip_tags(data, 4))
        with _MADE_ONCE:
            response_type = header.get_response_class()
        version = header.request_api_version
        start = 4
        if response_type.flexible_version_q(version) and header.request_api_key != _API_VERSIONS:
            start = skip_tags(data, 4)
        if header.request_api_key == _OFFSET_FETCH:
            return UndecodedResponse(bytes(data[start:]), response_type, version)
        return _decode(response_type, data[start:], version)


_MADE_ONCE = threading.Lock()
"""Guards the making of response classes.

kafka-python makes the class of a response, and compiles its decoder, when the first response of its version arrives. If
two threads did so at the same time, the slower thread would leave a dead reference, and every later response of that
kind would fail.
"""

_compiled: set[tuple[Any, int]] = set()
"""Types of responses with the versions whose decoders are compiled."""


def _decode(response_type: Any, data: memoryview, version: int) -> Any:
    if (response_type, version) in _compiled:
        return response_type.decode(data, version=version)
    with _MADE_ONCE:
        response = response_type.decode(data, version=version)
        _compiled.add((response_type, version))
    return response


_OFFSET_FETCH = 9
_API_VERSIONS = 18
"""The header of its response is never flexible (KIP-511)."""


class FrameConnection(KafkaConnection):  # type: ignore[misc]
    """A connection that decodes with `FrameParser`."""

    _mechanisms: Sequence[str] = ()
    """The mechanisms that the broker offers."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.parser = FrameParser(
            client_id=self.config["client_id"], receive_message_max_bytes=self.config["receive_message_max_bytes"]
        )

    async def _sasl_authenticate(self, timeout_at: float | None = None) -> None:
        # Also when a session ends and the connection logs in again (KIP-368).
        source = self.config["sasl_oauth_token_provider"]
        if isinstance(source, TokenSource):
            await source.prepare(self.net, self._timeout_at() if timeout_at is None else timeout_at)
        try:
            await super()._sasl_authenticate(timeout_at)
        except UnsupportedSaslMechanismError:
            # kafka-python's error lacks the mechanisms that the broker offers.
            text = f"the broker has no mechanism {self.config['sasl_mechanism']}; it has {', '.join(self._mechanisms)}"
            raise UnsupportedSaslMechanismError(text) from None

    def _send_request(self, request: Any, future: Any = None, timeout_at: float | None = None) -> Any:
        if isinstance(request, RawRequest) and not self.closed:
            try:
                request.negotiate_version(self.broker_version_data.api_versions)
            except IncompatibleBrokerVersion as error:
                return (Future() if future is None else future).failure(error)
        sent = super()._send_request(request, future=future, timeout_at=timeout_at)
        if isinstance(request, SaslHandshakeRequest):
            sent.add_callback(self._take_mechanisms)
        return sent

    def _take_mechanisms(self, response: Any) -> None:
        self._mechanisms = sorted(response.mechanisms)


class FrameManager(KafkaConnectionManager):  # type: ignore[misc]
    """kafka-python's connection manager over frame transports.

    `wire` opens the connections. `failures` keeps the reason why the last connection to each `host:port` failed or was
    lost. `may_send()` is called before each send; a connection with waiting bytes is closed when it returns False. All
    connections receive into `frames`.
    """

    def __init__(self, net: Any, wire: Wire, **configs: Any) -> None:
        super().__init__(net, **configs)
        self._wire = wire
        self.frames = FrameMemory(net.now)
        self.failures: dict[str, BaseException] = {}
        self.may_send: Callable[[], bool] = lambda: True
        self._refresh_metadata = self.cluster.refresh_metadata
        self.cluster.refresh_metadata = self._note_refresh

    def _may_send_now(self) -> bool:
        # Connections may exist before the brokers are known.
        return self.may_send()

    async def _note_refresh(self, node_id: Any = None) -> Any:
        # A bootstrap drops this error and continues with the next server.
        try:
            return await self._refresh_metadata(node_id)
        except KafkaError as error:
            node = self.cluster.broker_metadata(node_id)
            if node is not None:
                note_failure(self.failures, f"{node.host}:{node.port}", error)
            raise

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        # The manager lacks a factory for connections; a fresh connection is still unused, so its class can be
        # exchanged.
        conn.__class__ = FrameConnection
        await super()._connect(node, conn, **options)
        # `initialize` leaves its error with the connection, and the manager would try the same login again.
        error = conn.init_future.exception
        if isinstance(error, _REFUSALS):
            self._auth_failures[node.node_id] = error
        address = f"{node.host}:{node.port}"
        if error is not None:
            self._note_failure(address, error)
            return
        self.failures.pop(address, None)
        conn.close_future.add_errback(lambda lost: self._note_failure(address, lost))

    def _note_failure(self, address: str, error: BaseException) -> None:
        if not isinstance(error, ClosedHereError):
            note_failure(self.failures, address, error)

    def abort(self) -> None:
        """Close every connection now and drop waiting bytes; `close` would send them first."""
        for conn in list(self._conns.values()):
            if conn.transport is not None:
                conn.transport.abort()
        self.close()

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        options = self.config["socket_options"]
        sock = await self._wire.open(self._net, node.host, node.port, options, timeout_at)
        transport: Any
        if self.ssl_enabled:
            tls = {key: value for key, value in self.config.items() if key.startswith("ssl_")}
            transport = TlsTransport(self._net, sock, host=node.host, **tls)
            transport.address = f"{node.host}:{node.port}"
        else:
            transport = PlainTransport(self._net, sock, host=node.host)
        transport._prepare_frames(self.config["receive_message_max_bytes"], self._may_send_now, self.frames)
        transport._net = _Impatient(self._net, timeout_at)
        try:
            await transport.handshake()
        except LoginRefusedError:
            transport.abort()
            raise
        except Exception as error:
            transport.abort()
            raise KafkaConnectionError(f"Handshake failed: {error}") from error
        finally:
            transport._net = self._net
        return transport


class _Impatient:
    """A loop that limits the time of a handshake; the library would wait for ever."""

    def __init__(self, net: Any, timeout_at: float | None) -> None:
        self._net = net
        self._timeout_at = timeout_at

    def wait_read(self, sock: Any) -> Any:
        return self._net.wait_read(sock, self._timeout_at)

    def wait_write(self, sock: Any) -> Any:
        return self._net.wait_write(sock, self._timeout_at)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._net, name)


def socket_options(receive_bytes: int, send_bytes: int) -> Sequence[tuple[int, int, int]]:
    """Options of every data socket; sizes in bytes, -1 leaves the system's choice (as Kafka's clients do)."""
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    if receive_bytes > 0:
        options.append((socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes))
    if send_bytes > 0:
        options.append((socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes))
    return options
