"""Connections that read frames instead of chunks, and send at once as many bytes as the socket takes.

A response is received straight into a writable buffer of its size; kafka-python's connections read 4 KiB at a time.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, cast

from kafka.errors import KafkaConnectionError, KafkaProtocolError
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from twinlog.kafka.auth.refusal import CIPHERS, LoginRefusedError, of_tls
from twinlog.kafka.net.frame_memory import FrameMemory
from twinlog.kafka.protocol.layout import Part
from twinlog.settings.tls import TlsContext

SCRATCH_BYTES = 64 << 10
"""Read size in bytes between two frames.

A read holds many small answers, and costs a small copy at the head of a large answer.
"""

LOW_WATER_BYTES = 1 << 20
"""A large answer is read in pieces of this size at least: each piece costs a turn of the loop, some 25 us."""

MOST_PARTS = 64
"""The most parts of requests for a call of the system."""

_INT = struct.Struct(">i")


class ClosedHereError(KafkaConnectionError):  # type: ignore[misc]
    """A connection was closed on this side; its broker is healthy."""


class MayNotSendError(ClosedHereError):
    """Sends are forbidden from now on: another process may run the flow."""


class _Frames:
    """Mixed into a transport: reads frames instead of chunks."""

    _net: Any
    _sock: Any
    _protocol: Any
    _read: bool
    _write: bool
    _writing: bool
    _closed: bool
    _write_buffer: Any
    _write_task: Any
    last_read: float
    last_write: float

    def _prepare_frames(self, limit: int, may_send: Callable[[], bool], memory: FrameMemory | None = None) -> None:
        self._may_send = may_send
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._head = b""
        self._memory = FrameMemory(self._net.now) if memory is None else memory
        self._frame: memoryview | None = None
        self._filled = 0
        self._limit = limit
        self._low_water = 1
        self._heard = False
        self._now = self._net.now

    def resume_reading(self) -> None:
        if not self._read:
            self._read = True
            self._net.watch_socket(self._sock, self._readable)

    def pause_reading(self) -> None:
        if self._read:
            self._read = False
            self._net.unregister_event(self._sock, selectors.EVENT_READ)

    def _readable(self) -> None:
        if self._read and not self._closed:
            error = self._receive()
            if error is not None:
                self.abort(error=error)  # type: ignore[attr-defined]

    def write(self, parts: Sequence[Part]) -> None:
        """Send at once the bytes that the socket takes; the remaining bytes follow when the socket takes more."""
        if not self._write or self._closed:
            raise RuntimeError("Transport closed for writes")
        # Views, because the socket takes the data in pieces.
        for part in self._sent_parts(parts):
            if part:
                self._write_buffer.append(memoryview(part))
        if self._writing:
            return
        _, error = self._sock_send()
        if error is not None:
            # Later, because the caller still works on this request.
            self._net.call_soon(lambda: self._give_up(error))
        elif self._write_buffer:
            self._writing = True
            self._write_task = self._net.call_soon(self._write_to_sock)  # type: ignore[attr-defined]
        else:
            self.last_write = self._now()

    def _give_up(self, error: Exception) -> None:
        if not self._closed:
            # The last bytes before the peer closed the connection may hold the reason.
            received = self._receive() if self._may_send() else None
            self.abort(error=received if isinstance(received, LoginRefusedError) else error)  # type: ignore[attr-defined]

    def _sent_parts(self, parts: Sequence[Part]) -> Sequence[Part]:
        return parts

    def _sock_send(self) -> tuple[int, Exception | None]:
        # Checked here, because a request may have waited for a connection, and its remaining bytes for room in the
        # socket.
        if not self._may_send():
            return 0, cast(Exception, MayNotSendError("not allowed to send any more"))
        return self._send_waiting()

    def _send_waiting(self) -> tuple[int, Exception | None]:
        return cast(tuple[int, Exception | None], super()._sock_send())  # type: ignore[misc]

    def _receive(self) -> Exception | None:
        """Read the available bytes; returns the error that ends the connection, None when the connection continues."""
        fresh = True
        while True:
            frame = self._frame
            room = self._scratch if frame is None else frame[self._filled :]
            try:
                received = self._sock.recv_into(room)
            except (BlockingIOError, InterruptedError):
                return None
            except OSError as error:
                if isinstance(error, ssl.SSLWantReadError | ssl.SSLWantWriteError):
                    return None
                if isinstance(error, ssl.SSLError) and (refused := self._refusal(error)) is not None:
                    return refused
                return cast(Exception, KafkaConnectionError(error)) if fresh else None
            if not received:
                # A last answer, as a refused login, is read first; the next read reports the end again.
                return cast(Exception, KafkaConnectionError("socket disconnected")) if fresh else None
            fresh = False
            self.last_read = self._now()
            try:
                if frame is None:
                    self._take(self._scratch[:received])
                else:
                    self._filled += received
                    if self._filled == len(frame):
                        self._deliver(frame)
                if self._low_water > 1 or self._frame is not None:
                    self._set_low_water()
            except KafkaProtocolError as error:
                return cast(Exception, error)
            if self._closed or (received < len(room) and not self._has_more()):
                return None

    def _set_low_water(self) -> None:
        """Choose how many bytes must have arrived before the selector reports them."""

    def _has_more(self) -> bool:
        """Whether more bytes may have arrived already, after a read of fewer bytes than the buffer takes.

        Otherwise the selector reports the next bytes, and the end of the stream: a vain read costs an exception.
        """
        return False

    def _take(self, data: memoryview) -> None:
        position, end = 0, len(data)
        while position < end:
            if not self._head and end - position >= 4:
                (size,) = _INT.unpack_from(data, position)
                position += 4
            else:
                need = 4 - len(self._head)
                self._head += bytes(data[position : position + need])
                position += need
                if len(self._head) < 4:
                    return
                (size,) = _INT.unpack(self._head)
            if not 0 <= size <= self._limit:
                raise KafkaProtocolError(f"a frame of {size} bytes; at most {self._limit} are accepted")
            frame = self._memory.allocate_frame(size)
            have = min(size, end - position)
            frame[:have] = data[position : position + have]
            position += have
            self._frame, self._filled = frame, have
            if have == size:
                self._deliver(frame)

    def _refusal(self, error: ssl.SSLError) -> Exception | None:
        return None

    def _deliver(self, frame: memoryview) -> None:
        self._frame, self._head, self._heard = None, b"", True
        protocol = self._protocol
        if protocol is not None:
            protocol.data_received(frame)


class PlainTransport(_Frames, KafkaTCPTransport):  # type: ignore[misc]
    def _send_waiting(self) -> tuple[int, Exception | None]:
        """Send parts without joining them: a call copies from up to `MOST_PARTS` parts."""
        waiting, sent = self._write_buffer, 0
        if self._sock is None:
            return 0, cast(Exception, KafkaConnectionError("Connection closed during send"))
        while waiting:
            try:
                left = self._sock.sendmsg(list(islice(waiting, MOST_PARTS)))
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                return sent, cast(Exception, KafkaConnectionError(error))
            sent += left
            while left:
                first = waiting.popleft()
                if left < len(first):
                    waiting.appendleft(first[left:])
                left -= min(left, len(first))
        return sent, None

    def _set_low_water(self) -> None:
        # Never more than the rest of the frame, whose last bytes would be reported with the next answer only.
        rest = 0 if self._frame is None else len(self._frame) - self._filled
        low_water = min(rest, LOW_WATER_BYTES) if rest >= SCRATCH_BYTES else 1
        if low_water != self._low_water and self._sock is not None:
            self._low_water = low_water
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)


class TlsTransport(_Frames, KafkaSSLTransport):  # type: ignore[misc]
    def _sent_parts(self, parts: Sequence[Part]) -> Sequence[Part]:
        # Each part would begin a TLS record.
        return parts if len(parts) == 1 else [b"".join(parts)]

    _ssl_context: TlsContext
    host: str
    address = ""
    """host:port of the broker, for messages."""

    async def handshake(self) -> None:
        """Do the TLS handshake; raises LoginRefusedError when a side refuses the other side."""
        try:
            await super().handshake()
        except ssl.SSLError as error:
            refused = self._refusal(error)
            if refused is None:
                raise
            raise refused from error
        suite = self._ssl_context.refused_suite(self._sock)
        if suite is not None:
            raise self._refused(f"the broker chose the cipher {suite}, which {CIPHERS} does not list")

    def resume_reading(self) -> None:
        super().resume_reading()
        # Decrypted bytes wake no selector.
        if self._sock.pending():
            self._net.call_soon(self._readable)

    def _has_more(self) -> bool:
        # A read ends with its TLS record.
        return True

    def _refusal(self, error: ssl.SSLError) -> Exception | None:
        # A connection that worked can only have been damaged by the network, and the next connection may work.
        if self._heard:
            return None
        # With TLS 1.3 a broker checks the client's certificate when the client has long begun to send.
        why = of_tls(error, self.host, certificate=self._ssl_context.shows_certificate)
        return None if why is None else self._refused(why)

    def _refused(self, why: str) -> Exception:
        return cast(Exception, LoginRefusedError(f"{self.address or self.host}: {why}"))
