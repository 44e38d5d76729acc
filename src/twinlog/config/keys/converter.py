"""The converters that a connector's configuration may name, with their keys.

Copying ignores them: bytes stay as they are.

A worker knows their keys, because forms and scripts ask for them (Kafka classes ConverterConfig, StringConverterConfig
and JsonConverterConfig).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from twinlog.config.keys.key import LOW, Effect, Importance, Key, KeyType, Level, Release, Shown, Width

_key = partial(Key, level=Level.FLOW, effect=Effect.JVM)
_schemas = partial(Shown, Importance.HIGH, "Schemas", Width.MEDIUM)
_serialization = partial(Shown, Importance.LOW, "Serialization", Width.MEDIUM)

CONVERTER_TYPE = "converter.type"
"""Set by the worker itself: the converter's kind, which is keys, values or headers."""

_TYPE = _key(
    CONVERTER_TYPE,
    KeyType.ENUM,
    None,
    "The converter's use, key or value; the worker sets it.",
    choices=("key", "value", "header"),
    shown=replace(LOW, required=True),
)
_STRING = _key(
    "converter.encoding",
    KeyType.STRING,
    "UTF-8",
    "How text becomes bytes, if text is converted.",
    shown=Shown(Importance.HIGH, None, Width.MEDIUM, "Encoding"),
)
_JSON = (
    _key(
        "schemas.enable",
        KeyType.BOOL,
        "true",
        "Whether converted JSON carries its schema.",
        shown=_schemas("Enable Schemas"),
    ),
    _key(
        "schemas.cache.size",
        KeyType.INT,
        "1000",
        "How many schemas are remembered, if JSON is converted.",
        shown=_schemas("Schema Cache Size"),
    ),
    _key(
        "schema.content",
        KeyType.STRING,
        None,
        "The schema of every record of converted JSON.",
        shown=_schemas("Schema Content", since=(4, 2)),
    ),
    _key(
        "decimal.format",
        KeyType.ENUM,
        "BASE64",
        "How decimals are written, if JSON is converted.",
        choices=("BASE64", "NUMERIC"),
        any_case=True,
        shown=_serialization("Decimal Format"),
    ),
    _key(
        "replace.null.with.default",
        KeyType.BOOL,
        "true",
        "Whether a missing field has its default, if JSON is converted.",
        shown=_serialization("Replace null with default"),
    ),
)

ConverterKeys = tuple[Key, ...]

_NUMBERS = ("Boolean", "ByteArray", "Double", "Float", "Integer", "Long", "Short")
CONVERTERS: Mapping[str, ConverterKeys] = MappingProxyType(
    {
        **{f"org.apache.kafka.connect.converters.{name}Converter": (_TYPE,) for name in _NUMBERS},
        "org.apache.kafka.connect.json.JsonConverter": (_TYPE, *_JSON),
        "org.apache.kafka.connect.storage.StringConverter": (_TYPE, _STRING),
    }
)
"""Kafka's converters of keys and values, each with its keys; all of them also convert headers."""

HEADER_CONVERTERS: Mapping[str, ConverterKeys] = MappingProxyType(
    dict(sorted({**CONVERTERS, "org.apache.kafka.connect.storage.SimpleHeaderConverter": ()}.items()))
)
"""Kafka's converters of headers, each with its keys."""


CONVERTERS_OF: Mapping[str, Mapping[str, ConverterKeys]] = MappingProxyType(
    {"header.converter": HEADER_CONVERTERS, "key.converter": CONVERTERS, "value.converter": CONVERTERS}
)
"""The converters that each of the keys may name."""


def converter_keys(found: ConverterKeys, release: Release) -> ConverterKeys:
    """The keys of a converter that a worker of `release` knows."""
    return tuple(key for key in found if key.shown is not None and key.shown.exists_in(release))
