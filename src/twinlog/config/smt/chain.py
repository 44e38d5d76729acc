"""From `transforms` and `predicates` to a chain of transforms and its converters; each mistake has its line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from twinlog.config.keys.key import Key, KeyType, Level
from twinlog.config.keys.scope import KeyNames, spelled
from twinlog.config.properties import PropertyEntry
from twinlog.config.smt.checks import checked
from twinlog.config.smt.kinds import (
    CONDITIONS,
    JSON,
    PACKAGE,
    PREDICATES,
    TEXT,
    TRANSFORMS,
    SmtKind,
    transform_kind,
)
from twinlog.config.text.config_reader import ConfigReader, refused_value
from twinlog.config.text.precedence import FlowLayers
from twinlog.config.text.values import ValueRefusedError, parse_value
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, MistakeKind
from twinlog.settings.transform import Side, SmtChain, SmtConverter, SmtPredicate, SmtStage, SmtValue

_READABLE: dict[str, tuple[str, ...]] = {
    JSON: ("schemas.enable", "replace.null.with.default", "schemas.cache.size", "decimal.format", "converter.type"),
    TEXT: ("converter.encoding", "converter.type"),
}


def read_converters(
    connector: ConfigReader, names: KeyNames, kinds: Sequence[tuple[SmtKind, Side, PropertyEntry]], file: str
) -> tuple[SmtConverter | None, SmtConverter | None]:
    """The converters of keys and of values, each None if all transforms ignore it.

    A worker's own converters are ignored: they serve the records of other connectors, while MirrorMaker 2's records are
    bytes, and many workers name JsonConverter for topics of another format.
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
                        entry, "SetSchemaMetadata, but schemas are off", f"{key} = true, and JSON with its schema"
                    )
    return found.get("key"), found.get("value")


