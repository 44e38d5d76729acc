"""The line between a driver and its tasks: authenticated messages, each a JSON object, over TCP.

`multiprocessing.connection` does the framing and the HMAC handshake; nothing is unpickled. A task that loses the line
stops, because the driver may have given its partitions to another task.

Spark starts a task with a ticket of plain values, which a task of any version can read. The first message of each side
names the caller and the version of the side. In a rolling upgrade, or with executors that have an older wheel, the
versions differ. Then the task ends with an error that names both versions, and the driver reports the same error.
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge
from typing import Any

from twinlog import __version__
from twinlog.errors import DriverLostError, MessageError, VersionMismatchError
from twinlog.lease.messages import (
    VERSION,
    CopierHello,
    Hello,
    Message,
    PlannerHello,
    Welcome,
    decode,
    encode,
    parse,
    require,
)
from twinlog.settings.flow import FlowSettings

BEAT_S = 1.0
"""How often a copier sends a heartbeat."""

VALID_S = 5.0
"""How long an answered heartbeat lets a copier append, counted from the moment of sending."""

DEAD_S = 7.0
"""After this time since a copier's last heartbeat the driver gives its partitions to another copier; later than
`VALID_S` on purpose."""

Plain = tuple[str, str, int, bytes, int, int, bytes]
"""A ticket on its way: flow, host, port, secret, lease, share, and the pickled settings.

These values stay as they are for ever, so that a task of any version can greet its driver; new values may follow them.
"""


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


@dataclass(frozen=True, slots=True)
class LeaseTicket:
    """The share of a flow's lease that a task claims, and the address of its driver."""

    flow: str
    address: DriverAddress
    lease: int
    share: int
    pickled: bytes

    @classmethod
    def of(cls, settings: FlowSettings, address: DriverAddress, lease: int, share: int) -> LeaseTicket:
        return cls(settings.name, address, lease, share, pickle.dumps(settings))

    def pack(self) -> Plain:
        """The ticket as plain values."""
        address = self.address
        return self.flow, address.host, address.port, address.secret, self.lease, self.share, self.pickled

    @classmethod
    def unpack(cls, plain: tuple[Any, ...]) -> LeaseTicket:
        """A received ticket, perhaps of another version."""
        flow, host, port, secret, lease, share, pickled, *_ = plain
        return cls(flow, DriverAddress(host, port, secret), lease, share, pickled)

    def settings(self) -> FlowSettings:
        """The flow's settings, to be read after the greeting.

        Another version may lack a class of the settings, or have other fields in a class.
        """
        settings: FlowSettings = pickle.loads(self.pickled)
        return settings


@dataclass(frozen=True, slots=True)
class IncompatiblePeer:
    """A caller of another version: a copier of `flow`, or the planner of `query`, as far as the caller names them."""

    flow: str | None
    query: str | None
    version: int
    text: str


def greet_as_copier(line: Channel, flow: str, copier: str) -> None:
    """Greet the driver as a copier. Raises VersionMismatchError, DriverLostError, MessageError."""
    _greet(line, CopierHello(VERSION, __version__, flow, copier), f"copier {copier}")


def greet_as_planner(line: Channel, query: str) -> None:
    """Greet the driver as a planner. Raises VersionMismatchError, DriverLostError, MessageError."""
    _greet(line, PlannerHello(VERSION, __version__, query), f"the planner of query {query}")


def _greet(line: Channel, hello: Hello, caller: str) -> None:
    try:
        line.send(hello)
        data = line.receive_bytes()
    except (OSError, EOFError) as error:
        raise DriverLostError(
            f"the driver did not answer {caller}, which has {_named(VERSION, __version__)}: it is ending, hangs, or is "
            "older"
        ) from error
    version, release = _version(data)
    if version != VERSION:
        raise VersionMismatchError(_mismatch(caller, (VERSION, __version__), (version, release)))
    require(decode(data), Welcome)


def receive_hello(line: Channel) -> Hello | IncompatiblePeer:
    """The driver's half: receive a greeting and answer with the driver's version; returns the caller.

    Raises OSError or EOFError when the caller has gone, MessageError when the message is no greeting.
    """
    data = line.receive_bytes()
    version, release = _version(data)
    line.send(Welcome(VERSION, __version__))
    if version != VERSION:
        value = parse(data)
        caller = f"copier {value['copier']}" if "copier" in value else f"the planner of query {value.get('query')}"
        text = _mismatch(caller, (version, release), (VERSION, __version__))
        return IncompatiblePeer(value.get("flow"), value.get("query"), version, text)
    hello = decode(data)
    if not isinstance(hello, CopierHello | PlannerHello):
        raise MessageError(f"{type(hello).__name__} came before a greeting")
    return hello


def _version(data: bytes) -> tuple[int, str]:
    """The protocol version and the release that a first message names.

    The version is 0 if the message lacks a version, as of the oldest release.
    """
    value = parse(data)
    version = value.get("version")
    return version if isinstance(version, int) else 0, str(value.get("release", "unknown"))


def _mismatch(caller: str, task: tuple[int, str], driver: tuple[int, str]) -> str:
    older = "the executors (or Spark's driver) have" if task[0] < driver[0] else "the driver has"
    return (
        f"{caller} has {_named(*task)}, its driver {_named(*driver)}: they cannot work together. {older} the older "
        "wheel: install the same one in both places, then start twinlog again"
    )


def _named(version: int, release: str) -> str:
    if not version:
        return "no protocol version (an earlier twinlog)"
    return f"protocol version {version} (twinlog {release})"
