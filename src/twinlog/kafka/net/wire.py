"""Opens connections to brokers.

The loop gets a wire as an argument, so that a test can simulate a cluster behind it.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, Protocol, cast

from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.net.inet import KafkaNetSocket

from twinlog.kafka.net.addresses import beginning_with


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
