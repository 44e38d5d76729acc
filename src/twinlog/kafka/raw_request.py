"""Requests that are sent a thousand times a second, written and read without kafka-python's general encoder."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

_PREFIX = struct.Struct(">ihhih")

Part = bytes | bytearray | memoryview


class Expected(NamedTuple):
    """A response that is under way, and what reads its body: `read(frame, where the body begins)`."""

    correlation_id: int
    read: Callable[[memoryview, int], Any]


class RawRequest(Protocol):
    """A request of a flexible version (KIP-482), as kafka-python's connections take it."""

    API_KEY: int
    API_VERSION: int

    def expect_response(self) -> bool: ...

    def frame(self, correlation_id: int, client_id: str) -> bytes:
        """The framed request as one bytes object."""

    def read(self, frame: memoryview, at: int) -> Any:
        """The response whose body begins at byte `at` of a frame."""


def framed(api_key: int, version: int, correlation_id: int, client_id: str, body: list[Part]) -> bytes:
    """A request with its header (version 2) and length; the parts of the body are joined once."""
    client = client_id.encode()
    size = _PREFIX.size - 4 + len(client) + 1 + sum(map(len, body))
    prefix = _PREFIX.pack(size, api_key, version, correlation_id, len(client))
    return b"".join((prefix, client, b"\0", *body))
