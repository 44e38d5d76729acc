"""Scratch directories: what a run leaves that was killed is removed by the next, what lives or is not ours stays."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.wait import wait_for
from twinlog.process.scratch import PREFIX, Scratch, sweep

OWNER = """
import sys, time
from pathlib import Path
from twinlog.process.scratch import Scratch
own = Scratch(Path(sys.argv[1]))
(own.path / "below").mkdir()
(own.path / "below" / "file").write_text("x")
print(own.path, flush=True)
time.sleep(600)
"""

Own = Callable[[], tuple[Path, subprocess.Popen[str]]]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Own]:
    """Starts a process that has a scratch directory with a file."""
    started: list[subprocess.Popen[str]] = []

    def start() -> tuple[Path, subprocess.Popen[str]]:
        process = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return Path(process.stdout.readline().strip()), process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


PARENT = """
import subprocess, sys, time
from pathlib import Path
from twinlog.process.scratch import Scratch
own = Scratch(Path(sys.argv[1]))
program = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, pass_fds=[own.lock])
print(own.path, program.pid, flush=True)
time.sleep(600)
"""


def test_a_directory_stays_until_the_last_program_with_its_lock_has_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        path, program = parent.stdout.readline().split()
        parent.kill()
    try:
        assert sweep([tmp_path]) == []
    finally:
        os.kill(int(program), signal.SIGKILL)
    wait_for(lambda: sweep([tmp_path]) == [Path(path)], 60, "the directory is removed")


def test_what_a_killed_process_left_goes_and_what_a_living_one_has_stays(tmp_path: Path, own: Own) -> None:
    (dead, killed), (generations, stopped) = own(), own()
    assert sweep([tmp_path]) == []
    killed.kill()
    killed.wait()
    # Stopped for as long as you like, as by a debugger or a frozen container.
    stopped.send_signal(signal.SIGSTOP)
    assert sweep([tmp_path, tmp_path]) == [dead]
    assert not dead.exists()
    assert (generations / "below" / "file").read_text() == "x"


def test_only_directories_of_this_name_and_user_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}file").touch()
    (tmp_path / "twinlog-harness").mkdir()
    theirs = tmp_path / f"{PREFIX}theirs"
    theirs.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: os.stat(theirs).st_uid + 1)
    assert sweep([tmp_path, tmp_path / "missing"]) == []
    monkeypatch.undo()
    assert sweep([tmp_path]) == [theirs]
    assert (elsewhere / "precious").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "elsewhere",
        "twinlog-harness",
        f"{PREFIX}file",
        f"{PREFIX}link",
    ]


def test_links_in_what_is_removed_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    with Scratch(tmp_path) as work:
        (work / "link").symlink_to(kept)
    assert not work.exists()
    assert (kept / "file").exists()


def test_a_directory_that_is_swept_before_it_is_locked_is_recreated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    really = tempfile.mkdtemp

    def mkdtemp(**where: Any) -> str:
        made.append(Path(really(**where)))
        if len(made) == 1:
            assert sweep([tmp_path]) == made
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    own = Scratch(tmp_path)
    assert made[1:] == [own.path]
    assert sweep([tmp_path]) == []
    own.remove()
    own.remove()
    assert list(tmp_path.iterdir()) == []


def test_without_locks_nothing_is_taken_for_a_dead_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unknown)
    with Scratch(tmp_path) as work:
        assert sweep([tmp_path]) == []
        assert work.is_dir()
