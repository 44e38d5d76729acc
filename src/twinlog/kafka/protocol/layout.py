"""The form of the requests that are sent a thousand times a second, without kafka-python's general encoder.

Counts and strings have a form that depends on the version of a request: flexible (KIP-482), or older and plain.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, ClassVar, NamedTuple, Protocol

from kafka.errors import IncompatibleBrokerVersion

from twinlog.kafka.record.varint import read_unsigned, skip_tags, uvarint

_INT = Struct(">i")
_SHORT = Struct(">h")

_PREFIX = struct.Struct(">ihhih")


class Layout(Protocol):
    """Writes and reads the parts of a message whose form depends on its version.

    A count is the length of an array or of bytes, a size in bytes; -1 is null. Reading raises IndexError or
    struct.error if the bytes end too early.
    """

    def count(self, number: int) -> bytes:
        """A count as bytes."""

    def text(self, text: str | None) -> bytes:
        """A string in UTF-8, after its length in bytes."""

    def tags(self) -> bytes:
        """The end of a structure, with an empty list of tagged fields."""

    def read_count(self, frame: memoryview, at: int) -> tuple[int, int]:
        """A count, and the place after it."""

    def read_text(self, frame: memoryview, at: int) -> tuple[str | None, int]:
        """A string, and the place after it; bytes outside of UTF-8 are replaced."""

    def skip_tags(self, frame: memoryview, at: int) -> int:
        """The place after the tagged fields of a structure."""


class _Flexible:
    """Varints of the number plus 1, and tagged fields at the end of each structure."""

    def count(self, number: int) -> bytes:
        return uvarint(number + 1)

    def text(self, text: str | None) -> bytes:
        if text is None:
            return b"\0"
        encoded = text.encode()
        return uvarint(len(encoded) + 1) + encoded

    def tags(self) -> bytes:
        return b"\0"

    def read_count(self, frame: memoryview, at: int) -> tuple[int, int]:
        number, at = read_unsigned(frame, at)
        return number - 1, at

    def read_text(self, frame: memoryview, at: int) -> tuple[str | None, int]:
        size, at = read_unsigned(frame, at)
        return (None, at) if not size else (str(frame[at : at + size - 1], "utf-8", "replace"), at + size - 1)

    def skip_tags(self, frame: memoryview, at: int) -> int:
        return skip_tags(frame, at)


class _Plain:
    """Counts of four bytes, lengths of strings of two bytes, structures that lack tagged fields."""

    def count(self, number: int) -> bytes:
        return _INT.pack(number)

    def text(self, text: str | None) -> bytes:
        if text is None:
            return _SHORT.pack(-1)
        encoded = text.encode()
        return _SHORT.pack(len(encoded)) + encoded

    def tags(self) -> bytes:
        return b""

    def read_count(self, frame: memoryview, at: int) -> tuple[int, int]:
        return _INT.unpack_from(frame, at)[0], at + _INT.size

    def read_text(self, frame: memoryview, at: int) -> tuple[str | None, int]:
        (size,) = _SHORT.unpack_from(frame, at)
        at += _SHORT.size
        return (None, at) if size < 0 else (str(frame[at : at + size], "utf-8", "replace"), at + size)

    def skip_tags(self, frame: memoryview, at: int) -> int:
        return at


FLEXIBLE: Layout = _Flexible()
PLAIN: Layout = _Plain()


Part = bytes | bytearray | memoryview

SENT_ALONE_BYTES = 64 << 10
"""A socket gets a part of this size or more as it is; copying smaller parts together costs less than sending them."""


class ExpectedResponse(NamedTuple):
    """A response that is under way: the layout of its header, and the reader of its body: `read(frame, its begin)`."""

    correlation_id: int
    layout: Layout
    read: Callable[[memoryview, int], Any]


class RawRequest:
    """A request in any of several versions, as kafka-python's connections take it.

    `API_VERSION` is the newest version that may be sent, and after `negotiate_version` the version that is sent.
    """

    API_KEY: ClassVar[int]
    OLDEST: ClassVar[int]
    FLEXIBLE_SINCE: ClassVar[int]
    """The first version with a flexible layout (KIP-482)."""

    API_VERSION: int

    @property
    def layout(self) -> Layout:
        """The form of counts and strings in this version."""
        return FLEXIBLE if self.API_VERSION >= self.FLEXIBLE_SINCE else PLAIN

    def negotiate_version(self, api_versions: Mapping[int, tuple[int, int]]) -> None:
        """Take the newest version that a broker has too, by its (lowest, highest) version of each request.

        Brokers of a cluster differ while it is upgraded. Raises IncompatibleBrokerVersion.
        """
        lowest, highest = api_versions.get(self.API_KEY, (0, -1))
        version = min(self.API_VERSION, highest)
        if version < max(lowest, self.OLDEST):
            name = type(self).__name__.removeprefix("Raw")
            raise IncompatibleBrokerVersion(
                f"twinlog sends versions {self.OLDEST} to {self.API_VERSION} of '{name}', "
                f"the broker knows {lowest} to {highest}"
            )
        self.API_VERSION = version

    def expect_response(self) -> bool:
        return True

    def body(self) -> list[Part]:
        """All parts after the header."""
        raise NotImplementedError

    def read(self, frame: memoryview, at: int) -> Any:
        """The response whose body begins at byte `at` of a frame."""
        raise NotImplementedError

    def parts(self, correlation_id: int, client_id: str) -> list[Part]:
        """The framed request, with its header and length: large parts as they are, the small parts between joined."""
        client, tags = client_id.encode(), self.layout.tags()
        body = self.body()
        size = _PREFIX.size - 4 + len(client) + len(tags) + sum(map(len, body))
        prefix = _PREFIX.pack(size, self.API_KEY, self.API_VERSION, correlation_id, len(client))
        parts = [prefix, client, tags, *body]
        return [b"".join(parts)] if size < SENT_ALONE_BYTES else _join_small(parts)

    def frame(self, correlation_id: int, client_id: str) -> bytes:
        """The framed request as a single bytes object."""
        return b"".join(self.parts(correlation_id, client_id))


def _join_small(parts: list[Part]) -> list[Part]:
    found: list[Part] = []
    begin = 0
    for index, part in enumerate(parts):
        if len(part) >= SENT_ALONE_BYTES:
            found += (b"".join(parts[begin:index]), part)
            begin = index + 1
    found.append(b"".join(parts[begin:]))
    return found
