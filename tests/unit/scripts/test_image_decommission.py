"""What a kubelet runs before it ends an executor's container: the executor hears of it, and is waited for."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts import image_decommission

EXECUTOR = """
import signal, sys, time
signal.signal(signal.SIGPWR, lambda *_: (time.sleep(0.3), sys.exit(0)))
print("ready", flush=True)
time.sleep(600)
"""


def test_the_executor_is_told_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # A name of its own: other executors may run on this machine.
    monkeypatch.setattr(image_decommission, "BACKEND", "org.example.ExecutorOfThisTest")
    with subprocess.Popen(
        [sys.executable, "-c", EXECUTOR, image_decommission.BACKEND], stdout=subprocess.PIPE
    ) as executor:
        assert executor.stdout is not None
        assert executor.stdout.readline() == b"ready\n"
        assert image_decommission.executors() == [executor.pid]
        began = time.monotonic()
        assert image_decommission.main() == 0
        assert time.monotonic() - began >= 0.3
        assert executor.wait(60) == 0


def test_what_ends_meanwhile_is_no_executor(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "cmdline").write_bytes(b"java\0-cp\0x\0" + image_decommission.BACKEND.encode() + b"\0--cores\0")
    assert image_decommission.executors(tmp_path) == [2]
