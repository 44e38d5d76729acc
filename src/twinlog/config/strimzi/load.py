"""From the path of a resource to the settings of its worker and of its connectors, checked as any other settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from twinlog.config.connector import ConnectorFlow, read_connector, working_key
from twinlog.config.flow.shared_topics import SharedTopics
from twinlog.config.keys.connector import CHECKPOINT_KEYS
from twinlog.config.keys.scope import SourceAndTarget
from twinlog.config.properties import PropertyEntry
from twinlog.config.strimzi import DEFAULT_LISTENER
from twinlog.config.strimzi.fields import STORAGE
from twinlog.config.strimzi.resource import CONVERTER, KINDS, MirrorMaker2Resource, PlannedConnector, read_resource
from twinlog.config.text.config_reader import Problems
from twinlog.config.text.entries import ParsedFile, refuse_useless, resolve_entry
from twinlog.config.text.precedence import resolve_flow
from twinlog.config.worker import WorkerConfig, worker_of
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning
from twinlog.model.types import Alias
from twinlog.settings.flow import ConnectorKind

_HEARTBEAT = ("emit.heartbeats.", "heartbeats.topic.")
_SWITCHES: Mapping[ConnectorKind, tuple[str, ...]] = {
    "source": ("enabled",),
    "checkpoint": ("emit.checkpoints.enabled", "sync.group.offsets.enabled"),
    "heartbeat": ("emit.heartbeats.enabled",),
}
"""The settings that are off in a mirror that lacks the connector."""

_CHECKPOINT = tuple(key.name for key in CHECKPOINT_KEYS if not key.name.startswith(_HEARTBEAT))


@dataclass(frozen=True, slots=True)
class ResourceConfig:
    """A resource that can be run: its worker, and the flow of each connector."""

    resource: MirrorMaker2Resource
    worker: WorkerConfig
    flows: tuple[ConnectorFlow, ...]
    warnings: tuple[ConfigWarning, ...]


def load_resource(path: str | Path, secrets: Path | None = None, listen: str = DEFAULT_LISTENER) -> ResourceConfig:
    """The resource in the file at `path`, whose Secrets are in the directory `secrets`.

    Raises ConfigError with every problem found. Reads only this file and Secrets, before any contact with a cluster.
    """
    config = config_of(read_resource(path, secrets), listen)
    _require_apart(config)
    return config


def _require_apart(config: ResourceConfig) -> None:
    """Raises ConfigError for topics that the mirrors together would leave out, and for names that no topic can have."""
    problems, warnings = list[ConfigProblem](), list(config.warnings)
    refuse_useless(problems, warnings)
    found = flows_of(config)
    flows = [one.settings for one in config.flows if one.kind == "source" and not one.idle]
    layers = {f"{flow.source}->{flow.target}": resolve_flow(found, flow.source, flow.target) for flow in flows}
    for mistake in SharedTopics(config.resource.file, flows, layers).find(problems):
        if isinstance(mistake, ConfigProblem):
            problems.append(_with_path(config.resource, mistake))
    if problems:
        raise ConfigError([_with_path(config.resource, one) for one in problems], warnings)


def config_of(resource: MirrorMaker2Resource, listen: str = DEFAULT_LISTENER) -> ResourceConfig:
    """The same of a resource already read. Raises ConfigError."""
    warnings = list(resource.warnings)
    listener = PropertyEntry("listeners", listen, "--listen", None, listen)
    entries = [*resource.worker.values(), listener]
    problems = Problems([])
    lookups, classes, works = resource.secrets.lookups(), resource.secrets.classes(), True
    try:
        worker = worker_of(entries, resource.file, lookups=lookups, classes=classes)
        warnings += worker.warnings
    except ConfigError as error:
        problems.add_new(error.problems)
        warnings += error.warnings
        # The problems of the other clusters are reported as well.
        works, worker = False, worker_of(_bare(resource), resource.file, lookups=lookups)
    flows: list[ConnectorFlow] = []
    for one in resource.connectors:
        more: list[ConfigWarning] = []
        found = Problems([])
        resolved = {
            key: resolve_entry(entry, working_key(key), worker.providers, more) for key, entry in one.entries.items()
        }
        flow = read_connector(one.name, resolved, worker, found, more)
        problems.add_new(found.all())
        warnings += more if works else ()
        if flow is not None:
            flows.append(flow)
    warnings = list(dict.fromkeys(warnings))
    if problems.all():
        in_order = sorted(problems.all(), key=lambda problem: (problem.line is None, problem.line or 0))
        # The connectors take the same settings from the target as the worker before them.
        once = {(one.line, one.text): one for one in map(partial(_with_path, resource), reversed(in_order))}
        raise ConfigError([*reversed(once.values())], warnings)
    return ResourceConfig(resource, worker, tuple(flows), tuple(warnings))


def _bare(resource: MirrorMaker2Resource) -> list[PropertyEntry]:
    """The smallest configuration that a worker can have."""
    fixed = {"bootstrap.servers": "target:9092", "key.converter": CONVERTER, "value.converter": CONVERTER}
    fixed |= dict(STORAGE.values())
    return [_plain(resource.file, key, value) for key, value in fixed.items()]


def _with_path(resource: MirrorMaker2Resource, problem: ConfigProblem) -> ConfigProblem:
    """The problem with the path of the field beside, or instead of, the key that it sets."""
    for prefix in ("", "source.cluster.", "target.cluster."):
        path = resource.paths.get((problem.line or 0, problem.key.removeprefix(prefix)))
        if path is not None:
            key = path if path.endswith(problem.key.removeprefix(prefix)) else f"{path} ({problem.key})"
            return replace(problem, key=key)
    return problem


def parsed_resource(path: str | Path, secrets: Path | None = None) -> ParsedFile:
    """The resource in the form of a parsed properties file: a flow for each mirror. Raises ConfigError."""
    return flows_of(load_resource(path, secrets))


def flows_of(config: ResourceConfig) -> ParsedFile:
    """The same of a resource already loaded."""
    resource, file = config.resource, config.resource.file
    mirrors: dict[SourceAndTarget, list[PlannedConnector]] = {}
    for one in resource.connectors:
        mirrors.setdefault((Alias(one.source), Alias(one.target)), []).append(one)
    aliases = dict.fromkeys(alias for ends in mirrors for alias in ends)
    found = ParsedFile(file, tuple(aliases), warnings=list(config.warnings))
    # Only heartbeat connectors write heartbeats.
    found.top["emit.heartbeats.enabled"] = _plain(file, "emit.heartbeats.enabled", "false")
    providers = config.worker.providers
    for ends, connectors in mirrors.items():
        for alias in ends:
            cluster = {
                key: resolve_entry(entry, None, providers, []) for key, entry in resource.clusters[alias].items()
            }
            worker = config.worker.layer if alias == ends[1] else {}
            found.clusters[alias] = {**found.clusters.get(alias, {}), **worker, **cluster}
        resolved = {
            one.kind: {key: resolve_entry(entry, None, providers, []) for key, entry in one.entries.items()}
            for one in connectors
        }
        found.flows[ends] = _merged(file, resolved)
        name = next((one.name for one in connectors if one.kind == "source"), None)
        if name is not None:
            found.connector_names[ends] = name
    if not found.connector_names:
        found.problems.append(ConfigProblem(file, None, "spec.mirrors", "nothing is copied", "a sourceConnector"))
    return found


def _merged(file: str, connectors: Mapping[ConnectorKind, Mapping[str, PropertyEntry]]) -> dict[str, PropertyEntry]:
    """The settings of a mirror's connectors as settings of a single flow: each key comes from the connector that it is
    meant for."""
    merged: dict[str, PropertyEntry] = {}
    for kind in reversed(KINDS):
        for key, entry in connectors.get(kind, {}).items():
            owner = "heartbeat" if key.startswith(_HEARTBEAT) else "checkpoint" if key in _CHECKPOINT else None
            if owner in {None, kind} and key != "connector.class":
                merged[key] = entry
    for part, switches in _SWITCHES.items():
        for switch in switches:
            if part not in connectors:
                merged[switch] = _plain(file, switch, "false")
            elif switch in {"enabled", "emit.heartbeats.enabled"}:
                merged.setdefault(switch, _plain(file, switch, "true"))
    return merged


def _plain(file: str, key: str, value: str) -> PropertyEntry:
    return PropertyEntry(key, value, file, None, value)
