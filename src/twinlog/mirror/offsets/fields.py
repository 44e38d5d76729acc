"""The fields of MirrorMaker 2's own records: big-endian numbers and short strings (Kafka class `Type`)."""

from __future__ import annotations

from struct import Struct, error

INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")
LONGEST_STRING = 0x7FFF


class FieldError(ValueError):
    """A record's key or value lacks the expected fields; only decoders see the error."""


def string(text: str) -> bytes:
    """A string field: its length in bytes as INT16, then UTF-8. Raises ValueError above 32767 bytes."""
    data = text.encode(errors="replace")
    if len(data) > LONGEST_STRING:
        raise ValueError(f"a string of {len(data)} bytes does not fit into a field of at most {LONGEST_STRING}")
    return INT16.pack(len(data)) + data


class FieldReader:
    """Takes fields from the start of `data`; the bytes after the last field are ignored, as in Kafka's classes.

    Every method raises FieldError when the data ends too early.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def string(self) -> str:
        size = self.int16()
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise FieldError(f"a string of {size} bytes in {len(self._data) - self._at}")
        text = self._data[self._at : end].decode(errors="replace")
        self._at = end
        return text

    def int16(self) -> int:
        return self._number(INT16)

    def int32(self) -> int:
        return self._number(INT32)

    def int64(self) -> int:
        return self._number(INT64)

    def rest(self) -> bytes:
        """The bytes after the fields that were taken."""
        return self._data[self._at :]

    def _number(self, kind: Struct) -> int:
        try:
            number: int = kind.unpack_from(self._data, self._at)[0]
        except error as short:
            raise FieldError(str(short)) from None
        self._at += kind.size
        return number
