"""What the evaluation of a query is given, and what it leaves in memory, without Spark."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.transforms.sql.lost import ROWS
from twinlog.batches.arrow.arrays import schema
from twinlog.settings.transform import TransformSettings
from twinlog.transforms import build
from twinlog.transforms.sql import evaluate


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
