"""Frames: what is received is whole, however it arrives."""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import KafkaConnectionError, KafkaProtocolError

from harness.certificates import authority
from twinlog.kafka.net.frames import FrameParser
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.net.transport import SCRATCH_BYTES, PlainTransport, TlsTransport
from twinlog.kafka.protocol.produce import RawProduce
from twinlog.settings.tls import TlsContext, TlsSettings, tls_context

LIMIT = 200_000


class Receiver:
    """Stands where a connection would."""

    _sensors = None

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def data_received(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))

    def connection_lost(self, error: Exception | None) -> None:
        """Nothing to do."""


class Road:
    """A socket pair with a frame transport at one end; `send` delivers at once."""

    loop: Loop

    def __init__(self, net: Any) -> None:
        near, self.far = socket.socketpair()
        near.setblocking(False)
        self.receiver = Receiver()
        self.transport = PlainTransport(net, near, host="here")
        self.transport._prepare_frames(LIMIT, lambda: True)
        self.transport._protocol = self.receiver

    def send(self, data: bytes) -> Exception | None:
        """What reading it came to; None when all is well."""
        while data:
            sent = self.far.send(data[:50_000])
            data = data[sent:]
            error = self.transport._receive()
            if error is not None:
                return error
        return None


@cache
def contexts() -> tuple[ssl.SSLContext, TlsContext]:
    """Of a broker and of its client."""
    root = authority()
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as directory:
        theirs.load_cert_chain(root.issue("broker", ["here"]).write_pem(Path(directory, "broker.pem")))
    return theirs, tls_context(TlsSettings(root.pem))


class TlsRoad(Road):
    """The same behind TLS, whose records of 16 KiB are not those of the frames."""

    def __init__(self, net: Any) -> None:
        theirs, ours = contexts()
        near, far = socket.socketpair()
        near.setblocking(False)
        self.receiver = Receiver()
        self.transport = TlsTransport(net, near, host="here", ssl_context=ours)
        self.transport._prepare_frames(LIMIT, lambda: True)
        self.transport._protocol = self.receiver
        shaken: list[ssl.SSLSocket] = []
        shaking = threading.Thread(target=lambda: shaken.append(theirs.wrap_socket(far, server_side=True)))
        shaking.start()
        net.run(self.transport.handshake)
        shaking.join()
        self.far = shaken[0]


@contextmanager
def road(kind: type[Road] = Road) -> Iterator[Road]:
    loop = Loop()
    road = kind(loop.net)
    road.loop = loop
    try:
        yield road
    finally:
        road.far.close()
        road.transport.abort()
        loop.close()


def framed(body: bytes) -> bytes:
    """A frame as a broker sends it."""
    return struct.pack(">i", len(body)) + body


sizes = st.sampled_from([0, 1, 3, 4, 5, 100, SCRATCH_BYTES - 4, SCRATCH_BYTES, SCRATCH_BYTES + 1, LIMIT])


@settings(deadline=None)
@given(
    kind=st.sampled_from([Road, TlsRoad]),
    sizes=st.lists(sizes, max_size=5),
    cuts=st.lists(st.integers(0, 5 * LIMIT), max_size=12),
)
def test_frames_are_whole_however_they_arrive(kind: type[Road], sizes: list[int], cuts: list[int]) -> None:
    bodies = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream = b"".join(map(framed, bodies))
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    with road(kind) as way:
        for begin, end in itertools.pairwise(places):
            assert way.send(stream[begin:end]) is None
        assert way.receiver.frames == bodies


@pytest.mark.parametrize("size", [-1, LIMIT + 1, 2**31 - 1])
def test_an_impossible_length_ends_the_connection(size: int) -> None:
    with road() as way:
        assert way.send(framed(b"good")) is None
        error = way.send(struct.pack(">i", size))
        assert isinstance(error, KafkaProtocolError)
        assert way.receiver.frames == [b"good"]


@pytest.mark.parametrize("kind", [Road, TlsRoad])
@pytest.mark.parametrize("size", [1, SCRATCH_BYTES, 3_000_000])
def test_what_is_sent_arrives_in_order_however_little_the_socket_takes(kind: type[Road], size: int) -> None:
    messages = [bytes([number]) * size for number in range(1, 4)]
    with road(kind) as way:
        way.transport._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        arrived = bytearray()

        def read() -> None:
            while len(arrived) < 3 * size:
                arrived.extend(way.far.recv(100_000))

        reading = threading.Thread(target=read)
        reading.start()

        async def send() -> None:
            for message in messages:
                way.transport.write([message[:1], b"", memoryview(message)[1:]])
            while way.transport._write_buffer:
                await way.loop.sleep(0.001)

        way.loop.run(send)
        reading.join(60)
        assert bytes(arrived) == b"".join(messages)


def test_small_answers_take_a_single_read() -> None:
    """A vain read costs an exception, a thousand times a second."""
    with road() as way:
        sock, reads = way.transport._sock, 0

        class Counted:
            def recv_into(self, buffer: memoryview) -> int:
                nonlocal reads
                reads += 1
                return int(sock.recv_into(buffer))

        way.transport._sock = Counted()
        try:
            way.send(framed(b"good") + framed(b"better"))
        finally:
            way.transport._sock = sock
        assert reads == 1
        assert way.receiver.frames == [b"good", b"better"]


def test_the_end_of_the_stream_ends_the_connection() -> None:
    with road() as way:
        way.send(framed(b"good")[:-1])
        way.far.shutdown(socket.SHUT_WR)
        assert isinstance(way.transport._receive(), KafkaConnectionError)
        assert way.receiver.frames == []


def test_an_answer_to_another_request_ends_the_connection() -> None:
    parser = FrameParser(client_id="here", receive_message_max_bytes=LIMIT)
    sent = parser.send_request(RawProduce({"t": [(0, b"batch")]}))
    with pytest.raises(KafkaProtocolError, match="correlation id"):
        parser.receive_bytes(memoryview(struct.pack(">ib", sent + 1, 0)))
