"""The keys of a plugin as a worker shows them: the key table in the form of Kafka's class ConfigKeyInfo.

Documentation and defaults are twinlog's own, so that a form shows the values that count here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from twinlog.config.keys.converter import ConverterKeys, converter_keys
from twinlog.config.keys.key import Key, KeyType
from twinlog.config.keys.shown import ORDER_SERIES, Importance, Release, ShownKey, Width, shown_keys
from twinlog.config.keys.table import CLIENTS, CONNECTOR, PROCESS, SECURITY
from twinlog.config.text.values import Value, parse_value
from twinlog.connectors.model import KeyDefinition
from twinlog.settings.flow import ConnectorKind

REQUIRED = frozenset({"name", "connector.class", "source.cluster.alias", "converter.type"})
"""Keys that have to be written."""

_TYPES = {KeyType.BOOL: "BOOLEAN", KeyType.ENUM: "STRING"}
_HIDDEN = "[hidden]"


def connector_definitions(kind: ConnectorKind, release: Release) -> tuple[KeyDefinition, ...]:
    """The keys of a connector of MirrorMaker 2 in a worker of `release`; Connect's own keys come first."""
    return _counted((shown, known_key(shown.name)) for shown in shown_keys(kind, release))


def converter_definitions(found: ConverterKeys, release: Release) -> tuple[KeyDefinition, ...]:
    """The keys of a converter; their places in a group are counted from 0."""
    return _counted(converter_keys(found, release), begin=0)


def override_definition(word: str, name: str) -> KeyDefinition | None:
    """The key `name` of a client of Connect itself; None for an unknown key. `word` is consumer, producer or admin."""
    key = CLIENTS[word].exact.get(name)
    if key is None:
        return None
    return define(ShownKey(f"{word}.override.{name}", Importance.LOW, label=name), key, -1)


def known_key(name: str) -> Key:
    """The connector's key with the name `name`."""
    return next(table.exact[name] for table in (CONNECTOR, SECURITY, PROCESS) if name in table.exact)


def define(shown: ShownKey, key: Key, order: int) -> KeyDefinition:
    """A key as a worker shows it."""
    default = shown.default or key.default
    return KeyDefinition(
        name=shown.name,
        type=_TYPES.get(key.type, key.type.value),
        required=shown.name in REQUIRED,
        default_value=None if default is None else written(key, parse_value(key, default)),
        importance=shown.importance.value,
        documentation=key.doc,
        group=shown.group,
        order=order,
        width=(shown.width or Width.NONE).value,
        display_name=shown.label or shown.name,
    )


def written(key: Key, value: Value) -> str:
    """A value as a worker writes it (ConfigDef.convertToString); a secret is never shown."""
    if key.secret:
        return _HIDDEN
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _counted(keys: Iterable[tuple[ShownKey, Key]], begin: int = 1) -> tuple[KeyDefinition, ...]:
    """The keys with their order in the form, counted in each group; a group may continue the count of another group."""
    counts: Counter[str] = Counter()
    found = []
    for shown, key in keys:
        order = -1
        if shown.group is not None:
            series = ORDER_SERIES.get(shown.group, shown.group)
            order = begin + counts[series]
            counts[series] += 1
        found.append(define(shown, key, order))
    return tuple(found)
