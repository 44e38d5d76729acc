"""The facts of both clusters before a switchover, which the pre-flight judges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.errors import RefusedError, TopicGoneError
from twinlog.kafka.admin.acls import describe_acls
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import describe_cluster
from twinlog.kafka.admin.users import supports_quotas
from twinlog.kafka.net.connections import principal
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.topics.journal_keys import SwitchoverState
from twinlog.model.acls import ResourceType
from twinlog.model.groups import GroupListing
from twinlog.model.topics import Topic
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.ops.proven_ranges import PartitionProven
from twinlog.ops.switchover.commit_rights import find_refused_commits, groups_by_topic
from twinlog.ops.switchover.fencing import fenced_too, read_refused_producers
from twinlog.ops.switchover.flow_process import FlowProcesses, has_members, is_of_other_program, read_copiers
from twinlog.ops.switchover.group_facts import SwitchoverGroups
from twinlog.ops.switchover.journal import JournalEntries, TopicJournal
from twinlog.ops.switchover.model import (
    CopiedPosition,
    MovedGroups,
    MovedTopic,
    SourceEnd,
    SwitchoverDirection,
    SwitchoverKind,
)
from twinlog.ops.switchover.moving_topics import MovingTopics
from twinlog.ops.switchover.steps.group_step import foresee_groups
from twinlog.ops.switchover.steps.step import SwitchoverClusters
from twinlog.ops.switchover.stopped_partitions import StoppedPartitions, StoppedPartitionsReader
from twinlog.settings.flow import FlowSettings

MEASURED_S = 2.0
"""The seconds for which the pre-flight measures the speed of copying."""


@dataclass(frozen=True, slots=True)
class PreflightFacts:
    """The facts of both clusters. `operations` are the operations that this principal may perform on the source, None
    when unknown. `authorizer` tells whether the source keeps ACLs, None when unreadable; `quotas` whether it takes
    client quotas from a client (KIP-546). `members` are groups of the source that have members, `runs` whether a
    process of the flow is a member of its group on the target, None when unknown."""

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
    runs: bool | None = True
    transactions: tuple[str, ...] = ()
    source_error: str | None = None
    fenced_too: Collection[TopicName] = ()
    earlier: bool = True
    staying: Collection[TopicName] = ()
    """Source topics that the flow leaves out."""
    refused: Mapping[str, Sequence[TopicName]] = field(default_factory=dict)
    """Principals that lack WRITE on topics of the target, where they will write; super users may be among them."""
    hidden: Sequence[TopicName] = ()
    """Source topics that the flow has copied, and that the login may no longer describe."""
    under_way: bool = False
    """Whether a switchover the other way has begun and is unfinished."""
    rate: float | None = None
    unread: tuple[str, ...] = field(default=())
    stopped: StoppedPartitions = field(default_factory=StoppedPartitions)
    """The partitions that the flow leaves uncopied until an operator acts."""
    proofs: Mapping[TopicPartition, PartitionProven] = field(default_factory=dict)
    """The reported proofs of equality."""
    foreseen: MovedGroups | None = None
    """The groups as if producers had stopped now, None if they are unread."""
    refused_commits: Sequence[str] = ()
    """The rights that commits of groups lack on the target, in words, each with its way out."""
    journal_rights: Sequence[str] = ()
    """The rights that the journal on the target lacks, in words, each with its way out."""
    fence_note_rights: Sequence[str] = ()
    """The same for the journal of the way back on the source, which keeps the data to lift the fence."""
    closes_earlier: bool = False
    """Whether the switchover marks an earlier switchover as returned, in the journal on the source."""
    way_back: SwitchoverDirection | None = None
    """The direction of a planned switchover, if a switchback is due there after a switchover the other way."""
    processes: FlowProcesses = field(default_factory=FlowProcesses)
    """The processes that report that they run the flow."""
    done: bool = False
    """Whether a switchover of the same direction is recorded as done."""
    asks_proof: Collection[TopicName] = ()
    """Source topics that the file wants to be proven."""


def needs_way_back(earlier: JournalEntries) -> bool:
    """Whether the journal of the other direction has a switchover that a switchback ends: it is done, is no way back
    itself, and its fence was never released."""
    run = earlier.run
    if run is None or run.state is not SwitchoverState.DONE or run.options.kind is SwitchoverKind.BACK:
        return False
    return earlier.done("release") is None


class PreflightFactsReader:
    """Reads the facts for the pre-flight of a switchover over the connections of `world`.

    `positions` reads the stored positions of the flow.
    """

    def __init__(
        self,
        world: SwitchoverClusters,
        flow: FlowSettings,
        source: ClusterAdmin,
        target: ClusterAdmin,
        topics: MovingTopics,
        groups: SwitchoverGroups,
        stopped: StoppedPartitionsReader,
        positions: Callable[[], Mapping[TopicPartition, Position]],
        journals: tuple[TopicJournal, TopicJournal],
    ) -> None:
        """`journals` are the journal of this direction, and the journal of the other direction."""
        self._world, self._flow = world, flow
        self._source, self._target = source, target
        self._topics, self._groups, self._stopped = topics, groups, stopped
        self._positions = positions
        self._journal, self._earlier_journal = journals

    def read_facts(self, kind: SwitchoverKind) -> PreflightFacts:
        """Read both clusters. Raises ClusterError when a cluster fails to answer."""
        world = self._world
        here, there = self._source.topics(), self._target.topics()
        topics = self._topics.list_moving(here)
        before, began_ms = world.read_copied_positions(), world.now_ms()
        if kind is not SwitchoverKind.EMERGENCY:
            world.sleep(MEASURED_S)
        copied = world.read_copied_positions()
        gone = sum(one.source - before[where].source for where, one in copied.items() if where in before)
        unread: list[str] = []
        authorizer: bool | None = None
        refused: Mapping[str, Sequence[TopicName]] = {}
        try:
            acls = self._source.call(describe_acls, self._source.client, ResourceType.TOPIC)
            authorizer = acls is not None
            if acls and kind is not SwitchoverKind.EMERGENCY:
                own = principal(self._flow.consumer.client)
                refused = read_refused_producers(self._target, topics, acls, own, unread)
        except RefusedError as error:
            unread.append(str(error))
        ends = world.source_ends(topics)
        pending = [where for where, end in ends.items() if end.stable < end.end]
        members, on_target = self._groups.with_members()
        copiers = read_copiers(self._flow, self._target)
        stopped = self._read_stopped(ends, copiers, unread)
        foreseen = None if kind is SwitchoverKind.EMERGENCY else self._foresee_groups(topics)
        earlier = world.read_earlier_journal()
        state = None if earlier.run is None else earlier.run.state
        run = self._journal.entries.run
        return PreflightFacts(
            source=world.ends.source,
            target=world.ends.target,
            kind=kind,
            topics=topics,
            target_topics=there,
            ends=ends,
            starts=world.source_starts(topics),
            copied=copied,
            authorizer=authorizer,
            quotas=supports_quotas(self._source.client),
            operations=self._source.call(describe_cluster, self._source.client).operations,
            members=members,
            on_target=on_target,
            runs=has_members(self._flow, self._target, copiers),
            processes=FlowProcesses.at(self._stopped.reports, world.now_ms(), self._flow, world.ends.wave),
            proofs=world.read_proven(ends) if stopped.reported and kind is not SwitchoverKind.EMERGENCY else {},
            asks_proof=[topic.name for topic in topics if self._flow.proves(topic.name)],
            transactions=tuple(world.open_transactions(pending[:3])),
            earlier=state in (SwitchoverState.DONE, SwitchoverState.RETURNED),
            done=run is not None and run.state is SwitchoverState.DONE,
            refused=refused,
            hidden=self._topics.find_hidden(here, there, self._positions()),
            journal_rights=self._journal.find_missing_rights(),
            closes_earlier=state is SwitchoverState.DONE,
            way_back=world.ends if kind is SwitchoverKind.PLANNED and needs_way_back(earlier) else None,
            fence_note_rights=() if kind is SwitchoverKind.EMERGENCY else self._earlier_journal.find_missing_rights(),
            foreseen=foreseen,
            refused_commits=()
            if foreseen is None
            else find_refused_commits(self._target, groups_by_topic(foreseen, topics, there)),
            staying=self._topics.list_staying(here),
            under_way=state in (SwitchoverState.RUNNING, SwitchoverState.ABORTING),
            rate=gone * 1000 / max(1, world.now_ms() - began_ms) if gone > 0 else None,
            unread=tuple(unread),
            stopped=stopped,
            fenced_too=fenced_too([topic.name for topic in topics], here, self._topics.heartbeat_names)
            if self._flow.sync_topic_acls_interval_s is not None
            else (),
        )

    def _read_stopped(
        self, partitions: Collection[TopicPartition], copiers: GroupListing | None, unread: list[str]
    ) -> StoppedPartitions:
        if is_of_other_program(self._flow, copiers):
            return StoppedPartitions(reported=False)
        try:
            return self._stopped.read_stopped(partitions)
        except RefusedError as error:
            unread.append(str(error))
            return StoppedPartitions(reported=False)

    def _foresee_groups(self, topics: Collection[MovedTopic]) -> MovedGroups | None:
        try:
            return foresee_groups(self._world, topics, ())
        except TopicGoneError:
            # The flow is yet to store positions, which is an obstacle of its own.
            return None

    def read_lost_facts(self, error: str) -> PreflightFacts:
        """The facts that the target alone knows about a source that is silent for a reason, in words."""
        copied = self._world.read_copied_positions()
        there = self._target.topics()
        ends = self._world.ends
        unread: list[str] = []
        stopped = self._read_stopped(copied, read_copiers(self._flow, self._target), unread)
        return PreflightFacts(
            ends.source,
            ends.target,
            SwitchoverKind.EMERGENCY,
            self._topics.list_copied(copied, there),
            there,
            {},
            {},
            copied,
            source_error=error,
            journal_rights=self._journal.find_missing_rights(),
            unread=tuple(unread),
            stopped=stopped,
        )
