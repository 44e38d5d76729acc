"""The plugins of `/connector-plugins`, and their keys in the form of Kafka's class ConfigKeyInfo.

Documentation and defaults are twinlog's own, so that a form shows the values that count here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from twinlog.config.connector import CONNECTOR_CLASSES, connector_kind
from twinlog.config.keys.converter import CONVERTERS, HEADER_CONVERTERS, ConverterKeys, converter_keys
from twinlog.config.keys.key import LOW, Key, KeyType, Release
from twinlog.config.keys.table import CLIENTS, CONNECTOR, PROCESS, SECURITY
from twinlog.config.text.values import Value, parse_value
from twinlog.errors import RequestError
from twinlog.settings.flow import ConnectorKind
from twinlog.worker.connectors.model import KeyDefinition, PluginInfo

_ORDER_SERIES: Mapping[str, str] = MappingProxyType(
    {"Transforms": "Common", "Predicates": "Common", "Exactly Once Support": "Topic Creation"}
)
"""Groups whose keys continue the order numbers of another group, though each group is a section of its own in a
form."""

_OF_CONNECT = (
    *("name", "connector.class", "connector.plugin.version", "tasks.max", "tasks.max.enforce"),
    *("key.converter", "key.converter.plugin.version", "value.converter", "value.converter.plugin.version"),
    *("header.converter", "header.converter.plugin.version", "transforms", "predicates", "config.action.reload"),
    *("errors.retry.timeout", "errors.retry.delay.max.ms", "errors.tolerance", "errors.log.enable"),
    *("errors.log.include.messages", "topic.creation.groups", "exactly.once.support", "transaction.boundary"),
    *("transaction.boundary.interval.ms", "offsets.storage.topic"),
)
_OF_MIRRORS = (
    *("enabled", "source.cluster.alias", "target.cluster.alias", "admin.timeout.ms", "replication.policy.class"),
    *("replication.policy.separator", "replication.policy.internal.topic.separator.enabled", "forwarding.admin.class"),
    *("metric.reporters", "security.protocol", "auto.include.jmx.reporter", "config.providers"),
)
_OF_KIND: Mapping[ConnectorKind, tuple[str, ...]] = {
    "source": (
        *("topics", "topics.exclude", "topics.blacklist", "config.properties.exclude", "config.properties.blacklist"),
        *("topic.filter.class", "config.property.filter.class", "consumer.poll.timeout.ms", "refresh.topics.enabled"),
        *("refresh.topics.interval.seconds", "sync.topic.configs.enabled", "sync.topic.configs.interval.seconds"),
        *("use.incremental.alter.configs", "sync.topic.acls.enabled", "sync.topic.acls.interval.seconds"),
        *("replication.factor", "offset-syncs.topic.replication.factor", "offset.lag.max"),
        *("offset-syncs.topic.location", "add.source.alias.to.metrics", "emit.offset-syncs.enabled"),
        *("heartbeats.replication.enabled", "metric.names.formats"),
    ),
    "checkpoint": (
        *("consumer.poll.timeout.ms", "groups", "groups.exclude", "groups.blacklist", "group.filter.class"),
        *("refresh.groups.enabled", "refresh.groups.interval.seconds", "emit.checkpoints.enabled"),
        *("emit.checkpoints.interval.seconds", "sync.group.offsets.enabled", "sync.group.offsets.interval.seconds"),
        *("checkpoints.topic.replication.factor", "offset-syncs.topic.location", "topic.filter.class"),
        "metric.names.formats",
    ),
    "heartbeat": (
        *("emit.heartbeats.enabled", "emit.heartbeats.interval.seconds", "heartbeats.topic.replication.factor"),
    ),
}


_TYPES = {KeyType.BOOL: "BOOLEAN", KeyType.ENUM: "STRING"}
_HIDDEN = "[hidden]"


def connector_definitions(kind: ConnectorKind, release: Release) -> tuple[KeyDefinition, ...]:
    """The keys of a connector of MirrorMaker 2 in a worker of `release`; Connect's own keys come first."""
    return _counted(listed_keys(kind, release))


