"""Chains of Connect's transforms with records for them, drawn from a seed: what they work on, and what they fail at."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tests.integration.java.smt_tool import PACKAGE, SmtRecord

JSON = "org.apache.kafka.connect.json.JsonConverter"
TEXT = "org.apache.kafka.connect.storage.StringConverter"
DATA = "org.apache.kafka.connect.data."
FIELDS = ("id", "name", "at", "flag", "deep", "list", "price", "größe", "a.b", "none")
TOPICS = ("a", "east.orders", "east.orders-v2", "b.x", "east.x_1", "heartbeats")
NAMES = ("trace", "x", "kind", "ünï", "")

Config = dict[str, str]


def drawn_config(chance: random.Random, kind: str | None = None) -> Config:
    """One to three transforms, some with a predicate; with `kind` the first is of that class."""
    config: Config = {}
    config |= _converters(chance)
    aliases = [f"t{number}" for number in range(chance.choice((1, 1, 2, 3)))]
    config["transforms"] = ",".join(aliases)
    for number, alias in enumerate(aliases):
        chosen = kind if kind is not None and not number else chance.choice(sorted(_DRAWN))
        side = f"${chance.choice(('Key', 'Value', 'Value'))}" if chosen in _SIDED else ""
        config[f"transforms.{alias}.type"] = f"{PACKAGE}{chosen}{side}"
        config |= {f"transforms.{alias}.{name}": value for name, value in _DRAWN[chosen](chance).items()}
        if chance.random() < 0.4 or (chosen == "Filter" and chance.random() < 0.9):
            config[f"transforms.{alias}.predicate"] = "p"
            config[f"transforms.{alias}.negate"] = chance.choice(("true", "false"))
    if any(name.endswith(".predicate") for name in config):
        config |= {"predicates": "p"} | {f"predicates.p.{name}": value for name, value in _predicate(chance).items()}
    return config


def drawn_records(chance: random.Random, config: Config, count: int) -> list[SmtRecord]:
    """Records that the converters of `config` can read, most of them."""
    return [
        SmtRecord(
            chance.choice(TOPICS),
            chance.randrange(3),
            _content(chance, config, "key"),
            _content(chance, config, "value"),
            chance.choice((0, -1, 1_700_000_000_000, chance.randrange(-(10**12), 4 * 10**12))),
            tuple(
                (chance.choice(NAMES), chance.choice((None, b"", b"1", "ü".encode(), bytes([255, 0]))))
                for _ in range(chance.choice((0, 0, 1, 3)))
            ),
        )
        for _ in range(count)
    ]


def _converters(chance: random.Random) -> Config:
    config: Config = {}
    for side in ("key", "value"):
        if chance.random() < 0.85:
            config[f"{side}.converter"] = JSON
            config[f"{side}.converter.schemas.enable"] = chance.choice(("true", "false"))
            if chance.random() < 0.2:
                config[f"{side}.converter.replace.null.with.default"] = "false"
        else:
            config[f"{side}.converter"] = TEXT
    return config


def _content(chance: random.Random, config: Config, side: str) -> bytes | None:
    if chance.random() < 0.12:
        return None
    if config[f"{side}.converter"] == TEXT:
        return chance.choice((b"", b"plain", "schlüssel".encode(), b"17", b"2024-02-29", b"true"))
    if config[f"{side}.converter.schemas.enable"] == "true":
        if chance.random() < 0.05:
            return b'{"a":1}'
        schema, value = _with_schema(chance)
        return _bytes({"schema": schema, "payload": value})
    if chance.random() < 0.05:
        return chance.choice((b"{", b"[1,2]", b'"text"', b"12.5", b"true", b"\xff{}"))
    return _bytes({name: _plain(chance, 0) for name in chance.sample(FIELDS, chance.randrange(len(FIELDS)))})


def _bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _plain(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(8 if depth < 2 else 6)
    if kind < 6:
        return (
            chance.choice((0, 1, -1, 127, 128, 40_000, 2**31, -(2**63), 2**63 - 1, 1_700_000_000_000)),
            chance.choice(
                ("", "text", "12", "-7", "1.5", "tRue", "ü\u20ac😀", 'say "x"\\', "2024-02-29", "1e3", "300")
            ),
            chance.choice((0.0, -0.5, 1.5, 1e10, 1e-5, 123456.789, 1e300, 0.001, 9999999.0, 1e7, 3e-3, 300.7)),
            chance.choice((True, False)),
            None,
            chance.randrange(-1000, 1000),
        )[kind]
    if kind == 6:
        return [_plain(chance, depth + 1) for _ in range(chance.randrange(3))]
    return {name: _plain(chance, depth + 1) for name in chance.sample(FIELDS, chance.randrange(3))}


def _with_schema(chance: random.Random, depth: int = 0) -> tuple[dict[str, Any], Any]:
    fields, value = [], {}
    for name in chance.sample(FIELDS, chance.randrange(1, len(FIELDS))):
        field, cell = _field(chance, depth)
        fields.append(field | {"field": name})
        if cell is not None or chance.random() < 0.5:
            value[name] = cell
    schema: dict[str, Any] = {"type": "struct", "fields": fields, "optional": chance.random() < 0.3}
    if chance.random() < 0.3:
        schema |= {"name": "Order", "version": 3, "doc": "An order", "parameters": {"p": "1"}}
    return schema, value


def _field(chance: random.Random, depth: int) -> tuple[dict[str, Any], Any]:
    kinds: list[tuple[dict[str, Any], Any]] = [
        ({"type": "int8"}, chance.choice((0, -128, 127))),
        ({"type": "int16"}, chance.choice((0, 300, -32768))),
        ({"type": "int32"}, chance.choice((0, 7, 2**31 - 1))),
        ({"type": "int64"}, chance.choice((0, 1_700_000_000_000, -(2**63)))),
        ({"type": "float"}, chance.choice((0.5, -1.25, 1e10, 0.1, 3.4e38))),
        ({"type": "double"}, chance.choice((0.5, 1e300, 0.001, -2.0))),
        ({"type": "boolean"}, chance.choice((True, False))),
        ({"type": "string"}, chance.choice(("", "x", "12", "ü€", "2024-02-29", "true"))),
        ({"type": "bytes"}, "AQID"),
        ({"type": "array", "items": {"type": "int32", "optional": False}}, [1, 2]),
        (
            {"type": "int64", "name": DATA + "Timestamp", "version": 1},
            chance.choice((0, 1_700_000_000_001, 86_400_000)),
        ),
        ({"type": "int32", "name": DATA + "Date", "version": 1}, 19_000),
        ({"type": "int32", "name": DATA + "Time", "version": 1}, 3_600_001),
    ]
    text = {"type": "string", "optional": True}
    if depth < 2:
        kinds.append(_with_schema(chance, depth + 1))
        kinds.append(({"type": "map", "keys": text, "values": text}, {"k": "v", "ü": None}))
    schema, value = chance.choice(kinds)
    schema = dict(schema)
    schema["optional"] = chance.random() < 0.5
    if schema["type"] in {"int32", "string"} and "name" not in schema and chance.random() < 0.3:
        schema["default"] = 5 if schema["type"] == "int32" else "instead"
    lacking = schema["optional"] or "default" in schema
    return schema, None if lacking and chance.random() < 0.3 else value


def _some(chance: random.Random, most: int = 3) -> str:
    return ",".join(chance.sample(FIELDS, chance.randrange(1, most + 1)))


def _with_defaults(chance: random.Random) -> Config:
    return {"replace.null.with.default": chance.choice(("true", "false"))} if chance.random() < 0.3 else {}


def _regex_router(chance: random.Random) -> Config:
    regex, replacement = chance.choice(
        (
            (r"east\.(.*)", "$1"),
            (".*", "all"),
            ("(.*)-v(\\d+)", "$1.$2"),
            ("(a)|(b).*", "$2x$1"),
            ("a|.*", "<$0>"),
            ("(?<first>[^.]+)\\.(.+)", "${first}-$2"),
            ("x", "y"),
            (r"(.)(.*)", r"\$$11"),
            ("(?i)EAST.*", "e"),
            (r".*?(o.*)", "$1"),
            ("nothing(", "x"),
        )
    )
    return {"regex": regex, "replacement": replacement}


def _timestamp_router(chance: random.Random) -> Config:
    config = {}
    if chance.random() < 0.8:
        config["topic.format"] = chance.choice(
            ("${topic}-${timestamp}", "t.${timestamp}", "${topic}", "${timestamp}${topic}")
        )
    if chance.random() < 0.9:
        config["timestamp.format"] = chance.choice(
            (
                "yyyyMMdd",
                "yyyy-MM-dd'T'HH.mm.ss.SSS",
                "yy.M.d",
                "EEE_d_MMM_yyyy",
                "HH",
                "D",
                "hh_a_K_k",
                "u.F",
                "yyyyMM''",
                "EEEE.MMMM",
                "'x'",
                "XXX",
                "z.Z",
                "qqq",
                "GGG",
                "y'",
            )
        )
    return config


def _insert_header(chance: random.Random) -> Config:
    return {
        "header": chance.choice(("trace", "ünï", "x")),
        "value.literal": chance.choice(
            (
                "plain",
                "12",
                "1.50",
                "1e5",
                "true",
                "null",
                "0012",
                "-7",
                "+7",
                "12:30",
                "1,2",
                "2024-01-02",
                "10:20:30.400Z",
                "2024-01-02T03:04:05.006Z",
                "9223372036854775808",
                "1e400",
                "a:b",
                "ü",
                "true}",
                "1.1.1",
                "3.4028236e38",
                "12345678.9",
                "2024-01-01T00:00:00.000Z",
                "-",
                "5 ",
                "0.1",
                "1E-9",
                "1970-01-01",
                "127.0.0.1:9092",
                "1_000",
                "2024-13-45",
                "Infinity",
            )
        ),
    }


def _mask_field(chance: random.Random) -> Config:
    config = {"fields": _some(chance)} | _with_defaults(chance)
    if chance.random() < 0.5:
        config["replacement"] = chance.choice(("***", "7", "300", "1.5", "-1e2", "0", ""))
    return config


def _insert_field(chance: random.Random) -> Config:
    config = _with_defaults(chance)
    for name, field in (("topic", "t"), ("partition", "p?"), ("timestamp", "ts!"), ("topic", "id")):
        if chance.random() < 0.4:
            config[f"{name}.field"] = field
    if chance.random() < 0.4 or not any(name.endswith(".field") for name in config):
        config |= {"static.field": chance.choice(("s", "name")), "static.value": chance.choice(("v", "ü", ""))}
    return config


def _replace_field(chance: random.Random) -> Config:
    config = _with_defaults(chance)
    if chance.random() < 0.5:
        config["exclude"] = _some(chance)
    if chance.random() < 0.4:
        config["include"] = _some(chance, 6)
    if chance.random() < 0.5:
        config["renames"] = chance.choice(("id:ident", "name:n,at:time", "none:x", "id:", "a:b:c", "id:x ,flag:y"))
    return config


def _header_from(chance: random.Random) -> Config:
    fields = chance.sample(FIELDS, chance.randrange(1, 4))
    headers = [chance.choice(("h1", "h2", "trace")) for _ in fields]
    operation = chance.choice(("move", "copy"))
    return {"fields": ",".join(fields), "headers": ",".join(headers), "operation": operation} | _with_defaults(chance)


def _extract_field(chance: random.Random) -> Config:
    config = {"field": chance.choice(FIELDS)} | _with_defaults(chance)
    if chance.random() < 0.5:
        path = chance.choice(
            ("deep.id", "`a.b`", "deep.deep.name", "deep.`a.b`", "id", "id.x", "none.a", "`x", "a\\`.b")
        )
        config |= {"field": path, "field.syntax.version": chance.choice(("V2", "v2", "V1"))}
    return config


def _cast(chance: random.Random) -> Config:
    kinds = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string", "INT32")
    if chance.random() < 0.2:
        return {"spec": chance.choice((*kinds, "bytes", "no"))}
    fields = chance.sample(("id", "name", "at", "flag", "price", "none"), chance.randrange(1, 4))
    return {"spec": ",".join(f"{field}:{chance.choice(kinds)}" for field in fields)} | _with_defaults(chance)


def _timestamp_converter(chance: random.Random) -> Config:
    target = chance.choice(("string", "unix", "unix", "Date", "Time", "Timestamp"))
    config = {"target.type": target} | _with_defaults(chance)
    if chance.random() < 0.9:
        config["field"] = chance.choice(("at", "id", "name"))
    if chance.random() < 0.8:
        config["format"] = chance.choice(("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss.SSS", "yyyyMMdd", "d MMM yyyy", "HH:mm"))
    if chance.random() < 0.5:
        config["unix.precision"] = chance.choice(("seconds", "milliseconds", "microseconds", "nanoseconds"))
    return config


def _set_schema_metadata(chance: random.Random) -> Config:
    return chance.choice(
        ({"schema.name": "New"}, {"schema.version": "7"}, {"schema.name": "N", "schema.version": "1"}, {})
    ) | _with_defaults(chance)


def _predicate(chance: random.Random) -> Config:
    return chance.choice(
        (
            {"type": f"{PACKAGE}predicates.RecordIsTombstone"},
            {"type": f"{PACKAGE}predicates.HasHeaderKey", "name": chance.choice(("trace", "ünï", "nobody"))},
            {
                "type": f"{PACKAGE}predicates.TopicNameMatches",
                "pattern": chance.choice((r"east\..*", "a|b", ".*x.*", "(")),
            },
        )
    )


_DRAWN: dict[str, Callable[[random.Random], Config]] = {
    "RegexRouter": _regex_router,
    "TimestampRouter": _timestamp_router,
    "InsertHeader": _insert_header,
    "DropHeaders": lambda chance: {"headers": chance.choice(("trace", "x,kind", "ünï", "x,x", "", "a,,b"))},
    "Filter": lambda _: {},
    "HeaderFrom": _header_from,
    "InsertField": _insert_field,
    "ReplaceField": _replace_field,
    "MaskField": _mask_field,
    "ValueToKey": lambda chance: {"fields": _some(chance)} | _with_defaults(chance),
    "ExtractField": _extract_field,
    "HoistField": lambda chance: {"field": chance.choice(("whole", "id"))},
    "Flatten": lambda chance: {"delimiter": chance.choice((".", "_"))} if chance.random() < 0.5 else {},
    "Cast": _cast,
    "TimestampConverter": _timestamp_converter,
    "SetSchemaMetadata": _set_schema_metadata,
}
KINDS = tuple(sorted(_DRAWN))
_SIDED = frozenset(KINDS) - {"RegexRouter", "TimestampRouter", "InsertHeader", "DropHeaders", "Filter", "ValueToKey"}
