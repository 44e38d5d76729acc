"""The line between a driver and its tasks: authenticated messages, one JSON object each, over TCP.

`multiprocessing.connection` does the framing and the HMAC handshake; nothing is unpickled. A task that loses the line
stops: the driver may have given its partitions to another.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge

from twinlog.lease.messages import Message, decode, encode

BEAT_S = 1.0
"""How often a copier sends a heartbeat."""

VALID_S = 5.0
"""How long an answered heartbeat lets a copier append, counted from the moment it was sent."""

DEAD_S = 7.0
"""After this long without a heartbeat the driver gives a copier's partitions to another; later than `VALID_S` on
purpose."""


@dataclass(frozen=True, slots=True)
class DriverAddress:
    """Where a driver listens, and the secret that opens the line.

    `near` is the host for processes on the driver's own machine, which may not reach it by the name that others know;
    None where it is the same.
    """

    host: str
    port: int
    secret: bytes
    near: str | None = None

    @property
    def here(self) -> DriverAddress:
        """The address on the driver's own machine."""
        return DriverAddress(self.near or self.host, self.port, self.secret)

    def __repr__(self) -> str:
        return f"DriverAddress({self.host}:{self.port})"


class Channel:
    """One end of the line; `send` may be called from several threads only with a lock around it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._ending = threading.Lock()
        """Once it is closed its number may be another line's, which `shut_down` must not end."""

    @classmethod
    def open(cls, address: DriverAddress) -> Channel:
        """Connect and prove the secret. Raises OSError, EOFError or multiprocessing.AuthenticationError."""
        return cls(Client((address.host, address.port), authkey=address.secret))

    def challenge(self, secret: bytes) -> None:
        """The accepting side's half of the handshake: both ends prove that they know the secret.

        Raises multiprocessing.AuthenticationError, OSError or EOFError.
        """
        deliver_challenge(self.connection, secret)
        answer_challenge(self.connection, secret)

    def send(self, message: Message) -> None:
        """Raises OSError when the line is broken, or closed meanwhile."""
        data = encode(message)
        try:
            self.connection.send_bytes(data)
        except TypeError as error:
            # Another thread may have closed it in the middle of this, and it has no number then.
            if not self.connection.closed:
                raise
            raise OSError("the connection was closed") from error

    def receive(self) -> Message:
        """The next message; blocks. Raises EOFError or OSError when the other end has gone, MessageError else."""
        return decode(self.receive_bytes())

    def receive_bytes(self) -> bytes:
        """The same, not yet decoded."""
        return self.connection.recv_bytes()

    def break_after(self, seconds: float) -> None:
        """From now on a message of which nothing arrives, or nothing is taken, for so long breaks the line.

        Without it the other end, suspended in the middle of a message, would hold up this one for ever.
        """
        limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        with socket.socket(fileno=os.dup(self.connection.fileno())) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def poll(self, timeout_s: float = 0.0) -> bool:
        return self.connection.poll(timeout_s)

    @property
    def writable(self) -> bool:
        """Whether the other end reads, as far as is known here: a message would not wait."""
        writable = select.poll()
        writable.register(self.connection, select.POLLOUT)
        return bool(writable.poll(0))

    def fileno(self) -> int:
        return self.connection.fileno()

    def shut_down(self) -> None:
        """End the line for both ends, also for threads that wait for it; it has still to be closed."""
        with (
            self._ending,
            suppress(OSError),
            socket.socket(fileno=os.dup(self.connection.fileno())) as same,
        ):
            same.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Nobody may be sending: what is opened next may get the same number, and what is left of the message."""
        with self._ending:
            self.connection.close()
