"""Obstacles of a flow: names, record sizes, retention and disks of the target, and missing permissions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topics.changes import TopicChanges, TopicPair
from twinlog.mirror.topics.internal_topics import exact_maps, internal_topics, offset_syncs, positions
from twinlog.mirror.unlisted_topics import find_hidden
from twinlog.model.acls import AclOperation, forbidden, passes_acls
from twinlog.model.amounts import counted, shown_bytes
from twinlog.model.groups import CONNECT_PROTOCOL, GROUPS_TOPIC
from twinlog.model.topics import MAX_MESSAGE_BYTES, ConfigEntry, Disk, Topic, largest_batch, listed, value_of
from twinlog.model.types import Alias, GroupId, TopicName, TopicPartition
from twinlog.ops.inventory import Inventory, LogOffsets
from twinlog.ops.plan.flow_plan import Problem
from twinlog.settings.client import ClientSettings
from twinlog.settings.flow import FlowSettings

RETENTION = "retention.ms"

_Configs = Mapping[TopicName, Sequence[ConfigEntry]]

Lacks = Callable[[str, str, str], RefusedError]
"""`ClusterClient.lacks`: operation, resource and purpose to the sentence that a run would log."""


def colliding(new: Iterable[TopicName], there: Iterable[TopicName]) -> list[Problem]:
    """Names that differ in dots and underscores only; Kafka refuses the second of them (Kafka class Topic)."""
    by_metric: dict[str, list[TopicName]] = defaultdict(list)
    fresh = set(new)
    for name in sorted({*fresh, *there}):
        by_metric[name.replace(".", "_")].append(name)
    return [
        Problem(
            "clash",
            f"{', '.join(names)}: Kafka refuses two names that differ in dots and underscores only; choose another "
            "separator, or leave out all of these topics but a single topic",
            "TW-PLAN-03",
        )
        for names in by_metric.values()
        if len(names) > 1 and fresh.intersection(names)
    ]


def running_others(target: ClusterAdmin, flow: FlowSettings, there: Inventory) -> str | None:
    """The program that copies now and stores positions only from time to time, as MirrorMaker 2 does once a minute;
    None if it is absent, or if the right to ask is missing."""
    # To ask for the coordinator of a group makes a broker create this topic.
    if GROUPS_TOPIC not in there.topics:
        return None
    try:
        group = target.call(GroupAdmin(target.client).described, GroupId(flow.group_id))
    except ClusterError:
        return None
    if group.protocol != CONNECT_PROTOCOL or not group.members:
        return None
    return "MirrorMaker 2" if flow.kind is None else f"a worker of group {flow.group_id}"


def written_by_others(
    pairs: Iterable[TopicPair],
    target: Mapping[TopicName, Topic],
    logs: Mapping[TopicPartition, LogOffsets],
    copied: Iterable[TopicPartition],
    alias: Alias,
    others: str | None = None,
    compared: Container[TopicName] = (),
) -> tuple[list[Problem], list[str]]:
    """Remote topics that exist although this flow has yet to copy to them; with notes on odd partition counts.

    `logs` are the target's logs, `copied` the source partitions that have a position. `others` is another program that
    runs the flow now, if any; its newest positions may be missing. A run compares the records of the `compared` source
    topics with their remote topics.
    """
    known = {part.topic for part in copied}
    problems, notes = [], []
    if others == "MirrorMaker 2":
        notes.append(
            f"{others} runs the flow now, and a run waits until it has ended; the volume counts from the positions "
            "that it stored last, up to a minute ago by its defaults"
        )
    for pair in pairs:
        there = target.get(pair.remote)
        if there is None:
            continue
        parts = (TopicPartition(pair.remote, number) for number in range(there.partitions))
        held = sum(logs[part].offsets for part in parts if part in logs)
        if pair.source.name not in known and held and others is not None:
            notes.append(
                f"{pair.remote} is on {alias} with {counted(held, 'record')}, and a position is missing for "
                f"{pair.source.name}: "
                f"{others} may have copied them and may still store it; make this plan again once it has ended"
            )
        elif pair.source.name not in known and held and pair.source.name not in compared:
            problems.append(
                Problem(
                    "clash",
                    f"{pair.remote} is on {alias} with {counted(held, 'record')} of another origin than this flow: "
                    f"copies of {pair.source.name} would follow them; delete or rename it there, or leave "
                    f"{pair.source.name} out",
                )
            )
        elif there.partitions > pair.source.partitions:
            text = (
                f"{pair.remote} has {there.partitions} partitions on {alias}, {pair.source.name} has "
                f"{pair.source.partitions}"
            )
            if pair.source.name in known:
                notes.append(f"{text}: the last {there.partitions - pair.source.partitions} stay empty")
            else:
                problems.append(
                    Problem(
                        "clash",
                        f"{text}: producers that move would send the same key to another partition; recreate it, "
                        f"or add partitions to {pair.source.name}",
                        "TW-PLAN-02",
                    )
                )
    return problems, notes


def after_last_copy(
    pairs: Iterable[TopicPair],
    logs: Mapping[TopicPartition, LogOffsets],
    positions: Mapping[TopicPartition, Position],
    flow: FlowSettings,
) -> list[str]:
    """Notes on remote topics that hold records after the last copy with a stored position; `logs` are the target's
    logs."""
    # After the last record of a transaction is its marker.
    markers = 0 if flow.exactly_once == "disabled" else 1
    found: dict[TopicName, int] = defaultdict(int)
    for pair in pairs:
        for number in range(pair.source.partitions):
            position = positions.get(TopicPartition(pair.source.name, number))
            log = logs.get(TopicPartition(pair.remote, number))
            if position is not None and position.next_target is not None and log is not None:
                more = log.end - position.next_target
                found[pair.remote] += more if more > markers else 0
    return [
        f"{name} holds {counted(count, 'record')} after the last copy of which a position is stored: a copier that "
        "runs or was killed appended them, or another producer writes there; a run finds its copies among them, "
        "reports all "
        "other records and leaves them in place"
        for name, count in found.items()
        if count
    ]


def too_small_limits(
    flow: FlowSettings, pairs: Iterable[TopicPair], source: _Configs, target: _Configs
) -> tuple[list[Problem], list[str]]:
    """Remote topics that take smaller records than their source; `target` are settings as they will be."""
    smaller: dict[tuple[int, int, str], list[TopicName]] = defaultdict(list)
    for pair in pairs:
        mine, theirs = largest_batch(source.get(pair.source.name, ())), largest_batch(target.get(pair.remote, ()))
        if mine is not None and theirs is not None and theirs < mine:
            smaller[mine, theirs, flow.oversized_record_policy.for_topic(pair.source.name)].append(pair.remote)
    problems: list[Problem] = []
    notes: list[str] = []
    for (mine_bytes, their_bytes, policy), names in smaller.items():
        text = (
            f"records of up to {mine_bytes} bytes ({MAX_MESSAGE_BYTES}) may come to {listed(names)}, which takes "
            f"{their_bytes}: a larger record "
        )
        if policy in ("hold", "stop"):
            way_out = f"raise {MAX_MESSAGE_BYTES} there, or message.max.bytes of the brokers of {flow.target}"
            result = "would hold its partition" if policy == "hold" else "would end the flow"
            problems.append(Problem("record-limit", f"{text}{result}; {way_out}"))
        else:
            result = "is skipped" if policy == "skip" else f"goes to {flow.failed_records.dead_letter_topic}"
            notes.append(f"{text}{result} ({flow.key('oversized_record_policy')})")
    return problems, notes


def shorter_retention(flow: FlowSettings, pairs: Iterable[TopicPair], source: _Configs, target: _Configs) -> list[str]:
    """Notes on remote topics that keep records for less time: old records are deleted as soon as they are copied."""
    shorter: dict[tuple[str, str], list[TopicName]] = defaultdict(list)
    for pair in pairs:
        mine, theirs = (
            value_of(configs.get(name, ()), RETENTION)
            for configs, name in ((source, pair.source.name), (target, pair.remote))
        )
        policy = value_of(target.get(pair.remote, ()), "cleanup.policy") or ""
        if mine is None or theirs is None or "delete" not in policy:
            continue
        if float(theirs) >= 0 and not 0 <= float(mine) <= float(theirs):
            shorter[mine, theirs].append(pair.remote)
    return [
        f"{listed(names)}: {RETENTION} is {theirs} on {flow.target} and {mine} on {flow.source}; older records are "
        "deleted there soon after their copy"
        for (mine, theirs), names in shorter.items()
    ]


def too_full(disks: Sequence[Disk], size: int | None, replicas: int, alias: Alias) -> tuple[list[Problem], list[str]]:
    """Whether the target's disks have room for so many bytes, each written `replicas` times."""
    usable = [disk.usable for disk in disks if disk.usable is not None]
    if not size:
        return [], []
    if not usable:
        return [], [f"the free space of {alias}'s disks is unknown"]
    needed = size * max(1, replicas)
    text = f"{shown_bytes(needed)} will be written on {alias} ({replicas} replicas), whose disks have "
    # All directories of a volume report the space of the volume.
    volumes = {(disk.broker, disk.total, disk.usable): disk.usable or 0 for disk in disks if disk.usable is not None}
    room = sum(volumes.values())
    if needed > room:
        way_out = "add disks, shorten the retention, or copy fewer topics"
        return [Problem("disk", f"{text}{shown_bytes(room)} of room; {way_out}")], []
    return [], [f"{text}{shown_bytes(room)} of room"] if needed > room / 2 else []


