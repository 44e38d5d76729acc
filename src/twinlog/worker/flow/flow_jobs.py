"""The periodic jobs of a flow on the driver, each with the operator's remedy for its failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.groups.checkpoint_writer import CheckpointWriter
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator
from twinlog.mirror.groups.group_sync import GroupSync
from twinlog.mirror.groups.unsafe_groups import UnsafeGroups
from twinlog.mirror.heartbeats import HeartbeatWriter
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.translator import Translator
from twinlog.mirror.topics.acls import AclSync
from twinlog.mirror.topics.configs import ConfigSync
from twinlog.mirror.topics.internal_topics import TopicBounds
from twinlog.mirror.topics.left_fences import REMOVE, LeftFences, owners_of
from twinlog.mirror.topics.writer_fence import WriterFence
from twinlog.model.types import SourceOffset
from twinlog.settings.flow import FlowSettings
from twinlog.worker.metrics.meters import FlowMeters
from twinlog.worker.periodic import PeriodicJob, PeriodicJobs
from twinlog.worker.status.flow_reporter import FollowedSoFar
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.report import EVERY_S, DriverReport, Publisher
from twinlog.worker.topics.topic_refresh import TopicRefresh

JOIN_S = 300.0
PIN_S = 10.0
FENCE_S = 30.0
LEFT_S = 60.0
DOUBTS_S = 5.0
BOUND_S = 600.0
"""Seconds between two searches for internal topics that were missing before."""


class FlowJobs:
    """The jobs of a flow that its settings ask for: heartbeats, settings and rights of remote topics, groups.

    Used by the thread of the flow. `so_far` gets the jobs of groups, and the meters of `status` get the latency of
    checkpoints. A flow that continues the counters of an earlier flow replaces its own meters at its start.
    """

    def __init__(
        self,
        jobs: PeriodicJobs,
        source: ClusterAdmin,
        target: ClusterAdmin,
        topics: TopicRefresh,
        translator: Translator,
        so_far: FollowedSoFar,
        status: FlowStatus,
    ) -> None:
        self.groups_writer: CheckpointWriter | None = None
        """The writer of checkpoints, once the flow runs."""
        self.keeps_settings: PeriodicJob | None = None
        """The job that copies the settings to remote topics, if it is on."""
        self._jobs = jobs
        self._source, self._target = source, target
        self._topics = topics
        self._translator = translator
        self._so_far, self._status = so_far, status
        self._begun: list[PeriodicJob] = []
        self._fencing: PeriodicJob | None = None

    def begin_heartbeats(self, settings: FlowSettings) -> None:
        """Begin the job that works with the target alone."""
        known = self._jobs.all
        begin_heartbeats(self._jobs, settings, self._target)
        self._note(known)

    def begin_jobs(self, settings: FlowSettings, reverse: FlowSettings | None) -> None:
        """Begin the remaining jobs; `reverse` is the flow back, if the file has it."""
        known = self._jobs.all
        self._so_far.set_settings(settings)
        clusters = self._source, self._target
        self.keeps_settings = begin_keeping_in_step(self._jobs, settings, *clusters, self._topics)
        self._fencing = begin_fencing(self._jobs, settings, self._target, self._topics)
        begin_finding_left_fences(self._jobs, settings, self._target)
        self.groups_writer = begin_following_groups(
            self._jobs, settings, *clusters, self._translator, reverse, self._so_far, self._status.meters
        )
        self._note(known)

    def change_settings(self, settings: FlowSettings, reverse: FlowSettings | None, timeout_s: float) -> None:
        """End all of these jobs, and begin them with other settings.

        Each job ends after the turn under way, or is left behind after `timeout_s`.
        """
        before, self._begun = self._begun, []
        if self._fencing is not None and settings.fences_writers:
            # The next job takes the fence over, so that no producer passes meanwhile.
            self._fencing.last_step = None
        self._jobs.end(before, timeout_s)
        self.begin_heartbeats(settings)
        self.begin_jobs(settings, reverse)

    def _note(self, known: Sequence[PeriodicJob]) -> None:
        self._begun += [job for job in self._jobs.all if job not in known]


def begin_heartbeats(jobs: PeriodicJobs, settings: FlowSettings, target: ClusterAdmin) -> PeriodicJob | None:
    """The only job that a disabled flow also has; None if it is switched off."""
    return jobs.begin(
        "write heartbeats",
        HeartbeatWriter(settings, target).write_heartbeat,
        settings.emit_heartbeats_interval_s,
        way_out=f"{settings.switch('emit_heartbeats_interval_s')} = false ends them",
    )


def begin_publishing(
    jobs: PeriodicJobs, settings: FlowSettings, target: ClusterAdmin, look: Callable[[], DriverReport]
) -> PeriodicJob | None:
    """The job that reports the flow's state to other programs, its end included."""
    publisher = Publisher(settings, target, look)
    return jobs.begin(
        "report what the flow does", publisher.publish_report, EVERY_S, last_step=publisher.publish_report
    )


def begin_keeping_in_step(
    jobs: PeriodicJobs, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin, topics: TopicRefresh
) -> PeriodicJob | None:
    """The jobs that copy settings and rights from source topics to remote topics; returns the first of these jobs."""
    configs = ConfigSync(settings, source, target)

    def keep_settings() -> None:
        topics.invalidate_configs(configs.run(topics.pairs))

    job = jobs.begin(
        "keep the settings of remote topics in step",
        keep_settings,
        settings.sync_topic_configs_interval_s,
        way_out=f"{settings.switch('sync_topic_configs_interval_s')} = false leaves them as they are",
    )
    jobs.begin(
        "carry ACLs over",
        AclSync(settings, source, target, topics.leaves_out).run,
        settings.sync_topic_acls_interval_s,
        way_out=f"{settings.switch('sync_topic_acls_interval_s')} = false leaves them as they are",
    )
    return job


