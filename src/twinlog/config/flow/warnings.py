"""Warnings about the flows of a file: names of topics, cycles of topics, and settings that lose.

MirrorMaker 2 takes `source.cluster.alias`, `target.cluster.alias` and `replication.policy.separator` as they are
written, also empty. Before MirrorMaker 2 had an identity policy, users kept names by leaving the alias of the source
and the separator empty, and many files still do (Kafka classes MirrorMakerConfig and DefaultReplicationPolicy).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from twinlog.config.keys.connector import IDENTITY_POLICIES
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.config_reader import ConfigReader
from twinlog.config.text.entries import ParsedFile
from twinlog.config.text.precedence import FlowLayers
from twinlog.errors import ConfigError
from twinlog.mirror.topology.cycles import TopicCycle, cycle, returning
from twinlog.mirror.topology.topology import Topology, topology_of
from twinlog.model.topic_names import HEARTBEATS
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings, PolicyName

_SEPARATOR = "replication.policy.separator"
_CONFIGS = "sync.topic.configs.enabled"
_SOURCE, _TARGET = "source.cluster.alias", "target.cluster.alias"


def follows_settings(layers: FlowLayers, separator: str, policy: PolicyName) -> bool:
    """Whether settings of a remote topic are kept in step once it exists.

    MirrorMaker 2 keeps the settings of remote topics that it recognises by their names. If the separator is empty,
    MirrorMaker 2 takes the first letter for an alias. Then it takes every remote topic for an original, unless the
    alias of the source is a single letter (Kafka class MirrorSourceConnector, topicsBeingReplicated).
    """
    return policy != "default" or bool(separator) or len(layers.source_name) == 1


def warn_of_naming(layers: FlowLayers, connector: ConfigReader, flow: FlowSettings, warnings: list[str]) -> None:
    """Warn of names that an enabled flow gives or reads otherwise than its file seems to ask for."""
    warnings.extend(_other_aliases(layers, flow))
    if flow.policy == "identity" and flow.source_name == flow.target_name:
        key = _TARGET if _TARGET in layers.connector else _SOURCE
        warnings.append(
            f"{_place(layers, key)}: {flow.name} calls source and target {str(flow.source_name)!r}, so that the "
            "identity policy takes every topic for a copy from the target: only heartbeats are mirrored, as in "
            f"MirrorMaker 2; leave out {_TARGET}"
        )
    if flow.policy != "default" or flow.separator:
        return
    where = _place(layers, _SEPARATOR)
    if len(flow.target_name) == 1:
        warnings.append(
            f"{where}: with an empty separator each letter of a name counts for an alias: {flow.name} leaves out each "
            f"topic whose name has {str(flow.target_name)!r} before its last letter, as in MirrorMaker 2; write "
            f"{layers.names.connector(_TARGET)} with a longer alias, or with an empty alias"
        )
    if not follows_settings(layers, flow.separator, flow.policy) and connector.flag(_CONFIGS):
        leave = f"leave out {_TARGET}" if flow.source_name == flow.target_name else "leave the rest as it is"
        identity = f"add replication.policy.class = {IDENTITY_POLICIES[0]}, and {leave}"
        warnings.append(
            f"{where}: with an empty separator {flow.name} creates a remote topic with the settings of its source, "
            "and leaves them as they are afterwards, as in MirrorMaker 2; to have them kept in step, "
            f"{identity if flow.keeps_names else 'write a separator'}; to silence this warning, add {_CONFIGS} = false"
        )


def warn_of_shared_syncs(flows: Sequence[FlowSettings], warnings: list[str]) -> None:
    """Warn of two flows that write offset syncs of the same partitions to the same topic, as their aliases are
    equal."""
    for one, other in combinations(flows, 2):
        if (
            one.emit_offset_syncs
            and other.emit_offset_syncs
            and (_syncs_cluster(one), one.offset_syncs_topic) == (_syncs_cluster(other), other.offset_syncs_topic)
        ):
            key = _TARGET if one.offset_syncs_location == "source" else _SOURCE
            warnings.append(
                f"flows {one.name} and {other.name} write offset syncs to the same topic, {one.offset_syncs_topic} on "
                f"{_syncs_cluster(one)}, because they have the same {key}: offsets of groups are translated wrongly "
                f"by MirrorMaker 2 then; write {one.name}.{key} and {other.name}.{key} with an alias each"
            )


def _syncs_cluster(flow: FlowSettings) -> str:
    return flow.source if flow.offset_syncs_location == "source" else flow.target


def _other_aliases(layers: FlowLayers, flow: FlowSettings) -> Iterator[str]:
    """A warning for each alias that differs from the file's and from ""; the effect of an empty alias is obvious."""
    source, target = flow.source_name, flow.target_name
    if source and source != flow.source:
        yield (
            f"{_place(layers, _SOURCE)}: remote topics and stored positions are named after {str(source)!r} in "
            f"{flow.name} instead of {str(flow.source)!r}, as in MirrorMaker 2"
        )
    if target and target != flow.target:
        yield (
            f"{_place(layers, _TARGET)}: offset syncs and heartbeats are named after {str(target)!r} in {flow.name} "
            f"instead of {str(flow.target)!r}, as in MirrorMaker 2"
        )


def _place(layers: FlowLayers, key: str) -> str:
    entry = layers.connector[key]
    return f"{entry.place}: {entry.key}"


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
            f"flow {flow.name}: the alias {alias} contains the separator {flow.separator!r}, so remote topic names "
            "are ambiguous and loops between clusters stay hidden; choose another separator"
            for alias in (flow.source_name, flow.target_name)
            if flow.policy == "default" and flow.separator and flow.separator in alias
        )
        if flow.source_admin.client.shares_servers(flow.target_admin.client):
            warnings.append(
                f"flow {flow.name}: source and target share a bootstrap server; if they are the same cluster, copies "
                "are made beside their topics, and the flow refuses to run if it would copy them again"
            )
        back = directions.get((flow.target, flow.source))
        if back is not None and flow.source < flow.target and (flow.keeps_names or back.keeps_names):
            warnings.append(
                f"flows {flow.name} and {back.name}: as topic names are kept ({_keeping(flow, back)}), a topic that "
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
                f"flows {one.name} and {other.name}: both would write {', '.join(both)} on {one.target}, because "
                f"topic names are kept ({_keeping(one, other)}); if both clusters have the topic, only a single flow "
                "copies it; keep `topics` of the two apart"
            )


def _keeping(one: FlowSettings, other: FlowSettings) -> str:
    """The reason why two flows keep names."""
    kept = "identity" in {one.policy, other.policy}
    return "identity policy" if kept else "an empty separator and an empty source.cluster.alias"


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
        _entry_place(entry)
        for one in back.way
        if (known := layers.get(one.name)) is not None
        for setting in _NAMING
        if (entry := known.connector.get(setting)) is not None
    )
    where = "; ".join(lines)
    left = (
        ("records that came from a target are kept from going back there")
        if back.brought_by is not None
        else "they are left out"
    )
    return (
        f"{f'{where}: ' if where else ''}the flows {flows} call remote topics differently, and each knows only its "
        f"own copies: MirrorMaker 2 copies topics in a cycle for ever ({', '.join(names[:_SHOWN])}, ...); here "
        f"{left}; give all of them the same {_NAMING[1]} and {_NAMING[0]}, or keep their `topics` apart"
    )


def _entry_place(entry: PropertyEntry) -> str:
    return f"{entry.place}: {entry.key}"
