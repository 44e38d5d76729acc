"""Creates the topic of offset syncs where the flow keeps it; one that exists is taken as it is."""

from __future__ import annotations

import logging

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.topics.create import create_topics
from twinlog.mirror.topics.internal_topics import absent, offset_syncs
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)


def create_syncs_topic(settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
    """Create it unless the flow writes no offset syncs; a refusal is only logged: records are copied without them.

    Raises ClusterError when the cluster does not answer.
    """
    if not settings.emit_offset_syncs:
        return
    topic = offset_syncs(settings)
    holder = source if topic.cluster == source.alias else target
    if not absent([topic], {topic.cluster: holder.topics()}):
        return
    for refusal in create_topics(settings.name, holder, [topic.new()]).values():
        log.warning(
            "%s: cluster %s: topic %s could not be created: %s. Records are copied all the same, but MirrorMaker 2 and "
            "its clients cannot translate offsets; with %s = false none are written",
            settings.name,
            holder.alias,
            topic.name,
            refusal.text,
            settings.key("emit_offset_syncs"),
        )
