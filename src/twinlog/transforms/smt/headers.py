"""Transforms and predicates of headers. Headers that a record has are bytes, and stay so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.transforms.smt.fields import Settings, names, text
from twinlog.transforms.smt.literal import literal_bytes
from twinlog.transforms.smt.rows import Rows, SmtRows, entries_of, header_lists
from twinlog.transforms.smt.topics import RowsTransform


def insert_header(settings: Settings) -> RowsTransform:
    """InsertHeader: one more header, after those that a record has, even where one has its name."""
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
            rows.put("headers", header_lists(entries.take(pa.array(left)), parents[left], len(rows)))

    return apply


def has_header_key(settings: Settings) -> Callable[[SmtRows], Any]:
    """HasHeaderKey: the record has at least one header of that name."""
    name = pa.scalar(text(settings, "name"), pa.string())

    def test(rows: SmtRows) -> Any:
        entries, parents = entries_of(rows.column("headers"))
        found = np.zeros(len(rows), dtype=bool)
        found[parents[pc.equal(entries.field("key"), name).to_numpy(zero_copy_only=False)]] = True
        return found

    return test
