"""Beans of a driver: of a flow that copies here, and of the followed groups."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from twinlog.metrics.beans import BeanTable
from twinlog.metrics.facts import CopyFacts, GroupFacts
from twinlog.metrics.meters import FlowMeters
from twinlog.metrics.mirror_beans import checkpoint_beans, client_beans, source_beans
from twinlog.model.types import GroupId
from twinlog.settings.flow import FlowSettings
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.status.flow_families import FlowMetricFacts


def copying_beans(flow: FlowRunner, connector: str, now: float, *, partitions: bool) -> Iterator[BeanTable]:
    """Beans of a flow that runs here, as the source connector of this name; `now` in monotonic seconds."""
    settings, status = flow.settings, flow.flow_status
    meters = status.meters
    facts = CopyFacts(
        connector=connector,
        source=settings.source_name,
        target=settings.target_name,
        now=now,
        remote=dict(flow.copied),
        meters=meters.parts,
        progress=status.partitions(),
        tasks=status.tasks(),
        totals=dict(meters.tasks),
        formats=settings.metric_names,
        has_source=settings.metrics_have_source,
    )
    if partitions:
        yield from source_beans(facts)
    yield from client_beans(facts, partitions=partitions)


def running_facts(flow: FlowRunner, *, ready: int | None = None) -> FlowMetricFacts:
    """A flow that runs here, for twinlog's own metrics; `ready` other processes could take it over."""
    status = flow.flow_status
    return FlowMetricFacts(
        flow.settings.name,
        leads=True,
        ready=ready,
        report=flow.report(),
        meters=status.meters,
        heard_s=status.heard_s(),
        stuck=status.stuck()[0],
    )


def group_beans(
    settings: FlowSettings, connector: str, meters: FlowMeters, groups: Collection[GroupId], now: float
) -> Iterator[BeanTable]:
    """Beans of the groups that are followed here, as the checkpoint connector of this name."""
    facts = GroupFacts(
        connector=connector,
        source=settings.source_name,
        target=settings.target_name,
        now=now,
        groups=frozenset(groups),
        meters=dict(meters.groups),
        formats=settings.metric_names,
    )
    yield from checkpoint_beans(facts)
