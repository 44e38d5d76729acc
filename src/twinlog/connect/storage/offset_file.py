"""The offset file of a standalone worker, as Connect reads and writes it (Kafka class FileOffsetBackingStore).

A single worker owns the file and replaces it as a whole. A second file, with `.twinlog` at the end of its name, holds
the digest of the content that this program wrote last: a different content comes from another program.

Format: a HashMap by the Java Object Serialization Specification, version 6. Other content of a stream is refused, and
classes of a stream are never run or built.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Mapping
from enum import Enum, auto
from hashlib import sha256
from pathlib import Path

from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, MistakeKind

_HEADER = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _DESCRIPTION, _OBJECT, _ARRAY = b"\x70", b"\x71", b"\x72", b"\x73", b"\x75"
_END = b"\x78"
_BYTES_CLASS = _DESCRIPTION + b"\x00\x02[B" + bytes.fromhex("acf317f8060854e0 02 0000") + _END + _NULL
_MAP_CLASS = (
    _DESCRIPTION
    + b"\x00\x11java.util.HashMap"
    + bytes.fromhex("0507dac1c31660d1 03 0002")
    + b"F\x00\x0aloadFactor"
    + b"I\x00\x09threshold"
    + _END
    + _NULL
)
_FIRST_HANDLE = 0x7E0000
"""Handles of classes, objects and arrays are counted from here: the map's class, the map, and so on."""
_BYTES_HANDLE = _FIRST_HANDLE + 2
_LOAD = 0.75

KEY = "offset.storage.file.filename"
_NOTE = ".twinlog"


def read_java_map(data: bytes) -> dict[bytes, bytes | None]:
    """The content of a HashMap<byte[], byte[]>. Raises ValueError for other content."""
    try:
        return _JavaMapReader(data).map()
    except (struct.error, IndexError, KeyError):
        raise ValueError(
            "the stream of Java objects ends too early, or refers to an object outside of the stream"
        ) from None


def write_java_map(content: Mapping[bytes, bytes | None]) -> bytes:
    """Write a HashMap<byte[], byte[]>, byte for byte as Java writes a map that was filled in this order."""
    buckets = 16
    while len(content) > buckets * _LOAD:
        buckets *= 2
    threshold = int(buckets * _LOAD) if content else 0
    parts = [_HEADER, _OBJECT, _MAP_CLASS, struct.pack(">fi", _LOAD, threshold)]
    # The map's own part: a block of eight bytes, then each key with its value.
    parts.append(struct.pack(">BBii", 0x77, 8, buckets, len(content)))
    known = False
    for pair in content.items():
        for one in pair:
            if one is None:
                parts.append(_NULL)
                continue
            kind = _REFERENCE + struct.pack(">i", _BYTES_HANDLE) if known else _BYTES_CLASS
            known = True
            parts.append(_ARRAY + kind + struct.pack(">i", len(one)) + one)
    return b"".join([*parts, _END])


class _JavaMapReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._next_handle = _FIRST_HANDLE
        self._arrays: dict[int, bytes] = {}
        self._bytes_handle = -1

    def map(self) -> dict[bytes, bytes | None]:
        self._expect(_HEADER, "a stream of Java objects")
        self._expect(_OBJECT + _MAP_CLASS, "a java.util.HashMap")
        self._next_handle += 2
        self._number(">fi")
        self._expect(b"\x77\x08", "the content of a HashMap")
        _, size = self._number(">ii")
        content: dict[bytes, bytes | None] = {}
        for _ in range(size):
            key, value = self._array(), self._array()
            if key is not None:
                content[key] = value
        self._expect(_END, "the end of a HashMap")
        return content

    def _array(self) -> bytes | None:
        tag = self._take(1)
        if tag == _NULL:
            return None
        if tag == _REFERENCE:
            return self._arrays[self._number(">i")[0]]
        if tag != _ARRAY:
            raise ValueError("the HashMap holds something else than byte arrays")
        if self._data.startswith(_BYTES_CLASS, self._at):
            self._at += len(_BYTES_CLASS)
            self._bytes_handle, self._next_handle = self._next_handle, self._next_handle + 1
        elif self._take(1) != _REFERENCE or self._number(">i")[0] != self._bytes_handle:
            raise ValueError("the HashMap holds arrays of something else than bytes")
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        found = self._arrays[handle] = self._take(self._number(">i")[0])
        return found

    def _expect(self, expected: bytes, what: str) -> None:
        if not self._data.startswith(expected, self._at):
            raise ValueError(f"a worker of Kafka Connect writes {what} at this place")
        self._at += len(expected)

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise IndexError
        self._at, found = end, self._data[self._at : end]
        return found

    def _number(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self._take(struct.calcsize(form)))


class LastWriter(Enum):
    """The program that wrote an offset file last."""

    HERE = auto()
    ELSEWHERE = auto()
    UNKNOWN = auto()
    """This program never wrote the file, or its note is lost."""


class OffsetFile:
    """An offset file that this process owns; used by a single thread at a time.

    The constructor raises ConfigError when another process owns the file, or the file is unreadable or unwritable. A
    missing or empty file has no offsets, as in Connect.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._note = self.path.with_name(self.path.name + _NOTE)
        try:
            # A link in a shared folder may be another user's, and is never followed.
            self._held = os.open(self._note, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            found = f"{self._note} cannot be written: {error.strerror}"
            raise self._problem(found, "a file in a folder that the worker may write to") from None
        try:
            self._begin()
        except BaseException:
            os.close(self._held)
            raise

    def _begin(self) -> None:
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            taken = MistakeKind.OFFSET_FILE_TAKEN
            raise self._problem("another worker has this file", "a file of its own for each worker", taken) from None
        noted = os.pread(self._held, 1000, 0).decode("ascii", "replace").split()
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise self._problem(f"it cannot be read: {error.strerror}", "a file that the worker may read") from None
        try:
            self.content = read_java_map(data) if data else {}
        except ValueError as error:
            expected = "the offset file of a standalone worker; restore it, or move it away to begin with an empty file"
            raise self._problem(str(error), expected) from None
        self._digest = _digest(data)
        if not data or not noted:
            self.written = LastWriter.UNKNOWN
        else:
            self.written = LastWriter.HERE if self._digest in noted else LastWriter.ELSEWHERE

    def write_content(self, content: Mapping[bytes, bytes | None]) -> None:
        """Replace the content of the file. Raises OSError, and the file then keeps its previous content."""
        data = write_java_map(content)
        digest = _digest(data)
        if digest == self._digest:
            return
        # After a crash the file has the old or the new content; the note shows that this worker wrote either.
        self._write_note(f"{self._digest} {digest}\n")
        new = self.path.with_name(self.path.name + ".new")
        new.unlink(missing_ok=True)
        with new.open("xb") as file:
            if self.path.exists():
                os.fchmod(file.fileno(), self.path.stat().st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        _sync_folder(self.path.parent)
        self._digest = digest
        # From here on the earlier content would show that another process wrote the file.
        self._write_note(f"{digest}\n")

    def close(self) -> None:
        """Release the file."""
        os.close(self._held)

    def _write_note(self, text: str) -> None:
        os.pwrite(self._held, text.encode(), 0)
        os.ftruncate(self._held, len(text))
        os.fsync(self._held)

    def _problem(self, found: str, expected: str, kind: MistakeKind | None = None) -> ConfigError:
        return ConfigError([ConfigProblem(str(self.path), None, KEY, found, expected, kind)])


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
