"""ValueToKey: makes the key of fields of the value."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.transforms.smt.converters import Data
from twinlog.transforms.smt.fields import Settings, as_object, defaults, names
from twinlog.transforms.smt.schemas import cells_of, field_of, struct_of


def value_to_key(settings: Settings) -> Callable[[Data], Data]:
    """From a value to the key with its fields; one that is missing is null, or an error where there is a schema."""
    wanted, with_defaults = names(settings, "fields"), defaults(settings)

    def apply(data: Data) -> Data:
        value = as_object(data)
        if data.schema is None:
            return Data(None, {name: value.get(name) for name in wanted})
        fields = [field_of(data.schema, name) for name in wanted]
        return Data(struct_of(fields, {}), cells_of(fields, value, with_defaults))

    return apply
