"""HeaderFrom: copies or moves fields of the key or the value into headers."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.transforms.smt.converters import Data
from twinlog.transforms.smt.fields import Settings, as_object, defaults, names
from twinlog.transforms.smt.header_text import header_bytes
from twinlog.transforms.smt.schemas import basics, cells_of, field_of, fields_of, struct_of, with_default

Headers = list[tuple[str, bytes | None]]


def header_from(settings: Settings) -> Callable[[Data], tuple[Data, Headers]]:
    """Each field becomes the header at its place in `headers`; with `move` the record loses the field."""
    pairs = list(zip(names(settings, "fields"), names(settings, "headers"), strict=True))
    moved = frozenset(field for field, _ in pairs) if settings["operation"] == "move" else frozenset()
    with_defaults = defaults(settings)

    def apply(data: Data) -> tuple[Data, Headers]:
        value = as_object(data)
        if data.schema is None:
            headers = [(header, header_bytes(value.get(field))) for field, header in pairs]
            if not moved:
                return data, headers
            return Data(None, {name: cell for name, cell in value.items() if name not in moved}), headers
        headers = []
        for name, header in pairs:
            field = field_of(data.schema, name)
            headers.append((header, header_bytes(with_default(field, value[name], with_defaults), field)))
        if not moved:
            return data, headers
        left = [field for field in fields_of(data.schema) if field["field"] not in moved]
        return Data(struct_of(left, basics(data.schema)), cells_of(left, value, with_defaults)), headers

    return apply
