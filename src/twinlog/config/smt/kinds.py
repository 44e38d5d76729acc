"""Connect's transforms and predicates with their keys (Kafka 4.3, `connect/transforms`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from twinlog.config.keys.key import HIGH, LOW, MEDIUM, Key, KeyType, Level
from twinlog.settings.transform import Side
from twinlog.transforms.smt.conversions import CAST_TO

PACKAGE = "org.apache.kafka.connect.transforms."
PREDICATES = PACKAGE + "predicates."
JSON = "org.apache.kafka.connect.json.JsonConverter"
TEXT = "org.apache.kafka.connect.storage.StringConverter"

_key = partial(Key, level=Level.ONE_FLOW)
STRING, LIST, ENUM, BOOL, INT = KeyType.STRING, KeyType.LIST, KeyType.ENUM, KeyType.BOOL, KeyType.INT

_REQUIRED_HIGH, _REQUIRED_MEDIUM = replace(HIGH, required=True), replace(MEDIUM, required=True)
"""Keys that Connect requires before it starts a transform or a predicate."""

_DEFAULTS = _key(
    "replace.null.with.default", BOOL, "true", "Whether a null has the default that the field's schema names."
)


@dataclass(frozen=True, slots=True)
class SmtKind:
    """A class of Connect's: its name after the package, its keys, and the parts of a record that it reads and writes.

    With `sides` there are two classes, `$Key` and `$Value`; otherwise `reads` and `writes` name the sides that need a
    converter.
    """

    name: str
    keys: tuple[Key, ...]
    sides: bool = False
    reads: tuple[Side, ...] = ()
    writes: tuple[Side, ...] = ()


TRANSFORMS: Mapping[str, SmtKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            SmtKind(
                "RegexRouter",
                (
                    _key(
                        "regex",
                        STRING,
                        None,
                        "Expression that must match the whole remote topic.",
                        shown=_REQUIRED_HIGH,
                    ),
                    _key(
                        "replacement",
                        STRING,
                        None,
                        "Replaces its first match; `$1` is a group.",
                        shown=_REQUIRED_HIGH,
                    ),
                ),
            ),
            SmtKind(
                "TimestampRouter",
                (
                    _key("topic.format", STRING, "${topic}-${timestamp}", "The new topic.", shown=HIGH),
                    _key(
                        "timestamp.format",
                        STRING,
                        "yyyyMMdd",
                        "How the time is written, in UTC (SimpleDateFormat).",
                        shown=HIGH,
                    ),
                ),
            ),
            SmtKind(
                "InsertHeader",
                (
                    _key("header", STRING, None, "Name of the header.", shown=_REQUIRED_HIGH),
                    _key("value.literal", STRING, None, "Its value.", shown=_REQUIRED_HIGH),
                ),
            ),
            SmtKind(
                "DropHeaders",
                (_key("headers", LIST, None, "Names of headers.", shown=_REQUIRED_HIGH),),
            ),
            SmtKind("Filter", ()),
            SmtKind(
                "HeaderFrom",
                (
                    _key("fields", LIST, None, "Fields that become headers.", shown=_REQUIRED_HIGH),
                    _key("headers", LIST, None, "Names of these headers, in the same order.", shown=_REQUIRED_HIGH),
                    _key(
                        "operation",
                        ENUM,
                        None,
                        "Whether the record keeps the fields.",
                        choices=("move", "copy"),
                        shown=_REQUIRED_HIGH,
                    ),
                    _DEFAULTS,
                ),
                sides=True,
            ),
            SmtKind(
                "InsertField",
                (
                    _key("topic.field", STRING, None, "Field for the remote topic."),
                    _key("partition.field", STRING, None, "Field for the partition."),
                    _key("offset.field", STRING, None, "Of sink connectors only."),
                    _key("timestamp.field", STRING, None, "Field for the record's time."),
                    _key("static.field", STRING, None, "Field for a fixed text."),
                    _key("static.value", STRING, None, "That text."),
                    _DEFAULTS,
                ),
                sides=True,
            ),
            SmtKind(
                "ReplaceField",
                (
                    _key("exclude", LIST, "", "Fields that are left out."),
                    _key("include", LIST, "", "The only fields that are kept."),
                    _key("renames", LIST, "", "New names, as old:new."),
                    _DEFAULTS,
                ),
                sides=True,
            ),
            SmtKind(
                "MaskField",
                (
                    _key("fields", LIST, None, "Fields that are masked.", shown=_REQUIRED_HIGH),
                    _key("replacement", STRING, None, "The new value, for text and numbers.", shown=LOW),
                    _DEFAULTS,
                ),
                sides=True,
            ),
            SmtKind(
                "ValueToKey",
                (
                    _key("fields", LIST, None, "Fields of the value that become the key.", shown=_REQUIRED_HIGH),
                    _DEFAULTS,
                ),
                reads=("value",),
                writes=("key",),
            ),
            SmtKind(
                "ExtractField",
                (
                    _key("field", STRING, None, "The field.", shown=_REQUIRED_MEDIUM),
                    _DEFAULTS,
                    _key(
                        "field.syntax.version",
                        ENUM,
                        "V1",
                        "V2 reads dots as a path to a nested field.",
                        choices=("V1", "V2"),
                        any_case=True,
                        shown=HIGH,
                    ),
                ),
                sides=True,
            ),
            SmtKind(
                "HoistField",
                (_key("field", STRING, None, "The field.", shown=_REQUIRED_MEDIUM),),
                sides=True,
            ),
            SmtKind(
                "Flatten",
                (_key("delimiter", STRING, ".", "The text between names."),),
                sides=True,
            ),
            SmtKind(
                "Cast",
                (
                    _key(
                        "spec",
                        LIST,
                        None,
                        f"field:type, or a single type for all: {', '.join(CAST_TO)}.",
                        shown=_REQUIRED_HIGH,
                    ),
                    _DEFAULTS,
                ),
                sides=True,
            ),
            SmtKind(
                "TimestampConverter",
                (
                    _key("field", STRING, "", "The field; empty means the whole.", shown=HIGH),
                    _key(
                        "target.type",
                        ENUM,
                        None,
                        "The type of the result.",
                        choices=("string", "unix", "Date", "Time", "Timestamp"),
                        shown=_REQUIRED_HIGH,
                    ),
                    _key("format", STRING, "", "How a time is text (SimpleDateFormat), in UTC."),
                    _key(
                        "unix.precision",
                        ENUM,
                        "milliseconds",
                        "The unit of a time as a number.",
                        choices=("nanoseconds", "microseconds", "milliseconds", "seconds"),
                        shown=LOW,
                    ),
                    _DEFAULTS,
                ),
                sides=True,
            ),
            SmtKind(
                "SetSchemaMetadata",
                (
                    _key("schema.name", STRING, None, "New name of the schema.", shown=HIGH),
                    _key("schema.version", INT, None, "New version of the schema.", shown=HIGH),
                    _DEFAULTS,
                ),
                sides=True,
            ),
        )
    }
)
"""The available transforms, by their class shortened by package and side."""

CONDITIONS: Mapping[str, SmtKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            SmtKind(
                "TopicNameMatches",
                (
                    _key(
                        "pattern",
                        STRING,
                        None,
                        "Expression that must match the whole remote topic.",
                        shown=_REQUIRED_MEDIUM,
                    ),
                ),
            ),
            SmtKind(
                "HasHeaderKey",
                (_key("name", STRING, None, "Name of a header.", shown=_REQUIRED_MEDIUM),),
            ),
            SmtKind("RecordIsTombstone", ()),
        )
    }
)
"""The predicates that are there."""


def transform_kind(class_name: str) -> tuple[SmtKind, Side] | None:
    """The kind and side of a class name; Connect takes it in full only."""
    name, _, side = class_name.removeprefix(PACKAGE).partition("$")
    kind = TRANSFORMS.get(name)
    if kind is None or not class_name.startswith(PACKAGE):
        return None
    if kind.sides:
        return (kind, "key" if side == "Key" else "value") if side in {"Key", "Value"} else None
    return None if side else (kind, "")
