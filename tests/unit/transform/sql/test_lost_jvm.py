"""What a JVM that is lost or hangs at a bad moment leaves, without Spark: no record is at fault, and nobody waits."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from harness.wait import wait_for
from twinlog.errors import EngineError, EngineLostError, TransformError, TwinlogError
from twinlog.rows.arrow import schema
from twinlog.settings.transform import TransformSettings
from twinlog.transform import build
from twinlog.transform.apply import Failure, apply
from twinlog.transform.sql import evaluate, transform
from twinlog.transform.sql import jvm as module
from twinlog.transform.sql.evaluate import Evaluation
from twinlog.transform.sql.jvm import SqlJvm, reason
from twinlog.transform.sql.shared import SharedJvm
from twinlog.transform.sql.transform import SqlTransform

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

ROWS = pa.RecordBatch.from_pylist(
    [
        {
            "key": b"k",
            "value": b"v",
            "topic": "east.orders",
            "partition": 0,
            "offset": 10,
            "timestamp": 1_000_000,
            "timestampType": 0,
            "headers": None,
        }
    ],
    schema=schema(headers=True),
)


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
    evaluation: Any = Evaluation.__new__(Evaluation)
    evaluation.jvm, evaluation._answer_s = Ending(), 1.0
    monkeypatch.setattr(evaluation, "_made", raising, raising=False)
    failures: list[Failure] = []
    with pytest.raises(EngineLostError, match="was killed by SIGKILL"):
        list(apply(evaluation, ROWS, failures.append))
    assert failures == []


def test_a_jvm_that_hangs_while_its_session_starts_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(HANGS)
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(module, "CONNECT_S", 0.5)
    with pytest.raises(EngineLostError, match="does not start"):
        SqlJvm()


def test_sql_is_given_columns_of_the_types_of_rows_whatever_a_function_before_it_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The JVM would read milliseconds as microseconds, and offsets of 64 bits as two of 32."""

    def of_other_types(rows: Any) -> Any:
        for name, kind in (("timestamp", pa.timestamp("ms", tz="UTC")), ("value", pa.large_string())):
            rows = rows.set_column(rows.schema.get_field_index(name), name, rows.column(name).cast(kind))
        return rows.select(list(reversed(rows.schema.names)))

    given: list[Any] = []

    def sql(rows: Any) -> Any:
        given.append(rows)
        return rows

    monkeypatch.setattr(build, "load", lambda _: of_other_types)
    settings = TransformSettings(function="masking:mask", sql="SELECT value FROM records")
    assert build.build(settings, sql)(ROWS).equals(ROWS)  # type: ignore[arg-type]
    assert given[0].schema.equals(schema(headers=True))


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
        assert "cannot be evaluated by PySpark 4.9.0 with the jars in /" in str(raised.value)
        assert ": it lacks a class that is used here; install a PySpark" in str(raised.value)
    else:
        assert isinstance(raised.value, EngineLostError)


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
    evaluation: Any = Evaluation.__new__(Evaluation)
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


def test_what_one_batch_made_too_much_of_does_not_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "MOST_KEPT_BYTES", 10)
    shared = evaluate._Shared("back")
    with open(shared.path, "r+b", buffering=0) as jvm:
        for made, kept in ((b"0123456789", 10), (b"0123456789A", 0), (b"01", 2)):
            jvm.seek(0)
            jvm.write(made)
            assert shared.read(len(made)) == made
            assert os.stat(shared.path).st_size == kept
    shared.close()


def test_the_reason_is_a_line_of_its_own() -> None:
    trace = "py4j.Py4JException: Method executeAndCheck([class A]) does not exist\n\tat py4j.reflection\n"
    error = Py4JError(f"An error occurred while calling o12.executeAndCheck. Trace:\n{trace}")
    assert reason(error) == "Method executeAndCheck([class A]) does not exist"
    assert reason(Py4JError("An error occurred while calling o12.x\n")) == "An error occurred while calling o12.x"


class Ended:
    """An evaluation whose JVM has ended."""

    def __init__(
        self, *, hung: bool = False, busy: bool = False, full: bool = False, stuck_at: int | None = None
    ) -> None:
        self.stuck_at = stuck_at
        self.jvm = SimpleNamespace(
            condemned=False, hung_for_me=lambda: hung, busy=busy, out_of_memory=lambda: full, hung=hung
        )

    def __call__(self, rows: Any) -> Any:
        raise EngineLostError("Spark's JVM for transform.sql was killed by SIGKILL")

    def close(self) -> None:
        pass


