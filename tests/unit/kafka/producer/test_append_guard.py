"""What may not be sent any more stays here, also the rest of a request that was half sent when SIGSTOP came."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.turns import let_others_go_on
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.net.transport import PlainTransport

REQUEST = b"." * (8 << 20)
"""More than a socket takes while nobody reads."""


class Sender:
    """A transport over a pair of sockets, whose other end is read by the test."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.allowed = True
        mine, self.other = socket.socketpair()
        mine.setblocking(False)
        self.other.setblocking(False)
        self.transport = PlainTransport(self.loop.net, mine)
        self.transport._prepare_frames(1 << 20, lambda: self.allowed)

    def run(self) -> None:
        self.loop.run(let_others_go_on, self.loop)

    def received(self) -> tuple[int, bool]:
        """How many bytes came, and whether the connection has ended."""
        count = 0
        while True:
            self.run()
            try:
                data = self.other.recv(1 << 20)
            except BlockingIOError:
                return count, False
            except ConnectionResetError:
                return count, True
            if not data:
                return count, True
            count += len(data)


@pytest.fixture
def sender() -> Iterator[Sender]:
    sender = Sender()
    yield sender
    sender.transport.abort()
    sender.other.close()
    sender.loop.close()


def test_a_request_goes_out_whole_while_it_may(sender: Sender) -> None:
    sender.transport.write([REQUEST])
    assert sender.received() == (len(REQUEST), False)


def test_nothing_is_sent_when_it_may_not(sender: Sender) -> None:
    sender.allowed = False
    sender.transport.write([REQUEST])
    sender.run()
    assert sender.received() == (0, True)


def test_the_rest_of_a_request_is_not_sent_when_it_may_not_any_more(sender: Sender) -> None:
    sender.transport.write([REQUEST])
    sender.run()
    sender.allowed = False
    count, ended = sender.received()
    assert 0 < count < len(REQUEST)
    assert ended
