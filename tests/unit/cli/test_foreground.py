"""What ends a run decides its exit code: only what is Spark's looks like Spark."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

import twinlog.worker.runner
from twinlog.cli import foreground, kafka_scripts, run
from twinlog.cli.main import app
from twinlog.console import signals
from twinlog.errors import ClusterError, EngineError, EngineLostError, RefusedError
from twinlog.worker.runner import Outcome

FILE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that may be run; the process, its log and its signals stay as they are."""

    def end(code: int) -> NoReturn:
        raise SystemExit(code)

    for module in (run, kafka_scripts):
        monkeypatch.setattr(module, "end_process", end)
    monkeypatch.setattr(foreground, "log_to_stderr", lambda _: None)
    monkeypatch.setattr(signals, "call", lambda *_: None)
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


def ends_with(error: Exception, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the runner fail, when it is made or when it runs."""

    class Runner:
        flows: tuple[()] = ()

        def __init__(self, *_: object) -> None:
            if at == "made":
                raise error

        def run(self, **_: object) -> Outcome:
            raise error

    monkeypatch.setattr(twinlog.worker.runner, "Runner", Runner)


@pytest.mark.parametrize("at", ["made", "run"])
@pytest.mark.parametrize(
    ("error", "codes", "logged"),
    [
        (EngineError("Spark refuses: no"), (3, 3), "Spark refuses: no"),
        (EngineLostError("Spark's JVM was killed by SIGKILL"), (3, 3), "Spark's JVM was killed by SIGKILL"),
        (RefusedError("cluster a: no rights"), (1, 2), "cluster a: no rights"),
        (ClusterError("cluster a: no leader"), (1, 2), "cluster a: no leader"),
        (OSError(98, "Address already in use"), (1, 2), "[Errno 98] Address already in use"),
        (TypeError("a mistake"), (1, 2), "internal error: TypeError('a mistake')"),
    ],
)
def test_only_what_is_sparks_ends_with_3(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    at: str,
    error: Exception,
    codes: tuple[int, int],
    logged: str,
) -> None:
    ends_with(error, at, monkeypatch)
    programs: tuple[tuple[Any, tuple[str, ...]], ...] = ((app, ("run",)), (kafka_scripts.run_mirror_maker, ()))
    for (program, command), code in zip(programs, codes, strict=True):
        caplog.clear()
        monkeypatch.setattr(sys, "argv", ["twinlog", *command, str(file)])
        with caplog.at_level(logging.DEBUG, "twinlog"), pytest.raises(SystemExit) as ended:
            program()
        assert ended.value.code == code
        loud = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
        assert loud == [f"TW-FLOW-07: twinlog ends: {logged}"]
        assert any(one.exc_info for one in caplog.records if one.levelno == logging.DEBUG) == (code != 3)


def test_an_address_in_use_ends_a_run_with_its_own_id(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    way_out = "end the process that has the address, or write another address in"
    way_out += " twinlog.metrics.listeners or --metrics-listener"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(sys, "argv", ["twinlog", "run", str(file), "--metrics-listener", url])
        with caplog.at_level(logging.ERROR, "twinlog"), pytest.raises(SystemExit) as ended:
            app()
    assert ended.value.code == 3
    assert [one.getMessage() for one in caplog.records] == [
        f"TW-REST-01: twinlog ends: cannot listen at {url}: Address already in use; {way_out}"
    ]


@pytest.mark.parametrize(
    ("outcome", "codes"),
    [
        (Outcome.STOPPED, (0, 0)),
        (Outcome.DONE, (0, 0)),
        (Outcome.NOTHING, (1, 0)),
        (Outcome.HELD, (1, 0)),
        (Outcome.FAILED, (1, 2)),
    ],
)
def test_how_the_flows_ended_decides_the_code(
    file: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, codes: tuple[int, int]
) -> None:
    class Runner:
        flows: tuple[()] = ()

        def __init__(self, *_: object) -> None:
            pass

        def run(self, **_: object) -> Outcome:
            return outcome

    monkeypatch.setattr(twinlog.worker.runner, "Runner", Runner)
    programs: tuple[tuple[Any, tuple[str, ...]], ...] = ((app, ("run",)), (kafka_scripts.run_mirror_maker, ()))
    for (program, command), code in zip(programs, codes, strict=True):
        monkeypatch.setattr(sys, "argv", ["twinlog", *command, str(file)])
        with pytest.raises(SystemExit) as ended:
            program()
        assert ended.value.code == code


def test_a_signal_while_modules_load_starts_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(signals, "call", lambda stop, _: calls.append(stop))
    monkeypatch.setattr(foreground, "end_process", run.end_process)

    class Loading:
        """`twinlog.worker.runner` while it is imported: the signal comes before it is there."""

        @property
        def Runner(self) -> NoReturn:
            for _ in range(2):
                with pytest.raises(SystemExit, match="4"):
                    calls[0](signal.SIGTERM)
            raise SystemExit("the process has ended")

        def __getattr__(self, name: str) -> object:
            return lambda *_: pytest.fail("something was started")

    monkeypatch.setitem(sys.modules, "twinlog.worker.runner", Loading())
    monkeypatch.setattr(sys, "argv", ["twinlog", "run", str(file)])
    with caplog.at_level(logging.INFO, "twinlog"), pytest.raises(SystemExit, match="the process has ended"):
        app()
    assert [one.getMessage() for one in caplog.records if one.name == "twinlog"] == ["stopping (SIGTERM)"]
