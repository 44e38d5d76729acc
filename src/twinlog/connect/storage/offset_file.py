"""The offset file of a standalone worker, as Connect reads and writes it (Kafka class FileOffsetBackingStore).

Only one worker may have it, and it is replaced as a whole. Beside it, in a file with `.twinlog` at the end of its
name, stands which content this program wrote last: where the file has another one, somebody else has written it since.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from enum import Enum, auto
from hashlib import sha256
from pathlib import Path

from twinlog.connect.storage.java_map import read_java_map, write_java_map
from twinlog.errors import ConfigError, ConfigProblem

KEY = "offset.storage.file.filename"
_NOTE = ".twinlog"


class Written(Enum):
    """Who wrote an offset file last."""

    HERE = auto()
    ELSEWHERE = auto()
    UNKNOWN = auto()
    """This program never did, or what it noted is gone."""


class OffsetFile:
    """An offset file that this process has; used by one thread at a time.

    Making it raises ConfigError where another process has it, or it cannot be read or written. A missing or empty file
    has no offsets, as in Connect.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._note = self.path.with_name(self.path.name + _NOTE)
        try:
            # Not through a link that somebody else laid in a folder for everyone.
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
            raise self._problem("another worker has this file", "a file of its own for each worker") from None
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
            expected = "the offset file of a standalone worker; restore it, or move it away to go on without it"
            raise self._problem(str(error), expected) from None
        self._digest = _digest(data)
        if not data or not noted:
            self.written = Written.UNKNOWN
        else:
            self.written = Written.HERE if self._digest in noted else Written.ELSEWHERE

    def save(self, content: Mapping[bytes, bytes | None]) -> None:
        """Replace the content of the file. Raises OSError, and then it has the one before."""
        data = write_java_map(content)
        digest = _digest(data)
        if digest == self._digest:
            return
        # After a crash the file has one of both contents; the note shows that either is this worker's.
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
        """Give the file back."""
        os.close(self._held)

    def _write_note(self, text: str) -> None:
        os.pwrite(self._held, text.encode(), 0)
        os.ftruncate(self._held, len(text))
        os.fsync(self._held)

    def _problem(self, found: str, expected: str) -> ConfigError:
        return ConfigError([ConfigProblem(str(self.path), None, KEY, found, expected)])


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
