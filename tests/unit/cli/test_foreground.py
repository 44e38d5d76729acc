"""What ends a run decides its exit code: only what is Spark's looks like Spark."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

import twinlog.driver.runner
from twinlog.cli import foreground, main, mirror_maker, run
from twinlog.errors import ClusterError, EngineError, EngineLostError, RefusedError

FILE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that may be run; the process, its log and its signals stay as they are."""

    def end(code: int) -> NoReturn:
        raise SystemExit(code)

    for module in (run, mirror_maker):
        monkeypatch.setattr(module, "end_process", end)
    monkeypatch.setattr(foreground, "_log_to_stderr", lambda _: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
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

        def run(self, **_: object) -> int:
            raise error

    monkeypatch.setattr(twinlog.driver.runner, "Runner", Runner)


@pytest.mark.parametrize("at", ["made", "run"])
@pytest.mark.parametrize(
    ("error", "codes", "said"),
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
    said: str,
) -> None:
    ends_with(error, at, monkeypatch)
    programs: tuple[tuple[Any, tuple[str, ...]], ...] = ((main, ("run",)), (mirror_maker.main, ()))
    for (program, command), code in zip(programs, codes, strict=True):
        caplog.clear()
        monkeypatch.setattr(sys, "argv", ["twinlog", *command, str(file)])
        with caplog.at_level(logging.DEBUG, "twinlog"), pytest.raises(SystemExit) as ended:
            program()
        assert ended.value.code == code
        loud = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
        assert loud == [f"twinlog ends: {said}"]
        assert any(one.exc_info for one in caplog.records if one.levelno == logging.DEBUG) == (code != 3)


def test_a_signal_while_modules_load_starts_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)

    class Loading:
        """`twinlog.driver.runner` while it is imported: the signal comes before it is there."""

        RunOptions = None

        @property
        def Runner(self) -> NoReturn:
            handlers[signal.SIGTERM](signal.SIGTERM, None)
            handlers[signal.SIGTERM](signal.SIGTERM, None)
            raise AttributeError

        def __getattr__(self, name: str) -> object:
            return lambda *_: pytest.fail("something was started")

    monkeypatch.setitem(sys.modules, "twinlog.driver.runner", Loading())
    monkeypatch.setattr(sys, "argv", ["twinlog", "run", str(file)])
    with caplog.at_level(logging.INFO, "twinlog"), pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert [one.getMessage() for one in caplog.records if one.name == "twinlog"] == ["stopping (SIGTERM)"]