def _converter(
    connector: ConfigReader, names: KeyNames, side: Side, kind: SmtKind, user: PropertyEntry, file: str
) -> SmtConverter | None:
    name = f"{side}.converter"
    entry = connector.get_entry(name)
    named = "" if entry is None else entry.value.strip()
    if named not in _READABLE:
        key = names.connector(name)
        expected = (
            f"{key} = {JSON} (with {key}.schemas.enable = false for schemaless JSON) or {TEXT}, because {kind.name} "
            f"works on fields of the {side}"
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


def _refuse_strangers(connector: ConfigReader, name: str, known: tuple[str, ...]) -> None:
    for key, entry in connector.layer.items():
        rest = key.removeprefix(f"{name}.")
        if rest != key and rest not in known and rest != "plugin.version":
            connector.problems.refuse(
                entry, f"this converter lacks a setting {rest!r} here", f"any of {', '.join(known)}"
            )


def flag(connector: ConfigReader, name: str, *, default: bool) -> bool:
    """A setting that every key table lacks, as its name has an alias in it or continues after the name of a class."""
    entry = connector.get_entry(name)
    if entry is None:
        return default
    try:
        return parse_value(Key(name, KeyType.BOOL, None, "", Level.FLOW), entry.value) is True
    except ValueRefusedError as refused:
        connector.problems.add(refused_value(entry, refused))
        return default


OWN_FUNCTION = "transform = package.module:function"
_LIST = re.compile(r"\s*,\s*")


class _Settings(NamedTuple):
    """The settings below `transforms.a.` or `predicates.a.`."""

    prefix: str
    entries: Mapping[str, PropertyEntry]


def read_chain(
    connector: ConfigReader, layers: FlowLayers, file: str, warnings: list[ConfigWarning]
) -> SmtChain | None:
    """The transforms of a flow; None if it lacks them, or if their settings are wrong."""
    before = len(connector.problems.all())
    chain = _SmtReader(connector, layers, file, warnings).chain()
    return chain if len(connector.problems.all()) == before else None


class _SmtReader:
    def __init__(self, connector: ConfigReader, layers: FlowLayers, file: str, warnings: list[ConfigWarning]) -> None:
        self._reading = connector
        self._layers = layers
        self._names = layers.names
        self._file = file
        self._warnings = warnings

    def chain(self) -> SmtChain | None:
        aliases, known = self._aliases("transforms"), self._aliases("predicates")
        self._report_strangers("transforms", aliases)
        self._report_strangers("predicates", known)
        predicates = {alias: self._predicate(alias) for alias in known}
        stages = []
        kinds: list[tuple[SmtKind, Side, PropertyEntry]] = []
        used: set[str] = set()
        for alias in aliases:
            settings = self._below("transforms", alias)
            found = self._kind(alias, settings)
            if found is None:
                continue
            kind, side, _ = found
            predicate, negate = self._condition(settings, predicates, used)
            kinds.append(found)
            values = self._values(kind, settings, ("type", "predicate", "negate", "plugin.version"))
            stages.append(SmtStage(alias, kind.name, side, values, predicate, negate))
        for alias in known:
            if alias not in used and aliases:
                entry = self._reading.layer["predicates"]
                self._warnings.append(entry.warning(f"all transforms ignore {alias!r}", MistakeKind.IGNORED))
        key, value = read_converters(self._reading, self._names, kinds, self._file)
        return SmtChain(tuple(stages), key, value) if stages else None

    def _aliases(self, word: str) -> tuple[str, ...]:
        entry = self._reading.get_entry(word)
        text = "" if entry is None else entry.value.strip()
        if entry is None or not text:
            return ()
        aliases = _LIST.split(text)
        if len(set(aliases)) < len(aliases) or "" in aliases:
            self._reading.problems.refuse(entry, repr(entry.value), "names that differ, separated by commas")
        return tuple(dict.fromkeys(alias for alias in aliases if alias))

    def _below(self, word: str, alias: str) -> _Settings:
        prefix = f"{word}.{alias}."
        layer = self._reading.layer
        return _Settings(prefix, {n.removeprefix(prefix): layer[n] for n in layer if n.startswith(prefix)})

    def _report_strangers(self, word: str, aliases: tuple[str, ...]) -> None:
        """Report settings of names that all lists lack: Connect ignores them, but the user wanted an effect."""
        for name, entry in self._reading.layer.items():
            if name.startswith(f"{word}.") and not any(name.startswith(f"{word}.{alias}.") for alias in aliases):
                alias = name.split(".")[1]
                found = f"{word} lacks {alias!r}"
                listed = f"any of {', '.join(aliases)}" if aliases else "an absent key, as the list is empty"
                if self._layers.kind is None:
                    self._refuse(entry, found, f"{listed}, or name it there")
                else:
                    # A connector may come from a worker of Kafka's, which lets it pass.
                    self._warnings.append(entry.warning(f"ignored, because {found}", MistakeKind.IGNORED))

    def _kind(self, alias: str, settings: _Settings) -> tuple[SmtKind, Side, PropertyEntry] | None:
        entry = self._type(settings, f"the class of the transform {alias!r}, for example {PACKAGE}RegexRouter")
        if entry is None:
            return None
        found = transform_kind(entry.value.strip())
        if found is not None:
            return (*found, entry)
        name = entry.value.strip().removeprefix(PACKAGE)
        kind = TRANSFORMS.get(name.partition("$")[0])
        if kind is not None:
            classes = f"{PACKAGE}{kind.name}" + (f"$Key or {PACKAGE}{kind.name}$Value" if kind.sides else "")
            self._refuse(entry, repr(entry.value), classes)
        else:
            own = self._names.connector(OWN_FUNCTION)
            self._refuse(
                entry,
                f"{entry.value.strip()!r} is an unknown transform",
                f"a transform of Connect in {PACKAGE.removesuffix('.')}: {', '.join(TRANSFORMS)}; other Java classes "
                f"are unsupported here, write your transform in Python and name it by {own}",
            )
        return None

    def _type(self, settings: _Settings, expected: str) -> PropertyEntry | None:
        entry = self._reading.get_entry(f"{settings.prefix}type")
        if entry is None and "type" not in settings.entries:
            listed = self._reading.layer.get(settings.prefix.partition(".")[0])
            key = self._names.connector(f"{settings.prefix}type")
            self._reading.problems.add(
                ConfigProblem(self._file, listed.line if listed else None, key, "missing", expected)
            )
        return entry

    def _predicate(self, alias: str) -> SmtPredicate | None:
        settings = self._below("predicates", alias)
        entry = self._type(settings, f"the class of the predicate {alias!r}, for example {PREDICATES}TopicNameMatches")
        if entry is None:
            return None
        kind = CONDITIONS.get(entry.value.strip().removeprefix(PREDICATES))
        if kind is None or not entry.value.strip().startswith(PREDICATES):
            own = self._names.connector(OWN_FUNCTION)
            expected = (
                f"a predicate of Connect: {', '.join(PREDICATES + name for name in CONDITIONS)}; other Java classes "
                f"are unsupported here, decide by a function in Python instead: {own}"
            )
            self._refuse(entry, f"{entry.value.strip()!r} is an unknown predicate", expected)
            return None
        return SmtPredicate(alias, kind.name, self._values(kind, settings, ("type", "plugin.version")))

    def _condition(
        self, settings: _Settings, predicates: Mapping[str, SmtPredicate | None], used: set[str]
    ) -> tuple[SmtPredicate | None, bool]:
        named = self._reading.get_entry(f"{settings.prefix}predicate")
        negated = self._reading.get_entry(f"{settings.prefix}negate")
        negate = flag(self._reading, f"{settings.prefix}negate", default=False)
        if negated is not None and "predicate" not in settings.entries:
            key = self._names.connector(f"{settings.prefix}predicate")
            self._refuse(negated, "the predicate to negate is missing", f"{key} beside it")
        if named is None:
            return None, negate
        alias = named.value.strip()
        used.add(alias)
        if alias not in predicates:
            listed = ", ".join(predicates) or "a predicate that is named there"
            self._refuse(named, f"predicates lacks {alias!r}", listed)
        return predicates.get(alias), negate

    def _values(self, kind: SmtKind, settings: _Settings, own: tuple[str, ...]) -> tuple[tuple[str, SmtValue], ...]:
        """The settings of a transform or a predicate, by its keys, with defaults for missing settings."""
        keys = {key.name: key for key in kind.keys}
        values: dict[str, SmtValue] = {name: _default(key) for name, key in keys.items()}
        sound = True
        for name, entry in settings.entries.items():
            if name in own:
                continue
            key = keys.get(name)
            if key is None:
                expected = spelled(name, keys, settings.prefix, otherwise=_settings_of(kind))
                self._refuse(entry, f"{kind.name} lacks a setting {name!r}", expected, MistakeKind.UNKNOWN_KEY)
            elif self._reading.get_entry(settings.prefix + name) is not None:
                try:
                    values[name] = _parsed(key, entry.value)
                except ValueRefusedError as refused:
                    self._reading.problems.add(refused_value(entry, refused))
                    sound = False
        for name, key in keys.items():
            if key.shown is not None and key.shown.required and name not in settings.entries:
                at = settings.entries.get("type")
                key_name = self._names.connector(settings.prefix + name)
                line, text = at.line if at else None, f"missing: {_decapitalised(key)}"
                self._reading.problems.add(
                    ConfigProblem(self._file, line, key_name, text, kind=MistakeKind.MISSING_KEY)
                )
                sound = False
        return tuple(
            sorted(checked(kind, values, settings.entries, self._reading.problems) if sound else values.items())
        )

    def _refuse(self, entry: PropertyEntry, found: str, expected: str, kind: MistakeKind | None = None) -> None:
        self._reading.problems.refuse(entry, found, expected, kind)


def _parsed(key: Key, text: str) -> SmtValue:
    if key.type is KeyType.LIST:
        return tuple(_LIST.split(text.strip())) if text.strip() else ()
    value = parse_value(key, text)
    assert isinstance(value, (str, bool, int))
    return value


def _default(key: Key) -> SmtValue:
    if key.default is None:
        return () if key.type is KeyType.LIST else None
    return _parsed(key, key.default)


def _settings_of(kind: SmtKind) -> str:
    return (
        f"its settings are {', '.join(key.name for key in kind.keys)}" if kind.keys else "remove it; it has no settings"
    )


def _decapitalised(key: Key) -> str:
    return key.doc[0].lower() + key.doc[1:].removesuffix(".")
