"""Reads each configuration form as workers with their connectors: properties of a dedicated MirrorMaker 2, files of
connectors with the file of their worker, and Strimzi's resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from pathlib import Path

from twinlog.config.connector import (
    CONNECTOR_CLASSES,
    DEFAULT_SOURCE,
    DEFAULT_TARGET,
    connector_kind,
    line_of,
    read_connector_file,
    refused_class,
)
from twinlog.config.keys.key import Effect
from twinlog.config.keys.scope import KeyScopes, SourceAndTarget
from twinlog.config.keys.table import CLIENTS, CONNECTOR, SECURITY, WORKER_FILE
from twinlog.config.properties import PropertyEntry, read_properties
from twinlog.config.strimzi.document import DocumentNode, read_documents
from twinlog.config.strimzi.resource import resource_of
from twinlog.config.text.config_reader import ConfigReader, Problems
from twinlog.config.text.entries import ParsedFile, parse_file
from twinlog.config.text.precedence import connector_layer, worker_layer
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, MistakeKind
from twinlog.ops.convert.model import (
    CONVERTER,
    ConnectorSpec,
    Mirrors,
    NotConverted,
    WorkerSpec,
    default_name,
    not_converted,
    owner,
)
from twinlog.settings.flow import ConnectorKind

FIRST_PORT = 8083
_STORAGE = {
    "group.id": "{}-mm2",
    "config.storage.topic": "mm2-configs.{}.internal",
    "offset.storage.topic": "mm2-offsets.{}.internal",
    "status.storage.topic": "mm2-status.{}.internal",
}
"""MirrorMakerConfig.workerConfig."""

_HEARTBEATS = (
    "source.cluster.",
    "target.cluster.",
    "target.admin.",
    "admin.",
    "replication.policy.",
    "producer.override.",
)

_SAID = {"replicas", "connectCluster", "clusters", "target", "mirrors", "rack"}
_CONNECTOR_ONLY = {"version", "autoRestart", "listOffsets", "alterOffsets"}


def mirrors_of_properties(entries: Iterable[PropertyEntry], file: str) -> Mirrors:
    """Return the mirrors that the file defines: each flow has a worker of its own, as in MirrorMaker 2. Raises
    ConfigError."""
    entries = list(entries)
    found = parse_file(entries, file, "warn")
    if found.problems:
        raise ConfigError(found.problems, found.warnings)
    workers: list[WorkerSpec] = []
    for ends in permutations(found.aliases, 2):
        connectors = tuple(_connectors(found, ends))
        if connectors:
            workers.append(WorkerSpec(ends[1], _worker(found, ends, FIRST_PORT + len(workers)), connectors))
    if not workers:
        text = "all flows are off, and so are heartbeats"
        expected = f"an enabled flow, for example {'->'.join((*found.aliases, 'B')[:2])}.enabled = true"
        raise ConfigError(
            [ConfigProblem(file, None, "enabled", text, expected, MistakeKind.NOTHING_RUNS)], found.warnings
        )
    return Mirrors(tuple(workers), tuple(_left(entries, found, workers)))


def _connectors(found: ParsedFile, ends: SourceAndTarget) -> Iterator[ConnectorSpec]:
    layer = dict(connector_layer(found, *ends))
    reading = ConfigReader(layer, CONNECTOR, Problems([]))
    enabled = "enabled" in found.flows.get(ends, {}) and ConfigReader(found.flows[ends], CONNECTOR, Problems([])).flag(
        "enabled"
    )
    kinds: list[ConnectorKind] = ["source", "checkpoint"] if enabled else []
    if reading.flag("emit.heartbeats.enabled") and reading.number("emit.heartbeats.interval.seconds") >= 0:
        kinds.append("heartbeat")
    layer |= _producer_security(found, ends, layer)
    for side, alias in zip(("source", "target"), ends, strict=True):
        name = f"{side}.cluster.alias"
        layer.setdefault(name, PropertyEntry(name, alias, found.file, None, alias))
    for kind in kinds:
        class_entry = PropertyEntry(
            "connector.class", CONNECTOR_CLASSES[kind], found.file, None, CONNECTOR_CLASSES[kind]
        )
        own = {key: entry for key, entry in layer.items() if _counts(key, kind) and not _is_spread(key, layer)}
        yield ConnectorSpec(default_name(kind), kind, *ends, {"connector.class": class_entry, **own})


def _counts(key: str, kind: ConnectorKind) -> bool:
    if key in {"enabled", "clusters"} or key.startswith("config.providers"):
        return False
    side, _, rest = key.partition(".cluster.")
    if side in {"source", "target"} and rest and rest != "alias" and SECURITY.find_key(rest) is None:
        # A setting of the worker, which the connector ignores.
        return False
    if key in SECURITY.exact and CONNECTOR.find_key(key) is None:
        # Both clusters have it already.
        return False
    if kind == "heartbeat":
        return owner(key) == "heartbeat" or key.startswith(_HEARTBEATS)
    return owner(key) in {None, kind}


def _is_spread(key: str, layer: dict[str, PropertyEntry]) -> bool:
    """Whether a client only repeats a setting of its cluster."""
    side, _, rest = key.partition(".")
    word, _, setting = rest.partition(".")
    if side not in {"source", "target"} or word not in CLIENTS or setting not in SECURITY.exact:
        return False
    cluster = layer.get(f"{side}.cluster.{setting}")
    return cluster is not None and cluster.written == layer[key].written


def _producer_security(
    found: ParsedFile, ends: SourceAndTarget, layer: dict[str, PropertyEntry]
) -> dict[str, PropertyEntry]:
    """The producer's own login, if it differs from its cluster's."""
    own = {}
    for name, entry in worker_layer(found, ends[1]).items():
        setting = name.removeprefix("producer.")
        if setting != name and setting in SECURITY.exact:
            cluster = layer.get(f"target.cluster.{setting}")
            if (cluster is None or cluster.value != entry.value) and f"producer.override.{setting}" not in layer:
                own[f"producer.override.{setting}"] = entry
    return own


def _worker(found: ParsedFile, ends: SourceAndTarget, port: int) -> dict[str, PropertyEntry]:
    kept = {name: entry for name, entry in worker_layer(found, ends[1]).items() if _is_of_worker(name)}
    kept |= {name: entry for name, entry in found.top.items() if name.startswith("config.providers")}
    for name, form in _STORAGE.items():
        value = form.format(ends[0])
        kept.setdefault(name, PropertyEntry(name, value, found.file, None, value))
    # A dedicated MirrorMaker 2 lacks a REST API.
    listener = f"http://127.0.0.1:{port}"
    for name, value in (("key.converter", CONVERTER), ("value.converter", CONVERTER), ("listeners", listener)):
        kept.setdefault(name, PropertyEntry(name, value, found.file, None, value))
    return kept


def _is_of_worker(name: str) -> bool:
    word, _, rest = name.partition(".")
    if word in {"consumer", "admin"} or name.startswith("replication.policy"):
        return False
    if word == "producer":
        return rest not in SECURITY.exact
    return WORKER_FILE.find_key(name) is not None


def _left(entries: Iterable[PropertyEntry], found: ParsedFile, workers: Iterable[WorkerSpec]) -> Iterator[NotConverted]:
    """Entries that went nowhere, each with the reason."""
    layers = [layer for one in workers for layer in (one.entries, *(each.entries for each in one.connectors))]
    used = {(entry.line, entry.key) for layer in layers for entry in layer.values()}
    scopes = KeyScopes(found.aliases)
    for entry in {one.key: one for one in entries}.values():
        scope = scopes.scope_of(entry)
        if (entry.line, entry.key) in used or entry.key == "clusters" or scope.name == "enabled":
            continue
        key = scope.key
        if key is None:
            yield not_converted(entry, "an unknown key")
        elif scope.no_effect is None and key.effect is Effect.WORKS and not _is_moot(scope.flow, scope.name, found):
            yield not_converted(entry, "it counts for a process of MirrorMaker 2 as a whole")


def _is_moot(flow: SourceAndTarget | None, name: str, found: ParsedFile) -> bool:
    """Whether the setting belongs to a disabled flow, or turns off a feature that is absent anyway."""
    if owner(name) == "heartbeat":
        # Heartbeats that are turned off lack a connector.
        return True
    if flow is None:
        return CONNECTOR.find_key(name) is not None or SECURITY.find_key(name) is not None
    enabled = found.flows.get(flow, {}).get("enabled")
    return enabled is None or enabled.value.strip().lower() != "true"


def mirrors_of_connectors(worker: Path | None, connectors: Sequence[Path]) -> Mirrors:
    """Return the mirrors that the files define; if the worker's file is missing, its settings are left to defaults.
    Raises ConfigError."""
    settings = {} if worker is None else {entry.key: entry for entry in read_properties(worker)}
    found: dict[str, ConnectorSpec] = {}
    problems: list[ConfigProblem] = []
    for path in connectors:
        try:
            one = _connector(path)
        except ConfigError as error:
            problems += error.problems
            continue
        if one.name in found:
            problems.append(
                ConfigProblem(str(path), None, "name", repr(one.name), "another name than in all other files")
            )
        found[one.name] = one
    targets = dict.fromkeys(one.target for one in found.values())
    if not found and not problems:
        expected = "the files of connectors beside that of their worker"
        problems.append(ConfigProblem(str(worker), None, "", "no connector", expected))
    if len(targets) > 1:
        expected = "a single target; convert the connectors of each target by themselves"
        problems.append(ConfigProblem(str(connectors[0]), None, "target.cluster.alias", ", ".join(targets), expected))
    if problems:
        raise ConfigError(problems)
    return Mirrors((WorkerSpec(next(iter(targets)), settings, tuple(found.values())),))


def _connector(path: Path) -> ConnectorSpec:
    file = str(path)
    read = read_connector_file(path)
    text = path.read_text("utf-8", "replace")
    entries = {key: PropertyEntry(key, value, file, line_of(text, key), value) for key, value in read.config.items()}
    entries.pop("name", None)
    written = read.config.get("connector.class", "")
    kind = connector_kind(written)
    if kind is None:
        expected = refused_class(written) if written else "the class of a connector of MirrorMaker 2"
        raise ConfigError(
            [ConfigProblem(file, line_of(text, "connector.class"), "connector.class", repr(written), expected)]
        )
    if "source.cluster.alias" not in entries:
        raise ConfigError([ConfigProblem(file, None, "source.cluster.alias", "missing", "the alias of the source")])
    # A cluster needs an alias in other forms, also if topics keep their names.
    source = read.config["source.cluster.alias"].strip() or DEFAULT_SOURCE
    target = read.config.get("target.cluster.alias", DEFAULT_TARGET).strip() or DEFAULT_TARGET
    return ConnectorSpec(read.name, kind, source, target, entries, read.initial_state or "RUNNING")


def mirrors_of_resource(path: Path) -> Mirrors:
    """Return the mirrors that the resource defines; its Secrets stay references. Raises ConfigError."""
    documents = read_documents(path)
    resource = resource_of(documents)
    target = resource.connectors[0].target if resource.connectors else "target"
    connectors = tuple(
        ConnectorSpec(one.name, one.kind, one.source, one.target, one.entries, one.state) for one in resource.connectors
    )
    not_converted = tuple(_without_form(documents.resource.children["spec"], documents.file))
    remarks = tuple(str(warning) for warning in resource.warnings if warning.kind is not MistakeKind.IGNORED_FIELDS)
    return Mirrors(
        (WorkerSpec(target, resource.worker, connectors),), not_converted, remarks, resource.secrets.documents
    )


def _without_form(spec: DocumentNode, file: str) -> Iterator[NotConverted]:
    """Fields that only a resource has."""
    for name, item in spec.children.items():
        if name not in _SAID or item.path.endswith("rack.topologyKey"):
            yield NotConverted(f"{file}:{item.line}", item.path, "only a resource has this")
    mirrors = spec.get("mirrors")
    for mirror in mirrors.items if mirrors is not None else ():
        for name, connector in mirror.children.items():
            for field in _CONNECTOR_ONLY & set(connector.children) if name.endswith("Connector") else ():
                item = connector.children[field]
                yield NotConverted(f"{file}:{item.line}", item.path, "only a resource has this")
