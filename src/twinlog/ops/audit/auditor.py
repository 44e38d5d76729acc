"""Audits a flow part by part; an unreadable part is named, and the audit continues with the next part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from twinlog.clock import Clock
from twinlog.console.options import SAMPLE_RECORDS
from twinlog.errors import ClusterError, ConfigError, TwinlogError
from twinlog.errors.message_ids import told
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.mirror.offsets.sync_history import SyncHistory, SyncHistoryReader
from twinlog.mirror.topology.plugins import config_filter_of, group_filter_of
from twinlog.mirror.topology.topology import topology_of
from twinlog.mirror.unlisted_topics import find_hidden
from twinlog.model.amounts import counted
from twinlog.model.groups import GROUPS_TOPIC
from twinlog.model.topics import Topic
from twinlog.model.types import GroupId, TopicName
from twinlog.ops.acls.needs import needed_rights
from twinlog.ops.acls.rights import USES
from twinlog.ops.audit.acls import acls_found
from twinlog.ops.audit.clusters import changes_found, changes_scope, settings_found, state_found
from twinlog.ops.audit.groups import group_findings
from twinlog.ops.audit.near_misses import outside
from twinlog.ops.audit.records import CompareRanges, gap_findings, record_findings, suspect_histories
from twinlog.ops.audit.report import AuditPart, FlowAudit, PartResult, unread_reason
from twinlog.ops.audit.sample import sample_of
from twinlog.ops.audit.uncopied import UncopiedRecords, read_uncopied, with_uncopied
from twinlog.ops.diff.differences import FlowTopicPairing, compare_clusters
from twinlog.ops.groups.command import hidden_offsets
from twinlog.ops.groups.followers import followers
from twinlog.ops.groups.reader import GroupsReader
from twinlog.ops.inventory import Content, Inventory, logs_of, partitions_of, read_inventory
from twinlog.ops.plan.planner import FlowPlanner
from twinlog.ops.status.flow import FlowReader
from twinlog.ops.status.readers import ask_twice
from twinlog.ops.status.state import BY_OTHERS, FlowCondition
from twinlog.ops.verify.model import Verdict
from twinlog.ops.verify.planner import VerifyOptions, VerifyPlan, VerifyPlanner
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import WorkerSettings

Progress = Callable[[str, str, int, int], None]
"""Called with a cluster or a flow, the kind of content, the number read, and the total number."""

RATE = 50e6
"""The bytes a second by which the time of a first copy is estimated."""


class AuditTimeoutError(TwinlogError):
    """The time of the audit is over."""


class AuditDeadline:
    """The last moment at which an audit begins a part; `seconds` None means any moment."""

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock = clock
        self._seconds = seconds
        self._until = None if seconds is None else clock.monotonic() + seconds

    @property
    def over(self) -> bool:
        return self._until is not None and self._clock.monotonic() >= self._until

    def check(self) -> None:
        """Raise AuditTimeoutError when the time is over."""
        if self.over:
            raise AuditTimeoutError(f"the {self._seconds:g} seconds of --timeout were over before it")


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How much an audit compares: a sample with ranges of so many records, or every record with `full`."""

    full: bool = False
    sample: int = SAMPLE_RECORDS


