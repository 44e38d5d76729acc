"""All transforms of a flow as a single function on rows (Kafka classes TransformationChain and TransformationStage)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from twinlog.errors import TransformError
from twinlog.settings.transform import Side, SmtChain, SmtPredicate, SmtStage
from twinlog.transforms.smt.conversions import cast, timestamp_converter
from twinlog.transforms.smt.fields import (
    FieldTransform,
    Settings,
    extract_field,
    flatten,
    hoist_field,
    insert_field,
    mask_field,
    replace_field,
    set_schema_metadata,
    value_to_key,
)
from twinlog.transforms.smt.headers import drop_headers, has_header_key, header_from, insert_header
from twinlog.transforms.smt.rows import Rows, SmtRows
from twinlog.transforms.smt.topics import RowsTransform, regex_router, timestamp_router, topic_name_matches

_OF_ROWS: Mapping[str, Callable[[Settings], RowsTransform]] = {
    "RegexRouter": regex_router,
    "TimestampRouter": timestamp_router,
    "InsertHeader": insert_header,
    "DropHeaders": drop_headers,
}
_OF_FIELDS: Mapping[str, Callable[[Settings], FieldTransform]] = {
    "Cast": cast,
    "ExtractField": extract_field,
    "Flatten": flatten,
    "HoistField": hoist_field,
    "InsertField": insert_field,
    "MaskField": mask_field,
    "ReplaceField": replace_field,
    "SetSchemaMetadata": set_schema_metadata,
    "TimestampConverter": timestamp_converter,
}
_Test = Callable[[SmtRows], Any]


def smt_transform(chain: SmtChain) -> Callable[[Any], Any]:
    """The function that applies `chain` to an Arrow record batch with the columns of rows.

    If Connect would fail on a record of the batch, the function raises TransformError, which names the transform. The
    batch then stays unchanged.
    """
    stages = [(stage, _applied(stage), _test(stage.predicate)) for stage in chain.stages]

    def transform(batch: Any) -> Any:
        rows = SmtRows(batch, chain)
        for stage, apply, test in stages:
            if not len(rows):
                break
            try:
                chosen = None if test is None else np.flatnonzero(test(rows) != stage.negate)
                if chosen is None or len(chosen):
                    apply(rows, chosen)
            except TransformError as error:
                raise TransformError(f"{stage.shown}: {error.message}") from error.__cause__
        return rows.written()

    return transform


def _applied(stage: SmtStage) -> RowsTransform:
    settings = dict(stage.settings)
    if stage.kind in _OF_ROWS:
        return _OF_ROWS[stage.kind](settings)
    if stage.kind == "Filter":
        return _drop
    if stage.kind == "HeaderFrom":
        return _headers(settings, stage.side)
    if stage.kind == "ValueToKey":
        return _keys(settings)
    return _fields(_OF_FIELDS[stage.kind](settings), stage.side)


def _test(predicate: SmtPredicate | None) -> _Test | None:
    if predicate is None:
        return None
    if predicate.kind == "RecordIsTombstone":
        return SmtRows.tombstones
    return {"TopicNameMatches": topic_name_matches, "HasHeaderKey": has_header_key}[predicate.kind](
        dict(predicate.settings)
    )


def _drop(rows: SmtRows, chosen: Rows) -> None:
    """Filter: drops the records."""
    left = np.ones(len(rows), dtype=bool)
    left[slice(None) if chosen is None else chosen] = False
    rows.retain_rows(np.flatnonzero(left))


def _fields(change: FieldTransform, side: Side) -> RowsTransform:
    def apply(rows: SmtRows, chosen: Rows) -> None:
        for row in rows.numbers(chosen):
            data = rows.data(side, row)
            new = change(data, rows.facts(row))
            if new is not data:
                rows.replace_value(side, row, new)

    return apply


def _keys(settings: Settings) -> RowsTransform:
    key_of = value_to_key(settings)

    def apply(rows: SmtRows, chosen: Rows) -> None:
        for row in rows.numbers(chosen):
            rows.replace_value("key", row, key_of(rows.data("value", row)))

    return apply


def _headers(settings: Settings, side: Side) -> RowsTransform:
    headers_of = header_from(settings)

    def apply(rows: SmtRows, chosen: Rows) -> None:
        owners: list[int] = []
        names: list[str] = []
        values: list[bytes | None] = []
        for row in rows.numbers(chosen):
            data = rows.data(side, row)
            new, headers = headers_of(data)
            if new is not data:
                rows.replace_value(side, row, new)
            for name, value in headers:
                owners.append(row)
                names.append(name)
                values.append(value)
        rows.add_headers(np.array(owners, dtype=np.int64), pa.array(names, pa.string()), pa.array(values, pa.binary()))

    return apply