class WithoutRoom:
    """Has no room on its disk for what another JVM needs, for a while."""

    answer_s, clock = 1.0, SimpleNamespace(sleep=lambda seconds: None)

    def __init__(self, tries: int) -> None:
        self.left = tries

    def running(self) -> Any:
        if self.left:
            self.left -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return SimpleNamespace()


class Waits:
    """Notes for how long it was waited."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


class Failing:
    """Starts no JVM any more, for so many times; the first one starts."""

    answer_s = 1.0

    def __init__(self, error: TwinlogError, tries: int) -> None:
        self.error, self.left, self.begun, self.clock = error, tries, 0, Waits()

    def running(self) -> Any:
        self.begun += 1
        if 1 < self.begun <= self.left + 1:
            raise self.error
        return SimpleNamespace()


@pytest.mark.parametrize(
    ("error", "pauses"),
    [
        (EngineError("transform.sql cannot be evaluated by PySpark 4.9.0"), [1, 2, 4, 8, 16, 32, 60, 60]),
        # Its own pauses are those of the JVM that is shared.
        (EngineLostError("Spark's JVM for transform.sql was killed"), [1] * 8),
    ],
)
def test_a_spark_that_no_try_will_find_is_looked_for_less_and_less_often(
    error: TwinlogError, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Semaphore(0)

    def evaluation(*_: Any) -> Any:
        begun.release()
        return Ended()

    monkeypatch.setattr(transform, "Evaluation", evaluation)
    failing = Failing(error, len(pauses))
    sql = SqlTransform("SELECT value FROM records", failing)  # type: ignore[arg-type]
    sql.start()
    assert begun.acquire(timeout=60)
    with pytest.raises(EngineLostError):
        sql(ROWS)
    assert begun.acquire(timeout=60)
    assert failing.clock.pauses == pauses
    sql.close()


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_jvm_that_finds_no_room_is_started_again_once_there_is_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """No room for a file, and none for a thread: no record is at fault."""
    begun = threading.Semaphore(0)

    def evaluation(*_: Any) -> Any:
        begun.release()
        return Ended()

    monkeypatch.setattr(transform, "Evaluation", evaluation)
    room = WithoutRoom(0)
    sql = SqlTransform("SELECT value FROM records", room)  # type: ignore[arg-type]
    sql.start()
    assert begun.acquire(timeout=60)
    room.left = 3
    failures: list[Failure] = []
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(EngineLostError, match="another one is started"):
            list(apply(sql, ROWS, failures.append))
    assert failures == []
    assert begun.acquire(timeout=60)
    assert room.left == 0
    sql.close()


@pytest.mark.parametrize("missing", ["thread", "file"])
def test_a_first_jvm_that_finds_no_room_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(HANGS)
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if missing == "thread":
        monkeypatch.setattr(threading.Thread, "start", no_thread)
    else:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(EngineLostError, match=r"does not start: .*(new thread|No such file)"):
        SqlJvm()


def test_a_query_that_a_jvm_did_not_answer_gets_one_of_its_own_and_names_the_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The queries of others, who lost their answers by that, keep one together."""
    asked: list[Any] = []
    begun = threading.Semaphore(0)

    class Room(SharedJvm):
        def running(self) -> Any:
            asked.append(self)
            return SimpleNamespace()

        def another(self) -> SharedJvm:
            return Room()

    hung = True

    def evaluation(*_: Any) -> Any:
        begun.release()
        return Ended(hung=hung)

    monkeypatch.setattr(transform, "Evaluation", evaluation)
    shared = Room()
    guilty, other = SqlTransform("SELECT key FROM records", shared), SqlTransform("SELECT value FROM records", shared)
    for sql in (guilty, other):
        sql.start()
        assert begun.acquire(timeout=60)
        with pytest.raises(EngineLostError, match="SIGKILL, evaluating the record at source offset 10; another one is"):
            sql(ROWS)
        assert begun.acquire(timeout=60)
        hung = False
    assert asked[0] is asked[2] is asked[3] is shared
    assert asked[1] is not shared
    guilty.close()
    other.close()


def rows_from(offset: int, count: int) -> Any:
    row = ROWS.to_pylist()[0]
    return pa.RecordBatch.from_pylist([{**row, "offset": offset + n} for n in range(count)], schema=ROWS.schema)


