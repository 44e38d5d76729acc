"""Which periodic jobs a flow has on the driver, and what an operator does about each that fails."""

from __future__ import annotations

from twinlog.checkpoint.pulse import Pulse
from twinlog.kafka.admin import ClusterAdmin
from twinlog.run.jobs import Jobs
from twinlog.settings import FlowSettings


def begin_heartbeats(jobs: Jobs, settings: FlowSettings, target: ClusterAdmin) -> None:
    """The one job that a flow also has when it is not enabled."""
    jobs.begin(
        "write heartbeats",
        Pulse(settings, target).beat,
        settings.emit_heartbeats_interval_s,
        way_out=f"{settings.name}.emit.heartbeats.enabled = false ends them",
    )
