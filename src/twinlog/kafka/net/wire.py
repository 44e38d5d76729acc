"""Opens connections to brokers. Handed in with the loop, so that a test can put a cluster of this process behind it."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, Protocol, cast

from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.net.inet import KafkaNetSocket

from twinlog.kafka.net.addresses import beginning_with


class Wire(Protocol):
    """What makes the connections of one loop."""

    async def open(
        self, net: Any, host: str, port: int, options: Sequence[tuple[int, int, int]], timeout_at: float | None
    ) -> Any:
        """A connected socket that does not block, for the loop `net`, until `timeout_at` (monotonic seconds).

        `options` are those of `setsockopt`. Raises KafkaConnectionError.
        """


class SocketWire:
    """TCP connections of this machine."""

    def __init__(self) -> None:
        self._silent: dict[tuple[str, int], int] = {}

    async def open(
        self, net: Any, host: str, port: int, options: Sequence[tuple[int, int, int]], timeout_at: float | None
    ) -> socket.socket:
        """A connected socket; kafka-python's own function leaves those of refused attempts to the garbage collector.

        Each address of the host is tried, but one that is silent takes all the time there is; the next call begins with
        the address after it (Kafka class ClusterConnectionStates).
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