class FlowAuditor:
    """Audits a flow; use it as a context manager. `flows` are all flows of the file, and `worker` runs them.

    `compare` compares planned ranges of records.
    """

    def __init__(
        self,
        flow: FlowSettings,
        flows: Sequence[FlowSettings],
        compare: CompareRanges,
        *,
        worker: WorkerSettings | None = None,
        options: AuditOptions | None = None,
        deadline: AuditDeadline | None = None,
        progress: Progress = lambda alias, what, done, total: None,
        connect: Connect = ClusterAdmin,
    ) -> None:
        self._flow = flow
        self._flows = flows
        self._worker = worker
        self._compare = compare
        self._options = options or AuditOptions()
        self._progress = progress
        self._connect = connect
        self._topology = topology_of(flow)
        self._source, self._target = both_clusters(flow, connect)
        self._deadline = deadline or AuditDeadline(self._source.clock, None)
        self._history = SyncHistory({})
        self._by_twinlog = False
        """Whether twinlog runs the flow now."""
        self._uncopied = UncopiedRecords()
        self._here: Inventory | None = None
        self._there: Inventory | None = None

    def __enter__(self) -> FlowAuditor:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()
        self._target.close()

    def audit(self) -> FlowAudit:
        """Return all parts of the flow. Raises ClusterError when a cluster is silent or refuses the login."""
        flow = self._flow
        self._target.connect(COMMAND_CONNECT_S)
        self._source.connect(COMMAND_CONNECT_S)
        runner: list[str] = []
        parts: list[PartResult] = []
        lag = self._part(AuditPart.LAG, lambda: self._state(runner))
        if flow.copies:
            parts += [with_uncopied(flow, one, self._uncopied) for one in self._records()]
        if flow.enabled and flow.kind in (None, "checkpoint"):
            parts.append(self._part(AuditPart.GROUPS, self._groups))
        parts.append(lag)
        if flow.copies:
            parts.append(self._part(AuditPart.FILTER, self._filter))
            parts.append(self._part(AuditPart.SETTINGS, self._settings))
            parts.append(self._part(AuditPart.ACLS, self._acls))
        parts.append(self._part(AuditPart.CHANGES, self._changes))
        return FlowAudit(flow.name, flow.source, flow.target, tuple(parts), "; ".join(runner))

    def _part(self, part: AuditPart, look: Callable[[], PartResult]) -> PartResult:
        try:
            self._deadline.check()
            return look()
        except TwinlogError as error:
            return PartResult(part, not_audited=unread_reason([told(error)]))

    # Records and gaps.

    def _records(self) -> list[PartResult]:
        """The comparison of records, and the gaps that offset syncs prove; both need the plan of `verify`."""
        plan: list[VerifyPlan] = []

        def read_plan() -> PartResult:
            with VerifyPlanner(self._flow, VerifyOptions(), self._connect, self._progress) as planner:
                plan.append(planner.plan())
            self._history = self._read_history(plan[0])
            return PartResult(AuditPart.RECORDS)

        failed = self._part(AuditPart.RECORDS, read_plan)
        if not plan:
            return [failed, PartResult(AuditPart.GAPS, not_audited=failed.not_audited)]
        records = self._part(AuditPart.RECORDS, lambda: self._compared(plan[0]))
        if failed.not_audited is not None:
            # The copies were planned, and only their offset syncs are unreadable.
            return [records, PartResult(AuditPart.GAPS, not_audited=failed.not_audited)]
        return [records, self._part(AuditPart.GAPS, lambda: self._gaps(plan[0]))]

    def _read_history(self, plan: VerifyPlan) -> SyncHistory:
        flow = self._flow
        wanted = [part.source for part in plan.parts if part.problem is None]
        self._progress(flow.name, "offset syncs", 0, 1)
        found = SyncHistoryReader(flow, self._source, self._target).read(
            lambda: ask_twice(self._source, lambda: self._source.offsets(wanted, latest=True))
        )
        self._progress(flow.name, "offset syncs", 1, 1)
        return found

    def _compared(self, plan: VerifyPlan) -> PartResult:
        flow = self._flow
        there = ask_twice(self._target, self._target.topics)
        # The part about settings names topics without a copy.
        parts = (part for part in plan.parts if part.remote.topic in there)
        sample = sample_of(parts, self._history, self._options.sample, full=self._options.full)
        rows: list[Verdict] = []
        late: str | None = None
        try:
            rows.extend(self._compare(plan, sample.ranges, self._deadline))
        except AuditTimeoutError as error:
            late = str(error)
        findings, problems = record_findings(flow, rows)
        if sample.problem is not None:
            problems.append(sample.problem)
        if late is not None:
            problems.append(f"{len(rows)} of {counted(len(sample.ranges), 'range')} were compared: {late}")
        records = sum(row.records for row in rows)
        verb = "is" if records == 1 else "are"
        scope = f"{counted(records, 'record')} of {counted(sample.partitions, 'partition')} {verb} equal"
        if sample.left:
            scope += f", {counted(sample.left, 'offset')} outside the sample (--full compares all)"
        return PartResult(AuditPart.RECORDS, tuple(findings), scope, "; ".join(problems) or None)

    def _gaps(self, plan: VerifyPlan) -> PartResult:
        suspects = suspect_histories(plan)
        mapped_from = self._uncopied.mapped_from
        # MirrorMaker 2 may have copied before twinlog took the partition over.
        mapped = mapped_from.keys() - {part.source for part in suspects}
        taken_over = [part for part in plan.parts if part.source in mapped]
        logs = ask_twice(
            self._source, lambda: logs_of(self._source, [part.source for part in (*suspects, *taken_over)])
        )
        # A log that is yet to get its first record lacks gaps and offset syncs.
        parts = [part for part in suspects if part.source not in logs or logs[part.source].end > 0]
        findings = gap_findings(self._flow, [*parts, *taken_over], self._history, logs, mapped_from)
        syncs = sum(1 for part in parts if self._history.anchors(part.source))
        scope = f"{counted(syncs, 'partition')} by offset syncs"
        lacking = len(parts) - syncs
        missing = None
        if parts and not syncs:
            missing = (
                f"topic {self._flow.offset_syncs_topic} lacks offset syncs of these topics, which would prove gaps"
            )
        elif lacking:
            scope += f"; {counted(lacking, 'partition')} without offset syncs"
        return PartResult(AuditPart.GAPS, tuple(findings), scope, missing)

    # Groups.

    def _groups(self) -> PartResult:
        if not self._has_groups(self._source):
            return PartResult(AuditPart.GROUPS, scope=f"all groups of {self._flow.source} are hidden, or it has none")
        self._require_groups(self._target)
        known = next(one for one in followers(self._flows) if one.settings is self._flow)
        with GroupsReader(known.settings, known.copied_by, known.reverse, connect=self._connect) as reader:
            seen = reader.read()
        findings = group_findings(self._flow.name, self._flow.target, seen, by_twinlog=self._by_twinlog)
        trouble = None if seen.source_trouble is None else f"the source is silent about groups: {seen.source_trouble}"
        if seen.unlisted:
            trouble = (
                f"{counted(seen.unlisted, 'partition')} of {GROUPS_TOPIC} without a leader, whose groups are missing"
            )
        if seen.hidden is not None:
            trouble = hidden_offsets(seen.hidden)
        return PartResult(AuditPart.GROUPS, tuple(findings), counted(len(seen.groups), "group"), trouble)

    def _has_groups(self, cluster: ClusterAdmin) -> bool:
        """Whether a cluster has ever had a group: before its first group, a request for one creates a topic."""
        if GROUPS_TOPIC in cluster.topics():
            return True
        return bool(cluster.call(GroupAdmin(cluster.client).listed))

    def _require_groups(self, cluster: ClusterAdmin) -> None:
        """Raise ClusterError before the first group of a cluster."""
        if not self._has_groups(cluster):
            raise ClusterError(
                f"cluster {cluster.alias} has yet to get a consumer group, or the login lacks DESCRIBE on topic "
                f"{GROUPS_TOPIC}"
            )

    # The parts that compare clusters.

    def _state(self, runner: list[str]) -> PartResult:
        if self._flow.kind is None or self._worker is not None:
            self._require_groups(self._target)
        with FlowReader(self._flow, self._worker, connect=self._connect) as reader:
            seen = reader.read()
        detail = f": {seen.state.detail}" if seen.state.detail else ""
        runner.append(f"{seen.state.word}{detail}")
        self._by_twinlog = seen.state.condition is FlowCondition.RUNNING and seen.state.word != BY_OTHERS
        troubles = [] if seen.lag_trouble is None else [seen.lag_trouble]
        uncopied = None
        try:
            uncopied = self._uncopied = read_uncopied(seen, self._source, self._target)
        except ClusterError as error:
            troubles.append(told(error))
        findings = state_found(seen, uncopied)
        scope = counted(len(seen.topics), "topic")
        return PartResult(AuditPart.LAG, tuple(findings), scope, unread_reason(dict.fromkeys(troubles)))

    def _filter(self) -> PartResult:
        here = self._source_inventory()
        readers = self._readers(here)
        sizes: dict[TopicName, int] = {}

        def records(topic: TopicName) -> int | None:
            if topic not in sizes and topic in here.topics:
                logs = logs_of(self._source, partitions_of([here.topics[topic].topic]))
                sizes[topic] = sum(log.offsets for log in logs.values())
            return sizes.get(topic)

        findings = outside(self._topology, here.topics, readers, records, self._flow.name, self._copied)
        left = sum(not self._topology.mirrors(name) for name in here.topics)
        scope = f"{counted(left, 'topic')} outside the filter"
        return PartResult(AuditPart.FILTER, tuple(findings), scope, _sentences(Content.GROUPS, here))

    def _copied(self, topic: TopicName) -> int | None:
        """The offsets of the remote topic of a topic outside the filter; None if it is missing."""
        remote = ask_twice(self._target, self._target.topics).get(self._topology.remote_name(topic))
        if remote is None:
            return None
        logs = ask_twice(self._target, lambda: logs_of(self._target, partitions_of([remote])))
        return sum(log.offsets for log in logs.values())

    def _readers(self, here: Inventory) -> dict[TopicName, list[GroupId]]:
        """The followed groups with offsets in each topic."""
        filter_ = group_filter_of(self._flow)
        found: dict[TopicName, list[GroupId]] = defaultdict(list)
        for group, offsets in here.committed.items():
            if filter_.accepts(group):
                for topic in sorted({where.topic for where in offsets}):
                    found[topic].append(group)
        return found

    def _names(self) -> FlowTopicPairing:
        flow = self._flow
        return FlowTopicPairing(self._topology, group_filter_of(flow), config_filter_of(flow), flow.name, -1)

    def _settings(self) -> PartResult:
        here, names = self._source_inventory(), self._names()
        there = self._target_inventory(names)
        differences = compare_clusters(here, there, names)
        extra = [
            Topic(TopicName(one.what.split(" / ")[0]), 0)
            for one in differences
            if one.kind == "topic" and one.left is None
        ]
        findings = settings_found(self._flow, differences, find_hidden(self._source, extra))
        pairs = sum(names.right(name) is not None for name in here.topics)
        return PartResult(
            AuditPart.SETTINGS,
            tuple(findings),
            f"{counted(pairs, 'mirrored topic')}",
            _sentences(Content.CONFIGS, here, there),
        )

    def _acls(self) -> PartResult:
        here, names = self._source_inventory(), self._names()
        there = self._target_inventory(names)
        unread = _sentences(Content.ACLS, here, there)
        if here.acls is None or there.acls is None:
            bare = [str(one.alias) for one in (here, there) if one.acls is None and not one.unread_of(Content.ACLS)]
            scope = "" if unread else f"{' and '.join(bare)} {'lacks' if len(bare) == 1 else 'lack'} an authorizer"
            return PartResult(AuditPart.ACLS, scope=scope, not_audited=unread)
        try:
            needed = needed_rights(self._flows, USES, self._worker)
        except ConfigError:
            # Only the brokers know the user of a token.
            needed = []
        findings = acls_found(self._flow, here, there, names, needed)
        scope = f"{counted(len(here.lasting_acls), 'ACL')} of {self._flow.source}"
        return PartResult(AuditPart.ACLS, tuple(findings), scope, unread)

    def _changes(self) -> PartResult:
        flow = self._flow
        copying = [one for one in self._flows if one.copies]
        copied_by = [] if flow.copies else [one for one in copying if _ends(one) == _ends(flow)]
        with FlowPlanner(
            flow,
            copying,
            copied_by=copied_by,
            validates=False,
            progress=self._progress,
            connect=self._connect,
        ) as planner:
            plan = planner.plan(RATE)
        found = changes_found(plan, by_twinlog=self._by_twinlog)
        return PartResult(AuditPart.CHANGES, tuple(found), changes_scope(found, by_twinlog=self._by_twinlog))

    # Inventories, each read once.

    def _source_inventory(self) -> Inventory:
        if self._here is None:
            self._here = read_inventory(
                self._source,
                Content.CONFIGS | Content.ACLS | Content.GROUPS,
                wanted=self._topology.mirrors,
                progress=partial(self._progress, self._flow.source),
            )
        return self._here

    def _target_inventory(self, names: FlowTopicPairing) -> Inventory:
        if self._there is None:
            self._there = read_inventory(
                self._target,
                Content.CONFIGS | Content.ACLS,
                wanted=lambda name: names.left(name) is not None,
                progress=partial(self._progress, self._flow.target),
            )
        return self._there


def _sentences(parts: Content, *clusters: Inventory) -> str | None:
    """The sentences about unreadable parts of clusters, None if all is read."""
    return unread_reason(text for one in clusters for text in one.unread_of(parts))


def _ends(flow: FlowSettings) -> tuple[str, str]:
    return flow.source, flow.target
