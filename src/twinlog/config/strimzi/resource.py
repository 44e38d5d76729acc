"""The content of a `KafkaMirrorMaker2`: a worker on its target, and connectors with their wanted states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from twinlog.config.connector import CONNECTOR_CLASSES, InitialState
from twinlog.config.keys.table import CLIENTS, SECURITY, WORKER_FILE
from twinlog.config.properties import PropertyEntry, parse_properties
from twinlog.config.strimzi.connection import Connection, Secrets, secrets_of
from twinlog.config.strimzi.document import DocumentNode, Documents, ResourceCheck, check_resource, read_documents
from twinlog.config.strimzi.fields import CONNECTOR_FORBIDDEN, STORAGE
from twinlog.config.text.values import MissingError
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, MistakeKind
from twinlog.settings.flow import ConnectorKind

CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
KINDS: tuple[ConnectorKind, ...] = ("source", "checkpoint", "heartbeat")
_POLICY = ("replication.policy.class", "replication.policy.separator")
_PATTERNS = {"topics": "topics", "groups": "groups"}
_STATES: Mapping[str, InitialState] = {"running": "RUNNING", "paused": "PAUSED", "stopped": "STOPPED"}


@dataclass(frozen=True, slots=True)
class AutoRestart:
    """A connector that failed is restarted, `most` times at most; None for as often as needed."""

    most: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedConnector:
    """A connector of a mirror, its settings by key; they keep references to secrets."""

    name: str
    kind: ConnectorKind
    source: str
    target: str
    entries: Mapping[str, PropertyEntry]
    state: InitialState = "RUNNING"
    auto_restart: AutoRestart | None = None
    lists_to: str | None = None
    alters_from: str | None = None
    """ConfigMaps of offsets, for annotations that ask for them."""

    @property
    def config(self) -> dict[str, str]:
        """The configuration as it is submitted to a worker."""
        return {key: entry.written for key, entry in self.entries.items()}


@dataclass(frozen=True, slots=True)
class MirrorMaker2Resource:
    """A resource with valid fields; the meaning of its settings is checked later."""

    file: str
    name: str
    worker: Mapping[str, PropertyEntry]
    connectors: tuple[PlannedConnector, ...]
    secrets: Secrets
    annotations: Mapping[str, str]
    loggers: Mapping[str, str]
    driver_memory: str | None
    clusters: Mapping[str, Mapping[str, PropertyEntry]]
    """The connection of each cluster by its alias."""
    paths: Mapping[tuple[int, str], str]
    """The places of settings in the resource, by line and key."""
    warnings: tuple[ConfigWarning, ...] = ()
    namespace: str | None = None

    @property
    def owner(self) -> str:
        """The mark of its connectors, by which another resource in the same group recognises them as foreign."""
        return self.name if self.namespace is None else f"{self.namespace}/{self.name}"


def read_resource(path: str | Path, secrets: Path | None = None) -> MirrorMaker2Resource:
    """The resource in the file at `path`, whose Secrets are in the directory `secrets`. Raises ConfigError with every
    problem of its fields. Runs before any contact with a cluster."""
    return resource_of(read_documents(path), secrets)


def resource_of(documents: Documents, secrets: Path | None = None) -> MirrorMaker2Resource:
    """The same of documents already read. Raises ConfigError."""
    found = check_resource(documents.resource, documents.file)
    if found.problems:
        raise ConfigError(_in_order(found.problems), found.warning())
    resource = _ResourceReader(documents.resource, found, secrets_of(documents.others, secrets)).read()
    if found.problems:
        raise ConfigError(_in_order(found.problems), resource.warnings)
    return resource


def _in_order(problems: list[ConfigProblem]) -> list[ConfigProblem]:
    return sorted(problems, key=lambda problem: (problem.line is None, problem.line or 0))


@dataclass(frozen=True, slots=True)
class _Mirror:
    item: DocumentNode
    source: DocumentNode
    target: DocumentNode

    @property
    def ends(self) -> tuple[str, str]:
        return self.source.text_of("alias") or "", self.target.text_of("alias") or ""


class _ResourceReader:
    def __init__(self, resource: DocumentNode, found: ResourceCheck, secrets: Secrets) -> None:
        self._resource = resource
        self._spec = resource.children["spec"]
        self._found = found
        self._secrets = secrets
        self._namespace = resource.text_of("metadata", "namespace") or "default"
        self._warnings: list[ConfigWarning] = []
        self._none = self._spec.text_of("replicas") == "0"

    def read(self) -> MirrorMaker2Resource:
        target, mirrors = self._target(), list(self._mirrors())
        worker: dict[str, PropertyEntry] = {}
        connectors: list[PlannedConnector] = []
        clusters: dict[str, Mapping[str, PropertyEntry]] = {}
        if target is not None and not self._found.problems:
            worker = self._worker(target)
            connectors = [one for mirror in mirrors for one in self._connectors(mirror)]
            for mirror in mirrors:
                clusters[mirror.ends[0]] = self._client_settings(mirror.source, is_target=False)
                clusters[mirror.ends[1]] = self._client_settings(mirror.target, is_target=True)
        annotations = self._resource.get("metadata", "annotations")
        memory = self._spec.text_of("jvmOptions", "-Xmx")
        return MirrorMaker2Resource(
            self._found.file,
            self._resource.text_of("metadata", "name") or "mirror",
            worker,
            tuple(connectors),
            self._secrets,
            {key: one.text for key, one in (annotations.children if annotations is not None else {}).items()},
            self._loggers(),
            None if memory is None else memory.lower(),
            clusters,
            self._found.paths,
            (*self._found.warning(), *self._warnings),
            self._resource.text_of("metadata", "namespace"),
        )

    def _target(self) -> DocumentNode | None:
        target, name = self._spec.get("target"), self._spec.get("connectCluster")
        if target is not None:
            return target
        if name is None:
            expected = "the alias of the target, out of spec.clusters"
            self._found.problems.append(
                ConfigProblem(self._found.file, self._spec.line, "spec.connectCluster", "missing", expected)
            )
            return None
        return self._cluster(name)

    def _cluster(self, name: DocumentNode) -> DocumentNode | None:
        clusters = self._spec.get("clusters")
        known = {one.text_of("alias"): one for one in (clusters.items if clusters is not None else ())}
        if name.text not in known:
            expected = f"an alias of spec.clusters: {', '.join(str(alias) for alias in known) or 'there is none'}"
            self._found.wrong(name, repr(name.text), expected)
        return known.get(name.text)

    def _mirrors(self) -> Iterator[_Mirror]:
        self._check_aliases()
        seen: dict[tuple[str, str], int] = {}
        worker = self._target() if self._spec.get("connectCluster") or self._spec.get("target") else None
        for item in self._spec.children["mirrors"].items:
            ends: list[DocumentNode] = []
            for field, name in (("source", "sourceCluster"), ("target", "targetCluster")):
                inline, named = item.get(field), item.get(name)
                if inline is None and field == "target" and self._spec.get("target") is not None:
                    inline = self._spec.get("target")
                one = inline if inline is not None else None if named is None else self._cluster(named)
                if one is not None:
                    ends.append(one)
                elif named is None:
                    self._found.wrong(item, f"{name} is missing", "an alias of spec.clusters")
            if len(ends) != 2:
                continue
            mirror = _Mirror(item, *ends)
            self._check_target(mirror, worker)
            if mirror.ends[0] == mirror.ends[1]:
                self._found.wrong(item, f"{mirror.ends[0]} would mirror itself", "another cluster as the source")
            if mirror.ends in seen:
                self._found.wrong(item, f"the same mirror as that of line {seen[mirror.ends]}", "each mirror once")
            seen[mirror.ends] = item.line
            yield mirror

    def _check_aliases(self) -> None:
        clusters = self._spec.get("clusters")
        seen: set[str] = set()
        for one in clusters.items if clusters is not None else ():
            alias = one.children["alias"]
            if alias.text in seen:
                self._found.wrong(alias, repr(alias.text), "another alias than those before")
            seen.add(alias.text)

    def _check_target(self, mirror: _Mirror, worker: DocumentNode | None) -> None:
        """Its connectors run on the target's workers (KafkaMirrorMaker2Connectors.validateConnectors)."""
        if worker is None or mirror.target.text_of("alias") == worker.text_of("alias"):
            return
        if mirror.target.text_of("bootstrapServers") != worker.text_of("bootstrapServers"):
            self._found.wrong(
                mirror.item.children.get("targetCluster", mirror.item),
                repr(mirror.ends[1]),
                f"{worker.text_of('alias')!r} as spec.connectCluster, or a cluster of the same bootstrapServers",
            )

    # -- the worker

    def _worker(self, target: DocumentNode) -> dict[str, PropertyEntry]:
        connection = Connection(target, self._namespace, self._secrets, self._found, is_target=True)
        entries = {key: one for key, one in connection.entries().items() if one.value or key in SECURITY.exact}
        for field, (key, default) in STORAGE.items():
            item = target.get(field)
            if item is not None:
                entries[key] = self._found.entry(key, item.text, item)
            else:
                entries.setdefault(key, self._found.entry(key, default, target))
        for key in ("key.converter", "value.converter"):
            entries.setdefault(key, self._found.entry(key, CONVERTER, target))
        return entries

    # -- connectors

    def _client_settings(self, cluster: DocumentNode, *, is_target: bool) -> dict[str, PropertyEntry]:
        """The settings of a cluster for connectors; settings of a worker are left out."""
        kept = {}
        connection = Connection(cluster, self._namespace, self._secrets, self._found, is_target=is_target)
        for key, entry in connection.entries().items():
            if SECURITY.find_key(key) is None and (is_target or _of_a_worker(key)):
                if not is_target:
                    self._found.named.append((f"{cluster.path}.config.{key}", entry.line or 0))
                continue
            kept[key] = entry
        return kept

    def _connectors(self, mirror: _Mirror) -> Iterator[PlannedConnector]:
        source, target = mirror.ends
        clusters: dict[str, PropertyEntry] = {}
        named = len(self._found.named)
        for side, cluster in (("target", mirror.target), ("source", mirror.source)):
            alias = cluster.children["alias"]
            clusters[f"{side}.cluster.alias"] = self._found.entry(f"{side}.cluster.alias", alias.text, alias)
            for key, entry in self._client_settings(cluster, is_target=side == "target").items():
                name = f"{side}.cluster.{key}"
                clusters[name] = replace(entry, key=name)
        del self._found.named[named:]
        specs = {kind: one for kind in KINDS if (one := mirror.item.get(f"{kind}Connector")) is not None}
        configs = {kind: dict(self._config(spec)) for kind, spec in specs.items()}
        self._inherit_policy(mirror, configs)
        for kind, spec in specs.items():
            config = configs[kind]
            entries = clusters | config if self._found.version == "v1" else config | clusters
            entries |= self._patterns(mirror.item)
            entries |= self._rack()
            entries["connector.class"] = self._found.entry("connector.class", CONNECTOR_CLASSES[kind], spec)
            tasks = spec.get("tasksMax")
            if tasks is not None:
                entries["tasks.max"] = self._found.entry("tasks.max", tasks.text, tasks)
            name = f"{source}->{target}.{CONNECTOR_CLASSES[kind].rpartition('.')[2]}"
            yield PlannedConnector(
                name,
                kind,
                source,
                target,
                entries,
                self._state(spec),
                _auto_restart(spec),
                lists_to=spec.text_of("listOffsets", "toConfigMap", "name"),
                alters_from=spec.text_of("alterOffsets", "fromConfigMap", "name"),
            )

    def _config(self, spec: DocumentNode) -> Iterator[tuple[str, PropertyEntry]]:
        config = spec.get("config")
        for key, value in (config.children if config is not None else {}).items():
            if key not in CONNECTOR_FORBIDDEN and value.kind not in {"map", "list", "null"}:
                yield key, self._found.entry(key, value.text, value)

    def _inherit_policy(self, mirror: _Mirror, configs: dict[ConnectorKind, dict[str, PropertyEntry]]) -> None:
        """Connectors of the same mirror that name remote topics differently would miss each other's topics."""
        for key in _POLICY:
            written = configs.get("source", {}).get(key)
            lacking = [kind for kind in configs if written is not None and key not in configs[kind]]
            for kind in lacking:
                assert written is not None
                configs[kind][key] = written
            if lacking and written is not None:
                whose = " and ".join(f"{kind}Connector" for kind in lacking)
                text = (
                    f"{key} is only at sourceConnector; it counts for {whose}, too, which would else look for other "
                    "remote topics"
                )
                place = mirror.item.path
                self._warnings.append(
                    ConfigWarning(written.file, written.line, place, text, kind=MistakeKind.READ_OTHERWISE)
                )

    def _patterns(self, mirror: DocumentNode) -> Iterator[tuple[str, PropertyEntry]]:
        for name, key in _PATTERNS.items():
            for field, setting in ((f"{name}Pattern", key), (f"{name}ExcludePattern", f"{key}.exclude")):
                item = mirror.get(field)
                if item is None and field.endswith("ExcludePattern"):
                    item = mirror.get(f"{name}BlacklistPattern")
                if item is not None:
                    yield setting, self._found.entry(setting, item.text, item)

    def _rack(self) -> Iterator[tuple[str, PropertyEntry]]:
        variable = self._spec.get("rack", "envVarName")
        if variable is not None:
            key = "consumer.client.rack"
            yield key, self._found.entry(key, f"${{strimzienv:{variable.text}}}", variable)

    def _state(self, spec: DocumentNode) -> InitialState:
        state = spec.text_of("state") or ("paused" if spec.text_of("pause") == "true" else "running")
        found = _STATES[state]
        return "PAUSED" if self._none and found == "RUNNING" else found

    def _loggers(self) -> dict[str, str]:
        logging = self._spec.get("logging")
        if logging is None:
            return {}
        if logging.text_of("type") == "external":
            reference = ("valueFrom", "configMapKeyRef")
            name, key = (logging.text_of(*reference, field) or "" for field in ("name", "key"))
            try:
                text = self._secrets.read(name, key)
            except MissingError:
                # Only log levels are missing then.
                self._found.named.append((logging.path, logging.line))
                return {}
            return {entry.key: entry.value for entry in parse_properties(text, f"{name}/{key}")}
        loggers = logging.get("loggers")
        return {key: one.text for key, one in (loggers.children if loggers is not None else {}).items()}


def _auto_restart(spec: DocumentNode) -> AutoRestart | None:
    found = spec.get("autoRestart")
    # Strimzi's default of `enabled` is true.
    if found is None or found.text_of("enabled") == "false":
        return None
    most = found.text_of("maxRestarts")
    return AutoRestart(None if most is None else int(most))


def _of_a_worker(key: str) -> bool:
    word, _, rest = key.partition(".")
    return WORKER_FILE.find_key(key) is not None or (word in CLIENTS and bool(rest))
