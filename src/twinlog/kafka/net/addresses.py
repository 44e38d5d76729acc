"""Turns names of servers into addresses, by `client.dns.lookup`."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from typing import TypeVar

from kafka.cluster import get_ip_port_afi

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
