"""Plans a run of a flow: reads both clusters, and lets the code of the run decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from twinlog.errors import ConfigError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.starts import NOTHING_STORED, StoredStarts
from twinlog.mirror.topics.changes import TopicPair
from twinlog.mirror.topics.checks import (
    check_internal_topics,
    check_one_cluster,
    check_proof,
    check_two_clusters,
    past_filter,
)
from twinlog.mirror.topics.internal_topics import internal_topics
from twinlog.mirror.topics.left_fences import REMOVE, LeftFences, owners_of
from twinlog.mirror.topology.topology import absent_topics, topology_of
from twinlog.mirror.unlisted_topics import unlisted_topics
from twinlog.model.topics import Topic, listed
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.ops.inventory import Content, Inventory, partitions_of, read_inventory
from twinlog.ops.plan.deciding import PlanFindings, PlannedChanges
from twinlog.ops.plan.filled_heads import most_disk
from twinlog.ops.plan.flow_plan import ExcludedTopic, FlowPlan, NewRemoteTopic, Problem
from twinlog.ops.plan.groups import GroupPlanner
from twinlog.ops.plan.kept_offsets import look_at_kept_offsets
from twinlog.ops.plan.obstacles import (
    ClusterRights,
    after_last_copy,
    colliding,
    hidden_topics,
    missing_rights,
    running_others,
    shorter_retention,
    too_full,
    too_small_limits,
    unwritable_topics,
    written_by_others,
)
from twinlog.ops.plan.volume import leaderless, left_paused, look_at_starts, planned_starts, to_copy
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control.journal import ControlJournal
from twinlog.worker.topics.topic_refresh import TopicRefresh

Progress = Callable[[str, str, int, int], None]
"""Called with a cluster's alias, the kind of content, the number read, and the total number."""

_Positions = Mapping[TopicPartition, Position]


