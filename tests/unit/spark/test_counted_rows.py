"""As many rows as records, of which the first says what was copied."""

from __future__ import annotations

import pytest

from twinlog.spark import counted_rows as module
from twinlog.spark.counted_rows import counted, joined
from twinlog.spark.source import COUNTED_SCHEMA, SCHEMA

RANGE = ("a->b", 1, 0, "c", "t", 0, 5, 9, 5, 9, 4, 400, 0)


@pytest.mark.parametrize("records", [0, 1, 2, 7, 8, 9, 30])
def test_rows(records: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 8)
    batches = list(counted(SCHEMA, [RANGE, RANGE], records))
    for batch in batches:
        batch.validate(full=True)
    values = [value for batch in batches for value in batch.column(0).to_pylist()]
    assert len(values) == records
    assert [tuple(one.values()) for one in values[0]] == [RANGE, RANGE] if records else not values
    assert all(value is None for value in values[1:])


def test_they_have_the_form_that_spark_was_told() -> None:
    (batch,) = counted(SCHEMA, [RANGE], 1)
    (column,) = batch.schema
    types = {"int32": "int", "int64": "long"}
    fields = ",".join(f"{one.name}:{types.get(str(one.type), one.type)}" for one in column.type.value_type)
    assert f"{column.name} array<struct<{fields}>>" == COUNTED_SCHEMA


@pytest.mark.parametrize("records", [0, 1, 9, 30])
def test_rows_without_ranges(records: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 8)
    values = [value for batch in counted(SCHEMA, [], records) for value in batch.column(0).to_pylist()]
    assert values == [None] * records


def test_ranges_of_a_partition_are_one_with_the_lag_of_its_end() -> None:
    later = ("a->b", 1, 0, "c", "t", 0, 9, 12, 10, 13, 3, 30, 7)
    assert joined(RANGE, later) == [("a->b", 1, 0, "c", "t", 0, 5, 12, 5, 13, 7, 430, 7)]


@pytest.mark.parametrize("begin", [8, 10])
def test_ranges_that_do_not_meet_stay_two_of_which_the_last_has_the_lag(begin: int) -> None:
    later = ("a->b", 1, 0, "c", "t", 0, begin, 12, 10, 13, 2, 20, 7)
    assert joined((*RANGE[:-1], 3), later) == [(*RANGE[:-1], -1), later]