def hidden_topics(cluster: ClusterAdmin, topics: Collection[Topic], purpose: str) -> list[Problem]:
    """A problem if the login lacks the right to see topics: a broker then refuses to confirm their absence.

    The list of all topics lacks `topics`. Raises ClusterError.
    """
    return _lacks(cluster, "DESCRIBE", "topic", sorted(find_hidden(cluster, topics)), purpose)


def unwritable_topics(
    target: ClusterAdmin, producer: ClientSettings, names: Sequence[TopicName], there: Inventory
) -> list[Problem]:
    """A problem if the login of the producer lacks the right to write to topics, by the target's ACLs."""
    # A super user has every right independent of ACLs. Brokers give names of their own to certificates and tokens.
    if not there.acls or there.operations is None or producer.sasl_username is None:
        return []
    login = f"User:{producer.sasl_username}"
    if passes_acls(there.acls, login, there.operations):
        return []
    lacking = [name for name in names if forbidden(there.acls, login, name, AclOperation.WRITE)]
    if not lacking:
        return []
    text = (
        f"cluster {target.alias}: {login} lacks WRITE on topic {listed(lacking)}, needed for copying to remote topics"
    )
    return [Problem("permission", text)]


def unreadable_groups(target: ClusterAdmin, groups: Sequence[GroupId], there: Inventory, purpose: str) -> list[Problem]:
    """A problem if the login lacks the right to take part in groups, or to commit for them. Raises ClusterError."""
    # To ask for the coordinator of a group makes a broker create this topic.
    if not groups or GROUPS_TOPIC not in there.topics:
        return []
    known = target.call(GroupAdmin(target.client).operations, groups)
    lacking = [name for name, may in known.items() if may is not None and AclOperation.READ not in may]
    return _lacks(target, "READ", "group", lacking, purpose)