class FlowPlanner:
    """Plans a flow; use it as a context manager. Making it raises ConfigError.

    `flows` are all flows of the file. For a connector that only follows groups, `copied_by` are the flows that copy its
    topics. Without `validates` the target is not asked whether it would accept the changes, and only requests that read
    are sent.
    """

    def __init__(
        self,
        flow: FlowSettings,
        flows: Sequence[FlowSettings],
        *,
        copied_by: Sequence[FlowSettings] = (),
        validates: bool = True,
        progress: Progress = lambda alias, what, done, total: None,
        connect: Connect = ClusterAdmin,
        connect_s: float = COMMAND_CONNECT_S,
    ) -> None:
        self._connect_s = connect_s
        self._flow = flow
        self._flows = flows
        self._validates = validates
        self._connect = connect
        self._progress = progress
        self._copier = next(iter(copied_by), flow)
        self._topology = topology_of(self._copier)
        self._one_cluster = False
        self._refresh: TopicRefresh | None = None
        self._source, self._target = both_clusters(flow, connect)

    def __enter__(self) -> FlowPlanner:
        return self

    def __exit__(self, *_: object) -> None:
        if self._refresh is not None:
            self._refresh.close()
        self._source.close()
        self._target.close()

    def waits(self) -> list[str]:
        """The requests that `plan`, on another thread, waits for just now, in words."""
        return [text for cluster in (self._source, self._target) if (text := cluster.waits()) is not None]

    def plan(self, rate: float) -> FlowPlan:
        """Return the plan of a run now, with an estimate of time at `rate` bytes a second; only reads.

        Raises ClusterError when a cluster fails to answer, and RefusedError when it refuses the login.
        """
        flow, findings = self._flow, PlanFindings()
        plan = FlowPlan(flow.name, flow.source, flow.target, rate)
        self._target.connect(self._connect_s)
        left = LeftFences(self._target, owners_of([*self._flows, flow])).find()
        findings.notes += (f"TW-ACL-07: {one}; {REMOVE}" for one in left)
        if not flow.enabled:
            # A disabled flow writes heartbeats to its target, and leaves its source alone.
            there = read_inventory(self._target, Content(0), progress=partial(self._progress, flow.target))
            nothing = Inventory(flow.source, None, ())
            deciding = self._deciding(nothing, there, findings)
            plan = replace(plan, create=tuple(deciding.internal()[0]))
            return replace(plan, problems=tuple(findings.problems), notes=tuple(findings.notes))
        self._source.connect(self._connect_s)
        if not findings.refused("cluster", self._look_at_clusters):
            checks = (
                partial(check_one_cluster, flow, self._source, self._target, self._connect),
                partial(check_internal_topics, flow, self._source, self._target),
                partial(check_proof, flow, self._target),
            )
            for check in checks:
                findings.refused("cluster", check)
            try:
                plan = self._plan(plan, findings)
            except ConfigError as error:
                # A class of the user's that failed on a name only the clusters know; a run fails this flow alone.
                findings.problems.append(Problem.of("class", error))
        problems = {problem.text: problem for problem in findings.problems}
        return replace(plan, problems=tuple(problems.values()), notes=tuple(dict.fromkeys(findings.notes)))

    def _look_at_clusters(self) -> None:
        self._one_cluster = check_two_clusters(self._flow, self._topology, self._source, self._target)

    def _deciding(self, here: Inventory, there: Inventory, findings: PlanFindings) -> PlannedChanges:
        return PlannedChanges(
            self._flow, self._topology, self._source, self._target, here, there, findings, self._validates
        )

    def _groups(
        self,
        here: Inventory,
        there: Inventory,
        store: PositionStore | None,
        positions: _Positions | None,
        findings: PlanFindings,
    ) -> GroupPlanner:
        return GroupPlanner(
            self._flow,
            self._flows,
            self._copier,
            self._topology,
            self._source,
            self._target,
            here,
            there,
            store,
            positions or {},
            findings,
            self._one_cluster,
        )

    def _plan(self, plan: FlowPlan, findings: PlanFindings) -> FlowPlan:
        flow = self._flow
        here, there = self._read(findings)
        store, positions = self._positions(there, findings)
        deciding = self._deciding(here, there, findings)
        if flow.transform is not None:
            findings.notes.append(
                f"records pass through {flow.transform.steps}; records that it drops, adds or routes to other topics "
                "are left out here"
            )
        if not flow.copies:
            plan = replace(plan, create=tuple(deciding.internal()[0]))
            return replace(plan, groups=tuple(self._groups(here, there, store, positions, findings).plan(None, {})))
        refresh = self._refresh = TopicRefresh(
            flow, self._flows, self._source, self._target, _KnownPositions(positions or {}, store), self._connect
        )
        if self._one_cluster:
            refresh.within_one_cluster()
        try:
            changes = refresh.decide_topics(here.plain_topics, there.plain_topics)
        except RefusedError as error:
            findings.problems.append(Problem.of("renamed", error))
            return plan
        for topic, reason in sorted(refresh.copied_elsewhere.items()):
            findings.problems.append(Problem("copied-elsewhere", f"{topic}: {reason}"))
        create, new_configs = deciding.creations(changes)
        internal, bounds = deciding.internal()
        settings, changed_configs = deciding.settings(changes)
        acls = deciding.acls(refresh.leaves_out)
        # Heartbeats are mirrored with any configuration, and arrive all the time.
        pairs = [pair for pair in changes.pairs if not pair.heartbeats]
        passing = [name for pair in pairs if self._topology.mirrors_past_filter(name := pair.source.name)]
        if passing:
            findings.notes.append(past_filter(flow, passing))
        plan = replace(
            plan,
            create=(*create, *internal),
            grow=deciding.growth(changes),
            settings=(*settings, *bounds),
            acls=tuple(acls),
            left_out=tuple(self._left_out(here, refresh.left_out)),
        )
        will_be = {**there.configs, **changed_configs, **new_configs}
        if positions is not None:
            stored = NOTHING_STORED if store is None else store.starts()
            mirrored = [pair.source for pair in pairs]
            starts = planned_starts(flow, self._source, mirrored, here.logs, positions, stored)
            paused = self._paused(pairs, there, findings)
            logs = {part: log for part, log in here.logs.items() if part not in paused}
            copy = to_copy(pairs, logs, here.sizes, positions, here.configs, starts.begins)
            findings.notes += left_paused(flow, paused, here.logs, positions, starts.begins)
            copy = [replace(one, identical=flow.keeps_offsets(one.topic)) for one in copy]
            plan = replace(plan, copy=tuple(copy))
            others = running_others(self._target, flow, there)
            kept = {pair.source.name for pair in pairs if flow.keeps_offsets(pair.source.name)}
            findings.add(
                *written_by_others(pairs, there.plain_topics, there.logs, positions, flow.target, others, kept)
            )
            heads = look_at_kept_offsets(
                flow, self._source, self._target, pairs, here, there, positions, will_be, findings
            )
            plan = replace(plan, fill=heads)
            if others is None:
                findings.notes += after_last_copy(pairs, there.logs, positions, flow)
            look_at_starts(flow, self._source, pairs, here.logs, positions, starts, findings)
        waiting = leaderless(pairs, here.logs)
        if waiting:
            names = listed(f"{part.topic}-{part.partition}" for part in waiting)
            text = f"{names} of {flow.source} lack a leader: their volume is missing in this plan"
            findings.problems.append(Problem("unread", f"{text}; bring its brokers back"))
        new = [one.name for one in plan.create if one.cluster == flow.target]
        findings.add(colliding(new, there.topics))
        findings.add(*too_small_limits(flow, pairs, here.configs, will_be))
        size = None if plan.bytes is None else plan.bytes + most_disk(plan.fill)
        findings.add(*too_full(there.disks, size, self._replicas(create, pairs, there), flow.target))
        findings.notes += shorter_retention(flow, pairs, here.configs, will_be)
        findings.add(
            missing_rights(
                flow,
                ClusterRights(here, self._source.client.lacks),
                ClusterRights(there, self._target.client.lacks),
                changes,
                acls if flow.sync_topic_acls_interval_s is not None else None,
            )
        )
        findings.add(hidden_topics(self._target, [Topic(name, 0) for name in new], "finding its leaders"))
        unlisted = unlisted_topics(self._topology, here.topics, positions or {})
        findings.add(hidden_topics(self._source, unlisted, "copying it"))
        findings.add(unwritable_topics(self._target, flow.producer.client, new, there))
        groups = self._groups(here, there, store, positions, findings)
        copied = {pair.source.name for pair in pairs}
        return replace(plan, groups=tuple(groups.plan(copied, refresh.left_out)))

    def _read(self, findings: PlanFindings) -> tuple[Inventory, Inventory]:
        """The inventories of both clusters: of the source the topics that may be mirrored, of the target their
        copies."""
        flow, topology = self._flow, self._topology
        parts = Content.CONFIGS | Content.LOGS | Content.SIZES
        if flow.sync_topic_acls_interval_s is not None:
            parts |= Content.ACLS
        if flow.emit_checkpoints_interval_s is not None:
            parts |= Content.GROUPS
        own = {(topic.cluster, topic.name) for topic in internal_topics(flow)}
        here = read_inventory(
            self._source,
            parts,
            wanted=lambda name: topology.mirrors(name) or (flow.source, name) in own,
            committed=flow.consumer.isolation_level == "read_committed",
            progress=partial(self._progress, flow.source),
        )
        remotes = {topology.remote_name(name) for name in here.topics if topology.mirrors(name)}
        # ACLs are read even if AclSync is off: only they show whether topics still to create would be writable.
        there = read_inventory(
            self._target,
            parts | Content.ACLS,
            wanted=lambda name: name in remotes or (flow.target, name) in own,
            progress=partial(self._progress, flow.target),
        )
        # An unreadable part is a problem only if the run needs it: see `missing_rights`.
        findings.notes += [*here.unread, *there.unread]
        absent = absent_topics(topology, here.topics) if flow.copies else []
        if absent or not here.topics:
            names = "all topics" if not here.topics else listed(absent)
            findings.notes.append(f"{flow.source} lacks {names}, or hides them; does the login have DESCRIBE on them?")
        return here, there

    def _positions(
        self, there: Inventory, findings: PlanFindings
    ) -> tuple[PositionStore | None, dict[TopicPartition, Position] | None]:
        """Stored positions, empty before the first copied record; None if they are unreadable."""
        names = {self._copier.positions_topic, self._copier.earlier_positions_topic}
        if not names.intersection(there.topics):
            return None, {}
        store = PositionStore(self._copier, self._target, optional=True)
        try:
            return store, store.read_all()
        except RefusedError as error:
            findings.problems.append(Problem.of("permission", error))
            return None, None

    def _paused(
        self, pairs: Sequence[TopicPair], there: Inventory, findings: PlanFindings
    ) -> frozenset[TopicPartition]:
        """The paused partitions; none if the commands for topics are unreadable, which is a problem of a run."""
        journal = ControlJournal(self._flow, self._target)
        if journal.topic not in there.topics:
            return frozenset()
        try:
            return journal.read().pauses.paused(partitions_of([pair.source for pair in pairs]))
        except RefusedError as error:
            findings.problems.append(Problem.of("permission", error))
            return frozenset()

    def _left_out(self, here: Inventory, others: Mapping[TopicName, str]) -> list[ExcludedTopic]:
        found = []
        for name in sorted(here.topics):
            why = others.get(name) or self._topology.refusal(name)
            if why is not None:
                found.append(ExcludedTopic(name, why))
        return found

    def _replicas(self, create: Iterable[NewRemoteTopic], pairs: Iterable[TopicPair], there: Inventory) -> int:
        """The most replicas that a copy gets; a broker's default is taken from the copies that are there."""
        known = [there.topics[pair.remote].replicas for pair in pairs if pair.remote in there.topics]
        return max([1, *known, *(one.replication_factor for one in create)])


class _KnownPositions:
    """Positions that were read already, from `store` if they may be read."""

    def __init__(self, positions: _Positions, store: PositionStore | None) -> None:
        self._positions = positions
        self._store = store

    def read(self, partitions: Iterable[TopicPartition], /) -> dict[TopicPartition, Position]:
        return {part: self._positions[part] for part in partitions if part in self._positions}

    def read_all(self) -> dict[TopicPartition, Position]:
        return dict(self._positions)

    def starts(self) -> StoredStarts:
        return NOTHING_STORED

    def under_other_alias(
        self, partitions: Iterable[TopicPartition], /
    ) -> dict[TopicPartition, tuple[Alias, Position]]:
        return {} if self._store is None else self._store.under_other_alias(partitions)
