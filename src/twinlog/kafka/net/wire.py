"""Opens connections to brokers.

The loop gets a wire as an argument, so that a test can simulate a cluster behind it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar, cast

from kafka.cluster import get_ip_port_afi
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.net.inet import KafkaNetSocket

T = TypeVar("T")


def canonical(servers: Iterable[str]) -> list[str]:
    """Each bootstrap server, as `host:port`, once for each of its addresses, by the address's canonical name.

    Blocks, for seconds if a name server fails to answer. An address that lacks a name is returned as the address; a
    host that lacks an address stays as it is (Kafka class ClientUtils, `resolve_canonical_bootstrap_servers_only`).
    """
    found: dict[str, None] = {}
    for server in servers:
        host, port, family = get_ip_port_afi(server)
        try:
            addresses = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        except OSError:
            found[_server(host, port)] = None
            continue
        for *_, address in addresses:
            try:
                name, _ = socket.getnameinfo(address, socket.NI_NAMEREQD | socket.NI_NUMERICSERV)
            except OSError:
                name = str(address[0])
            found[_server(name, port)] = None
    return list(found)


def _server(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def beginning_with(items: Sequence[T], index: int) -> list[T]:
    """The items in turn, beginning with the item at `index`; an index past the end counts from the beginning again.

    >>> beginning_with(["a", "b", "c"], 4)
    ['b', 'c', 'a']
    """
    start = index % len(items) if items else 0
    return [*items[start:], *items[:start]]


class Wire(Protocol):
    """Makes the connections of a loop."""

    async def open(
        self, net: Any, host: str, port: int, options: Sequence[tuple[int, int, int]], timeout_at: float | None
    ) -> Any:
        """A connected, non-blocking socket for the loop `net`; gives up at `timeout_at` (monotonic seconds).

        `options` are arguments of `setsockopt`. Raises KafkaConnectionError.
        """


class SocketWire:
    """TCP connections of this machine."""

    def __init__(self) -> None:
        self._silent: dict[tuple[str, int], int] = {}

    async def open(
        self, net: Any, host: str, port: int, options: Sequence[tuple[int, int, int]], timeout_at: float | None
    ) -> socket.socket:
        """A connected socket; refused attempts are closed at once, which kafka-python leaves to the garbage collector.

        Each address of the host is tried. A silent address takes all remaining time; the next call begins with the next
        address (Kafka class ClusterConnectionStates).
        """
        sockets = KafkaNetSocket()
        error = KafkaConnectionError("DNS Resolution failure")
        first = self._silent.get((host, port), 0)
        addresses = beginning_with(sockets.dns_lookup(host, port), first)
        for turn, (family, kind, protocol, _, address) in enumerate(addresses):
            sock = sockets.socket(family, kind, protocol)
            try:
                sock.setblocking(False)
                for option in options:
                    sock.setsockopt(*option)
                return cast(socket.socket, await sockets.sock_connect(net, sock, address, timeout_at=timeout_at))
            except KafkaTimeoutError:
                sock.close()
                self._silent[host, port] = (first + turn + 1) % len(addresses)
                raise KafkaConnectionError("Connection timed out") from None
            except (OSError, KafkaConnectionError) as failure:
                sock.close()
                error = KafkaConnectionError(f"unable to connect: {failure}")
            except BaseException:
                # The loop ends.
                sock.close()
                raise
        raise error
