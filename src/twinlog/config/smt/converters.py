"""By which converter transforms of fields read keys and values: the one that the flow itself names for them."""

from __future__ import annotations

from collections.abc import Sequence

from twinlog.config.keys.key import Key, KeyType, Level
from twinlog.config.keys.names import KeyNames
from twinlog.config.properties import Entry
from twinlog.config.refused import ValueRefusedError
from twinlog.config.smt.kinds import JSON, TEXT, SmtKind
from twinlog.config.text.reading import Reading, refused_value
from twinlog.config.text.values import parse_value
from twinlog.errors import ConfigProblem
from twinlog.settings.smt import Side, SmtConverter

_READABLE: dict[str, tuple[str, ...]] = {
    JSON: ("schemas.enable", "replace.null.with.default", "schemas.cache.size", "decimal.format", "converter.type"),
    TEXT: ("converter.encoding", "converter.type"),
}


def read_converters(
    connector: Reading, names: KeyNames, kinds: Sequence[tuple[SmtKind, Side, Entry]], file: str
) -> tuple[SmtConverter | None, SmtConverter | None]:
    """The converters of keys and of values, each None where no transform needs it.

    A worker's own converters do not count: they write what other connectors send, while MirrorMaker 2's records are
    bytes, and many a worker names JsonConverter for topics that are none of JSON.
    """
    found: dict[Side, SmtConverter | None] = {}
    sides: tuple[Side, ...] = ("key", "value")
    for side in sides:
        users = [(kind, entry) for kind, on, entry in kinds if on == side or side in kind.reads or side in kind.writes]
        if users:
            converter = found[side] = _converter(connector, names, side, *users[0], file)
            for kind, entry in users:
                if kind.name == "SetSchemaMetadata" and converter is not None and not converter.schemas:
                    key = names.connector(f"{side}.converter.schemas.enable")
                    connector.problems.refuse(
                        entry, "SetSchemaMetadata, but there are no schemas", f"{key} = true, and JSON with its schema"
                    )
    return found.get("key"), found.get("value")


def _converter(
    connector: Reading, names: KeyNames, side: Side, kind: SmtKind, user: Entry, file: str
) -> SmtConverter | None:
    name = f"{side}.converter"
    entry = connector.written(name)
    named = "" if entry is None else entry.value.strip()
    if named not in _READABLE:
        key = names.connector(name)
        expected = (
            f"{key} = {JSON} (with {key}.schemas.enable = false for JSON without schemas) or {TEXT}, "
            f"because {kind.name} works on fields of the {side}"
        )
        if entry is None:
            connector.problems.add(ConfigProblem(file, user.line, key, "missing", expected))
        else:
            connector.problems.refuse(entry, repr(named), expected)
        return None
    _refuse_strangers(connector, name, _READABLE[named])
    if named == TEXT:
        encoding = connector.layer.get(f"{name}.converter.encoding")
        if encoding is not None and encoding.value.strip().upper().replace("-", "") not in {"UTF8", "UTF_8"}:
            connector.problems.refuse(encoding, repr(encoding.value), "UTF-8")
        return SmtConverter("text")
    return SmtConverter(
        "json",
        flag(connector, f"{name}.schemas.enable", default=True),
        flag(connector, f"{name}.replace.null.with.default", default=True),
    )


def _refuse_strangers(connector: Reading, name: str, known: tuple[str, ...]) -> None:
    for key, entry in connector.layer.items():
        rest = key.removeprefix(f"{name}.")
        if rest != key and rest not in known and rest != "plugin.version":
            connector.problems.refuse(
                entry, f"this converter has no setting {rest!r} here", f"one of {', '.join(known)}"
            )


def flag(connector: Reading, name: str, *, default: bool) -> bool:
    """A setting that no table of keys has, as its name has an alias in it or goes on after the name of a class."""
    entry = connector.written(name)
    if entry is None:
        return default
    try:
        return parse_value(Key(name, KeyType.BOOL, None, "", Level.FLOW), entry.value) is True
    except ValueRefusedError as refused:
        connector.problems.add(refused_value(entry, refused))
        return default
