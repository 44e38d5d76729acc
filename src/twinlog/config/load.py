"""From the path of a MirrorMaker 2 properties file to its flows, with warnings about settings and cycles of topics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path

from twinlog.config.file_kind import FileKind, is_resource, require_kind
from twinlog.config.flow.flow import build_flow
from twinlog.config.flow.naming import warn_of_shared_syncs
from twinlog.config.keys.key import UnknownKeys
from twinlog.config.keys.scope import SourceAndTarget
from twinlog.config.keys.table import CONNECTOR, PROCESS
from twinlog.config.metrics import read_metrics
from twinlog.config.model import MirrorConfig
from twinlog.config.properties import PropertyEntry, read_properties
from twinlog.config.text.parse import ParsedFile, parse_file
from twinlog.config.text.reading import ConfigReader, Problems, read_fields
from twinlog.config.text.resolve import FlowLayers, resolve_flow
from twinlog.errors import ConfigError, ConfigProblem
from twinlog.mirror.topology.cycles import TopicCycle, cycle, returning
from twinlog.mirror.topology.topology import Topology, topology_of
from twinlog.model.topic_names import HEARTBEATS
from twinlog.model.types import TopicName
from twinlog.settings.driver import DriverListener
from twinlog.settings.flow import FlowSettings

_NAME = re.compile(r"[\w.-]+")


def warn_of_lost_overrides(layers: FlowLayers, found: ParsedFile) -> None:
    """`S->T.consumer.x` is weaker than `S.consumer.x` (MirrorConnectorConfig), contrary to expectation."""
    name = f"{layers.source}->{layers.target}"
    for setting, entry in found.flows.get((layers.source, layers.target), {}).items():
        if not setting.startswith(("consumer.", "admin.")):
            continue
        winner = layers.connector.get(f"source.{setting}")
        if winner is not None and winner.value != entry.value:
            found.warnings.append(
                f"{entry.place}: {entry.key} loses against {winner.named}; write {name}.source.{setting}"
            )


def warn_of_cycles(flows: Sequence[FlowSettings], warnings: list[str]) -> None:
    """Warn of ways on which records could return to their first cluster."""
    directions = {(flow.source, flow.target): flow for flow in flows}
    for flow in flows:
        warnings.extend(
            f"flow {flow.name}: the alias {alias} contains the separator {flow.separator!r}, so remote topic "
            "names cannot be taken apart and loops between clusters are not noticed; choose another separator"
            for alias in (flow.source_name, flow.target_name)
            if flow.policy == "default" and flow.separator and flow.separator in alias
        )
        if flow.source_admin.client.shares_servers(flow.target_admin.client):
            warnings.append(
                f"flow {flow.name}: source and target share a bootstrap server; if they are one cluster, copies are "
                "made beside their topics, and where they would be copied again, the flow does not run"
            )
        back = directions.get((flow.target, flow.source))
        if back is not None and flow.source < flow.target and (flow.keeps_names or back.keeps_names):
            warnings.append(
                f"flows {flow.name} and {back.name}: where topic names are kept ({_keeping(flow, back)}), a topic that "
                "both mirror would be copied in a cycle for ever and is left out by both; keep `topics` of the two "
                "apart"
            )


def warn_of_conflicts(flows: Sequence[FlowSettings], warnings: list[str]) -> None:
    """Topics that two flows name and that both would write, because both keep names. Patterns show while they run."""
    for one, other in combinations(flows, 2):
        if one.target != other.target or not (one.keeps_names and other.keeps_names):
            continue
        if one.topic_filter_class is not None or other.topic_filter_class is not None:
            continue
        both = [name for name in one.topics if name in other.topics and _NAME.fullmatch(name)]
        both = [name for name in both if name not in {*one.topics_exclude, *other.topics_exclude}]
        if both:
            warnings.append(
                f"flows {one.name} and {other.name}: both would write {', '.join(both)} on {one.target}, because topic "
                f"names are kept ({_keeping(one, other)}); where both clusters have the topic, only one of the two "
                "copies it; keep `topics` of the two apart"
            )


def _keeping(one: FlowSettings, other: FlowSettings) -> str:
    """The reason why two flows keep names."""
    kept = "identity" in {one.policy, other.policy}
    return "identity policy" if kept else "no separator and no source.cluster.alias"


_NAMING = ("replication.policy.class", "replication.policy.separator", "source.cluster.alias")
_ANY = "orders"
_SHOWN = 4


def warn_of_loops(flows: Sequence[FlowSettings], layers: Mapping[str, FlowLayers], warnings: list[str]) -> None:
    """Warn of flows that would copy topics in a cycle, tried with topics that their `topics` may let through.

    `layers` are the layers of the flows, by their names. Two flows that keep names have a warning of their own.
    """
    rules = []
    for flow in flows:
        try:
            rules.append(topology_of(flow))
        except ConfigError:
            # The class exists only on that flow's host, or the problem is reported elsewhere.
            continue
    warned: set[frozenset[str]] = set()
    for rule in rules:
        for topic in _samples(rule):
            back = _found(rule, topic, rules)
            among = frozenset(one.name for one in back.way) if back is not None else frozenset()
            kept = any(one.keeps_names for one in back.way) if back is not None else False
            if back is None or among in warned or (kept and len(among) == 2):
                continue
            warned.add(among)
            warnings.append(_text(back, topic, layers))


def _found(rule: Topology, topic: TopicName, rules: Sequence[Topology]) -> TopicCycle | None:
    """A cycle as MirrorMaker 2 would have it, and whether the names of other flows open it here."""
    way = cycle(rule, topic, rules)
    if not way:
        return None
    return returning(rule, topic, rules) or TopicCycle(way, rule)


def _samples(rule: Topology) -> list[TopicName]:
    """Topics that the flow mirrors: names in `topics`, and for each expression a name that it may mean."""
    tried = [pattern.replace("\\.", ".").replace(".*", "").replace(".+", "x") for pattern in rule.topics.include]
    tried = [name or _ANY for name in (*tried, _ANY, HEARTBEATS)]
    found = []
    for name in dict.fromkeys(map(TopicName, tried)):
        try:
            if rule.mirrors(name):
                found.append(name)
        except ConfigError:
            continue
    return found


def _text(back: TopicCycle, topic: TopicName, layers: Mapping[str, FlowLayers]) -> str:
    names = [topic]
    for one in back.way:
        names.append(one.remote_name(names[-1]))
    flows = ", ".join(one.name for one in back.way)
    lines = dict.fromkeys(
        _place(entry)
        for one in back.way
        if (known := layers.get(one.name)) is not None
        for setting in _NAMING
        if (entry := known.connector.get(setting)) is not None
    )
    where = "; ".join(lines)
    left = "what came from a target is not sent back there" if back.brought_by is not None else "they are left out"
    return (
        f"{f'{where}: ' if where else ''}the flows {flows} do not call remote topics alike, and each knows only its "
        f"own copies: MirrorMaker 2 copies topics in a cycle for ever ({', '.join(names[:_SHOWN])}, ...); here "
        f"{left}; give all of them one {_NAMING[1]} and one {_NAMING[0]}, or keep their `topics` apart"
    )


def _place(entry: PropertyEntry) -> str:
    return f"{entry.place}: {entry.key}"


def load(
    path: str | Path,
    clusters: Sequence[str] | None = None,
    *,
    unknown_keys: UnknownKeys = "fail",
    secrets: Path | None = None,
) -> MirrorConfig:
    """The flows of the file at `path`; with `clusters`, only the flows with a target among them.

    The file is MirrorMaker 2's properties, or Strimzi's resource `KafkaMirrorMaker2`, of which each mirror is a flow.
    The Secrets that a resource names are in the directory `secrets`, or in the directory of TWINLOG_SECRETS_DIR. The
    enabled flows come first, then the flows that only write heartbeats. `unknown_keys` counts if the file lacks
    `twinlog.unknown.keys`. Raises ConfigError with every problem found. Reads only this file, the targets of its
    `${...}` references, and the key stores and Python classes that it names; contacts no cluster.
    """
    return load_file(path, clusters, unknown_keys=unknown_keys, secrets=secrets).config


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file after reading: its flows, and its parsed entries."""

    config: MirrorConfig
    parsed: ParsedFile


