"""The demo as a user runs it: it proves what it prints, and leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from harness.child import Child, runs
from harness.wait import wait_for

ROOT = Path(__file__).parents[3]
SMALL = ["--records", "20000", "--rate", "2000", "--seconds", "1"]
START_S = 240.0


class DemoRun:
    """`python -m demo` with a temporary directory of its own, where everything it makes must be gone at the end."""

    def __init__(self, tmp_path: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.scratch = tmp_path / "scratch"
        self.scratch.mkdir()
        command = [sys.executable, "-m", "demo", *SMALL, *arguments]
        env = {"TMPDIR": str(self.scratch), "PYTHONPATH": str(ROOT), **(env or {})}
        self.process = Child("demo", command, tmp_path / "demo.log", env)
        self.process.start()
        self._children: dict[int, psutil.Process] = {}

    @property
    def output(self) -> str:
        return self.process.log.read_text(encoding="utf-8")

    def prints(self, text: str) -> None:
        def printed() -> bool:
            self.note_children()
            if text not in self.output:
                self.process.require_alive()
            return text in self.output

        wait_for(printed, START_S, f"the demo prints {text!r}")

    def note_children(self) -> None:
        try:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                self._children[child.pid] = child
        except psutil.NoSuchProcess:
            pass

    def left_running(self) -> list[str]:
        running = []
        for child in self._children.values():
            # A zombie has ended; it waits for whoever adopted it to notice.
            with suppress(psutil.NoSuchProcess):
                if runs(child):
                    running.append(" ".join(child.cmdline()))
        return running

    def left_behind(self) -> list[str]:
        return [path.name for path in self.scratch.iterdir() if not path.name.startswith("twinlog-ports-")]


@pytest.fixture
def tidy(tmp_path: Path) -> Iterator[list[DemoRun]]:
    runs: list[DemoRun] = []
    yield runs
    for run in runs:
        run.process.terminate()


def test_the_demo_proves_every_record_and_leaves_nothing(tmp_path: Path, tidy: list[DemoRun]) -> None:
    demo = DemoRun(tmp_path)
    tidy.append(demo)
    demo.prints("(SIGTERM)")
    assert demo.process.wait(60) == 0, demo.output
    written = re.search(r"all ([0-9,]+) records", demo.output)
    assert written is not None, demo.output
    assert int(written[1].replace(",", "")) >= 20_000
    assert "secret" not in demo.output
    assert "\x1b" not in demo.output
    wait_for(lambda: not demo.left_running(), 60, "every process of the demo has ended")
    assert demo.left_behind() == []


@pytest.mark.parametrize(
    ("number", "after"),
    [(signal.SIGINT, "$ twinlog run"), pytest.param(signal.SIGTERM, "Started ", marks=pytest.mark.scenario)],
)
def test_an_interrupt_stops_everything(tmp_path: Path, tidy: list[DemoRun], number: signal.Signals, after: str) -> None:
    demo = DemoRun(tmp_path)
    tidy.append(demo)
    demo.prints(after)
    demo.note_children()
    os.kill(demo.process.pid, number)
    assert demo.process.wait(60) == 130, demo.output
    assert "Interrupted" in demo.output
    wait_for(lambda: not demo.left_running(), 60, "every process of the demo has ended")
    assert [name for name in demo.left_behind() if name.startswith("twinlog-demo-")] == []


@pytest.mark.parametrize(
    ("env", "printed"),
    [
        (
            {"JAVA_HOME": "/nonexistent"},
            r"The demo cannot go on: No Java found: JAVA_HOME is /nonexistent.*17 or newer",
        ),
        (
            {"TWINLOG_CACHE": "cache", "TWINLOG_IVY_SETTINGS": "missing.xml"},
            r"jars of Kafka \S+ could not be fetched.*Connect to the",
        ),
    ],
    ids=["no java", "no jars"],
)
def test_a_missing_program_is_reported_in_one_sentence(tmp_path: Path, env: dict[str, str], printed: str) -> None:
    given = {key: value if value.startswith("/") else str(tmp_path / value) for key, value in env.items()}
    done = subprocess.run(
        [sys.executable, "-m", "demo"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), **given},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert re.search(printed, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.glob("twinlog-demo-*")) == []
