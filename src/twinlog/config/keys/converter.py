"""The converters that a connector's configuration may name, with their keys.

Copying ignores them: bytes stay as they are.

A worker knows their keys, because forms and scripts ask for them (Kafka classes ConverterConfig, StringConverterConfig
and JsonConverterConfig).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from twinlog.config.keys.key import Effect, Key, KeyType, Level
from twinlog.config.keys.shown import Importance, Release, ShownKey, Width

_key = partial(Key, level=Level.FLOW, effect=Effect.JVM)
_high = partial(ShownKey, importance=Importance.HIGH, width=Width.MEDIUM)
_low = partial(ShownKey, importance=Importance.LOW, width=Width.MEDIUM)

CONVERTER_TYPE = "converter.type"
"""Set by the worker itself: the converter's kind, which is keys, values or headers."""

_TYPE = (
    ShownKey(CONVERTER_TYPE, Importance.LOW),
    _key(
        CONVERTER_TYPE,
        KeyType.ENUM,
        None,
        "What the converter is for; the worker sets it.",
        choices=("key", "value", "header"),
    ),
)
_STRING = (
    _high("converter.encoding", label="Encoding"),
    _key("converter.encoding", KeyType.STRING, "UTF-8", "How text becomes bytes, where text is converted."),
)
_JSON = (
    (
        _high("schemas.enable", group="Schemas", label="Enable Schemas"),
        _key("schemas.enable", KeyType.BOOL, "true", "Whether JSON carries its schema, where JSON is converted."),
    ),
    (
        _high("schemas.cache.size", group="Schemas", label="Schema Cache Size"),
        _key("schemas.cache.size", KeyType.INT, "1000", "How many schemas are remembered, where JSON is converted."),
    ),
    (
        _high("schema.content", group="Schemas", label="Schema Content", since=(4, 2)),
        _key("schema.content", KeyType.STRING, None, "The schema of every record, where JSON is converted."),
    ),
    (
        _low("decimal.format", group="Serialization", label="Decimal Format"),
        _key(
            "decimal.format",
            KeyType.ENUM,
            "BASE64",
            "How decimals are written, where JSON is converted.",
            choices=("BASE64", "NUMERIC"),
            any_case=True,
        ),
    ),
    (
        _low("replace.null.with.default", group="Serialization", label="Replace null with default"),
        _key(
            "replace.null.with.default",
            KeyType.BOOL,
            "true",
            "Whether a missing field has its default, where JSON is converted.",
        ),
    ),
)

ConverterKeys = tuple[tuple[ShownKey, Key], ...]

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
    return tuple((shown, key) for shown, key in found if shown.exists_in(release))