def _lacks(target: ClusterAdmin, operation: str, kind: str, names: Sequence[str], purpose: str) -> list[Problem]:
    if not names:
        return []
    return [Problem.of("permission", target.client.lacks(operation, f"{kind} {listed(names)}", purpose))]


@dataclass(frozen=True, slots=True)
class ClusterRights:
    """The rights on a cluster of a flow: its inventory, and the wording of a missing permission."""

    inventory: Inventory
    lacks: Lacks

    def topics(self, operation: AclOperation, names: Iterable[TopicName], purpose: str) -> list[Problem]:
        """A problem if the login lacks the right to this operation on some of the topics that it sees."""
        lacking = [name for name in names if self.inventory.may(operation, name) is False]
        return [self._problem(operation, f"topic {listed(lacking)}", purpose)] if lacking else []

    def cluster(self, operation: AclOperation, purpose: str) -> list[Problem]:
        """A problem if the login lacks the right to this operation on the cluster."""
        if self.inventory.may(operation) is not False:
            return []
        return [self._problem(operation, "the cluster", purpose)]

    def _problem(self, operation: AclOperation, resource: str, purpose: str) -> Problem:
        return Problem.of("permission", self.lacks(operation.name, resource, purpose))


def missing_rights(
    flow: FlowSettings,
    source: ClusterRights,
    target: ClusterRights,
    changes: TopicChanges,
    acls: Sequence[object] | None,
) -> list[Problem]:
    """Return the permissions that a run would lack for existing topics; clusters check new topics when these are
    validated. `acls` are the ACLs to create, None if the flow leaves rights alone."""
    mirrored = [pair.source.name for pair in changes.pairs]
    remotes = [pair.remote for pair in changes.pairs]
    own = [topic.name for topic in internal_topics(flow) if topic.cluster == flow.target]
    read_back = {positions(flow).name, exact_maps(flow).name} if flow.copies else set()
    found = [
        *source.topics(AclOperation.READ, mirrored, "copying them"),
        *source.topics(AclOperation.DESCRIBE_CONFIGS, mirrored, "reading its settings"),
        *target.topics(AclOperation.WRITE, remotes, "copying to remote topics"),
        *target.topics(AclOperation.DESCRIBE_CONFIGS, remotes, "knowing the largest batch it takes"),
        *target.topics(AclOperation.WRITE, own, "storing the flow's positions"),
        *target.topics(AclOperation.READ, read_back, "continuing from the flow's positions"),
        *target.topics(AclOperation.DESCRIBE_CONFIGS, own, "checking that it is compacted"),
    ]
    if flow.copies and flow.emit_offset_syncs:
        holder = source if flow.offset_syncs_location == "source" else target
        found += holder.topics(AclOperation.WRITE, [offset_syncs(flow).name], "writing offset syncs")
    if acls is not None:
        found += source.cluster(AclOperation.DESCRIBE, "reading its ACLs")
        found += target.cluster(AclOperation.DESCRIBE, "reading its ACLs")
    if acls:
        found += target.cluster(AclOperation.ALTER, "creating ACLs")
    return found
