"""Workers and connectors as files: a worker's properties with the bodies of POST requests to its REST API, or the
properties of a dedicated MirrorMaker 2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from twinlog.config.keys.connect import OWNER
from twinlog.config.keys.table import CONNECTOR, PROCESS, SECURITY, WORKER, WORKER_FILE
from twinlog.config.properties import PropertyEntry, property_line
from twinlog.ops.convert.model import (
    CONVERTER,
    ConnectorSpec,
    Mirrors,
    NotConverted,
    Output,
    WorkerSpec,
    default_name,
    not_converted,
    owner,
    raw,
)
from twinlog.ops.convert.secrets import SecretStore
from twinlog.settings.flow import ConnectorKind

_ALIASES = ("source.cluster.alias", "target.cluster.alias")
_CONNECTORS_OWN = {"connector.class", "name", *_ALIASES, "enabled", OWNER}
_SHARED_PREFIXES = ("source.", "target.", "replication.policy.", "consumer.", "admin.", "offset-syncs.topic.location")
_SHARED = {"topics", "topics.exclude", "topic.filter.class", "forwarding.admin.class"}

_SWITCHES: Mapping[ConnectorKind, tuple[str, ...]] = {
    "checkpoint": ("emit.checkpoints.enabled", "sync.group.offsets.enabled"),
    "heartbeat": ("emit.heartbeats.enabled",),
}


def to_connectors(mirrors: Mirrors, vault: SecretStore) -> Output:
    """Each worker gets a folder if there are several workers."""
    vault.reserve_names(mirrors.providers)
    vault.given = mirrors.secrets
    files: dict[str, str] = {}
    not_converted: list[NotConverted] = list(mirrors.not_converted)
    for worker in mirrors.workers:
        source = worker.connectors[0].source if worker.connectors else worker.target
        folder = f"{source}--{worker.target}/" if len(mirrors.workers) > 1 else ""
        bodies = {
            f"{folder}{one.name.replace('->', '--')}.json": {
                "name": one.name,
                "config": {
                    key: vault.without_secrets(key, entry, _alias(key, one.source, one.target))
                    for key, entry in one.entries.items()
                },
                **({"initial_state": one.state} if one.state != "RUNNING" else {}),
            }
            for one in worker.connectors
        }
        files[f"{folder}worker.properties"] = "".join(_lines(worker, vault))
        files |= {name: json.dumps(body, indent=2, ensure_ascii=False) + "\n" for name, body in bodies.items()}
    return Output(files, vault.kept, (*not_converted, *vault.unmatched), mirrors.remarks)


def _alias(key: str, source: str, target: str) -> str:
    return source if key.startswith("source.") else target


def _lines(worker: WorkerSpec, vault: SecretStore) -> Iterator[str]:
    values = {key: vault.without_secrets(key, entry, worker.target) for key, entry in worker.entries.items()}
    for key in ("key.converter", "value.converter"):
        values.setdefault(key, CONVERTER)
    if "bootstrap.servers" not in values:
        found = next((one.entries.get("target.cluster.bootstrap.servers") for one in worker.connectors), None)
        values |= {} if found is None else {"bootstrap.servers": raw(found)}
    values |= vault.providers(values.get("config.providers", ""))
    for key, value in values.items():
        yield property_line(key, value)


def to_properties(mirrors: Mirrors, vault: SecretStore) -> Output:
    """Write a single file for all flows."""
    return _PropertiesWriter(mirrors, vault).write()


class _PropertiesWriter:
    def __init__(self, mirrors: Mirrors, vault: SecretStore) -> None:
        self._mirrors = mirrors
        self._vault = vault
        vault.reserve_names(mirrors.providers)
        vault.given = mirrors.secrets
        self._not_converted: list[NotConverted] = list(mirrors.not_converted)
        self._remarks: list[str] = list(mirrors.remarks)
        self._top: dict[str, str] = {}
        self._clusters: dict[str, dict[str, str]] = {}
        self._flows: dict[tuple[str, str], dict[str, str]] = {}

    def write(self) -> Output:
        for worker in self._mirrors.workers:
            for connector in worker.connectors:
                self._clusters.setdefault(connector.source, {})
                self._clusters.setdefault(connector.target, {})
        for worker in self._mirrors.workers:
            self._worker(worker)
            flows: dict[tuple[str, str], dict[ConnectorKind, ConnectorSpec]] = {}
            for one in worker.connectors:
                flows.setdefault((one.source, one.target), {})[one.kind] = one
            for ends, connectors in flows.items():
                self._flow(ends, connectors)
                self._note_positions(worker, ends, connectors)
        # Heartbeats between all other clusters, which a dedicated MirrorMaker 2 writes unless they are switched off.
        self._top["emit.heartbeats.enabled"] = "false"
        self._top |= self._vault.providers(self._top.get("config.providers", ""))
        text = "".join(self._lines())
        not_converted = (*self._not_converted, *self._vault.unmatched)
        return Output({"mm2.properties": text}, self._vault.kept, not_converted, tuple(self._remarks))

    def _lines(self) -> Iterator[str]:
        yield property_line("clusters", ", ".join(self._clusters))
        for key, value in self._top.items():
            yield property_line(key, value)
        for alias, settings in self._clusters.items():
            yield "\n"
            for key, value in settings.items():
                yield property_line(f"{alias}.{key}", value)
        for (source, target), settings in self._flows.items():
            yield "\n"
            for key, value in settings.items():
                yield property_line(f"{source}->{target}.{key}", value)

    # -- the worker

    def _worker(self, worker: WorkerSpec) -> None:
        cluster = self._clusters.setdefault(worker.target, {})
        for key, entry in worker.entries.items():
            value = self._vault.without_secrets(key, entry, worker.target)
            if key.startswith("config.providers") or (key.startswith("twinlog.") and PROCESS.find_key(key)):
                self._top[key] = value
            elif key.startswith("twinlog.") and CONNECTOR.find_key(key) is not None:
                self._top.setdefault(key, value)
            elif key in {"key.converter", "value.converter"}:
                if raw(entry).strip() != CONVERTER:
                    self._not_converted.append(not_converted(entry, "a dedicated MirrorMaker 2 always copies bytes"))
            elif key == "listeners" and entry.line is None:
                pass
            elif WORKER.find_key(key) is not None or SECURITY.find_key(key) is not None or key.startswith("producer."):
                cluster.setdefault(key, value)
            elif WORKER_FILE.find_key(key) is not None or entry.line is not None:
                self._not_converted.append(not_converted(entry, "a dedicated MirrorMaker 2 lacks this setting"))

    # -- a flow

    def _flow(self, ends: tuple[str, str], connectors: Mapping[ConnectorKind, ConnectorSpec]) -> None:
        flow = self._flows.setdefault(ends, {})
        flow["enabled"] = "true" if "source" in connectors or "checkpoint" in connectors else "false"
        if "source" not in connectors and "checkpoint" in connectors:
            one = connectors["checkpoint"]
            self._not_converted.append(
                NotConverted(_file(one), one.name, "groups are followed here only beside copied records")
            )
        for kind in ("source", "checkpoint", "heartbeat"):
            one_or_none = connectors.get(kind)
            if one_or_none is not None:
                self._connector(flow, ends, one_or_none, connectors)
        for kind, switches in _SWITCHES.items():
            for switch in switches:
                if kind not in connectors:
                    flow[switch] = "false"
                elif switch == "emit.heartbeats.enabled":
                    flow.setdefault(switch, "true")

    def _connector(
        self,
        flow: dict[str, str],
        ends: tuple[str, str],
        connector: ConnectorSpec,
        connectors: Mapping[ConnectorKind, ConnectorSpec],
    ) -> None:
        if connector.state != "RUNNING":
            what = f"to begin {connector.state.lower()}"
            self._not_converted.append(
                NotConverted(_file(connector), connector.name, f"{what} lacks a form in a properties file")
            )
        switched_off = connector.entries.get("enabled")
        if switched_off is not None and raw(switched_off).strip().lower() == "false" and connector.kind == "source":
            flow["enabled"] = "false"
        first = next(iter(connectors.values()))
        self._aliases(flow, ends, connector, first)
        for key, entry in connector.entries.items():
            if key in _CONNECTORS_OWN:
                continue
            owned = owner(key)
            if owned is not None and owned != connector.kind:
                # The key is ignored there.
                if owned not in connectors:
                    self._not_converted.append(not_converted(entry, f"a {connector.kind} connector ignores it"))
                continue
            value = self._vault.without_secrets(key, entry, ends[0] if key.startswith("source.") else ends[1])
            if connector is not first and owned is None:
                self._compare(flow, ends, key, entry, value, connector, first)
            else:
                self._put(flow, ends, key, value)
        if connector is not first:
            for key, entry in first.entries.items():
                if self._is_shared(key, connector.kind) and key not in connector.entries and key not in _CONNECTORS_OWN:
                    self._not_converted.append(
                        not_converted(
                            entry, f"it counts for the whole flow here, and {connector.name} lacks this setting"
                        )
                    )

    def _aliases(
        self, flow: dict[str, str], ends: tuple[str, str], connector: ConnectorSpec, first: ConnectorSpec
    ) -> None:
        """Write aliases for the flow if they differ from the clusters' own, for example if they are empty."""
        for key, alias in zip(_ALIASES, ends, strict=True):
            entry, of_first = connector.entries.get(key), first.entries.get(key)
            value = alias if entry is None else raw(entry).strip()
            known = alias if of_first is None else raw(of_first).strip()
            if connector is first and value != alias:
                flow[key] = value
            elif entry is not None and value != known:
                self._not_converted.append(
                    not_converted(entry, f"a flow has a single {key}, {known!r} of {first.name}")
                )

    def _compare(
        self,
        flow: dict[str, str],
        ends: tuple[str, str],
        key: str,
        entry: PropertyEntry,
        value: str,
        connector: ConnectorSpec,
        first: ConnectorSpec,
    ) -> None:
        """A flow has a single value of each key."""
        other = first.entries.get(key)
        if other is None and not self._is_shared(key, connector.kind):
            self._put(flow, ends, key, value)
        elif (other is None or raw(other) != raw(entry)) and self._is_shared(key, connector.kind):
            other_has = "nothing" if other is None else "another value"
            self._not_converted.append(
                not_converted(entry, f"it counts for the whole flow here, and {first.name} has {other_has}")
            )
        elif other is not None and raw(other) != raw(entry) and key == "tasks.max":
            self._not_converted.append(not_converted(entry, f"a flow has a single tasks.max, as in {first.name}"))

    def _is_shared(self, key: str, kind: ConnectorKind) -> bool:
        """Whether several connectors of a flow go by it."""
        if kind == "heartbeat":
            return key.startswith(("target.cluster.", "target.admin.", "admin."))
        return key in _SHARED or key.startswith(_SHARED_PREFIXES)

    def _put(self, flow: dict[str, str], ends: tuple[str, str], key: str, value: str) -> None:
        """Write settings of a cluster at the cluster if all flows agree, or else at the flow."""
        for side, alias in zip(("source", "target"), ends, strict=True):
            prefix = f"{side}.cluster."
            if key.startswith(prefix) and SECURITY.find_key(key.removeprefix(prefix)) is not None:
                known = self._clusters[alias].setdefault(key.removeprefix(prefix), value)
                if known == value:
                    return
        flow[key] = value

    # -- notes

    def _note_positions(
        self, worker: WorkerSpec, ends: tuple[str, str], connectors: Mapping[ConnectorKind, ConnectorSpec]
    ) -> None:
        source = connectors.get("source")
        if source is not None and source.name != default_name("source"):
            stored = worker.entries.get("offset.storage.topic")
            where = "its worker's topic" if stored is None else raw(stored)
            self._remarks.append(
                f"{'->'.join(ends)}: its positions are in {where} under the name {source.name!r}, and looked for "
                f"under {default_name('source')!r}: the flow begins again unless they are written there"
            )


def _file(connector: ConnectorSpec) -> str:
    return next((entry.file for entry in connector.entries.values()), connector.name)
