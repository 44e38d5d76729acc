"""From the configuration of a connector of a Connect worker to the flow that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from twinlog.config.flow.flow import build_flow
from twinlog.config.keys.connector import CLASS_KEYS
from twinlog.config.keys.key import Effect
from twinlog.config.keys.scope import connector_key
from twinlog.config.keys.table import CONNECTOR
from twinlog.config.keys.unused_connector_keys import no_effect, unknown_key
from twinlog.config.overrides import check_overrides
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.entries import check_value, resolve_entry
from twinlog.config.text.reading import ConfigReader, Problems
from twinlog.config.text.resolve import resolve_connector
from twinlog.config.worker import WorkerConfig
from twinlog.errors import ConfigError, ConfigProblem
from twinlog.model.types import Alias
from twinlog.settings.flow import ConnectorKind, FlowSettings

PACKAGE = "org.apache.kafka.connect.mirror."
CONNECTOR_CLASSES: Mapping[ConnectorKind, str] = MappingProxyType(
    {
        "source": PACKAGE + "MirrorSourceConnector",
        "checkpoint": PACKAGE + "MirrorCheckpointConnector",
        "heartbeat": PACKAGE + "MirrorHeartbeatConnector",
    }
)
DEFAULT_TARGET = "target"
"""The alias of the target if a connector lacks the key."""

DEFAULT_SOURCE = "source"
"""The name of the source in messages if its alias is empty."""


@dataclass(frozen=True, slots=True)
class ConnectorFlow:
    """The flow of a connector. An `idle` flow is switched off: it lacks tasks and contacts no cluster."""

    name: str
    settings: FlowSettings
    idle: bool
    warnings: tuple[str, ...] = ()

    @property
    def kind(self) -> ConnectorKind:
        """Which of MirrorMaker 2's connectors it is."""
        kind = self.settings.kind
        assert kind is not None
        return kind


def connector_kind(class_name: str) -> ConnectorKind | None:
    """The kind of the connector that `class_name` names: in full, shortened by its package, or also by `Connector`."""
    word = class_name.strip()
    for kind, full in CONNECTOR_CLASSES.items():
        simple = full.removeprefix(PACKAGE)
        if word in {full, simple, simple.removesuffix("Connector")}:
            return kind
    return None


def refused_class(class_name: str) -> str:
    """The sentence for a connector class that this worker refuses."""
    return f"{class_name.strip()!r} is no connector that this worker runs; it runs MirrorMaker 2's three: " + ", ".join(
        CONNECTOR_CLASSES.values()
    )


def connector_entries(
    name: str, config: Mapping[str, str | None], worker: WorkerConfig, warnings: list[str]
) -> dict[str, PropertyEntry]:
    """The configuration as entries, `${...}` resolved by the worker's providers; keys with a null value are left
    out."""
    origin = f"connector {name}"
    return {
        key: resolve_entry(PropertyEntry(key, value, origin, None, value), None, worker.providers, warnings)
        for key, value in config.items()
        if value is not None
    }


def build_connector(name: str, config: Mapping[str, str | None], worker: WorkerConfig) -> ConnectorFlow:
    """The flow of the connector `name`. Raises ConfigError with every problem found; contacts no cluster."""
    warnings: list[str] = []
    problems = Problems([])
    flow = read_connector(name, connector_entries(name, config, worker, warnings), worker, problems, warnings)
    if flow is None or problems.all():
        raise ConfigError(problems.all(), warnings)
    return flow


