"""Requests that are sent a thousand times a second, written and read without kafka-python's general encoder."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from twinlog.kafka.protocol.varint import uvarint

_PREFIX = struct.Struct(">ihhih")

Part = bytes | bytearray | memoryview


class Expected(NamedTuple):
    """A response that is under way, and what reads its body: `read(frame, where the body begins)`."""

    correlation_id: int
    read: Callable[[memoryview, int], Any]


class RawRequest:
    """A request of a flexible version (KIP-482), as kafka-python's connections take it."""

    API_KEY: int
    API_VERSION: int

    def expect_response(self) -> bool:
        return True

    def body(self) -> list[Part]:
        """Everything after the header, in pieces that are joined once."""
        raise NotImplementedError

    def read(self, frame: memoryview, at: int) -> Any:
        """The response whose body begins at byte `at` of a frame."""
        raise NotImplementedError

    def frame(self, correlation_id: int, client_id: str) -> bytes:
        """The framed request, with its header (version 2) and length, as one bytes object."""
        client = client_id.encode()
        body = self.body()
        size = _PREFIX.size - 4 + len(client) + 1 + sum(map(len, body))
        prefix = _PREFIX.pack(size, self.API_KEY, self.API_VERSION, correlation_id, len(client))
        return b"".join((prefix, client, b"\0", *body))


def compact(text: str) -> bytes:
    """A string as flexible versions have it: its length plus one, then UTF-8."""
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded
