"""Reads both clusters for the comparison of a canary with MirrorMaker 2; it only reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from twinlog.clock import Clock, wall_ms
from twinlog.errors import ClusterError, OptionError, RefusedError
from twinlog.errors.message_ids import told
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.mirror.groups.safe_move import true_offset
from twinlog.mirror.offsets.sync_history import SyncHistory, SyncHistoryReader
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.topics import listed
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.audit.auditor import AuditDeadline
from twinlog.ops.audit.records import CompareRanges, record_findings
from twinlog.ops.audit.sample import sample_of
from twinlog.ops.canary.comparison import (
    MM2,
    TWINLOG,
    CanaryReport,
    CopyEquality,
    GroupResume,
    LagOverTime,
    Program,
)
from twinlog.ops.canary.process_tree import ProcessTree
from twinlog.ops.canary.use_count import START_S, UseCount
from twinlog.ops.groups.followers import followers
from twinlog.ops.groups.reader import GroupsReader
from twinlog.ops.groups.snapshot import GroupPartitionStatus
from twinlog.ops.inventory import partitions_of
from twinlog.ops.status.flow import FlowReader, FlowSnapshot
from twinlog.ops.translate.offset_lookup import Lookup
from twinlog.ops.verify.planner import VerifyOptions, VerifyPlanner
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import WorkerSettings

LOOK_S = 5.0
"""The seconds between two looks at the lag."""

Progress = Callable[[str, str, int, int], None]
"""Called with a flow, the kind of work, the number done, and the total number."""


@dataclass(frozen=True, slots=True)
class ComparedFlows:
    """The flow of MirrorMaker 2, all flows of its file, the flow of the canary, and the workers of both if they are
    connectors."""

    base: FlowSettings
    flows: tuple[FlowSettings, ...]
    canary: FlowSettings
    worker: WorkerSettings | None = None
    canary_worker: WorkerSettings | None = None


@dataclass(frozen=True, slots=True)
class CanaryReportOptions:
    """The size of the comparison: ranges of `sample` records, or all with `full`; an observation of `watch_s` seconds.

    The numbers of processes are None if they are unknown here.
    """

    full: bool = False
    sample: int = 1_000
    watch_s: float = 60.0
    pid: int | None = None
    mm2_pid: int | None = None


def flow_beside(canary: FlowSettings, flows: Sequence[FlowSettings]) -> FlowSettings:
    """The flow of MirrorMaker 2's file that has the clusters of the canary. Raises OptionError."""
    ends = [
        flow
        for flow in flows
        if flow.copies
        and flow.source_admin.client.shares_servers(canary.source_admin.client)
        and flow.target_admin.client.shares_servers(canary.target_admin.client)
    ]
    if not ends:
        raise OptionError(
            f"CANARY_FILE copies from {', '.join(canary.source_admin.client.bootstrap_servers)} to "
            f"{', '.join(canary.target_admin.client.bootstrap_servers)}, and no flow of FILE does: write CANARY_FILE "
            "with `twinlog canary FILE`"
        )
    if any(flow.positions_topic == canary.positions_topic for flow in ends):
        raise OptionError(
            f"CANARY_FILE has the positions of MirrorMaker 2, {canary.positions_topic}: it is no canary, but would "
            "take the flow over; write CANARY_FILE with `twinlog canary FILE`"
        )
    # Several connectors may share both clusters.
    wanted = [TopicName(topic.replace("[.]", ".")) for topic in canary.topics]
    return next((flow for flow in ends if all(map(topology_of(flow).mirrors, wanted))), ends[0])


class CanaryReader:
    """Compares both flows; `compare` compares planned ranges of records.

    Raises OptionError if this host lacks a process of the options.
    """

    def __init__(
        self,
        compared: ComparedFlows,
        options: CanaryReportOptions,
        compare: CompareRanges,
        *,
        progress: Progress = lambda flow, what, done, total: None,
        connect: Connect = ClusterAdmin,
        connect_s: float = COMMAND_CONNECT_S,
        clock: Clock,
    ) -> None:
        self._compared = compared
        self._options = options
        self._compare = compare
        self._progress = progress
        self._connect = connect
        self._connect_s = connect_s
        self._clock = clock
        self._canary_topology = topology_of(compared.canary)
        # A wrong number is an error before the first request.
        self._trees: dict[Program, ProcessTree] = {}
        for program, pid, option in ((MM2, options.mm2_pid, "--mm2-pid"), (TWINLOG, options.pid, "--pid")):
            if pid is not None:
                self._trees[program] = ProcessTree(pid, option)

    def report(self) -> CanaryReport:
        """Observe both programs, then compare groups and records. Raises ClusterError, RefusedError and OptionError."""
        compared, options = self._compared, self._options
        topics = self._topics()
        self._require_copies(topics)
        counted = {MM2: [one for one in compared.flows if one.copies], TWINLOG: [compared.canary]}
        count = UseCount(
            self._trees,
            lambda: {program: self._records(flows) for program, flows in counted.items()},
            self._clock,
        )
        begun = self._clock.monotonic()
        lags = self._observe(count)
        passed_s = self._clock.monotonic() - begun
        uses = count.uses()
        copies = (self._equality(MM2, compared.base), self._equality(TWINLOG, compared.canary))
        trouble = None
        groups: list[GroupResume] = []
        try:
            groups = self._groups()
        except RefusedError as error:
            trouble = told(error)
        return CanaryReport(
            tuple(topics),
            wall_ms(self._clock),
            round(passed_s, 1),
            copies,
            lags,
            tuple(groups),
            uses,
            trouble,
            options.full,
        )

    def _topics(self) -> list[TopicName]:
        """The topics of the source that the canary copies. Raises OptionError if the source lacks all of them."""
        canary = self._compared.canary
        admin = self._connect(canary.source, canary.source_admin.client)
        try:
            admin.connect(self._connect_s)
            found = sorted(name for name in admin.topics() if self._canary_topology.mirrors(name))
        finally:
            admin.close()
        if not found:
            raise OptionError(
                f"the source has none of the canary's topics ({', '.join(canary.topics)}), or hides them from this "
                "login; write the topics that MirrorMaker 2 copies"
            )
        base = self._compared.base
        alone = [name for name in found if not topology_of(base).mirrors(name)]
        if alone:
            raise OptionError(
                f"MirrorMaker 2's flow {base.name} leaves out {listed(alone)}, so that there is no copy to compare "
                "with; take these topics out of CANARY_FILE"
            )
        return found

    def _require_copies(self, topics: Sequence[TopicName]) -> None:
        """Raise OptionError if the target has neither copies nor positions of the canary, as after its removal."""
        canary = self._compared.canary
        names = [*map(self._canary_topology.remote_name, topics), TopicName(canary.positions_topic)]
        admin = self._connect(canary.target, canary.target_admin.client)
        try:
            admin.connect(self._connect_s)
            there = admin.topics()
        finally:
            admin.close()
        if there.keys().isdisjoint(names):
            raise OptionError(
                f"the target has none of the canary's topics ({listed(names)}), or hides them from this login: the "
                "canary has yet to run, or it is gone; a report compares a canary before its topics are deleted and "
                "its permissions withdrawn"
            )

    # Records and lag over time.

    def _records(self, flows: Sequence[FlowSettings]) -> int:
        """How many records the target has received of these flows, as the sum of the ends of their remote topics."""
        total = 0
        for flow in flows:
            topology = topology_of(flow)
            source, target = both_clusters(flow, self._connect)
            try:
                source.connect(self._connect_s)
                target.connect(self._connect_s)
                names = {topology.remote_name(name) for name in source.topics() if topology.mirrors(name)}
                copies = [topic for name, topic in target.topics().items() if name in names]
                total += sum(end for end in target.offsets(partitions_of(copies), latest=True).values() if end > 0)
            finally:
                source.close()
                target.close()
        return total

    def _observe(self, count: UseCount) -> tuple[LagOverTime, LagOverTime]:
        """The lag of both programs at each look; the first look is at once, the last after the whole time.

        A start that ends meanwhile has the time begin again, up to `START_S` later.
        """
        compared, watch_s = self._compared, self._options.watch_s
        most_s = watch_s + START_S if watch_s else 0.0
        looks: dict[Program, list[int | None]] = {MM2: [], TWINLOG: []}
        last: dict[Program, FlowSnapshot] = {}
        begun = self._clock.monotonic()
        with ExitStack() as stack:
            readers = {
                MM2: stack.enter_context(FlowReader(compared.base, compared.worker, connect=self._connect)),
                TWINLOG: stack.enter_context(
                    FlowReader(compared.canary, compared.canary_worker, connect=self._connect)
                ),
            }
            while True:
                for program, reader in readers.items():
                    seen = last[program] = reader.read()
                    looks[program].append(self._lag(seen))
                passed = self._clock.monotonic() - begun
                left = min(count.left_s(watch_s), most_s - passed)
                count.add_look(last, last=left <= 0)
                self._progress("both flows", "seconds watched", round(max(0.0, watch_s - left)), max(1, round(watch_s)))
                if left <= 0:
                    break
                self._clock.sleep(min(LOOK_S, count.left_s(watch_s), most_s - passed))
        mm2, own = (
            LagOverTime(program, _state(last[program]), tuple(looks[program]), last[program].lag_trouble)
            for program in (MM2, TWINLOG)
        )
        return mm2, own

    def _lag(self, seen: FlowSnapshot) -> int | None:
        """The lag of the canary's topics alone; None if it is unknown for one of their partitions."""
        if seen.lag is None:
            return None
        topics = [one for one in seen.topics if self._canary_topology.mirrors(TopicName(one.topic))]
        if any(one.unknown for one in topics):
            return None
        return sum(one.lag for one in topics)

    # Equality.

    def _equality(self, program: Program, flow: FlowSettings) -> CopyEquality:
        """Compare the copies of the canary's topics with the source."""
        options = VerifyOptions(topics=self._compared.canary.topics)
        with VerifyPlanner(flow, options, self._connect, self._progress) as planner:
            plan = planner.plan()
        history = self._history(flow, [part.source for part in plan.parts if part.problem is None])
        sample = sample_of(plan.parts, history, self._options.sample, full=self._options.full)
        rows = list(self._compare(plan, sample.ranges, AuditDeadline(self._clock, None)))
        findings, problems = record_findings(flow, rows)
        if sample.problem is not None:
            problems.append(sample.problem)
        return CopyEquality(
            program,
            flow.name,
            len(plan.parts),
            sum(row.records for row in rows),
            sample.left,
            tuple(findings),
            tuple(problems),
        )

    def _history(self, flow: FlowSettings, wanted: Sequence[TopicPartition]) -> SyncHistory:
        """The offset syncs of a flow, which anchor ranges in the middle of copies of MirrorMaker 2."""
        source, target = both_clusters(flow, self._connect)
        try:
            source.connect(self._connect_s)
            if flow.offset_syncs_location != "source":
                target.connect(self._connect_s)
            found = SyncHistoryReader(flow, source, target).read(lambda: source.offsets(wanted, latest=True))
        finally:
            source.close()
            target.close()
        return found

    # Groups.

    def _groups(self) -> list[GroupResume]:
        """The resume of each group in each partition of the canary's topics."""
        compared = self._compared
        if not any(one.enabled and one.kind in (None, "checkpoint") for one in compared.flows):
            return []
        follower = next(
            (
                one
                for one in followers(compared.flows)
                if (one.settings.source, one.settings.target) == (compared.base.source, compared.base.target)
            ),
            None,
        )
        if follower is None:
            return []
        with GroupsReader(follower.settings, follower.copied_by, follower.reverse, connect=self._connect) as reader:
            seen = reader.read()
        found: list[GroupResume] = []
        with Lookup(compared.canary, connect=self._connect) as lookup:
            for group in seen.groups:
                for part in group.partitions:
                    if self._canary_topology.mirrors(part.facts.source.topic):
                        one = self._resume(part, lookup)
                        found += [] if one is None else [one]
        return found

    def _resume(self, part: GroupPartitionStatus, lookup: Lookup) -> GroupResume | None:
        facts = part.facts
        if facts.committed is None:
            return None
        ours = _place(lookup, facts.source, facts.committed)
        should, certain = true_offset(facts)
        known = facts.resumes is not None and should is not None
        return GroupResume(
            facts.group,
            facts.source,
            int(facts.committed),
            None if facts.resumes is None else int(facts.resumes),
            None if should is None else int(should),
            certain,
            part.verdict.repeats if known else None,
            (part.verdict.skips if part.verdict.least_skips else 0) if known else None,
            None if ours is None else ours[0],
            exact=ours is not None and ours[1],
            repeats_exact=part.verdict.repeats_exact,
        )


def _state(seen: FlowSnapshot) -> str:
    return f"{seen.state.word}{f': {seen.state.detail}' if seen.state.detail else ''}"


def _place(lookup: Lookup, partition: TopicPartition, offset: int) -> tuple[int, bool] | None:
    """The place of a source offset in the canary's copy, and whether it is exact; None before its first copy."""
    try:
        found = lookup.offset(partition, offset).found
    except RefusedError:
        raise
    except ClusterError:
        return None
    return None if found is None else (int(found.offset), found.exact)
