"""`twinlog log-level`, in virtual time: the request, the report that it waits for, and the codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result
from typer.testing import CliRunner

from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import PRODUCE
from tests.unit.ops.topics.test_topics import FILE, Scene
from twinlog.cli.main import app
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.ops.log_level import command as module
from twinlog.ops.topics import reader as topics
from twinlog.settings.client import ClientSettings
from twinlog.worker.status.report import LogLevelProgress

NAME = "0123456789ab"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Scene]:
    with virtual_loop(1) as loop:

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        # It is the process's own.
        monkeypatch.setattr(module, "log_warnings", lambda: None)
        monkeypatch.setattr(module, "uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=f"{NAME}cdef")))
        monkeypatch.setattr(topics, "TopicsReader", partial(topics.TopicsReader, connect=connect))
        (tmp_path / "mm2.properties").write_text(FILE.format(more=""))
        yield Scene(loop, tmp_path)


def call(home: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["log-level", str(home / "mm2.properties"), *words])


def test_the_level_is_printed_once_the_process_has_taken_it_over(here: Scene, tmp_path: Path) -> None:
    here.report(log_level=LogLevelProgress(NAME, "debug", 1_900_000_000_000))
    done = call(tmp_path, "DEBUG", "--for", "5m")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "s->w: the log of host-1 and its tasks has level debug until 2030-03-17T17:46:40Z\n"
    data = json.loads(call(tmp_path, "debug", "-o", "json").stdout)
    assert data == {"flow": "s->w", "process": "host-1", "level": "debug", "until_ms": 1_900_000_000_000}


def test_the_end_of_a_level_is_printed(here: Scene, tmp_path: Path) -> None:
    here.report(log_level=LogLevelProgress(NAME, "default", 0))
    done = call(tmp_path, "default")
    assert (done.exit_code, done.stdout) == (0, "s->w: the log of host-1 has its usual level again\n")


def test_a_dry_run_prints_the_level_and_writes_nothing(here: Scene, tmp_path: Path) -> None:
    here.report()
    done = call(tmp_path, "debug", "--for", "5m", "--dry-run")
    assert (done.exit_code, done.stdout) == (0, "s->w: the log would have level debug for 5m\n"), done.stderr
    done = call(tmp_path, "default", "--dry-run", "-o", "json")
    assert json.loads(done.stdout) == {"flow": "s->w", "process": "host-1", "level": "default", "dry_run": True}
    assert here.target.asked[PRODUCE] == 0


def test_nothing_is_written_while_no_process_runs_the_flow(here: Scene, tmp_path: Path) -> None:
    done = call(tmp_path, "debug")
    assert done.exit_code == 1
    assert done.stderr.startswith("twinlog: TW-COMMAND-15: no process runs s->w now: not running;")
    assert here.target.asked[PRODUCE] == 0


def test_a_process_that_is_silent_about_the_level_is_code_3(here: Scene, tmp_path: Path) -> None:
    here.report(log_level=LogLevelProgress("of before", "debug", 1_900_000_000_000))
    done = call(tmp_path, "debug", "--timeout", "3")
    assert done.exit_code == 3
    assert "TW-COMMAND-15: the process that runs the flow has not taken the level over within 3 s" in done.stderr
    assert here.target.asked[PRODUCE] > 0


@pytest.mark.parametrize(
    "words", [("loud",), ("debug", "--for", "0s"), ("debug", "--for", "15"), ("debug", "--for", "25h")]
)
def test_a_wrong_level_or_time_is_code_2(here: Scene, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = call(tmp_path, *words)
    assert done.exit_code == 2
    assert "--for" in done.stderr or "LEVEL" in done.stderr
    assert here.target.asked[PRODUCE] == 0
