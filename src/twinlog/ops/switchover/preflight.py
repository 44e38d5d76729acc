"""The pre-flight: derives the obstacles of a switchover, and notes for the operator, from facts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from twinlog.mirror.topology.topology import Topology
from twinlog.model.acls import AclOperation
from twinlog.model.topics import Topic, listed
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.ops.switchover.model import CopiedPosition, FenceMethod, MovedTopic, Preflight, SourceEnd, SwitchoverKind
from twinlog.ops.switchover.steps.waiting import lag


@dataclass(frozen=True, slots=True)
class PreflightFacts:
    """The facts of both clusters. `operations` are the operations that this principal may perform on the source, None
    when unknown. `authorizer` tells whether the source keeps ACLs, None when unreadable; `quotas` whether it takes
    client quotas from a client (KIP-546). `members` are groups of the source that have members, `runs` whether a
    process of the flow is a member of its group on the target."""

    source: Alias
    target: Alias
    kind: SwitchoverKind
    topics: tuple[MovedTopic, ...]
    target_topics: Mapping[TopicName, Topic]
    ends: Mapping[TopicPartition, SourceEnd]
    starts: Mapping[TopicPartition, int]
    copied: Mapping[TopicPartition, CopiedPosition]
    authorizer: bool | None = None
    quotas: bool = True
    operations: frozenset[int] | None = None
    members: Collection[str] = ()
    on_target: Collection[str] = ()
    runs: bool = True
    transactions: tuple[str, ...] = ()
    source_error: str | None = None
    fenced_too: Collection[TopicName] = ()
    earlier: bool = True
    staying: Collection[TopicName] = ()
    """Source topics that the flow leaves out."""
    under_way: bool = False
    """Whether a switchover the other way has begun and is unfinished."""
    rate: float | None = None
    unread: tuple[str, ...] = field(default=())


def moved_topics(
    topology: Topology, aliases: Collection[Alias], source: Mapping[TopicName, Topic]
) -> tuple[MovedTopic, ...]:
    """The topics of a flow, but for heartbeats. A copy from a third cluster has its producers elsewhere."""
    found = []
    for name, topic in sorted(source.items()):
        if topology.mirrors(name) and not topology.is_heartbeats(name):
            remote = topology.remote_name(name)
            copy = remote != name and topology.policy.source_alias(name) in aliases
            found.append(MovedTopic(name, remote, topic.partitions, TopicName("") if copy else name))
    return tuple(found)


def judge(facts: PreflightFacts, wanted: FenceMethod | None) -> Preflight:
    """Return the verdict for a switchover whose fence is `wanted`, None to choose a fence."""
    fence = wanted or (FenceMethod.QUOTA if facts.authorizer is False else FenceMethod.ACL)
    problems, notes = [], list(facts.unread)
    if not facts.topics:
        problems.append(f"flow {facts.source}->{facts.target} mirrors no topic that exists on {facts.source}")
    if facts.kind is SwitchoverKind.EMERGENCY:
        if facts.source_error is None:
            notes.append(f"cluster {facts.source} still answers: a planned switchover loses nothing, this one may")
        else:
            notes.append(f"cluster {facts.source} does not answer, and producers there are not fenced")
        return Preflight(facts.topics, fence, tuple(problems), tuple(notes))
    problems += _of_fence(facts, fence)
    if facts.kind is SwitchoverKind.BACK and not facts.earlier:
        problems.append(f"no switchover {facts.target}->{facts.source} is recorded as done, so there is no way back")
    if facts.under_way:
        problems.append(
            f"a switchover {facts.target}->{facts.source} has begun and is not complete; complete it, or undo it with "
            "--abort"
        )
    missing = [
        topic.remote
        for topic in facts.topics
        if topic.remote not in facts.target_topics or facts.target_topics[topic.remote].partitions < topic.partitions
    ]
    left = lag({where: end.end for where, end in facts.ends.items()}, facts.starts, facts.copied)
    if facts.kind is SwitchoverKind.PLANNED:
        if missing:
            problems.append(f"{listed(missing)}: not on {facts.target}, or with fewer partitions; the flow makes them")
        uncopied = {where.topic for where in left if where not in facts.copied and where.topic not in missing}
        if uncopied:
            problems.append(
                f"{listed(uncopied)}: nothing is copied yet, by the positions on {facts.target}; MirrorMaker 2 stores "
                "these at offset.flush.interval.ms, once a minute by default"
            )
    expected = sum(topic.partitions for topic in facts.topics)
    if len(facts.ends) < expected:
        problems.append(f"{expected - len(facts.ends)} partitions of {facts.source} have no leader")
    notes += _notes(facts, fence)
    return Preflight(facts.topics, fence, tuple(problems), tuple(notes), sum(left.values()), facts.rate)


def _of_fence(facts: PreflightFacts, fence: FenceMethod) -> list[str]:
    needed = {FenceMethod.ACL: AclOperation.ALTER, FenceMethod.QUOTA: AclOperation.ALTER_CONFIGS}.get(fence)
    found = []
    other = FenceMethod.QUOTA if facts.quotas else FenceMethod.NONE
    if fence is FenceMethod.ACL and facts.authorizer is False:
        found.append(f"cluster {facts.source} has no authorizer, so ACLs refuse nobody; use --fence {other}")
    if fence is FenceMethod.QUOTA and not facts.quotas:
        found.append(
            f"cluster {facts.source} takes no quotas over its protocol, as no Kafka before 2.6 does; use "
            f"{'' if facts.authorizer is False else '--fence acl, or '}--fence none, and stop its producers when the "
            "switchover waits for that"
        )
    allowed = facts.operations is None or AclOperation.ALL in facts.operations or needed in facts.operations
    if needed is not None and not allowed:
        found.append(f"this login lacks {needed.name} on cluster {facts.source}, needed for --fence {fence}")
    return found


def _notes(facts: PreflightFacts, fence: FenceMethod) -> list[str]:
    found = []
    if fence is FenceMethod.ACL:
        found.append(f"super users of {facts.source} pass ACLs: stop those that write")
    if fence is FenceMethod.ACL and facts.fenced_too:
        found.append(f"fenced as well, for their names begin with that of a mirrored topic: {listed(facts.fenced_too)}")
    if fence is FenceMethod.QUOTA:
        found.append(
            f"a quota throttles every producer of {facts.source}, those of other topics too, and a throttled one stays "
            "silent after an undo until it is started anew"
        )
    if fence is FenceMethod.NONE:
        found.append(
            f"nothing fences producers: stop all that write to {facts.source} when the switchover waits for it"
        )
    if not facts.runs:
        found.append(f"no process of flow {facts.source}->{facts.target} is in its group: it must run until the end")
    if facts.staying:
        found.append(f"not mirrored, so their producers are left alone: {listed(facts.staying)}")
    fewer = [
        topic.producers
        for topic in facts.topics
        if topic.producers in facts.target_topics and facts.target_topics[topic.producers].partitions < topic.partitions
    ]
    if fewer:
        found.append(f"{listed(fewer)}: fewer partitions on {facts.target}, where producers will write, than now")
    copies = [topic.name for topic in facts.topics if not topic.producers]
    if copies:
        found.append(f"{listed(copies)}: written by other flows, which are fenced, too")
    if facts.members:
        found.append(
            f"groups with members on {facts.source}: {listed(facts.members)}; they may read on until they stop"
        )
    if facts.on_target:
        found.append(f"groups with members on {facts.target}: {listed(facts.on_target)}; their offsets there stay")
    if facts.transactions:
        found.append(f"open now: {listed(facts.transactions)}; they are waited for")
    if any(topic.keeps_name for topic in facts.topics):
        found.append(
            f"topics keep their names: stop flow {facts.source}->{facts.target} after the switchover, before "
            f"{facts.target}->{facts.source} runs"
        )
    return found