def listed_keys(kind: ConnectorKind, release: Release) -> tuple[Key, ...]:
    """The keys of a connector in a worker of `release`, in Kafka's order."""
    security = (key.name for key in SECURITY.exact.values() if key.shown is not None and key.name not in _OF_MIRRORS)
    keys = map(known_key, (*_OF_CONNECT, *_OF_MIRRORS, *security, *_OF_KIND[kind]))
    return tuple(key for key in keys if key.shown is not None and key.shown.exists_in(release))


def known_key(name: str) -> Key:
    """The connector's key with the name `name`."""
    return next(table.exact[name] for table in (CONNECTOR, SECURITY, PROCESS) if name in table.exact)


def converter_definitions(found: ConverterKeys, release: Release) -> tuple[KeyDefinition, ...]:
    """The keys of a converter; their places in a group are counted from 0."""
    return _counted(converter_keys(found, release), begin=0)


def override_definition(word: str, name: str) -> KeyDefinition | None:
    """The key `name` of a client of Connect itself; None for an unknown key. `word` is consumer, producer or admin."""
    key = CLIENTS[word].exact.get(name)
    if key is None:
        return None
    return define(replace(key, name=f"{word}.override.{name}", shown=replace(LOW, label=name)), -1)


def define(key: Key, order: int) -> KeyDefinition:
    """A key as a worker shows it."""
    shown = key.shown or LOW
    default = shown.default or key.default
    return KeyDefinition(
        name=key.name,
        type=_TYPES.get(key.type, key.type.value),
        required=shown.required,
        default_value=None if default is None else written(key, parse_value(key, default)),
        importance=shown.importance.value,
        documentation=key.doc,
        group=shown.group,
        order=order,
        width=shown.width.value,
        display_name=shown.label or key.name,
    )


def written(key: Key, value: Value) -> str:
    """A value as a worker writes it (ConfigDef.convertToString); a secret is hidden."""
    if key.secret:
        return _HIDDEN
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _counted(keys: Iterable[Key], begin: int = 1) -> tuple[KeyDefinition, ...]:
    """The keys with their order in the form, counted in each group; a group may continue the count of another group."""
    counts: Counter[str] = Counter()
    found = []
    for key in keys:
        order = -1
        if key.shown is not None and key.shown.group is not None:
            series = _ORDER_SERIES.get(key.shown.group, key.shown.group)
            order = begin + counts[series]
            counts[series] += 1
        found.append(define(key, order))
    return tuple(found)


def release_of(version: str) -> Release:
    """The line of releases that a version of Kafka belongs to."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def is_wanted(version: str, wanted: str) -> bool:
    """Whether `wanted` names this version, the latest version or a range: each range fits the single version."""
    return wanted in {version, "latest"} or wanted.startswith(("[", "("))


def plugins(version: str, *, connectors_only: bool = True) -> Sequence[PluginInfo]:
    """The connectors, and with them the converters of a worker of Kafka's `version`, in Connect's order."""
    found = [PluginInfo(name, "source", version) for name in sorted(CONNECTOR_CLASSES.values())]
    if not connectors_only:
        found += [PluginInfo(name, "converter", version) for name in CONVERTERS]
        found += [PluginInfo(name, "header_converter", version) for name in HEADER_CONVERTERS]
    return found


def plugin_keys(plugin: str, version: str, wanted: str | None = None) -> Sequence[KeyDefinition]:
    """The keys of a plugin in a worker of Kafka's `version`.

    Raises RequestError with 404 for an unknown plugin, with 400 for another `wanted` version.
    """
    if wanted is not None and not is_wanted(version, wanted):
        raise RequestError(
            400, f"the only version of {plugin} here is {version}, and the request asks for version {wanted}"
        )
    kind = connector_kind(plugin)
    if kind is not None:
        return connector_definitions(kind, release_of(version))
    full = next((name for name in HEADER_CONVERTERS if plugin in _names(name)), None)
    if full is None:
        raise RequestError(404, f"Unknown plugin {plugin}.")
    return converter_definitions(HEADER_CONVERTERS[full], release_of(version))


def _names(full: str) -> tuple[str, ...]:
    """The names of a converter: in full, as a simple class name, and as the class name minus its suffix."""
    simple = full.rpartition(".")[2]
    short = simple.removesuffix("HeaderConverter") if "Header" in simple else simple.removesuffix("Converter")
    return full, simple, short
