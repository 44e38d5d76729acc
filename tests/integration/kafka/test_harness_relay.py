"""A cluster behind a relay is as far away as it was asked to be."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka.admin import AdminClient

from harness.child import Child
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.ports import claim_port, release_port
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.traffic.relay import BUFFER, Distance, Way, relay_command
from harness.wait import wait_for

DELAY_MS = 40.0
ROUND_TRIP_S = 2 * DELAY_MS / 1000
WINDOW = 400_000
"""10 MB/s with this delay: far below what loopback does on a busy machine."""
SENT = 5 * WINDOW


@pytest.fixture(scope="module")
def far_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster("far", sasl=False, heap="256m", distance=Distance(DELAY_MS, WINDOW)) as cluster:
        yield cluster


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Callable[[Callable[[socket.socket], None]], socket.socket]]:
    """A connection through a relay to a server that is one function, called with its end."""
    near, far = claim_port(), claim_port()
    relay = Child("relay", relay_command(Distance(DELAY_MS, WINDOW), [(near, far)]), tmp_path / "relay.log")
    opened: list[socket.socket] = []

    def connected() -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", near))
        except ConnectionRefusedError:
            return None

    def connect(serve: Callable[[socket.socket], None]) -> socket.socket:
        server = socket.create_server(("127.0.0.1", far))
        opened.append(server)
        threading.Thread(target=_serve, args=(server, serve), daemon=True).start()
        relay.start()
        opened.append(wait_for(connected, 60, "the relay listens"))
        return opened[-1]

    try:
        yield connect
    finally:
        relay.kill()
        for one in opened:
            one.close()
        for port in (near, far):
            release_port(port)


Channel = Callable[[Callable[[socket.socket], None]], socket.socket]


def _serve(server: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    end, _ = server.accept()
    with end:
        serve(end)


def _received(end: socket.socket, size: int) -> bytes:
    taken = bytearray()
    while len(taken) < size and (part := end.recv(65_536)):
        taken += part
    return bytes(taken)


def test_an_answer_takes_a_round_trip(line: Channel) -> None:
    def echo(end: socket.socket) -> None:
        while data := end.recv(100):
            end.sendall(data)

    client = line(echo)
    for number in range(3):
        began = time.monotonic()
        client.sendall(b"%d" % number)
        assert client.recv(100) == b"%d" % number
        # The first answer waits for the handshake, too.
        assert time.monotonic() - began >= ROUND_TRIP_S * (1.8 if number == 0 else 1)


def test_no_more_than_the_window_is_on_its_way_and_every_byte_arrives_in_order(line: Channel) -> None:
    sent = b"".join(b"%08d" % number for number in range(SENT // 8))
    client = line(lambda end: end.sendall(sent))

    began = time.monotonic()
    taken = _received(client, SENT)
    lasted = time.monotonic() - began

    assert taken == sent
    assert lasted >= (SENT / WINDOW - 1) * DELAY_MS / 1000
    assert client.recv(1) == b""


def test_bytes_that_are_not_read_hold_up_the_sender(line: Channel) -> None:
    accepted: list[int] = []

    def pour(end: socket.socket) -> None:
        end.setblocking(False)
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            try:
                accepted.append(end.send(bytes(65_536)))
            except BlockingIOError:
                time.sleep(0.01)
        accepted.append(-1)

    client = line(pour)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    wait_for(lambda: accepted and accepted[-1] == -1, 60, "the sender has tried for a second")
    # The window and what lies in the buffers of sockets at both ends; a second would carry 10 MB.
    assert sum(accepted) < WINDOW + 8_000_000


class Pieces:
    """In place of a socket: notes how large the pieces are that it is given."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.ended = threading.Event()

    def sendall(self, data: bytes) -> None:
        self.sizes.append(len(data))

    def shutdown(self, _: int) -> None:
        self.ended.set()


def test_a_window_that_is_always_full_is_not_cut_into_ever_smaller_pieces() -> None:
    pieces, size = Pieces(), 50 * WINDOW
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        taker, _ = server.accept()
        with taker:
            taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            way = Way(taker, cast(socket.socket, pieces), 0.01, 2 * WINDOW)
            sender.sendall(bytes(size))
            sender.shutdown(socket.SHUT_WR)
            assert pieces.ended.wait(60)
            for thread in way.threads:
                thread.join()
    assert sum(pieces.sizes) == size
    assert len(pieces.sizes) < 2 * size / BUFFER


def test_clients_stay_behind_the_relay(far_cluster: KafkaCluster, topic_name: str) -> None:
    far = AdminClient({"bootstrap.servers": far_cluster.far_bootstrap, "log_level": 0})
    listed = far.list_topics(timeout=60).brokers
    assert [f"{one.host}:{one.port}" for one in listed.values()] == far_cluster.far_bootstrap.split(",")

    create_topic(far_cluster, topic_name)
    produce(far_cluster, topic_name, numbered(3))
    assert len(consume(far_cluster, topic_name)) == 3

    began = time.monotonic()
    far.list_topics(timeout=60)
    assert time.monotonic() - began >= ROUND_TRIP_S
