"""The seam of transforms: how a function is found, what it must return, and which records it fails on."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from twinlog.batches.arrow.arrays import schema
from twinlog.errors import TransformError
from twinlog.transforms.build import chain, load
from twinlog.transforms.contract import FailedRow, apply, checked, try_on_nothing


def rows(count: int, first: int = 10) -> Any:
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": b"k%d" % number,
                "value": b"v%d" % number,
                "topic": "east.orders",
                "partition": 0,
                "offset": first + 2 * number,
                "timestamp": number * 1000,
                "timestampType": 0,
                "headers": None,
            }
            for number in range(count)
        ],
        schema=schema(headers=True),
    )


def put(batch: Any, name: str, column: Any) -> Any:
    return batch.set_column(batch.schema.get_field_index(name), name, column)


def headers(of_the_second: list[tuple[str | None, bytes] | None]) -> Any:
    cells = [None, [pair and {"key": pair[0], "value": pair[1]} for pair in of_the_second], []]
    return pa.array(cells, schema(headers=True).field("headers").type)


def refuse(failure: FailedRow) -> None:
    raise TransformError(f"{failure.offset}: {failure.reason}")


def test_what_it_returns_has_our_columns_in_our_order() -> None:
    def changes(batch: Any) -> Any:
        batch = put(batch, "value", pa.array(["a", "b", None]))
        batch = put(batch, "timestamp", pa.array([1, 2, 3], pa.timestamp("ms", tz="UTC")))
        return batch.select(list(reversed(batch.schema.names)))

    (found,) = apply(changes, rows(3), refuse)
    assert found.schema.equals(schema(headers=True))
    assert found.column("value").to_pylist() == [b"a", b"b", None]
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == [1000, 2000, 3000]


def test_records_may_be_dropped_and_added() -> None:
    def drops_and_adds(batch: Any) -> Any:
        return batch.take(pa.array([0, 0, 2, 2, 2]))

    (found,) = apply(drops_and_adds, rows(3), refuse)
    assert found.column("offset").to_pylist() == [10, 10, 14, 14, 14]


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda batch: None, "it returns NoneType instead of pyarrow.RecordBatch"),
        (lambda batch: pa.Table.from_batches([batch]), "it returns Table instead of pyarrow.RecordBatch"),
        (lambda batch: batch.drop_columns(["headers"]), "it returns the columns key, value, .*; expected are key, .*"),
        (lambda batch: batch.append_column("more", batch.column("key")), "it returns the columns .*, more; expected"),
        (lambda batch: put(batch, "value", pa.array([1.5] * 3)), "it returns double in the column 'value', .* binary"),
        (lambda batch: put(batch, "topic", pa.nulls(3, pa.string())), "it returns a null in the column 'topic'"),
        (lambda batch: put(batch, "partition", pa.array([0, -1, 0])), "it returns the partition -1; null leaves it"),
        (
            lambda batch: batch.take(pa.array([1, 0])),
            "it returns the offset 10 after 12; offsets must stay equal or grow",
        ),
        (
            lambda batch: put(batch, "offset", pa.array([9, 12, 14])),
            "it returns the offset 9, which is outside of its input",
        ),
        (
            lambda batch: put(batch, "offset", pa.array([10, 12, 15])),
            "it returns the offset 15, which is outside of its inp",
        ),
        (
            lambda batch: put(batch, "headers", headers([("a", b"1"), (None, b"")])),
            "it returns a header that lacks a name",
        ),
        (lambda batch: put(batch, "headers", headers([("a", b"1"), None])), "it returns a header that lacks a name"),
    ],
)
def test_what_it_must_not_return(function: Callable[[Any], Any], complaint: str) -> None:
    with pytest.raises(TransformError, match=complaint):
        checked(rows(3), function(rows(3)))


def test_the_records_that_it_fails_on_are_found_and_all_others_kept_in_order() -> None:
    def fails(batch: Any) -> Any:
        for bad in (b"v3", b"v17", b"v18"):
            if pc.any(pc.equal(batch.column("value"), bad)).as_py():
                raise ValueError(f"no {bad.decode()}")
        return batch

    failures: list[FailedRow] = []
    found = list(apply(fails, rows(40), failures.append))
    assert [(one.offset, one.reason, one.kind) for one in failures] == [
        (16, "it raises ValueError: no v3", "builtins.ValueError"),
        (44, "it raises ValueError: no v17", "builtins.ValueError"),
        (46, "it raises ValueError: no v18", "builtins.ValueError"),
    ]
    kept = [value for batch in found for value in batch.column("value").to_pylist()]
    assert kept == [b"v%d" % number for number in range(40) if number not in {3, 17, 18}]
    with pytest.raises(TransformError, match="16: it raises ValueError: no v3"):
        list(apply(fails, rows(40), refuse))


@pytest.mark.parametrize("error", [SystemExit(3), BaseException("a panic")])
def test_what_is_no_exception_of_pythons_is_a_failure_like_others(error: BaseException) -> None:
    def fails(batch: Any) -> Any:
        if pc.any(pc.equal(batch.column("value"), b"v3")).as_py():
            raise error
        return batch

    failures: list[FailedRow] = []
    assert sum(batch.num_rows for batch in apply(fails, rows(8), failures.append)) == 7
    assert [(one.offset, one.reason) for one in failures] == [(16, f"it raises {type(error).__name__}: {error}")]

    def always(batch: Any) -> Any:
        raise error

    with pytest.raises(TransformError, match=f"for an empty batch it raises {type(error).__name__}: {error}"):
        try_on_nothing(always)


def test_who_interrupts_the_process_is_no_failure_of_the_function() -> None:
    def interrupted(batch: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(apply(interrupted, rows(2), refuse))
    with pytest.raises(KeyboardInterrupt):
        try_on_nothing(interrupted)


def test_a_script_that_ends_the_process_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ends_at_once.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TransformError, match="importing ends_at_once raises SystemExit: 0"):
        load("ends_at_once:f")


def test_a_chain_applies_one_after_the_other() -> None:
    def more(batch: Any) -> Any:
        return put(batch, "value", pc.binary_join_element_wise(batch.column("value"), b"!", b""))

    def twice(batch: Any) -> Any:
        return put(batch, "value", pc.binary_join_element_wise(batch.column("value"), batch.column("value"), b""))

    (found,) = apply(chain([more, twice]), rows(1), refuse)
    assert found.column("value").to_pylist() == [b"v0!v0!"]
    assert chain([more]) is more


def test_a_function_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("some_transforms")
    module.keep = lambda batch: batch
    module.raises = lambda batch: 1 / 0
    module.number = 7
    monkeypatch.setitem(sys.modules, "some_transforms", module)
    assert load("some_transforms:keep") is module.keep
    try_on_nothing(load("some_transforms:keep"))
    with pytest.raises(TransformError, match="for an empty batch it raises ZeroDivisionError"):
        try_on_nothing(load("some_transforms:raises"))
    with pytest.raises(TransformError, match="the module some_transforms lacks a function 'lacks'"):
        load("some_transforms:lacks")
    with pytest.raises(TransformError, match="some_transforms:number is 7, and a function is expected"):
        load("some_transforms:number")
    with pytest.raises(TransformError, match="the module 'no_such_module' is missing; install its package"):
        load("no_such_module.inner:f")