def read_connector(
    name: str, entries: Mapping[str, PropertyEntry], worker: WorkerConfig, problems: Problems, warnings: list[str]
) -> ConnectorFlow | None:
    """The same for entries; adds problems to `problems`. Returns None for a connector outside MirrorMaker 2's three."""
    origin = f"connector {name}"
    class_entry = entries.get("connector.class")
    kind = None if class_entry is None else connector_kind(class_entry.value)
    if kind is None:
        found = "missing" if class_entry is None else repr(class_entry.value)
        problems.add(ConfigProblem(origin, None, "connector.class", found, f"one of {_listed()}"))
        return None
    _check(entries, problems, warnings)
    check_overrides(entries, worker.settings, problems)
    entries = _without_other_classes(entries, worker.settings.connector_classes, problems)
    source = _alias(entries, "source.cluster.alias") or Alias(DEFAULT_SOURCE)
    if "source.cluster.alias" not in entries:
        expected = "the alias of the cluster that is mirrored"
        problems.add(ConfigProblem(origin, None, "source.cluster.alias", "missing", expected))
    target = _alias(entries, "target.cluster.alias") or Alias(DEFAULT_TARGET)
    layers = resolve_connector(entries, worker.layer, name, kind, source, target)
    more = Problems([])
    settings = build_flow(layers, origin, more, warnings, enabled=kind != "heartbeat")
    problems.add_new(more.all())
    if kind == "source":
        _warn_of_another_target(origin, settings, worker, warnings)
    return ConnectorFlow(name, settings, _idle(kind, settings, entries), tuple(warnings))


def _without_other_classes(
    entries: Mapping[str, PropertyEntry], allowed: tuple[str, ...], problems: Problems
) -> dict[str, PropertyEntry]:
    """Refuses Python classes and functions that the worker's operator does not allow: otherwise every user of the REST
    API could run code here by naming it."""
    kept = dict(entries)
    for name in (*CLASS_KEYS, "transform"):
        path = entries[name].value.strip() if name in entries else ""
        if ":" in path and path not in allowed and path.partition(":")[0] not in allowed:
            kind = "class" if name in CLASS_KEYS else "function"
            expected = f"a {kind} that twinlog.connector.classes in the worker's file names"
            problems.refuse(kept.pop(name), repr(path), expected)
    return kept


def _listed() -> str:
    return ", ".join(CONNECTOR_CLASSES.values())


def _alias(entries: Mapping[str, PropertyEntry], name: str) -> Alias | None:
    entry = entries.get(name)
    return None if entry is None or not entry.value.strip() else Alias(entry.value.strip())


def _idle(kind: ConnectorKind, settings: FlowSettings, entries: Mapping[str, PropertyEntry]) -> bool:
    """MirrorHeartbeatConnector ignores `enabled`."""
    if kind == "heartbeat":
        return settings.emit_heartbeats_interval_s is None
    # The key's own default is the default of a file, whose flows have to be enabled.
    enabled = "enabled" not in entries or ConfigReader(entries, CONNECTOR, Problems([])).flag("enabled")
    return not enabled or (kind == "checkpoint" and settings.emit_checkpoints_interval_s is None)


def _warn_of_another_target(origin: str, flow: FlowSettings, worker: WorkerConfig, warnings: list[str]) -> None:
    """MirrorMaker 2 sends records and positions to the worker's cluster, independent of the connector's name for its
    target."""
    own, there = worker.settings.client, flow.producer.client
    if not own.shares_servers(there):
        warnings.append(
            f"{origin}: by its address {', '.join(there.bootstrap_servers)} its target is another cluster than the "
            f"worker's, {', '.join(own.bootstrap_servers)}: its positions are in {flow.positions_topic} on "
            f"{flow.target}, and a worker of Kafka's would look for them on its own cluster; where both are one, "
            "nothing is to be done, or give both the same bootstrap.servers"
        )


def _check(entries: Mapping[str, PropertyEntry], problems: Problems, warnings: list[str]) -> None:
    """Checks each entry by itself. A key that is ignored here may have any value, as in Connect."""
    for name, entry in entries.items():
        key, prefix = connector_key(name)
        reason = no_effect(name, prefix)
        if key is None and reason is None:
            warnings.append(f"{entry.place}: {entry.key}: an unknown key, ignored; expected {unknown_key(name)}")
        elif reason is not None:
            warnings.append(f"{entry.place}: {entry.key} has no effect; {reason}")
        elif key is not None:
            problem = check_value(entry, key, warnings, key.pattern_in(name))
            if problem is not None and key.effect not in {Effect.JVM, Effect.BROKER}:
                problems.add(problem)