class Evil(Ended):
    """Ends at the record at offset 13, and makes of others what they are."""

    def __call__(self, rows: Any) -> Any:
        return super().__call__(rows) if 13 in rows.column("offset").to_pylist() else rows


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        ({"hung": True, "busy": True, "stuck_at": 13}, "the query had not ended on it after 1 s"),
        ({"full": True}, "what the query makes of it does not fit into a heap of 512 MB"),
        ({"hung": True, "stuck_at": 13}, None),
        ({}, None),
    ],
)
def test_a_record_that_ends_a_jvm_of_its_own_is_at_fault(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], fault: str | None
) -> None:
    """By itself, twice; not where the machine was too busy, or somebody has killed the JVM."""
    begun = threading.Semaphore(0)

    class Room(WithoutRoom):
        def another(self) -> Any:
            return self

        def end(self) -> None:
            pass

    def evaluation(*_: Any) -> Any:
        begun.release()
        return Evil(**how)

    monkeypatch.setattr(transform, "Evaluation", evaluation)
    sql = SqlTransform("SELECT value FROM records", Room(0))  # type: ignore[arg-type]
    sql.start()
    failures: list[Failure] = []
    rows = rows_from(10, 8) if "stuck_at" in how else rows_from(13, 1)
    for _ in range(2):
        assert begun.acquire(timeout=60)
        wait_for(lambda: sql.trouble is None, 60, "there is another JVM", every_s=0.001)
        with contextlib.suppress(EngineLostError):
            # Those of another partition.
            assert sql(rows_from(90, 1)).num_rows == 1
            list(apply(sql, rows, failures.append))
            break
    assert [(failure.offset, failure.reason) for failure in failures] == ([] if fault is None else [(13, fault)])
    if fault is not None and rows.num_rows > 1:
        # Those behind it wait for another JVM.
        assert begun.acquire(timeout=60)
    sql.close()


class NeverEnding(Ended):
    """Never ends on the record at offset 13 of one partition, and makes of others what they are."""

    def __call__(self, rows: Any) -> Any:
        places = zip(rows.column("partition").to_pylist(), rows.column("offset").to_pylist(), strict=True)
        return super().__call__(rows) if (PARTITION, 13) in places else rows


PARTITION = ROWS.to_pylist()[0]["partition"]


def until_there_is_another(sql: SqlTransform) -> None:
    wait_for(lambda: sql.trouble is None, 60, "there is another JVM", every_s=0.001)


@pytest.fixture
def sql_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlTransform]:
    class Room(WithoutRoom):
        def another(self) -> Any:
            return self

        def end(self) -> None:
            pass

    monkeypatch.setattr(transform, "Evaluation", lambda *_: NeverEnding(hung=True, busy=True, stuck_at=13))
    sql = SqlTransform("SELECT value FROM records", Room(0))  # type: ignore[arg-type]
    sql.start()
    yield sql
    sql.close()


def test_a_record_at_the_same_offset_of_another_partition_is_under_no_suspicion(
    sql_that_never_ends: SqlTransform,
) -> None:
    sql, rows = sql_that_never_ends, rows_from(10, 8)
    with pytest.raises(EngineLostError, match="the record at source offset 13"):
        sql(rows)
    until_there_is_another(sql)
    at = rows.schema.get_field_index("partition")
    elsewhere = rows.set_column(at, rows.schema.field(at), pa.array([PARTITION + 1] * rows.num_rows, pa.int32()))
    assert sql(elsewhere) == elsewhere
    assert sql(elsewhere.slice(3, 1)) == elsewhere.slice(3, 1)
    with pytest.raises(TransformError, match="the record at offset 13 is tried by itself"):
        sql(rows)


def test_rows_that_were_made_of_one_record_before_the_query_are_tried_together(
    sql_that_never_ends: SqlTransform,
) -> None:
    """The record failed after one try, which may be the fault of a busy machine, and without a reason."""
    sql, one = sql_that_never_ends, rows_from(13, 1)
    three = pa.concat_batches([one] * 3)
    failures: list[Failure] = []
    with pytest.raises(EngineLostError):
        list(apply(lambda rows: sql(three), one, failures.append))
    until_there_is_another(sql)
    list(apply(lambda rows: sql(three), one, failures.append))
    assert [failure.reason for failure in failures] == ["the query had not ended on it after 1 s"]
