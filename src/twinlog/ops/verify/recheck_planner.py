"""Plans to read the ranges of a statement again: the logs of both clusters as they are now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from twinlog.errors import OptionError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.model.types import TopicPartition
from twinlog.ops.inventory import logs_of
from twinlog.ops.verify.model import PartitionToVerify, Side, VerifyRules
from twinlog.ops.verify.planner import Progress, VerifyOptions, compacted_topics, rules_of
from twinlog.ops.verify.recheck import PartitionToRecheck, RecheckPlan, SideLog
from twinlog.ops.verify.statement import COMPARED, StatedFlow, Statement, StatementError
from twinlog.settings.flow import FlowSettings


def flows_to_recheck(
    statement: Statement, known: Sequence[FlowSettings], wanted: Sequence[str] | None
) -> list[tuple[FlowSettings, StatedFlow]]:
    """The flows of a statement with their settings; `wanted` names some of them, None means all.

    Raises StatementError for a statement that lacks digests, and OptionError if a flow is missing on either side.
    """
    if statement.kind != COMPARED and not statement.flows:
        raise StatementError(
            "the statement of this switchover has positions only, as the flow ran without a proof of equality; its "
            "signature is right, and `twinlog verify FILE` compares the records"
        )
    stated = {one.flow: one for one in statement.flows}
    settings = {one.name: one for one in known}
    names = list(stated) if wanted is None else list(wanted)
    for name in names:
        if name not in stated:
            raise OptionError(f"the statement has no flow {name}; it has {', '.join(stated) or 'none'}")
        if name not in settings:
            raise OptionError(f"FILE has no flow {name} of the statement; it has {', '.join(settings) or 'none'}")
    return [(settings[name], stated[name]) for name in names]


class RecheckPlanner:
    """Asks both clusters of a flow, or the target only; use it as a context manager. Raises ClusterError and
    RefusedError."""

    def __init__(
        self,
        settings: FlowSettings,
        stated: StatedFlow,
        *,
        target_only: bool = False,
        connect: Connect = ClusterAdmin,
        progress: Progress = lambda alias, what, done, total: None,
        connect_s: float = COMMAND_CONNECT_S,
    ) -> None:
        self._settings = settings
        self._stated = stated
        self._target_only = target_only
        self._progress = progress
        self._connect_s = connect_s
        self._source, self._target = both_clusters(settings, connect)

    def __enter__(self) -> RecheckPlanner:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()
        self._target.close()

    def plan(self) -> RecheckPlan:
        """Return the partitions to read, with the present bounds of their logs.

        Raises StatementError if a cluster has another id than the cluster of the statement.
        """
        stated, settings = self._stated, self._settings
        rules = rules_of(settings, VerifyOptions())
        rules = replace(rules, source=replace(rules.source, isolation_level=stated.isolation_level))
        sources, remotes = [one.source for one in stated.partitions], [one.remote for one in stated.partitions]
        # The source has other batches: a proven range has a digest of the target's batches only.
        alone = self._target_only or not any(one.ranges for one in stated.partitions)
        source = None if alone else self._logs("source", self._source, sources, rules)
        target = self._logs("target", self._target, remotes, rules)
        return RecheckPlan(
            rules,
            tuple(
                PartitionToRecheck(
                    PartitionToVerify(stated.flow, one.source, one.remote),
                    one.ranges or one.proven,
                    (target[one.remote],) if source is None else (source[one.source], target[one.remote]),
                )
                for one in stated.partitions
            ),
            settings.tasks_max,
        )

    def _logs(
        self, side: Side, admin: ClusterAdmin, parts: Sequence[TopicPartition], rules: VerifyRules
    ) -> Mapping[TopicPartition, SideLog]:
        admin.connect(self._connect_s)
        self._require_same(side, admin)
        topics = admin.topics()
        there = [part for part in parts if part.topic in topics and part.partition < topics[part.topic].partitions]
        # An aborted transaction lacks copies.
        committed = side == "target" or rules.source.isolation_level == "read_committed"
        logs = logs_of(admin, there, committed=committed)
        compacted = compacted_topics(admin, sorted({part.topic for part in there}))
        self._progress(admin.alias, "partitions", len(there), len(parts))
        missing = {part: f"cluster {admin.alias}: {part} is gone, or hidden from this login" for part in parts}
        missing |= {part: f"cluster {admin.alias}: {part} has no leader" for part in there}
        return {
            part: SideLog(side, logs[part].start, logs[part].end, part.topic in compacted)
            if part in logs
            else SideLog(side, problem=missing[part])
            for part in parts
        }

    def _require_same(self, side: Side, admin: ClusterAdmin) -> None:
        stated, known = self._stated.cluster(side), admin.identity().cluster_id
        if None not in (stated.cluster_id, known) and stated.cluster_id != known:
            raise StatementError(
                f"cluster {admin.alias} has the id {known}, and the statement is about {stated.alias} with the id "
                f"{stated.cluster_id}",
                message_id="TW-VERIFY-07",
            )
