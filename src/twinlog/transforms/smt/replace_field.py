"""ReplaceField: leaves fields out, or gives them other names."""

from __future__ import annotations

from twinlog.transforms.smt.converters import Data, Facts
from twinlog.transforms.smt.fields import FieldTransform, Settings, as_object, defaults, names
from twinlog.transforms.smt.schemas import basics, cells_of, fields_of, struct_of


def replace_field(settings: Settings) -> FieldTransform:
    """Keeps the fields that `include` names, or all, but those of `exclude`; null stays null."""
    exclude, include = frozenset(names(settings, "exclude")), frozenset(names(settings, "include"))
    pairs = [entry.split(":") for entry in names(settings, "renames")]
    renames = {old: new for old, new, *_ in pairs}
    with_defaults = defaults(settings)

    def kept(name: str) -> bool:
        return name not in exclude and (not include or name in include)

    def apply(data: Data, _: Facts) -> Data:
        if data.value is None:
            return data
        value = as_object(data)
        if data.schema is None:
            return Data(None, {renames.get(name, name): cell for name, cell in value.items() if kept(name)})
        fields = [field for field in fields_of(data.schema) if kept(field["field"])]
        new = [field | {"field": renames.get(field["field"], field["field"])} for field in fields]
        cells = {renames.get(name, name): cell for name, cell in cells_of(fields, value, with_defaults).items()}
        return Data(struct_of(new, basics(data.schema)), cells)

    return apply
