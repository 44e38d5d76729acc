"""Creates remote topics once, as a flow does each time it looks for new topics."""

from __future__ import annotations

from twinlog.flows.topology import topology_of
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.topics import TopicMirror
from twinlog.model.topics import Refusal
from twinlog.model.types import TopicName
from twinlog.plan.changes import compare
from twinlog.settings.flow import FlowSettings


def mirror_topics(settings: FlowSettings) -> dict[TopicName, Refusal]:
    """Create the remote topics that are missing and let the others grow; returns what was refused."""
    source = ClusterAdmin(settings.source, settings.source_admin.client)
    target = ClusterAdmin(settings.target, settings.target_admin.client)
    try:
        source.connect()
        target.connect()
        mirror = TopicMirror(settings, source, target)
        changes = compare(topology_of(settings), source.topics(), target.topics())
        return {
            **(mirror.create(changes.create) if changes.create else {}),
            **(mirror.grow(changes.grow) if changes.grow else {}),
        }
    finally:
        source.close()
        target.close()
