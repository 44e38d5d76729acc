"""What a JVM that is lost, hangs or does not fit leaves, without Spark: no record is at fault, and nobody waits."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from tests.unit.transforms.sql.lost import ROWS, no_thread
from twinlog.errors import EngineError, EngineLostError
from twinlog.process.scratch import PREFIX
from twinlog.transforms.contract import FailedRow, apply
from twinlog.transforms.sql import jvm as module
from twinlog.transforms.sql.evaluate import SqlEvaluation
from twinlog.transforms.sql.gateway import reason
from twinlog.transforms.sql.jvm import SqlJvm

HANGS = f"""#!{sys.executable}
import os, socket, struct, time
listening = socket.create_server(("127.0.0.1", 0))
path = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
with open(path + ".new", "wb") as file:
    file.write(struct.pack("!ii", listening.getsockname()[1], 6) + b"secret")
os.rename(path + ".new", path)
time.sleep(600)
"""

LACKS = f"""#!{sys.executable}
import os, socket, struct
listening = socket.create_server(("127.0.0.1", 0))
path = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
with open(path + ".new", "wb") as file:
    file.write(struct.pack("!ii", listening.getsockname()[1], 6) + b"secret")
os.rename(path + ".new", path)
stream = listening.accept()[0].makefile("rwb")
while True:
    command = []
    while (line := stream.readline().decode().rstrip()) != "e":
        if not line:
            os._exit(9)
        command.append(line)
        if len(command) == 2 and command[0] == "A":
            break
    if "nanoTime" in command:
        answer = {{answer!r}} if command[0] == "c" else "ym"
    elif "java.lang.System" in command:
        answer = "ycjava.lang.System"
    else:
        answer = "yv" if command[0] == "A" else "yp"
    if answer:
        stream.write(f"!{{{{answer}}}}\\n".encode())
        stream.flush()
    else:
        os._exit(9)
"""
"""Speaks py4j, and has no class of Spark where one is looked for: each name is that of a package."""


class Ending:
    """A JVM that has ended when it is asked what its last error was."""

    hung, exit_code, asked_within = False, -9, 0
    lost: Any = SqlJvm.lost

    @contextlib.contextmanager
    def within(self, seconds: float, look: Any = None) -> Iterator[None]:
        self.asked_within += 1
        yield
        self.asked_within -= 1

    def refused(self, error: Py4JJavaError) -> bool:
        assert self.asked_within
        raise Py4JNetworkError("Answer from Java side is empty")


def raising(rows: Any) -> Any:
    raise Py4JJavaError("An error occurred", SimpleNamespace(_target_id="o1"))


def test_a_jvm_that_is_lost_before_it_says_what_was_wrong_leaves_no_record_at_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluation: Any = SqlEvaluation.__new__(SqlEvaluation)
    evaluation.jvm, evaluation._answer_s = Ending(), 1.0
    monkeypatch.setattr(evaluation, "_made", raising, raising=False)
    failures: list[FailedRow] = []
    with pytest.raises(EngineLostError, match="was killed by SIGKILL"):
        list(apply(evaluation, ROWS, failures.append))
    assert failures == []


@pytest.fixture
def hanging_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Java of this process listens, and answers nothing."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(HANGS)
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


@pytest.mark.usefixtures("hanging_java")
def test_a_jvm_that_hangs_while_its_session_starts_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_S", 0.5)
    with pytest.raises(EngineLostError, match="fails to start"):
        SqlJvm()


@pytest.mark.usefixtures("hanging_java")
def test_a_start_removes_the_folder_of_a_killed_process_whose_jvm_ends_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that takes over from a killed process of Spark starts its JVM while the other JVM still ends."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ending = tmp_path / f"{PREFIX}ending"
    ending.mkdir()
    lock = os.open(ending, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def connect(jvm: SqlJvm, address_file: Path) -> None:
        assert ending.exists()
        os.close(lock)

    monkeypatch.setattr(SqlJvm, "_connect", connect)
    jvm = SqlJvm()
    try:
        assert not ending.exists()
    finally:
        jvm.close()


@pytest.mark.usefixtures("hanging_java")
@pytest.mark.parametrize("missing", ["thread", "file"])
def test_a_first_jvm_that_finds_no_room_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    if missing == "thread":
        monkeypatch.setattr(threading.Thread, "start", no_thread)
    else:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(EngineLostError, match=r"fails to start: .*(new thread|No such file)"):
        SqlJvm()


@pytest.mark.parametrize(
    ("printed", "old"),
    [
        ("Error: Invalid or corrupt jarfile", False),
        ("java.lang.UnsupportedClassVersionError: ... (class file version 61.0)", True),
    ],
)
def test_a_start_asks_for_a_newer_java_only_after_a_complaint_of_an_old_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, old: bool
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "{printed}" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError, match=r"ends with code 1: ") as raised:
        SqlJvm()
    assert ("needs Java 17" in str(raised.value)) is old


@pytest.mark.parametrize("answers", [True, False])
def test_a_spark_without_what_is_called_is_not_started_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """Where the JVM has ended meanwhile nobody knows what it has."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(LACKS.format(answer="yL1" if answers else ""))
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(module.pyspark, "__version__", "4.9.0")
    with pytest.raises(EngineError) as raised:
        SqlJvm()
    if answers:
        assert type(raised.value) is EngineError
        assert "is impossible to evaluate by PySpark 4.9.0 with the jars in /" in str(raised.value)
        assert ": it lacks a class that is used here; install a PySpark" in str(raised.value)
    else:
        assert isinstance(raised.value, EngineLostError)


