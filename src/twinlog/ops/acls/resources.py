"""The topics, groups and transactional ids of a flow, as the names and prefixes that an authorizer takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from twinlog.mirror.offsets.segments import segments_topic
from twinlog.mirror.topology.filters import DefaultGroupFilter, DefaultTopicFilter, name_beginnings
from twinlog.mirror.topology.plugins import group_filter_of, policy_of, topic_filter_of
from twinlog.model.acls import CLUSTER_NAME, EVERY_TOPIC, PatternType, ResourceType
from twinlog.model.groups import GROUPS_TOPIC
from twinlog.model.topic_names import HEARTBEATS, RELOADS, SWITCHOVERS, control_topic
from twinlog.model.types import TopicName
from twinlog.ops.replay.model import INTO
from twinlog.settings.flow import FlowSettings

MIRROR_TOPICS = "mm2-"
"""The prefix of the topics of MirrorMaker 2 and twinlog."""

TWINLOG_TOPICS = "mm2-twinlog-"
"""The prefix of the topics of twinlog."""

SWITCHOVER_IDS = "mm2-twinlog-switchover-"
"""The prefix of the transactional ids of switchovers."""

_LITERAL = PatternType.LITERAL


class Resource(NamedTuple):
    """Resources of a cluster: a single name, `*` for all names, or all names with a prefix."""

    kind: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL

    def covers(self, other: Resource) -> bool:
        """Whether a right on this resource is a right on `other`, too."""
        if self.kind != other.kind:
            return False
        if self.pattern == PatternType.PREFIXED:
            return other.name != EVERY_TOPIC and other.name.startswith(self.name)
        return self.name == EVERY_TOPIC or (self.name, self.pattern) == (other.name, other.pattern)


Places = Callable[[FlowSettings], Iterable[Resource]]


def _topic(*names: str) -> tuple[Resource, ...]:
    return tuple(Resource(ResourceType.TOPIC, name) for name in names)


def _of_beginnings(kind: ResourceType, beginnings: Iterable[tuple[str, bool]]) -> tuple[Resource, ...]:
    """A resource for each name or prefix; an empty prefix means every name."""
    found = [
        Resource(kind, EVERY_TOPIC) if not text else Resource(kind, text, PatternType.PREFIXED if more else _LITERAL)
        for text, more in beginnings
    ]
    return tuple(one for one in found if not any(other.covers(one) for other in found if other != one))


def mirrored_topics(flow: FlowSettings) -> tuple[Resource, ...]:
    """The topics of the source that the flow may mirror, as names and prefixes of `topics`."""
    filter_ = topic_filter_of(flow)
    beginnings = list(name_beginnings(filter_.include)) if type(filter_) is DefaultTopicFilter else [("", True)]
    if flow.heartbeats_replication_enabled:
        beginnings.append((HEARTBEATS, False))
    return _of_beginnings(ResourceType.TOPIC, beginnings)


def remote_topics(flow: FlowSettings) -> tuple[Resource, ...]:
    """The copies of `mirrored_topics` on the target."""
    policy = policy_of(flow)
    if flow.policy == "custom":
        return _topic(EVERY_TOPIC)
    beginnings = []
    for one in mirrored_topics(flow):
        name = "" if one.name == EVERY_TOPIC else one.name
        more = one.name == EVERY_TOPIC or one.pattern == PatternType.PREFIXED
        beginnings.append((str(policy.remote_name(flow.source_name, TopicName(name))), more))
    return _of_beginnings(ResourceType.TOPIC, beginnings)


def replayed_topics(flow: FlowSettings) -> tuple[Resource, ...]:
    """The topics of a replay, by the default of its option."""
    return tuple(
        one._replace(name=INTO.format(remote=one.name, topic=one.name))
        if one.name != EVERY_TOPIC and one.pattern == PatternType.LITERAL
        else one
        for one in remote_topics(flow)
    )


def followed_groups(flow: FlowSettings) -> tuple[Resource, ...]:
    """The consumer groups that the flow follows, as names and prefixes of `groups`."""
    filter_ = group_filter_of(flow)
    beginnings = name_beginnings(filter_.include) if type(filter_) is DefaultGroupFilter else (("", True),)
    return _of_beginnings(ResourceType.GROUP, beginnings)


def cluster(_: FlowSettings) -> tuple[Resource, ...]:
    """The cluster itself."""
    return (Resource(ResourceType.CLUSTER, CLUSTER_NAME),)


def syncs_topic(flow: FlowSettings) -> tuple[Resource, ...]:
    """The topic of offset syncs."""
    return _topic(flow.offset_syncs_topic)


def own_topics(flow: FlowSettings) -> tuple[Resource, ...]:
    """The topics of twinlog and MirrorMaker 2 on the target: a prefix, and topics that a worker calls otherwise."""
    named = (flow.positions_topic, flow.earlier_positions_topic or flow.positions_topic)
    others = dict.fromkeys(name for name in named if not name.startswith(MIRROR_TOPICS))
    return (Resource(ResourceType.TOPIC, MIRROR_TOPICS, PatternType.PREFIXED), *_topic(*others))


def reports(flow: FlowSettings) -> tuple[Resource, ...]:
    """The topics of checkpoints and heartbeats, as far as the flow writes them."""
    names = []
    if follows(flow):
        names.append(policy_of(flow).checkpoints_topic(flow.source_name))
    if flow.emit_heartbeats_interval_s is not None and flow.kind in (None, "heartbeat"):
        names.append(HEARTBEATS)
    return _topic(*names)


def kept_small(flow: FlowSettings) -> tuple[Resource, ...]:
    """The topics of the flow on the target whose bounds it sets."""
    return (*own_topics(flow), *reports(flow)) if flow.copies else reports(flow)


def positions_of_way_back(flow: FlowSettings) -> tuple[Resource, ...]:
    """The positions and exact maps of the flow back."""
    return _topic(f"mm2-offsets.{flow.target}.internal", segments_topic(flow.target))


def flow_group(flow: FlowSettings) -> tuple[Resource, ...]:
    """The group of the processes that run the flow."""
    return (Resource(ResourceType.GROUP, flow.group_id),)


def mirror_maker_group(flow: FlowSettings) -> tuple[Resource, ...]:
    """The group of MirrorMaker 2's processes, beside which the flow runs."""
    return (Resource(ResourceType.GROUP, flow.mirror_maker_group_id),)


