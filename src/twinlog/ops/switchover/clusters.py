"""A switchover's two clusters as they really are: the world that its steps work in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from twinlog.clock import Clock, wall_ms
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.acls import describe_acls
from twinlog.kafka.admin.cluster import both_clusters
from twinlog.kafka.admin.partition_states import name_open_transaction
from twinlog.kafka.admin.users import describe_producer_quotas, supports_quotas
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.topics.checks import common_broker
from twinlog.mirror.topics.journal_keys import SwitchoverState
from twinlog.mirror.topics.writer_fence import WriterFence
from twinlog.model.acls import ResourceType
from twinlog.model.topics import listed
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.ops.proven_ranges import PartitionProven, ProvenRangesReader
from twinlog.ops.switchover.commit_rights import find_refused_commits, groups_by_topic
from twinlog.ops.switchover.fencing import (
    holds_everywhere,
    kept,
    lift_fence,
    plan_fence,
    raise_fence,
    shared,
)
from twinlog.ops.switchover.group_facts import SwitchoverGroups
from twinlog.ops.switchover.journal import JournalEntries, TopicJournal
from twinlog.ops.switchover.lasting_fences import list_command, name_lasting_denials, name_lasting_quotas
from twinlog.ops.switchover.model import (
    CopiedPosition,
    Data,
    FenceMethod,
    GroupOffset,
    MovedGroups,
    MovedTopic,
    NotReadyError,
    Preflight,
    PreflightNote,
    RefusedCommits,
    SourceEnd,
    SwitchoverDirection,
    SwitchoverKind,
    SwitchoverOptions,
)
from twinlog.ops.switchover.moving_topics import MovingTopics, partitions_of
from twinlog.ops.switchover.preflight import judge_preflight
from twinlog.ops.switchover.preflight_facts import PreflightFactsReader
from twinlog.ops.switchover.steps.step import Side
from twinlog.ops.switchover.stopped_partitions import StoppedPartitionsReader
from twinlog.ops.switchover.target_topics import (
    create_positions_topic,
    is_hollow,
    make_topics,
    missing_topics,
    store_start,
)
from twinlog.settings.flow import FlowSettings


class LiveClusters:
    """See `SwitchoverClusters`. `flow` leads from the source to the target, `back` the other way.

    `follows` is the flow with the filter of groups, if this is another connector. `aliases` are the clusters of the
    file.

    `connect` comes first. With `source_lost`, a silent source is accepted.
    """

    def __init__(
        self,
        flow: FlowSettings,
        back: FlowSettings,
        aliases: Collection[Alias],
        wave: str = "",
        *,
        follows: FlowSettings | None = None,
    ) -> None:
        self.ends = SwitchoverDirection(flow.source, flow.target, wave)
        self.source, self.target = both_clusters(flow)
        self._flow = flow
        self._back = back
        self._topics = MovingTopics(flow, aliases, self.source, self.target)
        self._positions = PositionStore(flow, self.target)
        self._stopped = StoppedPartitionsReader(flow, self.target)
        self._proofs = ProvenRangesReader(flow, self.target)
        self._groups = SwitchoverGroups(flow, back, self.source, self.target, follows or flow)
        self._stored = False
        """Whether the topic of positions was there."""
        self._source_error: str | None = None
        self.journal = TopicJournal(self.ends, self.target, flow.offset_storage_replication_factor)
        self._other_journal = TopicJournal(self.ends.back, self.source, back.offset_storage_replication_factor)
        self._facts = PreflightFactsReader(
            self,
            flow,
            *(self.source, self.target),
            self._topics,
            self._groups,
            self._stopped,
            lambda: self._positions.read_all() if self._stored else {},
            (self.journal, self._other_journal),
        )

    def connect(self, timeout_s: float, *, source_lost: bool = False) -> None:
        """Connect to both clusters.

        Raises ClusterError, and RefusedError also if both are the same cluster.
        """
        self.target.connect(timeout_s)
        try:
            self.source.connect(timeout_s)
        except ClusterError as error:
            if not source_lost:
                if isinstance(error, RefusedError):
                    raise
                name = self.ends.source
                text = f"{error}; when {name} is lost, `twinlog switchover` with --emergency continues without it"
                text += ", and with --emergency --status prints the state"
                raise ClusterError(text, message_id=error.message_id) from error
            self._source_error = str(error)
            return
        broker = common_broker(self.source, self.target)
        if broker is not None:
            raise RefusedError(
                f"{self.ends.source} and {self.ends.target} are the same cluster (broker {broker}), and a switchover "
                "needs two clusters; have producers and consumers use the other topics by themselves",
                message_id="TW-CLUSTER-03",
            )

    def close(self) -> None:
        """Close all connections."""
        self.source.close()
        self.target.close()

    def read_earlier_journal(self) -> JournalEntries:
        return JournalEntries() if self._source_error is not None else self._other_journal.read()

    def close_earlier(self) -> None:
        run = self.read_earlier_journal().run
        if run is not None and run.state is SwitchoverState.DONE:
            self._other_journal.claim_journal()
            self._other_journal.write([], replace(run, state=SwitchoverState.RETURNED))

    def read_fence(self) -> Data | None:
        return self.journal.entries.fenced

    def note_fence(self, plan: Data | None, side: Side) -> None:
        if side == "source":
            self._require_source()
            if not self._other_journal.taken:
                self._other_journal.claim_journal()
            self._other_journal.note_fence(plan)
        else:
            self.journal.note_fence(plan)

    def get_ready(
        self, fence: FenceMethod, topics: Collection[MovedTopic], began: Mapping[TopicPartition, int]
    ) -> None:
        # The other journal gets the note of the fence, the step `seed` stores positions on the source, and the maps to
        # translate groups may take long to read: producers do not wait for the creation of topics, nor for the maps.
        if any(topic.keeps_name for topic in topics):
            create_positions_topic(self._back, self.source)
        if fence is not FenceMethod.NONE:
            self._other_journal.claim_journal()
        seen = self._groups.read_groups(topics, {}, {}, began)
        # By now the topics of producers exist, so that brokers tell the rights on them.
        if refused := find_refused_commits(self.target, groups_by_topic(seen, topics, self.target.topics())):
            raise NotReadyError(tuple(f"TW-SWITCH-20: {line}" for line in refused))

    @property
    def clock(self) -> Clock:
        return self.target.clock

    @property
    def source_answers(self) -> bool:
        return self._source_error is None

    def now_ms(self) -> int:
        return wall_ms(self.target.clock)

    def sleep(self, seconds: float) -> None:
        self.target.clock.sleep(seconds)

    def scope(self) -> Data:
        return {
            "topics": f"{','.join(self._flow.topics)} without {','.join(self._flow.topics_exclude)}",
            "from": self.source.identity().cluster_id if self._source_error is None else None,
            "to": self.target.identity().cluster_id,
        }

    def list_moving_topics(self) -> tuple[MovedTopic, ...]:
        return self._topics.list_moving(self.source.topics())

    def find_unmoved_topics(self, moved: Collection[MovedTopic]) -> list[TopicName]:
        known = {topic.name for topic in moved} | self.journal.topics_of_waves
        left = [topic for topic in self.list_moving_topics() if topic.name not in known]
        ends = self.source.offsets(partitions_of(left), latest=True) if left else {}
        starts = self.source_starts(left) if left else {}
        return sorted({where.topic for where, end in ends.items() if end > starts.get(where, 0)})

    def preflight(self, options: SwitchoverOptions) -> Preflight:
        if self._source_error is None:
            try:
                found = self._fenceable(judge_preflight(self._facts.read_facts(options.kind), options.fence), options)
                return replace(found, groups=tuple(sorted(self._groups.known)))
            except ClusterError as error:
                if options.kind is not SwitchoverKind.EMERGENCY:
                    raise
                # The source answers only a part of the questions.
                self._source_error = str(error)
        return judge_preflight(self._facts.read_lost_facts(self._source_error), options.fence)

    def forget_groups(self) -> None:
        """Have the next pre-flight forget the groups of earlier pre-flights, which may be gone by now."""
        self._groups.forget_groups()

    def _fenceable(self, found: Preflight, options: SwitchoverOptions) -> Preflight:
        """The pre-flight with the obstacles that only the plan of its fence shows."""
        if not found.problems and options.kind is not SwitchoverKind.EMERGENCY:
            try:
                stays = kept(self.plan_fence(found.fence, found.topics))
            except NotReadyError as error:
                return replace(found, problems=error.problems)
            if stays:
                why = f"writing to {listed(stays)} is denied already on {self.ends.source}, by hand or in another wave"
                note = PreflightNote(f"{why}: that stays when this is undone")
                return replace(found, notes=(*found.notes, note))
        return found

    def source_ends(self, topics: Collection[MovedTopic]) -> dict[TopicPartition, SourceEnd]:
        parts = partitions_of(topics)
        # The stable end comes last: otherwise a growing log would seem to have an open transaction.
        ends = self.source.offsets(parts, latest=True, log_end=True)
        stable = self.source.offsets(parts, latest=True, read_committed=True)
        if len(stable) < len(parts) or len(ends) < len(parts):
            missing = next(part for part in parts if part not in stable or part not in ends)
            raise ClusterError(f"cluster {self.ends.source}: the end of {missing} is unknown")
        return {part: SourceEnd(ends[part], stable[part]) for part in parts}

    def source_starts(self, topics: Collection[MovedTopic]) -> dict[TopicPartition, int]:
        return self.source.offsets(partitions_of(topics), latest=False)

    def target_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self.target.offsets(partitions, latest=True)

    def read_copied_positions(self) -> dict[TopicPartition, CopiedPosition]:
        if not self._stored:
            self._stored = TopicName(self._flow.positions_topic) in self.target.topics()
        if not self._stored:
            return {}
        return {
            where: CopiedPosition(position.next_source, position.next_target)
            for where, position in self._positions.read_all().items()
        }

    def read_proven(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionProven]:
        try:
            return self._proofs.read_proven(partitions) if partitions else {}
        except RefusedError:
            # The pre-flight has noted the missing right.
            return {}

    def find_empty_spans(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> set[TopicPartition]:
        return {where for where, span in spans.items() if self.source.call(is_hollow, self.source.client, where, *span)}

    def name_stopped_partitions(
        self,
        ends: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        copied: Mapping[TopicPartition, CopiedPosition],
    ) -> list[str]:
        try:
            return self._stopped.read_stopped(ends).obstacles(ends, starts, copied)
        except RefusedError:
            # The pre-flight has noted the missing right.
            return []

    def open_transactions(self, partitions: Collection[TopicPartition]) -> list[str]:
        return [
            f"{where}: {self.source.call(name_open_transaction, self.source.client, where)}" for where in partitions
        ]

    def plan_fence(self, fence: FenceMethod, topics: Collection[MovedTopic]) -> Data:
        self._require_source()
        names, left = [topic.name for topic in topics], self._other_journal.read().fenced or {}
        others = self._other_journal.others
        heartbeats = self._topics.heartbeat_names
        plan = plan_fence(self.source, fence, names, self._flow, self._back, left, others.values(), heartbeats)
        for move, other in others.items():
            if both := shared(plan, other):
                why = f"{listed(both)}: fenced already by {move}; lift that first with --release"
                raise NotReadyError((f"TW-SWITCH-05: {why}",))
        return plan

    def fence_producers(self, plan: Data, confirm: Callable[[], None]) -> None:
        self._require_source()
        raise_fence(self.source, plan, confirm)

    def fence_holds(self, plan: Data) -> bool:
        self._require_source()
        return holds_everywhere(self.source, plan)

    def open_copies(self, topics: Collection[MovedTopic]) -> None:
        """Lift the fence of the flow. The flow back may raise its own fence again, unless its target is lost."""
        names = [topic.name for topic in topics if topic.keeps_name]
        if names and self._flow.fences_writers:
            WriterFence(self._flow, self.target).open_to_producers(names)
        if names and self._back.fences_writers and self._source_error is None:
            # Otherwise the way back notes it, by `close_copies`.
            with suppress(RefusedError):
                WriterFence(self._back, self.source).expect_copies(names)

    def close_copies(self, topics: Collection[MovedTopic]) -> None:
        names = [topic.name for topic in topics if topic.keeps_name]
        if names and self._flow.fences_writers:
            WriterFence(self._flow, self.target).expect_copies(names)

    def lift_fence(self, plan: Data, side: Side) -> None:
        if side == "source":
            self._require_source()
        lift_fence(self.source if side == "source" else self.target, plan)

    def find_lasting_denials(self, topics: Collection[MovedTopic]) -> list[str]:
        self._require_source()
        self._other_journal.read()
        names = [topic.name for topic in topics]
        try:
            acls = self.source.call(describe_acls, self.source.client, ResourceType.TOPIC) or []
        except RefusedError as error:
            command = list_command(self.ends.source, self.source.client.settings)
            raise RefusedError(f"{error}; an administrator lists denials by {command}") from error
        others = self._other_journal.others
        return name_lasting_denials(acls, names, others, self.ends.source, self.source.client.settings)

    def find_lasting_quotas(self) -> list[str]:
        self._require_source()
        if not supports_quotas(self.source.client):
            return []
        found = self.source.call(describe_producer_quotas, self.source.client)
        return name_lasting_quotas(found, self.ends.source, self.source.client.settings)

    def _require_source(self) -> None:
        if self._source_error is not None:
            raise ClusterError(self._source_error)

    def missing_topics(self, topics: Collection[MovedTopic]) -> Data:
        source = self.source if self._source_error is None else None
        return missing_topics(self._flow, source, self.target, topics)

    def create_topics(self, plan: Data) -> Data:
        return make_topics(self._flow, self.target, plan)

    def groups(
        self,
        topics: Collection[MovedTopic],
        cut: Mapping[TopicPartition, int],
        there: Mapping[TopicPartition, int],
        began: Mapping[TopicPartition, int],
        known: Collection[str],
    ) -> MovedGroups:
        return self._groups.read_groups(topics, cut, there, began, known)

    def groups_by_checkpoints(self, topics: Collection[MovedTopic], cut: Mapping[TopicPartition, int]) -> MovedGroups:
        return self._groups.by_checkpoints(topics, cut)

    def commit_groups(self, offsets: Sequence[GroupOffset]) -> RefusedCommits:
        return self._groups.commit(offsets)

    def seed_positions(self, positions: Mapping[TopicPartition, int], side: Side) -> None:
        flow, admin = (self._back, self.source) if side == "source" else (self._flow, self.target)
        store_start(flow, admin, positions)
