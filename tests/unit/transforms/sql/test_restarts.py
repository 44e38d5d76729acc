"""When a query whose JVM is lost gets another one, without Spark: at once, later and later, or one of its own."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.transforms.sql.lost import ROWS, Ended, WithoutRoom, no_thread
from twinlog.errors import EngineError, EngineLostError, TwinlogError
from twinlog.transforms.contract import FailedRow, apply
from twinlog.transforms.sql import transform
from twinlog.transforms.sql.transform import SharedJvm, SqlTransform


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
        (EngineError("transform.sql is impossible to evaluate by PySpark 4.9.0"), [1, 2, 4, 8, 16, 32, 60, 60]),
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

    monkeypatch.setattr(transform, "SqlEvaluation", evaluation)
    failing = Failing(error, len(pauses))
    sql = SqlTransform("SELECT value FROM records", failing)  # type: ignore[arg-type]
    sql.start()
    assert begun.acquire(timeout=60)
    with pytest.raises(EngineLostError):
        sql(ROWS)
    assert begun.acquire(timeout=60)
    assert failing.clock.pauses == pauses
    sql.close()


def test_a_jvm_that_finds_no_room_is_started_again_once_there_is_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """No room for a file, and none for a thread: no record is at fault."""
    begun = threading.Semaphore(0)

    def evaluation(*_: Any) -> Any:
        begun.release()
        return Ended()

    monkeypatch.setattr(transform, "SqlEvaluation", evaluation)
    room = WithoutRoom(0)
    sql = SqlTransform("SELECT value FROM records", room)  # type: ignore[arg-type]
    sql.start()
    assert begun.acquire(timeout=60)
    room.left = 3
    failures: list[FailedRow] = []
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(EngineLostError, match="a new JVM is started"):
            list(apply(sql, ROWS, failures.append))
    assert failures == []
    assert begun.acquire(timeout=60)
    assert room.left == 0
    sql.close()


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

        def take_new_jvm(self) -> SharedJvm:
            return Room()

    hung = True

    def evaluation(*_: Any) -> Any:
        begun.release()
        return Ended(hung=hung)

    monkeypatch.setattr(transform, "SqlEvaluation", evaluation)
    shared = Room()
    guilty, other = SqlTransform("SELECT key FROM records", shared), SqlTransform("SELECT value FROM records", shared)
    for sql in (guilty, other):
        sql.start()
        assert begun.acquire(timeout=60)
        with pytest.raises(EngineLostError, match="SIGKILL, evaluating the record at source offset 10; a new JVM is"):
            sql(ROWS)
        assert begun.acquire(timeout=60)
        hung = False
    assert asked[0] is asked[2] is asked[3] is shared
    assert asked[1] is not shared
    guilty.close()
    other.close()
