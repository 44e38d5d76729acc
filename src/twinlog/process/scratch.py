"""Temporary directories, each locked by its owner, so that the next run removes those of a process that died.

The mark is a lock on the directory (flock): the kernel drops it with the process that holds it, however that ends, and
it holds across containers that share a disk and have process ids of their own. Cleaners of old files (systemd-tmpfiles)
leave a locked directory alone, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

PREFIX = "twinlog-scratch-"
_made: set[Scratch] = set()
"""Directories of this process until they are removed."""


class Scratch:
    """A new directory below `parent` (else `$TMPDIR` or the system's default for it), until `remove` or the end of a
    `with`.

    Raises OSError.
    """

    def __init__(self, parent: Path | None = None) -> None:
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            lock = _opened(self.path)
            # Another run may have taken it for a dead run's directory before it was locked.
            if lock is not None and _locked(lock) is not False and self.path.is_dir():
                self._lock = lock
                _made.add(self)
                return
            if lock is not None:
                os.close(lock)

    @property
    def lock(self) -> int:
        """The open file with the lock: a program that inherits the file keeps the directory while the program lives."""
        return self._lock

    def remove(self) -> None:
        """Remove it with all that is in it; may be repeated."""
        _made.discard(self)
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def remove_all() -> None:
    """Remove this process's directories, as it ends at once."""
    for scratch in list(_made):
        scratch.remove()


def sweep(parents: Iterable[Path]) -> list[Path]:
    """Remove this user's directories of dead processes below `parents`; returns the removed directories."""
    found = (path for parent in dict.fromkeys(parents) for path in sorted(parent.glob(f"{PREFIX}*")))
    return [path for path in found if _removed(path)]


def _removed(path: Path) -> bool:
    lock = _opened(path)
    if lock is None:
        return False
    try:
        if os.fstat(lock).st_uid != os.getuid() or not _locked(lock):
            return False
        shutil.rmtree(path, ignore_errors=True)
        return not path.exists()
    finally:
        os.close(lock)


def _opened(path: Path) -> int | None:
    """The directory; None for a file, a link, a missing path or another user's directory."""
    with contextlib.suppress(OSError):
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    return None


def _locked(number: int) -> bool | None:
    """Whether this process has locked it now; None if the file system lacks these locks."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