def load_file(
    path: str | Path,
    clusters: Sequence[str] | None = None,
    *,
    unknown_keys: UnknownKeys = "fail",
    secrets: Path | None = None,
) -> LoadedFile:
    """The same as `load`, with the entries of the file."""
    if is_resource(path):
        from twinlog.config.strimzi.load import parsed_resource  # noqa: PLC0415 - YAML is slow to import

        found = parsed_resource(path, secrets)
    else:
        require_kind(path, FileKind.MIRROR)
        found = parse_file(read_properties(Path(path)), str(path), unknown_keys)
    return LoadedFile(_config(found, str(path), clusters, as_mirror_maker=unknown_keys == "warn"), found)


def _config(found: ParsedFile, file: str, clusters: Sequence[str] | None, *, as_mirror_maker: bool) -> MirrorConfig:
    """Raises ConfigError with every problem."""
    problems = Problems(found.problems)
    _check_filter(found, clusters, problems)
    wanted = [ends for ends in permutations(found.aliases, 2) if clusters is None or ends[1] in clusters]
    enabled = _enabled(found, wanted, problems)
    layers = {ends: resolve_flow(found, *ends) for ends in wanted}
    beating = [ends for ends in wanted if ends not in enabled and _writes_heartbeats(layers[ends], problems)]
    flows = [build_flow(layers[ends], file, problems, found.warnings, enabled=True) for ends in enabled]
    if all(problem.key != "clusters" for problem in problems.all()):
        # A problem of an enabled flow usually concerns its neighbours, too; it is reported once.
        more = Problems([])
        flows += [build_flow(layers[ends], file, more, found.warnings, enabled=False) for ends in beating]
        problems.add_new(more.all())
    for ends in enabled:
        warn_of_lost_overrides(layers[ends], found)
    here = {(flow.source, flow.target): flow for flow in flows if flow.enabled}
    every = list(permutations(found.aliases, 2))
    # The problems of flows on another host belong to that host.
    others = _enabled(found, [ends for ends in every if ends not in wanted], Problems([]))
    layers |= {ends: resolve_flow(found, *ends) for ends in others}
    elsewhere = {ends: build_flow(layers[ends], file, Problems([]), [], enabled=True) for ends in others}
    all_enabled = [flow for ends in every if (flow := here.get(ends) or elsewhere.get(ends)) is not None]
    warn_of_cycles(all_enabled, found.warnings)
    warn_of_conflicts(all_enabled, found.warnings)
    warn_of_shared_syncs(all_enabled, found.warnings)
    warn_of_loops(all_enabled, {"->".join(ends): layers[ends] for ends in layers}, found.warnings)
    if not enabled and not problems.all():
        _without_enabled(found, clusters, flows, problems, as_mirror_maker=as_mirror_maker)
    process = ConfigReader(found.top, PROCESS, problems)
    warm_up = process.flag("twinlog.warm.up.enabled")
    driver = DriverListener(**read_fields(DriverListener, process))
    metrics = read_metrics(found.top, PROCESS, file, problems, found.warnings)
    if problems.all():
        # From top to bottom, as a user fixes the file; problems that lack a line come last.
        in_order = sorted(problems.all(), key=lambda problem: (problem.line is None, problem.line or 0))
        raise ConfigError(in_order, found.warnings)
    return MirrorConfig(
        tuple(flows), found.aliases, tuple(found.warnings), tuple(all_enabled), warm_up, metrics, driver
    )


