"""Conflicts of connectors of a pair of clusters: each connector runs, but misses the records that the other writes.

MirrorMaker 2 is silent about conflicts: groups stay untranslated, or records are copied twice, and its log lacks the
reason. Connectors belong together when they connect to the same clusters, under any alias.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twinlog.config.connector import ConnectorFlow
from twinlog.errors import ConfigError
from twinlog.mirror.topology.filters import spelled_out
from twinlog.mirror.topology.plugins import policy_of
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.topics import listed
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings
from twinlog.worker.topics.route_cycles import routed_flow
from twinlog.worker.topics.topic_conflicts import may_meet

_SAMPLE = TopicName("orders")
_NAMING = {
    "source.cluster.alias": "source_name",
    "replication.policy.class": "policy",
    "replication.policy.separator": "separator",
}
_SYNCS = {
    "source.cluster.alias": "source_name",
    "target.cluster.alias": "target_name",
    "replication.policy.separator": "separator",
    "replication.policy.internal.topic.separator.enabled": "internal_separator_follows",
    "offset-syncs.topic.location": "offset_syncs_location",
}
_CLASSES = {
    "default": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
    "identity": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
}


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A conflict between the connector `name` and another connector, with the settings of `name` that fix it."""

    name: str
    other: str
    what: str
    settings: Mapping[str, str]
    message_id: str = "TW-WORKER-11"

    def __str__(self) -> str:
        changes = ", ".join(f"{key} = {value}" for key, value in self.settings.items())
        return f"{self.what}. To fix it, write in {self.name}: {changes}; or change {self.other} likewise."


def disagreements(connectors: Iterable[ConnectorFlow]) -> list[Disagreement]:
    """The conflicts between any two of the connectors of a worker; disabled connectors are left out."""
    running = [connector for connector in connectors if not connector.idle]
    sources = [connector for connector in running if connector.kind == "source"]
    found = []
    for one in running:
        for source in sources:
            if one is not source and _same_clusters(one.settings, source.settings):
                found += _of_pair(one, source)
    return found


def _of_pair(one: ConnectorFlow, source: ConnectorFlow) -> list[Disagreement]:
    if one.kind == "checkpoint":
        return [found for found in (_syncs(one, source), _naming(one, source)) if found is not None]
    found = _heartbeats(one, source) if one.kind == "heartbeat" else _doubling(one, source)
    return [] if found is None else [found]


def _syncs(one: ConnectorFlow, source: ConnectorFlow) -> Disagreement | None:
    reads, writes = one.settings, source.settings
    if not writes.emit_offset_syncs:
        what = (
            f"offset syncs are switched off in {source.name}, and {one.name} needs them to translate offsets of groups"
        )
        return Disagreement(source.name, one.name, what, {"emit.offset-syncs.enabled": "true"})
    if _syncs_place(reads) == _syncs_place(writes):
        return None
    what = (
        f"{one.name} looks for offset syncs in {_place(reads)}, but {source.name} writes them to {_place(writes)}, so "
        "offsets of groups stay untranslated"
    )
    return Disagreement(one.name, source.name, what, _different(reads, writes, _SYNCS))


def _naming(one: ConnectorFlow, source: ConnectorFlow) -> Disagreement | None:
    try:
        here, there = _remote(one.settings), _remote(source.settings)
    except ConfigError:
        # A policy class that fails is reported by its connector.
        return None
    if here == there:
        return None
    what = (
        f"checkpoints of {one.name} name {here} on the target, but {source.name} copies {_SAMPLE} to {there}, so "
        "groups get offsets of other topics than the copies"
    )
    return Disagreement(one.name, source.name, what, _different(one.settings, source.settings, _NAMING))


def _heartbeats(one: ConnectorFlow, source: ConnectorFlow) -> Disagreement | None:
    if _ends(one.settings) == _ends(source.settings):
        return None
    what = (
        f"heartbeats of {one.name} are of {_ends(one.settings)}, so a monitor of {_ends(source.settings)}, which "
        f"{source.name} mirrors, finds none"
    )
    aliases = {"source.cluster.alias": "source_name", "target.cluster.alias": "target_name"}
    return Disagreement(one.name, source.name, what, _different(one.settings, source.settings, aliases))


def _doubling(one: ConnectorFlow, source: ConnectorFlow) -> Disagreement | None:
    """The conflict in topics that `one` names in full; the copier logs conflicts in other topics once it knows them."""
    if not may_meet(one.settings, source.settings):
        return None
    try:
        topics = _doubled(one.settings, source.settings)
    except ConfigError:
        # A failing class of the user is reported by the connector that copies the topic.
        return None
    if not topics:
        return None
    what = (
        f"{one.name} and {source.name} are both to copy {listed(topics)} into the same remote topics. As every record "
        "would be there twice, only the connector that began with a topic copies it. Leave the topic to that "
        "connector: the other connector would copy the topic from its beginning"
    )
    exclude = ", ".join([*one.settings.topics_exclude, *topics])
    return Disagreement(one.name, source.name, what, {"topics.exclude": exclude}, "TW-WORKER-12")


def _doubled(one: FlowSettings, other: FlowSettings) -> list[TopicName]:
    here, there = (routed_flow(flow, topology_of(flow)) for flow in (one, other))
    if here is None or there is None:
        return []
    named = (TopicName(name) for name in sorted(spelled_out(one.topics)))
    both = (name for name in named if here.topology.mirrors(name) and there.topology.mirrors(name))
    # Both connectors copy heartbeats, see TopicConflicts.
    records = (name for name in both if not here.topology.is_heartbeats(name))
    return [name for name in records if here.destination(name) == there.destination(name)]


def _different(one: FlowSettings, other: FlowSettings, fields: Mapping[str, str]) -> dict[str, str]:
    """The values of `other` for the keys in which the two flows differ."""
    return {key: _text(other, field) for key, field in fields.items() if getattr(one, field) != getattr(other, field)}


def _text(flow: FlowSettings, field: str) -> str:
    value = getattr(flow, field)
    if field == "policy":
        return _CLASSES.get(value) or (flow.policy_class.path if flow.policy_class is not None else value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _remote(flow: FlowSettings) -> TopicName:
    """The name of the remote topic of a topic called `orders`."""
    return policy_of(flow).remote_name(flow.source_name, _SAMPLE)


def _ends(flow: FlowSettings) -> str:
    return f"{flow.source_name}->{flow.target_name}"


def _syncs_place(flow: FlowSettings) -> tuple[str, str]:
    return flow.offset_syncs_location, flow.offset_syncs_topic


def _place(flow: FlowSettings) -> str:
    return f"{flow.offset_syncs_topic} on the {flow.offset_syncs_location}"


def _same_clusters(one: FlowSettings, other: FlowSettings) -> bool:
    ends = ((one.source_admin, other.source_admin), (one.target_admin, other.target_admin))
    return all(a.client.shares_servers(b.client) for a, b in ends)
