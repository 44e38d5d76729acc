"""Transforms and predicates of headers, HeaderFrom included. Existing headers of a record stay bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.transforms.smt.data import SchemaAndValue, basics, cells_of, field_of, fields_of, struct_of, with_default
from twinlog.transforms.smt.fields import Settings, as_object, defaults, names, text
from twinlog.transforms.smt.literal import header_bytes, literal_bytes
from twinlog.transforms.smt.rows import Rows, SmtRows, entries_of, header_lists
from twinlog.transforms.smt.topics import RowsTransform

Headers = list[tuple[str, bytes | None]]


def header_from(settings: Settings) -> Callable[[SchemaAndValue], tuple[SchemaAndValue, Headers]]:
    """Each field becomes the header at its place in `headers`; with `move` the record loses the field."""
    pairs = list(zip(names(settings, "fields"), names(settings, "headers"), strict=True))
    moved = frozenset(field for field, _ in pairs) if settings["operation"] == "move" else frozenset()
    with_defaults = defaults(settings)

    def apply(data: SchemaAndValue) -> tuple[SchemaAndValue, Headers]:
        value = as_object(data)
        if data.schema is None:
            headers = [(header, header_bytes(value.get(field))) for field, header in pairs]
            if not moved:
                return data, headers
            return SchemaAndValue(None, {name: cell for name, cell in value.items() if name not in moved}), headers
        headers = []
        for name, header in pairs:
            field = field_of(data.schema, name)
            headers.append((header, header_bytes(with_default(field, value[name], with_defaults), field)))
        if not moved:
            return data, headers
        left = [field for field in fields_of(data.schema) if field["field"] not in moved]
        return SchemaAndValue(struct_of(left, basics(data.schema)), cells_of(left, value, with_defaults)), headers

    return apply


def insert_header(settings: Settings) -> RowsTransform:
    """InsertHeader: adds a header after the record's headers, even if a header of the same name exists."""
    header, value = text(settings, "header"), literal_bytes(text(settings, "value.literal") or "")

    def apply(rows: SmtRows, chosen: Rows) -> None:
        numbers = np.arange(len(rows)) if chosen is None else chosen
        added = pa.array([header], pa.string()), pa.array([value], pa.binary())
        first = pa.array(np.zeros(len(numbers), dtype=np.int64))
        rows.add_headers(numbers, added[0].take(first), added[1].take(first))

    return apply


def drop_headers(settings: Settings) -> RowsTransform:
    """DropHeaders: a record loses every header of these names."""
    dropped = pa.array(sorted(set(names(settings, "headers"))), pa.string())

    def apply(rows: SmtRows, chosen: Rows) -> None:
        entries, parents = entries_of(rows.column("headers"))
        go = pc.is_in(entries.field("key"), value_set=dropped).to_numpy(zero_copy_only=False)
        if chosen is not None:
            selected = np.zeros(len(rows), dtype=bool)
            selected[chosen] = True
            go = go & selected[parents]
        if go.any():
            left = np.flatnonzero(~go)
            rows.replace_column("headers", header_lists(entries.take(pa.array(left)), parents[left], len(rows)))

    return apply


def has_header_key(settings: Settings) -> Callable[[SmtRows], Any]:
    """HasHeaderKey: the record has a header of the name in the settings."""
    name = pa.scalar(text(settings, "name"), pa.string())

    def test(rows: SmtRows) -> Any:
        entries, parents = entries_of(rows.column("headers"))
        found = np.zeros(len(rows), dtype=bool)
        found[parents[pc.equal(entries.field("key"), name).to_numpy(zero_copy_only=False)]] = True
        return found

    return test
