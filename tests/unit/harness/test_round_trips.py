"""The relay that counts how often somebody waits for a far cluster."""

from __future__ import annotations

import socket
import struct
import threading
import time

from harness.ports import claim_port, release_port
from harness.traffic.round_trips import RoundTrips

REQUESTS = 200
DELAY_S = 0.05


def answer(door: socket.socket) -> None:
    """A broker that answers each request with its number."""
    server, _ = door.accept()
    with server, server.makefile("rb") as frames:
        while len(head := frames.read(4)) == 4:
            request = frames.read(*struct.unpack(">i", head))
            server.sendall(struct.pack(">i", 4) + request[4:8])


def request(number: int) -> bytes:
    body = struct.pack(">hhih", 3, 9, number, 2) + b"me"
    return struct.pack(">i", len(body)) + body


def test_what_is_asked_side_by_side_arrives_in_its_order_and_as_late_as_asked_for() -> None:
    near = claim_port()
    try:
        with socket.create_server(("127.0.0.1", 0)) as door:
            threading.Thread(target=answer, args=(door,), daemon=True).start()
            with (
                RoundTrips(near, door.getsockname()[1], DELAY_S) as trips,
                socket.create_connection(("127.0.0.1", near), 60) as client,
                client.makefile("rb") as answers,
            ):
                began = time.monotonic()
                for number in range(REQUESTS):
                    client.sendall(request(number))
                found = [struct.unpack(">ii", answers.read(8))[1] for _ in range(REQUESTS)]
                took = time.monotonic() - began
                # The rest of what is asked for arrives also when nothing more will be asked.
                client.sendall(request(REQUESTS))
                client.shutdown(socket.SHUT_WR)
                assert struct.unpack(">ii", answers.read())[1] == REQUESTS
    finally:
        release_port(near)
    assert found == list(range(REQUESTS))
    assert took >= 2 * DELAY_S
    assert len(trips.one_after_the_other("me", float("inf"))) < REQUESTS
