"""The file and the log of a migration stay with the user of the console, and its process ends with the console."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.ui.migration.test_migration import DRAFT
from twinlog.console.flow_files import FlowsOfFile
from twinlog.errors import RequestError
from twinlog.ui.migration.migration_run import MigrationRun, write_file

DEADLINE_S = 60.0
FIRST, SECOND = "east-to-west.properties", "east-to-west-2.properties"
TETHERED = """\
import time
from twinlog.ui.migration.tethered_run import end_with_input
end_with_input()
time.sleep(600)
"""
CONSOLE = f"""\
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {TETHERED!r}], stdin=subprocess.PIPE, start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_an_equal_file_of_this_user_is_kept(tmp_path: Path) -> None:
    path = write_file(tmp_path, DRAFT)
    assert (path, mode_of(path)) == (tmp_path / FIRST, 0o600)
    before = path.stat().st_mtime_ns
    assert write_file(tmp_path, DRAFT) == path
    assert path.stat().st_mtime_ns == before


def open_to_all(path: Path) -> None:
    path.write_text(DRAFT.text())
    path.chmod(0o644)


def link(path: Path) -> None:
    target = path.with_name("elsewhere")
    target.write_text(DRAFT.text())
    target.chmod(0o600)
    path.symlink_to(target)


def pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize("make", [open_to_all, link, Path.mkdir, pipe])
def test_an_equal_text_that_others_may_have_written_is_left_alone(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / FIRST)
    assert write_file(tmp_path, DRAFT) == tmp_path / SECOND
    assert mode_of(tmp_path / SECOND) == 0o600


def test_a_file_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path, DRAFT)
    monkeypatch.setattr("os.geteuid", lambda: (tmp_path / FIRST).stat().st_uid + 1)
    assert write_file(tmp_path, DRAFT) == tmp_path / SECOND


def test_a_folder_that_every_user_may_write_to_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "open"
    home.mkdir()
    home.chmod(0o777)
    with pytest.raises(RequestError, match="every user of the host may replace its files") as refused:
        write_file(home, DRAFT)
    assert refused.value.status == 409
    assert list(home.iterdir()) == []
    # Of a folder like /tmp only owners replace their files.
    home.chmod(0o1777)
    assert write_file(home, DRAFT).exists()


def test_a_folder_that_refuses_the_file_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="gone refuses the file: No such file or directory") as refused:
        write_file(tmp_path / "gone", DRAFT)
    assert refused.value.status == 409


def begin(file: Path) -> MigrationRun:
    return MigrationRun.begin(DRAFT, file, FlowsOfFile([]))


def test_a_log_that_is_a_link_or_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, victim = tmp_path / FIRST, tmp_path / "victim"
    victim.write_text("kept")
    log = file.with_suffix(".log")
    log.symlink_to(victim)
    with pytest.raises(RequestError, match="The process did not start") as refused:
        begin(file)
    assert refused.value.status == 409
    assert victim.read_text() == "kept"
    log.unlink()
    log.write_text("")
    monkeypatch.setattr("os.geteuid", lambda: log.stat().st_uid + 1)
    with pytest.raises(RequestError, match="it is no file of this user"):
        begin(file)


def test_the_log_is_readable_by_its_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/echo")
    file = tmp_path / FIRST
    log = file.with_suffix(".log")
    log.write_text("earlier\n")
    log.chmod(0o644)
    run = begin(file)
    run.wait_end()
    assert (run.code, mode_of(log)) == (0, 0o600)
    assert log.read_text() == f"earlier\n-m twinlog.ui.migration.tethered_run {file}\n"


def test_a_tethered_process_ends_with_its_pipe() -> None:
    with subprocess.Popen([sys.executable, "-c", TETHERED], stdin=subprocess.PIPE) as child:
        assert child.poll() is None
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(DEADLINE_S) == -signal.SIGTERM


def test_a_tethered_process_ends_with_a_console_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", CONSOLE], stdout=subprocess.PIPE) as console:
        assert console.stdout is not None
        pid = int(console.stdout.readline())
        os.kill(pid, 0)
        console.kill()
        console.wait(DEADLINE_S)
    until = time.monotonic() + DEADLINE_S
    while is_alive(pid):
        assert time.monotonic() < until
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a process that has ended, and that nobody has waited for, runs no more."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