def transactions(flow: FlowSettings) -> tuple[Resource, ...]:
    """The transactional ids of the flow's tasks."""
    prefix = f"{flow.group_id}-{flow.connector_name}-"
    return (Resource(ResourceType.TRANSACTIONAL_ID, prefix, PatternType.PREFIXED),)


def seeded_positions(flow: FlowSettings) -> tuple[Resource, ...]:
    """The positions of the flow back, which a switchover writes."""
    return _topic(f"mm2-offsets.{flow.target}.internal")


def control(flow: FlowSettings) -> tuple[Resource, ...]:
    """The topic of requests about single topics."""
    return _topic(control_topic(flow.source))


def reloads(_: FlowSettings) -> tuple[Resource, ...]:
    """The topic of requests to read a file again."""
    return _topic(RELOADS)


def progress(flow: FlowSettings) -> tuple[Resource, ...]:
    """The topics that show how far the flow is."""
    checkpoints = policy_of(flow).checkpoints_topic(flow.source_name)
    return (*own_topics(flow), *_topic(HEARTBEATS, checkpoints))


def journal_ids(_: FlowSettings) -> tuple[Resource, ...]:
    """The transactional ids of switchovers."""
    return (Resource(ResourceType.TRANSACTIONAL_ID, SWITCHOVER_IDS, PatternType.PREFIXED),)


def notes_of_fences(_: FlowSettings) -> tuple[Resource, ...]:
    """The topics in which switchovers and flows note the ACLs of their fences."""
    return (Resource(ResourceType.TOPIC, TWINLOG_TOPICS, PatternType.PREFIXED),)


def offsets_of_groups(_: FlowSettings) -> tuple[Resource, ...]:
    """The topic of committed offsets."""
    return _topic(GROUPS_TOPIC)


def journal(_: FlowSettings) -> tuple[Resource, ...]:
    """The journal of a switchover."""
    return _topic(SWITCHOVERS)


def reads_way_back(flow: FlowSettings) -> bool:
    """Whether the flow reads the positions of the flow back: it translates offsets of groups in copies of the target's
    topics, if `topics` may match such a copy."""
    filter_ = topic_filter_of(flow)
    if not follows(flow) or type(filter_) is not DefaultTopicFilter or flow.policy == "custom":
        return follows(flow)
    copies = f"{flow.target_name}{flow.separator}"
    return any(
        text.startswith(copies) or (more and copies.startswith(text)) for text, more in name_beginnings(filter_.include)
    )


def follows(flow: FlowSettings) -> bool:
    """Whether the flow writes checkpoints of consumer groups."""
    return flow.enabled and flow.kind in (None, "checkpoint") and flow.emit_checkpoints_interval_s is not None