def _check_filter(found: ParsedFile, clusters: Sequence[str] | None, problems: Problems) -> None:
    known = ", ".join(found.aliases)
    for alias in clusters or ():
        if alias not in found.aliases:
            problems.add(
                ConfigProblem(found.file, None, "--clusters", repr(alias), f"aliases that clusters names: {known}")
            )


def _enabled(found: ParsedFile, wanted: Sequence[SourceAndTarget], problems: Problems) -> list[SourceAndTarget]:
    """The ends among `wanted` whose `S->T.enabled` is true; only that key counts (MirrorMakerConfig.clusterPairs)."""
    enabled: list[SourceAndTarget] = []
    for ends in wanted:
        layer = found.flows.get(ends, {})
        entry = layer.get("enabled")
        if entry is None or not ConfigReader(layer, CONNECTOR, problems).flag("enabled"):
            continue
        if entry.value != entry.value.strip():
            found.warnings.append(
                f"{entry.place}: {entry.key} is true with a blank after it; the flow runs here, "
                "but MirrorMaker 2 would not start it"
            )
        enabled.append(ends)
    return enabled


def _writes_heartbeats(layers: FlowLayers, problems: Problems) -> bool:
    """Every two clusters have heartbeats unless they are turned off (MirrorMakerConfig.clusterPairs)."""
    reading = ConfigReader(layers.connector, CONNECTOR, problems)
    return reading.flag("emit.heartbeats.enabled") and reading.number("emit.heartbeats.interval.seconds") >= 0


def _without_enabled(
    found: ParsedFile,
    clusters: Sequence[str] | None,
    flows: Sequence[FlowSettings],
    problems: Problems,
    *,
    as_mirror_maker: bool,
) -> None:
    """MirrorMaker 2 then writes heartbeats only; here that is an error unless the file or the user asks for it.

    The replacement for MirrorMaker 2's own command starts as the original does, with a warning.
    """
    elsewhere = bool(_enabled(found, list(permutations(found.aliases, 2)), Problems([]))) and clusters is not None
    asked = any("emit.heartbeats.enabled" in layer for layer in (found.top, *found.flows.values()))
    if flows and (elsewhere or asked or as_mirror_maker):
        where = ", ".join(dict.fromkeys(flow.target for flow in flows))
        way_out = "" if elsewhere or asked else f"; to copy, write {'->'.join(found.aliases[:2])}.enabled = true"
        found.warnings.append(f"no enabled flow leads to {where}; only heartbeats are written there{way_out}")
    elif elsewhere:
        words = ", ".join(clusters or ())
        problems.add(ConfigProblem(found.file, None, "--clusters", words, "targets of at least one enabled flow"))
    else:
        source, target = (*found.aliases, "A", "B")[:2]
        expected = (
            f"at least one, such as {source}->{target}.enabled = true; "
            "for heartbeats alone write emit.heartbeats.enabled = true"
        )
        problems.add(ConfigProblem(found.file, None, "enabled", "no flow is enabled", expected))
