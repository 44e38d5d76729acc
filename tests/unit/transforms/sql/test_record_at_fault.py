"""Which record is at fault where it costs a query its JVM, by itself and more than once; without Spark."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from harness.wait import wait_for
from tests.unit.transforms.sql.lost import ROWS, Ended, WithoutRoom, rows_from
from twinlog.errors import EngineLostError, TransformError
from twinlog.transforms.contract import FailedRow, apply
from twinlog.transforms.sql import transform
from twinlog.transforms.sql.transform import SqlTransform


class Evil(Ended):
    """Ends at the record at offset 13, and makes of others what they are."""

    def __call__(self, rows: Any) -> Any:
        return super().__call__(rows) if 13 in rows.column("offset").to_pylist() else rows


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        ({"hung": True, "busy": True, "stuck_at": 13}, "the query was still working on it after 1 s"),
        ({"full": True}, "the query's result for it exceeds a heap of 512 MB"),
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
        def take_new_jvm(self) -> Any:
            return self

        def end(self) -> None:
            pass

    def evaluation(*_: Any) -> Any:
        begun.release()
        return Evil(**how)

    monkeypatch.setattr(transform, "SqlEvaluation", evaluation)
    sql = SqlTransform("SELECT value FROM records", Room(0))  # type: ignore[arg-type]
    sql.start()
    failures: list[FailedRow] = []
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
        # Those after it wait for another JVM.
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
        def take_new_jvm(self) -> Any:
            return self

        def end(self) -> None:
            pass

    monkeypatch.setattr(transform, "SqlEvaluation", lambda *_: NeverEnding(hung=True, busy=True, stuck_at=13))
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


def test_a_record_under_suspicion_that_does_not_come_again_costs_no_look_at_each_row(
    sql_that_never_ends: SqlTransform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partition was released, say."""
    sql = sql_that_never_ends
    with pytest.raises(EngineLostError, match="the record at source offset 13"):
        sql(rows_from(10, 8))
    until_there_is_another(sql)
    monkeypatch.delattr(transform, "_origins")
    for rows in (rows_from(14, 8), rows_from(5, 8), rows_from(5, 0)):
        assert sql(rows) is rows


def test_rows_that_were_made_of_one_record_before_the_query_are_tried_together(
    sql_that_never_ends: SqlTransform,
) -> None:
    """The record failed after one try, which may be the fault of a busy machine, and without a reason."""
    sql, one = sql_that_never_ends, rows_from(13, 1)
    three = pa.concat_batches([one] * 3)
    failures: list[FailedRow] = []
    with pytest.raises(EngineLostError):
        list(apply(lambda rows: sql(three), one, failures.append))
    until_there_is_another(sql)
    list(apply(lambda rows: sql(three), one, failures.append))
    assert [failure.reason for failure in failures] == ["the query was still working on it after 1 s"]
