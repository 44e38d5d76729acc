"""Which of several entries counts: MirrorMaker 2's precedence, setting by setting, with the origin of each.

For a setting of a flow: `S->T.K` precedes `S.K` or `T.K`, these precede `K` at top level, and `K` precedes the default.
The detours on the way (client settings spread over consumer, producer and admin; worker settings that only count below
the target) follow the Kafka classes MirrorMakerConfig, MirrorConnectorConfig and Connect's Worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from twinlog.config.keys.scope import ConnectorKeyNames, KeyNames
from twinlog.config.keys.table import CLIENTS, PER_TOPIC_PREFIXES, SECURITY, TOP_LEVEL_CONNECTOR_NAMES
from twinlog.config.keys.worker import TOP_LEVEL_PREFIXES
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.entries import ParsedFile
from twinlog.model.types import Alias
from twinlog.settings.flow import SOURCE_CONNECTOR, ConnectorKind

Layer = Mapping[str, PropertyEntry]
"""Setting names with their prefix removed, each with the entry that decides it."""


@dataclass(frozen=True, slots=True)
class FlowLayers:
    """The effective entries of a flow and of each of its clients, and the names of its keys.

    The layers of a connector of a Connect worker have its name and its kind; any other flow does the work of all three.
    `aliases` are all clusters of a file.
    """

    source: Alias
    target: Alias
    connector: Layer
    worker: Layer
    consumer: Layer
    producer: Layer
    source_admin: Layer
    target_admin: Layer
    names: KeyNames
    connector_name: str = SOURCE_CONNECTOR
    kind: ConnectorKind | None = None
    aliases: tuple[Alias, ...] = ()

    @property
    def source_name(self) -> Alias:
        """The alias of the source in names of topics and in stored values: the value of `source.cluster.alias`, if
        set."""
        return self._named("source.cluster.alias", self.source)

    @property
    def target_name(self) -> Alias:
        """The same of the target, by `target.cluster.alias`."""
        return self._named("target.cluster.alias", self.target)

    def _named(self, key: str, alias: Alias) -> Alias:
        entry = self.connector.get(key)
        return alias if entry is None or entry.unresolved is not None else Alias(entry.value.strip())


def resolve_flow(found: ParsedFile, source: Alias, target: Alias) -> FlowLayers:
    """All settings of `source->target`."""
    connector = connector_layer(found, source, target)
    worker = worker_layer(found, target)
    return FlowLayers(
        source,
        target,
        connector,
        worker,
        consumer=_role_client(connector, "source", "consumer"),
        producer=_data_producer(connector, worker),
        source_admin=_role_client(connector, "source", "admin"),
        target_admin=_role_client(connector, "target", "admin"),
        names=KeyNames(source, target),
        connector_name=found.connector_names.get((source, target), SOURCE_CONNECTOR),
        aliases=found.aliases,
    )


def resolve_connector(
    written: Layer, worker: Layer, name: str, kind: ConnectorKind, source: Alias, target: Alias
) -> FlowLayers:
    """All settings of a connector of a Connect worker; `worker` are the entries of the worker's file.

    If the connector's target is missing, the target is the worker's own cluster. Otherwise its records, too, are
    written to the target that it names; in Connect they would be sent to the worker's cluster unless a
    `producer.override.` names another cluster.
    """
    own = {name: entry for name, entry in worker.items() if name in SECURITY.exact}
    connector = {name: entry for name, entry in worker.items() if name.startswith("twinlog.")} | dict(written)
    named = {name for name in _below(written, "target.cluster.") if name in SECURITY.exact}
    for setting in own if not named else own.keys() & {"bootstrap.servers"}:
        connector.setdefault(f"target.cluster.{setting}", own[setting])
    return FlowLayers(
        source,
        target,
        connector,
        worker,
        consumer=_role_client(connector, "source", "consumer"),
        producer=_targets_producer(connector, worker) if named else _data_producer(connector, worker),
        source_admin=_role_client(connector, "source", "admin"),
        target_admin=_role_client(connector, "target", "admin"),
        names=ConnectorKeyNames(source, target),
        connector_name=name,
        kind=kind,
    )


def cluster_layer(found: ParsedFile, alias: Alias) -> dict[str, PropertyEntry]:
    """All entries below `alias.`, its security settings spread to its clients, then the top level's security settings.

    (MirrorMakerConfig.clusterProps)
    """
    layer = dict(found.clusters.get(alias, {}))
    own = {name: layer[name] for name in SECURITY.exact if name in layer}
    shared = {name: found.top[name] for name in SECURITY.exact if name in found.top}
    for name, entry in chain(own.items(), shared.items()):
        for client in CLIENTS:
            layer.setdefault(f"{client}.{name}", entry)
        layer.setdefault(name, entry)
    return layer


def connector_layer(found: ParsedFile, source: Alias, target: Alias) -> dict[str, PropertyEntry]:
    """Later contributions win (MirrorMakerConfig.connectorBaseConfig).

    With transforms the settings of a converter come with its name, which alone MirrorMaker 2 hands on to a connector.
    """
    own = found.flows.get((source, target), {})
    shared: tuple[str, ...] = ("config.providers", "replication.policy", *PER_TOPIC_PREFIXES)
    transforms = own.get("transforms") or found.top.get("transforms")
    if transforms is not None and transforms.value.strip():
        shared += tuple(f"{name}." for name in ("key.converter", "value.converter") if name not in own)
    layer = {
        name: entry for name, entry in found.top.items() if name in TOP_LEVEL_CONNECTOR_NAMES or name.startswith(shared)
    }
    for side, alias in (("source", source), ("target", target)):
        for name, entry in cluster_layer(found, alias).items():
            layer[f"{side}.{name}" if name.startswith(tuple(CLIENTS)) else f"{side}.cluster.{name}"] = entry
    layer.update(own)
    return layer


def worker_layer(found: ParsedFile, target: Alias) -> dict[str, PropertyEntry]:
    """The top level wins over the cluster here (MirrorMakerConfig.workerConfig)."""
    layer = cluster_layer(found, target)
    shared = (*TOP_LEVEL_PREFIXES, "replication.policy", "config.providers")
    layer.update({name: entry for name, entry in found.top.items() if name.startswith(shared)})
    return layer


def _below(layer: Layer, prefix: str) -> dict[str, PropertyEntry]:
    return {name.removeprefix(prefix): entry for name, entry in layer.items() if name.startswith(prefix)}


def _role_client(connector: Layer, side: str, client: str) -> dict[str, PropertyEntry]:
    """A client of the connector's own: cluster security, then `client.*`, then `side.client.*`.

    (MirrorConnectorConfig.sourceConsumerConfig and its kin)
    """
    return _cluster_security(connector, side) | _below(connector, f"{client}.") | _below(connector, f"{side}.{client}.")


def _data_producer(connector: Layer, worker: Layer) -> dict[str, PropertyEntry]:
    """The producer that writes records is the worker's (Worker.baseProducerConfigs and producerConfigs)."""
    servers = {name: entry for name, entry in worker.items() if name == "bootstrap.servers"}
    return servers | _below(worker, "producer.") | _below(connector, "producer.override.")


def _targets_producer(connector: Layer, worker: Layer) -> dict[str, PropertyEntry]:
    """The worker's producer, but with the connection of the target that the connector names."""
    own = {name: entry for name, entry in _below(worker, "producer.").items() if name not in SECURITY.exact}
    return own | _cluster_security(connector, "target") | _below(connector, "producer.override.")


def _cluster_security(connector: Layer, side: str) -> dict[str, PropertyEntry]:
    return {name: entry for name, entry in _below(connector, f"{side}.cluster.").items() if name in SECURITY.exact}