class Running:
    """A process that is looked at a few times."""

    pid, left, killed = 0, 3, False

    def poll(self) -> int | None:
        self.left -= 1
        return None if self.left >= 0 else 0

    def kill(self) -> None:
        self.killed = True


@pytest.mark.parametrize("answers", [True, False])
def test_a_jvm_that_answers_while_it_is_looked_at_is_not_killed(
    monkeypatch: pytest.MonkeyPatch, *, answers: bool
) -> None:
    monkeypatch.setattr(module, "WATCH_S", 0.0)
    jvm: Any = SqlJvm.__new__(SqlJvm)
    jvm.process, jvm._asked, jvm._hung_for, jvm.busy = Running(), {}, set(), False
    with jvm.within(-1.0, lambda: jvm._asked.clear() if answers else None):
        jvm._watch()
    assert (jvm.process.killed, jvm.hung, jvm.hung_for_me()) == (not answers,) * 3


class Linking:
    """A JVM in which a class of Spark lacks a method."""

    hung, exit_code, alive, gateway = False, None, True, object()
    lost: Any = SqlJvm.lost
    unfit: Any = SqlJvm.unfit

    def __init__(self, *kinds: str) -> None:
        self._kinds = kinds

    def within(self, seconds: float, look: Any = None) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def refused(self, error: Py4JJavaError) -> bool:
        return False

    def _is_a(self, error: Py4JJavaError, *names: str) -> bool:
        return not set(names).isdisjoint(self._kinds)


class Thrown:
    """What Java has thrown, by reflection."""

    _target_id = "o1"

    def __init__(self, message: str | None, cause: Thrown | None = None) -> None:
        self.getMessage, self.getCause = lambda: message, lambda: cause
        self.toString = lambda: f"java.lang.Error: {message}"


def test_a_spark_that_fails_by_a_method_it_lacks_ends_the_partition_in_the_place_of_a_jvm_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluation: Any = SqlEvaluation.__new__(SqlEvaluation)
    evaluation._answer_s = 1.0
    monkeypatch.setattr(Py4JJavaError, "__str__", lambda error: "\tat org.apache.spark")
    monkeypatch.setattr(evaluation, "_made", lambda rows: throwing(), raising=False)

    def throwing() -> Any:
        raise Py4JJavaError("An error occurred", Thrown(None, Thrown("no method rootAllocator")))

    evaluation.jvm = Linking("java.lang.LinkageError")
    for step in (lambda: evaluation(ROWS), evaluation._warm_up):
        with pytest.raises(EngineError, match=r"by PySpark .*: no method rootAllocator; install") as raised:
            step()
        assert type(raised.value) is EngineError
    evaluation.jvm = Linking("java.io.IOException")
    with pytest.raises(EngineLostError, match=r"JVM for transform.sql fails: no method rootAllocator$"):
        evaluation(ROWS)
    evaluation._warm_up()


def test_the_reason_is_a_line_of_its_own() -> None:
    trace = "py4j.Py4JException: Method executeAndCheck([class A]) does not exist\n\tat py4j.reflection\n"
    error = Py4JError(f"An error occurred while calling o12.executeAndCheck. Trace:\n{trace}")
    assert reason(error) == "Method executeAndCheck([class A]) does not exist"
    assert reason(Py4JError("An error occurred while calling o12.x\n")) == "An error occurred while calling o12.x"
