"""Rows on their way through a chain: keys and values that a transform has read stay read for the next transform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.batches.arrow.arrays import HEADERS_COLUMN
from twinlog.errors import TransformError
from twinlog.settings.transform import SmtChain, SmtConverter
from twinlog.transforms.smt.data import RecordContext, SchemaAndValue, read, write

Rows = Any
"""Which rows a transform is applied to, as numbers of rows in their order; None for all."""


class SmtRows:
    """The rows of a batch, changed column by column.

    Keys and values are read by their converter when a transform asks for a field, and written once, at the end. An
    unchanged key or value keeps its bytes.
    """

    def __init__(self, batch: Any, chain: SmtChain) -> None:
        self.batch = batch
        self._converters: dict[str, SmtConverter | None] = {"key": chain.key, "value": chain.value}
        self._cells: dict[str, dict[int, SchemaAndValue]] = {"key": {}, "value": {}}
        self._changed: dict[str, set[int]] = {"key": set(), "value": set()}
        self._lists: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def column(self, name: str) -> Any:
        """A column as it is in the batch; changed keys and values are still to be written."""
        return self.batch.column(name)

    def replace_column(self, name: str, column: Any) -> None:
        """Replace the column of this name."""
        at = self.batch.schema.get_field_index(name)
        self.batch = self.batch.set_column(at, self.batch.schema.field(at), column)
        self._lists.pop(name, None)

    def retain_rows(self, rows: Any) -> None:
        """Keep these rows, and drop all other rows."""
        moved = {int(row): place for place, row in enumerate(rows)}
        self.batch = self.batch.take(pa.array(rows, pa.int64()))
        self._lists.clear()
        for side in self._cells:
            self._cells[side] = {moved[row]: data for row, data in self._cells[side].items() if row in moved}
            self._changed[side] = {moved[row] for row in self._changed[side] if row in moved}

    def numbers(self, rows: Rows) -> Sequence[int]:
        """The rows that a transform is applied to."""
        return range(len(self)) if rows is None else rows.tolist()

    def data(self, side: str, row: int) -> SchemaAndValue:
        """The key or value of a row, read by its converter. Raises TransformError if the converter refuses it."""
        cells = self._cells[side]
        if row not in cells:
            converter = self._converters[side]
            assert converter is not None, f"a converter for the {side} is missing"
            cells[row] = read(converter, self._list(side)[row], side)
        return cells[row]

    def replace_value(self, side: str, row: int, data: SchemaAndValue) -> None:
        """Replace the key or value of a row."""
        self._cells[side][row] = data
        self._changed[side].add(row)

    def facts(self, row: int) -> RecordContext:
        """The topic, the partition and the timestamp of a record."""
        timestamp = self._list("timestamp")[row]
        return RecordContext(
            self._list("topic")[row], self._list("partition")[row], None if timestamp is None else timestamp // 1000
        )

    def _list(self, name: str) -> list[Any]:
        """A column as Python's values, made once; times as microseconds."""
        if name not in self._lists:
            column = self.batch.column(name)
            self._lists[name] = (column.cast(pa.int64()) if name == "timestamp" else column).to_pylist()
        return self._lists[name]

    def tombstones(self) -> Any:
        """Whether each value is null, as a vector."""
        empty = pc.is_null(self.batch.column("value")).to_numpy(zero_copy_only=False).copy()
        for row in self._changed["value"]:
            empty[row] = self._cells["value"][row].value is None
        return empty

    def add_headers(self, rows: Any, names: Any, values: Any) -> None:
        """Add a header to each of `rows`, after the headers of the row; a repeated row gets several headers."""
        entries, parents = entries_of(self.batch.column("headers"))
        added = pa.StructArray.from_arrays([names, values], fields=list(entries.type))
        both = pa.concat_arrays([entries, added])
        owners = np.concatenate([parents, np.asarray(rows, dtype=np.int64)])
        order = np.argsort(owners, kind="stable")
        self.replace_column("headers", header_lists(both.take(pa.array(order)), owners[order], len(self)))

    def written(self) -> Any:
        """The batch with its changed keys and values. Raises TransformError for data that lacks a form as bytes."""
        for side, changed in self._changed.items():
            if not changed:
                continue
            converter = self._converters[side]
            assert converter is not None, f"a converter for the {side} is missing"
            rows = sorted(changed)
            try:
                cells = pa.array([write(converter, self._cells[side][row]) for row in rows], pa.binary())
            except UnicodeEncodeError:
                raise TransformError(f"the {side} has half of a character, which UTF-8 is unable to encode") from None
            self.replace_column(side, replaced(self.batch.column(side), np.array(rows, dtype=np.int64), cells))
            changed.clear()
        return self.batch


def replaced(column: Any, rows: Any, cells: Any) -> Any:
    """A column with new cells in these rows."""
    place = np.arange(len(column), dtype=np.int64)
    place[rows] = len(column) + np.arange(len(rows))
    return pa.concat_arrays([column, cells]).take(pa.array(place))


def entries_of(headers: Any) -> tuple[Any, Any]:
    """All headers of a column in their order, and the row of each header."""
    parents = pc.list_parent_indices(headers).to_numpy(zero_copy_only=False).astype(np.int64)
    return pc.list_flatten(headers), parents


def header_lists(entries: Any, parents: Any, count: int) -> Any:
    """The column of headers of `count` rows: null for a row that lacks headers."""
    counts = np.bincount(parents, minlength=count) if len(parents) else np.zeros(count, dtype=np.int64)
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    some = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    return pa.Array.from_buffers(HEADERS_COLUMN.type, count, [some, pa.py_buffer(bounds)], children=[entries])
