"""The checks of Connect's transforms on their settings beyond the type of each, and on values at which they would fail
later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from twinlog.config.properties import PropertyEntry
from twinlog.config.smt.kinds import SmtKind
from twinlog.config.text.config_reader import Problems
from twinlog.config.text.values import ValueRefusedError
from twinlog.errors import PatternError, TransformError
from twinlog.model.java_regex.pattern import JavaPattern, java_pattern
from twinlog.settings.transform import SmtValue
from twinlog.transforms.smt.conversions import parsed_spec
from twinlog.transforms.smt.fields import path_of
from twinlog.transforms.smt.java_forms import DateFormat, DateFormatError, Replacement
from twinlog.transforms.smt.literal import literal_bytes

Values = dict[str, SmtValue]
_FILLED = {
    "DropHeaders": ("headers",),
    "HeaderFrom": ("fields", "headers"),
    "MaskField": ("fields",),
    "ValueToKey": ("fields",),
    "Cast": ("spec",),
    "HasHeaderKey": ("name",),
    "TopicNameMatches": ("pattern",),
}
_UNIQUE = {"DropHeaders": ("headers",), "MaskField": ("fields",), "ValueToKey": ("fields",)} | {
    "ReplaceField": ("exclude", "include")
}


class _SettingError(ValueRefusedError):
    """The setting of that name is wrong."""

    def __init__(self, name: str, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.name = name


def checked(
    kind: SmtKind, values: Values, entries: Mapping[str, PropertyEntry], problems: Problems
) -> Iterable[tuple[str, SmtValue]]:
    """The settings of a transform or predicate; problems are added to `problems`."""
    try:
        for name in _FILLED.get(kind.name, ()):
            if not values[name] or values[name] == ("",):
                raise _SettingError(
                    name, "nothing", "a name at least" if isinstance(values[name], tuple) else "some text"
                )
        for name in _UNIQUE.get(kind.name, ()):
            _check_unique(name, values[name])
        check = _CHECKS.get(kind.name)
        if check is not None:
            values = check(values)
    except _SettingError as wrong:
        entry = entries.get(wrong.name) or entries["type"]
        problems.refuse(entry, wrong.found, wrong.expected)
    return values.items()


def _check_unique(name: str, value: SmtValue) -> None:
    assert isinstance(value, tuple)
    if len(set(value)) < len(value):
        raise _SettingError(name, repr(", ".join(value)), "each name once")
    if "" in value:
        raise _SettingError(name, repr(", ".join(value)), "names separated by single commas")


def _pattern(name: str, text: SmtValue) -> JavaPattern:
    try:
        return java_pattern(str(text))
    except PatternError as error:
        raise _SettingError(name, str(error), "a regular expression of Java") from None


def _regex_router(values: Values) -> Values:
    pattern = _pattern("regex", values["regex"])
    try:
        Replacement(str(values["replacement"]), pattern)
    except TransformError as error:
        raise _SettingError("replacement", repr(values["replacement"]), f"a replacement: {error}") from None
    return values


def _topic_name_matches(values: Values) -> Values:
    _pattern("pattern", values["pattern"])
    return values


def _date_format(name: str, text: SmtValue) -> None:
    try:
        DateFormat(str(text))
    except DateFormatError as error:
        raise _SettingError(name, repr(text), f"a pattern of SimpleDateFormat: {error}") from None


def _timestamp_router(values: Values) -> Values:
    _date_format("timestamp.format", values["timestamp.format"])
    return values


def _insert_header(values: Values) -> Values:
    if not values["header"]:
        raise _SettingError("header", "nothing", "the header's name")
    try:
        literal_bytes(str(values["value.literal"]))
    except TransformError as error:
        raise _SettingError("value.literal", repr(values["value.literal"]), f"text or a number: {error}") from None
    return values


def _header_from(values: Values) -> Values:
    fields, headers = values["fields"], values["headers"]
    assert isinstance(fields, tuple)
    assert isinstance(headers, tuple)
    if len(fields) != len(headers):
        raise _SettingError("headers", repr(", ".join(headers)), f"as many names as fields has, {len(fields)}")
    return values


def _insert_field(values: Values) -> Values:
    if values["offset.field"] is not None:
        raise _SettingError(
            "offset.field",
            repr(values["offset.field"]),
            "an absent key: a record of a source connector lacks an offset at this point",
        )
    if all(values[name] is None for name in values if name.endswith(".field")):
        raise _SettingError(
            "type",
            "InsertField that lacks a field",
            "topic.field, partition.field, timestamp.field or static.field beside it",
        )
    if values["static.field"] is not None and values["static.value"] is None:
        raise _SettingError("static.field", repr(values["static.field"]), "static.value beside it")
    return values


def _replace_field(values: Values) -> Values:
    renames = values["renames"]
    assert isinstance(renames, tuple)
    for entry in renames:
        if len(entry.rstrip(":").split(":")) != 2 or entry.endswith(":"):
            raise _SettingError("renames", repr(entry), "pairs in the form old:new, separated by commas")
    return values


def _mask_field(values: Values) -> Values:
    if values["replacement"] == "":
        raise _SettingError(
            "replacement", "nothing", "some text or a number; if the key is missing, fields become empty"
        )
    return values


def _extract_field(values: Values) -> Values:
    try:
        path_of(str(values["field"]), str(values["field.syntax.version"]))
    except TransformError as error:
        raise _SettingError("field", repr(values["field"]), f"a path: {error}") from None
    return values


def _cast(values: Values) -> Values:
    spec = values["spec"]
    assert isinstance(spec, tuple)
    try:
        parsed_spec(spec)
    except TransformError as error:
        raise _SettingError("spec", repr(", ".join(spec)), f"fields with types: {error}") from None
    return values


def _timestamp_converter(values: Values) -> Values:
    if str(values["format"]).strip():
        _date_format("format", values["format"])
    elif values["target.type"] == "string":
        raise _SettingError("target.type", "'string'", "format beside it")
    return values


def _set_schema_metadata(values: Values) -> Values:
    if values["schema.name"] is None and values["schema.version"] is None:
        raise _SettingError("type", "SetSchemaMetadata that lacks a name", "schema.name or schema.version beside it")
    return values


_CHECKS: Mapping[str, Callable[[Values], Values]] = {
    "RegexRouter": _regex_router,
    "TopicNameMatches": _topic_name_matches,
    "TimestampRouter": _timestamp_router,
    "InsertHeader": _insert_header,
    "HeaderFrom": _header_from,
    "InsertField": _insert_field,
    "ReplaceField": _replace_field,
    "MaskField": _mask_field,
    "ExtractField": _extract_field,
    "Cast": _cast,
    "TimestampConverter": _timestamp_converter,
    "SetSchemaMetadata": _set_schema_metadata,
}
