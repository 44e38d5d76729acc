"""The file of a migration, and the process that runs it.

The file has passwords. So only the user of the console may read the file and the log, and no other user may put a file
or a link in their places.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from twinlog.console.flow_files import FlowsOfFile
from twinlog.errors import RequestError
from twinlog.ui.migration.draft import MigrationDraft

END_S = 30.0
"""The time for which a process may end in order."""

MOST_FILES = 1000
_OWN = 0o600


@dataclass(frozen=True, slots=True)
class MigrationRun:
    """The process that runs the file of a draft, and the flows of this file as the pages show them."""

    draft: MigrationDraft
    file: Path
    process: subprocess.Popen[bytes]
    shown: FlowsOfFile

    @classmethod
    def begin(cls, draft: MigrationDraft, file: Path, shown: FlowsOfFile) -> MigrationRun:
        """Run the file in a process that ends with the console. Raises RequestError 409 if the process does not start,
        for example because its log is unwritable."""
        command = [sys.executable, "-m", "twinlog.ui.migration.tethered_run", str(file)]
        path = _log_of(file)
        try:
            with os.fdopen(_open_log(path), "ab") as log:
                # The end of the console closes the pipe, also after SIGKILL.
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                )
        except OSError as error:
            place = error.filename or path
            raise RequestError(409, f"The process did not start: {place}: {error.strerror}.") from None
        return cls(draft, file, process, shown)

    @property
    def log(self) -> Path:
        """The log of the process."""
        return _log_of(self.file)

    @property
    def code(self) -> int | None:
        """The exit code of the process; None while it runs."""
        return self.process.poll()

    def require_end(self) -> None:
        """Raise RequestError 409 while the process runs."""
        if self.code is None:
            raise RequestError(409, f"Process {self.process.pid} runs {self.file} already: stop it first.")

    def ask_end(self) -> None:
        """Have the process end in order; an ended process is left alone."""
        self.process.terminate()

    def wait_end(self) -> None:
        """Wait until the process has ended, for `END_S` seconds; then it is killed."""
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.close()

    def close(self) -> None:
        """Close the pipe to an ended process."""
        if self.process.stdin is not None:
            self.process.stdin.close()


def _log_of(file: Path) -> Path:
    return file.with_suffix(".log")


def _open_log(path: Path) -> int:
    """Open a log to append to. Raises OSError, also for a link, and for a file of another user."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, _OWN)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(None, "it is no file of this user")
        os.fchmod(handle, _OWN)
        os.set_blocking(handle, True)
    except BaseException:
        os.close(handle)
        raise
    return handle


def write_file(home: Path, draft: MigrationDraft) -> Path:
    """Write the file of a draft into a folder, beside files of other drafts; an equal file of this user is kept.

    Raises RequestError 409 if the folder refuses the file, or other users may write to the folder.
    """
    name, text = draft.flow.replace("->", "-to-"), draft.text()
    try:
        _require_guarded(home)
        for number in range(1, MOST_FILES):
            path = home / f"{name}{'' if number == 1 else f'-{number}'}.properties"
            try:
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _OWN)
            except FileExistsError:
                if _own_text(path) == text:
                    return path
                continue
            _fill(handle, path, text)
            return path
    except OSError as error:
        raise RequestError(
            409, f"{home} refuses the file: {error.strerror}; start the console with --output-dir DIR."
        ) from None
    raise RequestError(409, f"{home} has {MOST_FILES} files of {draft.flow}.")


def _require_guarded(home: Path) -> None:
    """Raise PermissionError if any user may replace files of the folder."""
    mode = home.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise PermissionError(None, "every user of the host may replace its files")


def _fill(handle: int, path: Path, text: str) -> None:
    """Write a new file. Raises OSError; then the file is gone."""
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _own_text(path: Path) -> str | None:
    """The text of a file that this user alone may read and write; None for every other file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != _OWN:
            return None
        with os.fdopen(handle, encoding="utf-8", errors="replace", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)
