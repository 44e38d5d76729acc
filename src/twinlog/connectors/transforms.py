"""The keys of the transforms and predicates that a connector names, as Connect adds them to those of the connector.

(Kafka class ConnectorConfig, `enrich`)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twinlog.config.keys.key import Key, KeyType, Level
from twinlog.config.keys.shown import Importance, ShownKey, Width
from twinlog.config.properties import Entry
from twinlog.config.smt.kinds import CONDITIONS, PREDICATES, REQUIRED, SmtKind, transform_kind
from twinlog.connectors.checks import Checks
from twinlog.connectors.definitions import define

_GROUPS = {"transforms": ("Transforms", "Transformation"), "predicates": ("Predicates", "Predicate")}
_OWN = (
    Key("predicate", KeyType.STRING, None, "The predicate on which a record is transformed.", Level.ONE_FLOW),
    Key("negate", KeyType.BOOL, "false", "Whether records are transformed for which it is not true.", Level.ONE_FLOW),
)
_LOW = frozenset({"replacement", "unix.precision"})
_HIGH = frozenset(
    {"regex", "replacement", "topic.format", "timestamp.format", "header", "headers", "value.literal", "fields"}
    | {"operation", "spec", "target.type", "schema.name", "schema.version", "field.syntax.version"}
)


def add_transforms(entries: Mapping[str, Entry], checks: Checks) -> None:
    """Adds the keys of every transform and predicate that is named; what is wrong with them is found elsewhere."""
    for word, (group, noun) in _GROUPS.items():
        listed = entries.get(word)
        aliases = [] if listed is None else [alias.strip() for alias in listed.value.split(",")]
        for alias in dict.fromkeys(alias for alias in aliases if alias):
            _add(word, alias, f"{group}: {alias}", noun, entries, checks)


def _add(word: str, alias: str, group: str, noun: str, entries: Mapping[str, Entry], checks: Checks) -> None:
    prefix = f"{word}.{alias}."
    name = f"{prefix}type"
    kind_key = Key(name, KeyType.STRING, None, f"Class for the '{alias}' {noun.lower()}.", Level.ONE_FLOW)
    shown = ShownKey(name, Importance.HIGH, group, Width.LONG, f"{noun} type for {alias}")
    checks.add(replace(define(shown, kind_key, 0), type="CLASS", required=True), kind_key)
    found = _kind(word, entries.get(name))
    if found is None:
        return
    keys = (*(_OWN if word == "transforms" else ()), *found.keys)
    for order, key in enumerate(keys, start=1):
        full = f"{prefix}{key.name}"
        shown = ShownKey(full, _importance(found, key), group, Width.NONE, key.name)
        definition = define(shown, key, order)
        checks.add(replace(definition, required=(found.name, key.name) in REQUIRED), key)


def _kind(word: str, entry: Entry | None) -> SmtKind | None:
    if entry is None:
        return None
    if word == "transforms":
        found = transform_kind(entry.value.strip())
        return None if found is None else found[0]
    name = entry.value.strip()
    return CONDITIONS.get(name.removeprefix(PREDICATES)) if name.startswith(PREDICATES) else None


def _importance(kind: SmtKind, key: Key) -> Importance:
    if key.name in _LOW and kind.name != "RegexRouter":
        return Importance.LOW
    if key.name == "field" and kind.name == "TimestampConverter":
        return Importance.HIGH
    return Importance.HIGH if key.name in _HIGH else Importance.MEDIUM
