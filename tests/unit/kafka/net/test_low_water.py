"""Large answers are read in large pieces: the selector reports few bytes of an answer only if they are its last."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.property.test_frame_laws import Receiver
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.net.transport import LOW_WATER_BYTES, PlainTransport

SIZE = 3 * LOW_WATER_BYTES
REPORTED_S = 60.0


class Road:
    """A TCP connection with a frame transport at one end."""

    def __init__(self, loop: Loop) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            near = socket.create_connection(server.getsockname())
            self.far, _ = server.accept()
        near.setblocking(False)
        self.near = near
        self.receiver = Receiver()
        self.transport = PlainTransport(loop.net, near, host="here")
        self.transport._prepare_frames(2 * SIZE, lambda: True)
        self.transport._protocol = self.receiver
        self.seen = selectors.DefaultSelector()
        self.seen.register(near, selectors.EVENT_READ)

    @property
    def low_water(self) -> int:
        return self.near.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)

    def await_bytes(self, count: int) -> None:
        """Wait until so many bytes have arrived, whether the selector reports them or not."""
        peeked = bytearray(count)
        while True:
            try:
                if self.near.recv_into(peeked, count, socket.MSG_PEEK) >= count:
                    return
            except BlockingIOError:
                pass

    def read(self) -> None:
        """Read as the loop does: once for each report of the selector."""
        assert self.seen.select(REPORTED_S)
        assert self.transport._receive() is None

    def close(self) -> None:
        self.seen.close()
        self.transport.abort()
        self.far.close()


@pytest.fixture
def road(loop: Loop) -> Iterator[Road]:
    road = Road(loop)
    yield road
    road.close()


def test_a_part_of_a_large_answer_is_not_reported_until_it_is_large(road: Road) -> None:
    frame = struct.pack(">i", SIZE) + bytes(SIZE)
    road.far.sendall(frame[:100_000])
    road.read()
    assert road.low_water == LOW_WATER_BYTES
    road.far.sendall(frame[100_000:150_000])
    road.await_bytes(50_000)
    assert not road.seen.select(0)


@pytest.mark.parametrize("last", [1, 1_000, 70_000, LOW_WATER_BYTES - 1, LOW_WATER_BYTES])
def test_the_last_bytes_of_an_answer_are_reported(road: Road, last: int) -> None:
    frame = struct.pack(">i", SIZE) + bytes(SIZE)

    def send() -> None:
        road.far.sendall(frame[:-last])
        road.far.sendall(frame[-last:])

    sending = threading.Thread(target=send)
    sending.start()
    while not road.receiver.frames:
        road.read()
    sending.join()
    assert len(road.receiver.frames[0]) == SIZE
    # The next answer may be small.
    assert road.low_water == 1
    road.far.sendall(struct.pack(">i", 4) + b"good")
    road.read()
    assert road.receiver.frames[1:] == [b"good"]


def test_the_end_of_a_connection_within_a_large_answer_is_reported(road: Road) -> None:
    road.far.sendall(struct.pack(">i", SIZE) + bytes(1_000))
    road.read()
    road.far.close()
    assert road.seen.select(REPORTED_S)
    assert road.transport._receive() is not None
