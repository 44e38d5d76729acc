"""The form of counts and strings in the versions of a request: flexible (KIP-482), or older and plain."""

from __future__ import annotations

from struct import Struct
from typing import Protocol

from twinlog.kafka.record.varint import read_unsigned, skip_tags, uvarint

_INT = Struct(">i")
_SHORT = Struct(">h")


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
