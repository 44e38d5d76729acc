"""The periodic jobs of a flow on the driver, and what an operator does about each that fails."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.checkpoint.group_offsets import GroupOffsetTranslator
from twinlog.checkpoint.group_sync import GroupSync
from twinlog.checkpoint.heartbeat_writer import HeartbeatWriter
from twinlog.checkpoint.writer import CheckpointWriter
from twinlog.driver.flow_reporter import FollowedSoFar
from twinlog.driver.periodic import PeriodicJob, PeriodicJobs
from twinlog.driver.publisher import Publisher
from twinlog.driver.report import EVERY_S, DriverReport
from twinlog.driver.topic_refresh import TopicRefresh
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.metrics.meters import FlowMeters
from twinlog.mirror.acls import AclSync
from twinlog.mirror.bounds import TopicBounds
from twinlog.mirror.configs import ConfigSync
from twinlog.model.types import SourceOffset
from twinlog.offsets.map_store import MapStore
from twinlog.offsets.translator import Translator
from twinlog.settings.flow import FlowSettings

JOIN_S = 300.0
BOUND_S = 600.0
"""How often internal topics are looked for that were not there before."""


def begin_heartbeats(jobs: PeriodicJobs, settings: FlowSettings, target: ClusterAdmin) -> PeriodicJob | None:
    """The one job that a flow also has when it is not enabled; None where it is switched off."""
    return jobs.begin(
        "write heartbeats",
        HeartbeatWriter(settings, target).beat,
        settings.emit_heartbeats_interval_s,
        way_out=f"{settings.switch('emit_heartbeats_interval_s')} = false ends them",
    )


def begin_publishing(
    jobs: PeriodicJobs, settings: FlowSettings, target: ClusterAdmin, look: Callable[[], DriverReport]
) -> None:
    """The job that reports to other programs how the flow does, also that it has ended."""
    publisher = Publisher(settings, target, look)
    jobs.begin("report what the flow does", publisher.turn, EVERY_S, once_more=True)


def begin_keeping_in_step(
    jobs: PeriodicJobs, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin, topics: TopicRefresh
) -> PeriodicJob | None:
    """The jobs that keep settings and rights of remote topics like those of their source; returns the first of them."""
    configs = ConfigSync(settings, source, target)

    def keep_settings() -> None:
        topics.notice(configs.run(topics.pairs))

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
    """The jobs that let consumer groups go on at the target; `reverse` is the flow back, if the file has it.

    Both take a last turn when the flow stops: what was copied last is translated too. `so_far` gets them,
    `meters` how long checkpoints take. Returns who writes checkpoints, None when there is none.
    """
    if settings.emit_checkpoints_interval_s is None:
        # Without checkpoints MirrorMaker 2 commits no offsets either.
        return None
    writer = CheckpointWriter(
        settings,
        source,
        target,
        GroupOffsetTranslator(settings, source, target, translator, reverse),
        lambda written, latency_ms: meters.checkpointed(
            written, writer.followed or (), latency_ms, target.clock.monotonic()
        ),
    )
    checkpoints = jobs.begin(
        "write checkpoints",
        writer.turn,
        settings.emit_checkpoints_interval_s,
        way_out=f"{settings.switch('emit_checkpoints_interval_s')} = false ends them",
        once_more=True,
    )
    sync = jobs.begin(
        "commit offsets of groups on the target",
        GroupSync(settings, target, writer.positions).turn,
        settings.sync_group_offsets_interval_s,
        way_out=f"{settings.switch('sync_group_offsets_interval_s')} = false leaves them as they are",
        once_more=True,
    )
    so_far.begin(writer, (checkpoints, sync))
    return writer


def begin_bounding(jobs: PeriodicJobs, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
    """The job that bounds internal topics which MirrorMaker 2 or an earlier version created."""
    jobs.begin("keep its topics small", TopicBounds(settings, source, target).keep, BOUND_S)


def begin_joining_segments(jobs: PeriodicJobs, source: ClusterAdmin, maps: MapStore) -> None:
    """The job that keeps exact maps and their topic small."""

    def join() -> None:
        maps.read()
        fragmented = maps.fragmented()
        if fragmented:
            starts = source.offsets(fragmented, latest=False)
            without = [partition for partition in fragmented if partition not in starts]
            if without:
                # A partition without a leader has one at a later turn. The map of a deleted topic takes room, too.
                there = source.topics()
                starts |= {partition: 0 for partition in without if partition.topic not in there}
            maps.join_segments({partition: SourceOffset(start) for partition, start in starts.items()})

    jobs.begin("join maps of old offsets", join, JOIN_S)
