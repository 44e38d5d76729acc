"""Chains of transforms on rows: which records they change, what stays as it was, and what an error says."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from twinlog.batches.arrow.arrays import schema
from twinlog.errors import TransformError
from twinlog.settings.transform import SmtChain, SmtConverter, SmtPredicate, SmtStage, SmtValue
from twinlog.transforms.contract import checked, try_on_nothing
from twinlog.transforms.smt.chain import smt_transform

TOMBSTONE = SmtPredicate("dead", "RecordIsTombstone", ())
TRACED = SmtPredicate("traced", "HasHeaderKey", (("name", "trace"),))
ORDERS = SmtPredicate("orders", "TopicNameMatches", (("pattern", r"east\.orders.*"),))
PLAIN_JSON = SmtConverter("json", schemas=False)


def stage(kind: str, *, predicate: SmtPredicate | None = None, negate: bool = False, **settings: SmtValue) -> SmtStage:
    side = settings.pop("side", "")
    assert side in {"", "key", "value"}
    named = tuple((name.replace("_", "."), value) for name, value in settings.items())
    return SmtStage(kind.lower(), kind, side, named, predicate, negate)  # type: ignore[arg-type]


def rows(*records: dict[str, Any]) -> Any:
    plain = {"key": b"k", "value": b"v", "topic": "east.orders", "partition": 0, "timestamp": 0, "timestampType": 0}
    found = [{**plain, "offset": offset, "headers": None, **record} for offset, record in enumerate(records)]
    return pa.RecordBatch.from_pylist(found, schema=schema(headers=True))


def run(batch: Any, *stages: SmtStage, value: SmtConverter | None = None) -> list[dict[str, Any]]:
    made = smt_transform(SmtChain(stages, None, value))(batch)
    return list(checked(batch, made).to_pylist())


def test_a_filter_with_a_predicate_drops_these_records_and_no_other() -> None:
    batch = rows({}, {"value": None}, {"value": b""})
    assert [row["offset"] for row in run(batch, stage("Filter", predicate=TOMBSTONE))] == [0, 2]
    assert [row["offset"] for row in run(batch, stage("Filter", predicate=TOMBSTONE, negate=True))] == [1]
    assert run(batch, stage("Filter")) == []


def test_a_header_is_added_after_others_and_only_where_the_predicate_is_true() -> None:
    trace = {"key": "trace", "value": b"1"}
    batch = rows({}, {"headers": [trace]}, {"headers": [{"key": "x", "value": None}, trace]})
    insert = stage("InsertHeader", predicate=TRACED, header="trace", value_literal="two")
    added = {"key": "trace", "value": b"two"}
    assert [row["headers"] for row in run(batch, insert)] == [
        None,
        [trace, added],
        [{"key": "x", "value": None}, trace, added],
    ]
    dropped = run(batch, insert, stage("DropHeaders", headers=("trace",)))
    assert [row["headers"] for row in dropped] == [None, None, [{"key": "x", "value": None}]]


def test_topics_are_routed_by_expression_and_by_time() -> None:
    batch = rows({}, {"topic": "east.x"}, {"timestamp": 86_400_000_000})
    regex = stage("RegexRouter", predicate=ORDERS, regex=r"east\.(.*)", replacement="$1")
    by_day = stage("TimestampRouter", topic_format="${topic}-${timestamp}", timestamp_format="yyyyMMdd")
    assert [row["topic"] for row in run(batch, regex)] == ["orders", "east.x", "orders"]
    assert [row["topic"] for row in run(batch, regex, by_day)] == [
        "orders-19700101",
        "east.x-19700101",
        "orders-19700102",
    ]


def test_a_later_transform_sees_what_an_earlier_one_made_of_the_value() -> None:
    batch = rows({"value": b'{"a": {"b": 1.0}, "c": "x"}'}, {"value": b'{"a":{"b":2},"c":null}'})
    made = run(
        batch,
        stage("Flatten", side="value", delimiter="_"),
        stage("MaskField", side="value", fields=("c",), replacement=None, replace_null_with_default=True),
        value=PLAIN_JSON,
    )
    assert [json.loads(row["value"]) for row in made] == [{"a_b": 1.0, "c": ""}, {"a_b": 2, "c": None}]


def test_a_value_that_no_transform_changes_keeps_its_bytes() -> None:
    spaced = b'{ "a" : 1 }'
    insert = stage(
        "InsertField",
        predicate=ORDERS,
        side="value",
        topic_field=None,
        partition_field=None,
        timestamp_field=None,
        static_field="s",
        static_value="v",
        replace_null_with_default=True,
    )
    made = run(rows({"topic": "b", "value": spaced}, {"value": spaced}), insert, value=PLAIN_JSON)
    assert [row["value"] for row in made] == [spaced, b'{"a":1,"s":"v"}']


def test_an_error_names_the_transform_and_the_way_out() -> None:
    hoist = stage("ExtractField", side="value", field="a", field_syntax_version="V1", replace_null_with_default=True)
    with pytest.raises(TransformError, match=r"extractfield \(ExtractField\$Value\): the value is invalid JSON: "):
        run(rows({"value": b"{"}), hoist, value=PLAIN_JSON)
    with pytest.raises(TransformError, match=r"set value\.converter\.schemas\.enable = false"):
        run(rows({"value": b"{}"}), hoist, value=SmtConverter("json", schemas=True))


def test_whole_numbers_keep_all_their_digits() -> None:
    huge = b'{"a":123456789012345678901234567890}'
    hoist = stage("HoistField", side="value", field="w")
    assert run(rows({"value": huge}), hoist, value=PLAIN_JSON)[0]["value"] == b'{"w":' + huge + b"}"


def test_no_rows_remain_no_rows() -> None:
    by_day = stage("TimestampRouter", topic_format="${topic}-${timestamp}", timestamp_format="yyyyMMdd")
    insert = stage("InsertHeader", predicate=TRACED, header="trace", value_literal="two")
    regex = stage("RegexRouter", regex=r"east\.(.*)", replacement="$1")
    try_on_nothing(smt_transform(SmtChain((by_day, insert, regex, stage("Filter", predicate=TOMBSTONE)))))


def test_only_the_schema_of_a_struct_is_named() -> None:
    """org.apache.kafka.connect.transforms.SetSchemaMetadata asks every schema for its fields."""
    name = stage("SetSchemaMetadata", side="value", schema_name=None, schema_version=7, replace_null_with_default=True)
    with_schemas = SmtConverter("json", schemas=True, defaults=True)
    number = {"schema": {"type": "int32", "optional": False}, "payload": 1}
    with pytest.raises(TransformError, match="its schema differs from a struct, and Connect only names structs"):
        run(rows({"value": json.dumps(number).encode()}), name, value=with_schemas)
    field = {"type": "int32", "optional": False, "field": "a"}
    struct = {"schema": {"type": "struct", "fields": [field], "optional": False}, "payload": {"a": 1}}
    (row,) = run(rows({"value": json.dumps(struct).encode()}), name, value=with_schemas)
    assert json.loads(row["value"])["schema"]["version"] == 7


@pytest.mark.parametrize(
    ("target", "written"),
    [
        ("Timestamp", b"Thu Feb 29 01:02:03 UTC 2024"),
        ("Date", b"Thu Feb 29 00:00:00 UTC 2024"),
        ("Time", b"Thu Jan 01 01:02:03 UTC 1970"),
    ],
)
def test_a_time_in_the_text_form_is_written_as_java_writes_it(target: str, written: bytes) -> None:
    """StringConverter takes `toString` of a `java.util.Date`."""
    plain: dict[str, SmtValue] = {"field": "", "unix_precision": "milliseconds", "replace_null_with_default": True}
    convert = stage("TimestampConverter", side="value", target_type=target, format="yyyy-MM-dd HH:mm:ss", **plain)
    batch = rows({"value": b"2024-02-29 01:02:03"})
    assert [row["value"] for row in run(batch, convert, value=SmtConverter("text"))] == [written]


@pytest.mark.parametrize("kind", ["int8", "int16", "int32"])
def test_a_time_that_was_cast_to_fewer_than_64_bits_is_refused(kind: str) -> None:
    """`TimestampConverter.inferTimestampType` takes `Long` and neither `Integer`, `Short` nor `Byte`."""
    plain: dict[str, SmtValue] = {"side": "value", "replace_null_with_default": False}
    to_unix: dict[str, SmtValue] = {"target_type": "unix", "format": "", "unix_precision": "milliseconds"}
    convert = stage("TimestampConverter", field="at", **plain, **to_unix)
    batch = rows({"value": b'{"at":true}'})
    wide = stage("Cast", spec=("at:int64",), **plain)
    assert run(batch, wide, convert, value=PLAIN_JSON)[0]["value"] == b'{"at":1}'
    with pytest.raises(TransformError, match="a time has 64 bits, and 1 was cast to fewer"):
        run(batch, stage("Cast", spec=(f"at:{kind}",), **plain), convert, value=PLAIN_JSON)


@pytest.mark.parametrize(("defaults", "written"), [(True, 5), (False, None)])
def test_a_field_of_a_missing_struct_has_its_default_only_where_the_converter_writes_defaults(
    defaults: bool, written: int | None
) -> None:
    """`Flatten.buildWithSchema` puts nothing for a struct that is null; JsonConverter then looks for a default."""
    inner = {"type": "int32", "optional": True, "default": 5, "field": "a"}
    outer = {"type": "struct", "fields": [inner], "optional": True, "field": "b"}
    schema = {"type": "struct", "fields": [outer], "optional": False}
    batch = rows({"value": json.dumps({"schema": schema, "payload": {"b": None}}).encode()})
    converter = SmtConverter("json", schemas=True, defaults=defaults)
    (row,) = run(batch, stage("Flatten", side="value", delimiter="."), value=converter)
    assert json.loads(row["value"])["payload"] == {"b.a": written}
    hoist = stage("HoistField", side="value", field="whole")
    (row,) = run(batch, stage("Flatten", side="value", delimiter="."), hoist, value=converter)
    assert json.loads(row["value"])["payload"] == {"whole": {"b.a": written}}


@pytest.mark.parametrize("name", ["Date", "Time", "Timestamp"])
def test_a_time_under_its_name_is_not_cast_as_a_whole(name: str) -> None:
    """Cast keeps the schema's name, and JsonConverter then expects a `java.util.Date`."""
    kind = "int64" if name == "Timestamp" else "int32"
    schema = {"type": kind, "optional": True, "name": f"org.apache.kafka.connect.data.{name}", "version": 1}
    cast = stage("Cast", side="value", spec=("int8",), replace_null_with_default=True)
    converter = SmtConverter("json", schemas=True, defaults=True)
    batch = rows({"value": json.dumps({"schema": schema, "payload": 3_600_001}).encode()})
    with pytest.raises(TransformError, match=f"keeps the name org.apache.kafka.connect.data.{name}"):
        run(batch, cast, value=converter)