def begin_fencing(
    jobs: PeriodicJobs, settings: FlowSettings, target: ClusterAdmin, topics: TopicRefresh
) -> PeriodicJob | None:
    """The job that keeps other logins from remote topics whose offsets are kept; returns None without a fence.

    Without a fence the job of `begin_lifting` begins.
    """
    if not settings.fences_writers:
        if settings.copies:
            begin_lifting(jobs, settings, target)
        return None
    fence = WriterFence(settings, target)

    def keep_writers_away() -> str | None:
        return fence.keep([pair.remote for pair in topics.pairs if settings.keeps_offsets(pair.source.name)])

    return jobs.begin(
        "keep other writers from remote topics",
        keep_writers_away,
        FENCE_S,
        way_out=f"{settings.key('fence_writers')} = false leaves them open",
        message_id="TW-ACL-05",
        last_step=fence.lift,
    )


def begin_lifting(jobs: PeriodicJobs, settings: FlowSettings, target: ClusterAdmin) -> None:
    """The job that removes the fence of an earlier run, which was killed before the file switched the fence off, or
    the flow.

    It ends then: another process of the flow may have a fence of its own.
    """
    fence = WriterFence(settings, target)
    jobs.begin("remove the ACLs of an earlier run", fence.lift_earlier, BOUND_S, once=True)


def begin_finding_left_fences(jobs: PeriodicJobs, settings: FlowSettings, target: ClusterAdmin) -> None:
    """The job that names the fences of other flows that no process will remove."""
    jobs.begin(
        "open topics that a killed flow has fenced",
        LeftFences(target, owners_of([settings])).describe_lasting,
        LEFT_S,
        way_out=REMOVE,
        message_id="TW-ACL-07",
    )


def begin_following_groups(
    jobs: PeriodicJobs,
    settings: FlowSettings,
    source: ClusterAdmin,
    target: ClusterAdmin,
    translator: Translator,
    reverse: FlowSettings | None,
    so_far: FollowedSoFar,
    meters: FlowMeters,
) -> CheckpointWriter | None:
    """The jobs that let consumer groups continue at the target; `reverse` is the flow back, if the file has it.

    Both jobs take a last step when the flow stops, so that the records copied last are translated too. `so_far` gets
    both jobs, `meters` the latency of checkpoints. Returns the writer of checkpoints, None if they are off.
    """
    if settings.emit_checkpoints_interval_s is None:
        # MirrorMaker 2 also commits offsets only together with checkpoints.
        return None
    sync: PeriodicJob | None = None

    def moved() -> None:
        if sync is not None:
            sync.follow()

    of_groups = GroupOffsetTranslator(settings, source, target, translator, reverse)
    writer = CheckpointWriter(
        settings,
        source,
        target,
        of_groups,
        lambda written, latency_ms: meters.checkpointed(
            written, writer.followed or (), latency_ms, target.clock.monotonic()
        ),
        moved,
    )
    syncing = GroupSync(settings, target, writer.positions, writer.stored.earlier)
    checkpoints = jobs.begin(
        "write checkpoints",
        writer.write_checkpoints,
        settings.emit_checkpoints_interval_s,
        way_out=f"{settings.switch('emit_checkpoints_interval_s')} = false ends them",
        again=writer,
        last_step=writer.write_last_checkpoints,
    )
    sync = jobs.begin(
        "commit offsets of groups on the target",
        syncing.commit_offsets,
        settings.sync_group_offsets_interval_s,
        way_out=f"{settings.switch('sync_group_offsets_interval_s')} = false leaves them as they are",
        again=syncing,
        last_step=syncing.commit_last_offsets,
    )
    unsafe = UnsafeGroups(settings, source, target, of_groups, writer, None if sync is None else syncing)
    jobs.begin("find out which groups have moved", unsafe.resolve_doubts, DOUBTS_S)
    so_far.set_jobs(writer, (checkpoints, sync), unsafe)
    return writer


def begin_bounding(jobs: PeriodicJobs, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
    """The job that bounds internal topics which MirrorMaker 2 or an earlier version created."""
    jobs.begin("keep its topics small", TopicBounds(settings, source, target).set_missing_bounds, BOUND_S)


def begin_pinning_starts(jobs: PeriodicJobs, topics: TopicRefresh) -> None:
    """The job that stores the first offsets of partitions whose leaders were silent at the flow's first start."""

    def pin() -> None:
        # Changed settings of a running flow may change its starts.
        if topics.starts.needed:
            topics.starts.store_offsets()

    jobs.begin("store where partitions without a leader begin", pin, PIN_S)


def begin_joining_segments(jobs: PeriodicJobs, source: ClusterAdmin, maps: MapStore) -> None:
    """The job that keeps exact maps and their topic small."""

    def join() -> None:
        maps.read()
        fragmented = maps.fragmented()
        if fragmented:
            starts = source.offsets(fragmented, latest=False)
            without = [partition for partition in fragmented if partition not in starts]
            if without:
                # A leaderless partition has a leader at a later turn. The map of a deleted topic takes room, too.
                there = source.topics()
                starts |= {partition: 0 for partition in without if partition.topic not in there}
            maps.join_segments({partition: SourceOffset(start) for partition, start in starts.items()})

    jobs.begin("join maps of old offsets", join, JOIN_S)
