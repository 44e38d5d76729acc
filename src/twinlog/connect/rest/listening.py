"""Sockets for listeners, bound before anything is served: an address that is taken shows at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from twinlog.connect.rest.settings import Listener

_WAITING = 1024
"""Connections that the system holds until they are taken."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A listener with the port that it got, and its socket."""

    listener: Listener
    socket: socket.socket


def bind(listeners: Sequence[Listener]) -> list[Bound]:
    """A socket for each listener. Raises OSError with the listener in its text, and leaves none open then."""
    bound: list[Bound] = []
    with ExitStack() as undo:
        for listener in listeners:
            one = _bind(listener)
            undo.callback(one.socket.close)
            bound.append(one)
        undo.pop_all()
    return bound


def close(bound: Sequence[Bound]) -> None:
    for one in bound:
        one.socket.close()


def _bind(listener: Listener) -> Bound:
    try:
        found = _socket(listener)
    except OSError as error:
        # Python names the address once more after the system's words; a name that is not known has words of its own.
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise OSError(error.errno, f"cannot listen at {listener}: {reason}") from None
    return Bound(replace(listener, port=found.getsockname()[1]), found)


def _socket(listener: Listener) -> socket.socket:
    if not listener.host:
        if socket.has_dualstack_ipv6():
            try:
                address = ("", listener.port)
                return socket.create_server(address, family=socket.AF_INET6, backlog=_WAITING, dualstack_ipv6=True)
            except OSError:
                # The system knows IPv6 and has it turned off, or the port is taken: with IPv4 one sees which.
                pass
        return socket.create_server(("", listener.port), backlog=_WAITING)
    family, _, _, _, found = socket.getaddrinfo(listener.host, listener.port, type=socket.SOCK_STREAM)[0]
    return socket.create_server((str(found[0]), int(found[1])), family=family, backlog=_WAITING)
