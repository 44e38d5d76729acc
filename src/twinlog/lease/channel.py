"""The line between a driver and its tasks: authenticated messages, each a JSON object, over TCP.

`multiprocessing.connection` does the framing and the HMAC handshake; nothing is unpickled. A task that loses the line
stops, because the driver may have given its partitions to another task.
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
"""How long an answered heartbeat lets a copier append, counted from the moment of sending."""

DEAD_S = 7.0
"""After this time since a copier's last heartbeat the driver gives its partitions to another copier; later than
`VALID_S` on purpose."""


@dataclass(frozen=True, slots=True)
class DriverAddress:
    """The address of a driver, and the secret that opens the line.

    `near` is the host for processes on the driver's own machine, which may be unable to reach it as `host`; None if
    `host` serves both.
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
    """An end of the line; several threads may call `send` only with a lock around it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._ending = threading.Lock()
        """Held for each shutdown and close: after a close its number may belong to another line, and `shut_down` would
        end that line."""

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
        """Send a message. Raises OSError when the line is broken, or closed meanwhile."""
        data = encode(message)
        try:
            self.connection.send_bytes(data)
        except TypeError as error:
            # Another thread may have closed the connection meanwhile, which then has lost its number.
            if not self.connection.closed:
                raise
            raise OSError("the connection was closed") from error

    def receive(self) -> Message:
        """The next message.

        The call blocks. Raises EOFError or OSError when the other end has gone, MessageError for an invalid message.
        """
        return decode(self.receive_bytes())

    def receive_bytes(self) -> bytes:
        """The bytes of the next message; blocks. Raises EOFError or OSError when the other end has gone."""
        return self.connection.recv_bytes()

    def break_after(self, seconds: float) -> None:
        """From now on the line breaks when a message makes no progress for `seconds`, in either direction.

        Otherwise an end that is suspended in the middle of a message would block the other end for ever.
        """
        limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        with socket.socket(fileno=os.dup(self.connection.fileno())) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def poll(self, timeout_s: float = 0.0) -> bool:
        return self.connection.poll(timeout_s)

    @property
    def writable(self) -> bool:
        """Whether the other end reads, as far as is known here: a message would be sent at once."""
        writable = select.poll()
        writable.register(self.connection, select.POLLOUT)
        return bool(writable.poll(0))

    def fileno(self) -> int:
        return self.connection.fileno()

    def shut_down(self) -> None:
        """End the line for both ends, also for threads that wait for it; the line must still be closed."""
        with (
            self._ending,
            suppress(OSError),
            socket.socket(fileno=os.dup(self.connection.fileno())) as same,
        ):
            same.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the line.

        All sends must have ended: the next opened file may get the same number, and with it the rest of a message.
        """
        with self._ending:
            self.connection.close()
