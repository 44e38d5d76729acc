"""Creates remote topics like their source and lets them grow with it; topics are never deleted and never shrunk."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import describe_configs
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.topics.changes import TopicPair
from twinlog.mirror.topics.configs import settings_at_creation
from twinlog.mirror.topics.create import create_topics, require_topics
from twinlog.mirror.topics.internal_topics import absent, exact_maps, offset_syncs, positions, progress
from twinlog.mirror.topology.filters import DefaultConfigPropertyFilter
from twinlog.mirror.topology.plugins import config_filter_of
from twinlog.model.amounts import counted
from twinlog.model.topics import ConfigEntry, NewTopic, Refusal
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)


def create_syncs_topic(settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
    """Create the topic of offset syncs if the flow writes syncs.

    A refusal is only logged: the flow still copies records.

    Raises ClusterError when the cluster is silent.
    """
    if not settings.emit_offset_syncs:
        return
    topic = offset_syncs(settings)
    holder = source if topic.cluster == source.alias else target
    if not absent([topic], {topic.cluster: holder.topics()}):
        return
    for refusal in create_topics(settings.name, holder, [topic.new()]).values():
        log.warning(
            "TW-INTERNAL-08: %s: cluster %s: topic %s could not be created: %s. Records are copied all the same, but "
            "MirrorMaker 2 and its clients cannot translate offsets; with %s = false none are written",
            settings.name,
            holder.alias,
            topic.name,
            refusal.text,
            settings.key("emit_offset_syncs"),
        )


def new_remote_topics(
    settings: FlowSettings,
    filter_: DefaultConfigPropertyFilter,
    pairs: Iterable[TopicPair],
    configs: Mapping[TopicName, Sequence[ConfigEntry]],
) -> list[NewTopic]:
    """The new remote topics of `pairs` (Kafka class MirrorSourceConnector, targetConfig).

    `configs` are the settings of source topics; a topic whose settings are missing gets no remote topic.
    """
    found = []
    for pair in pairs:
        if pair.source.name in configs:
            own = settings_at_creation(configs[pair.source.name], filter_)
            # A target that refuses a setting gets the topic without the setting.
            optional = frozenset(own)
            found.append(NewTopic(pair.remote, pair.source.partitions, settings.replication_factor, own, optional))
    return found


class TopicMirror:
    """Creates topics on the target of a flow."""

    def __init__(self, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._filter = config_filter_of(settings)

    def create_internal_topics(self) -> None:
        """Create the topics for positions, exact maps, progress and offset syncs, as Connect creates its offsets topic.

        Raises RefusedError or ClusterError when the creation fails.
        """
        settings = self._settings
        wanted = [positions(settings), exact_maps(settings), progress(settings)]
        missing = [topic.new() for topic in absent(wanted, {settings.target: self._target.topics()})]
        if missing:
            require_topics(settings.name, self._target, missing)
        create_syncs_topic(settings, self._source, self._target)

    def create(self, pairs: Sequence[TopicPair]) -> dict[TopicName, Refusal]:
        """Create the remote topics of `pairs`; returns the refused topics.

        A source topic that vanished meanwhile is left out.
        """
        configs, unreadable = self._source.call(
            describe_configs, self._source.client, [pair.source.name for pair in pairs]
        )
        lacks = self._source.client.lacks
        hidden = {
            pair.remote: Refusal(
                unreadable[pair.source.name],
                str(lacks("DESCRIBE_CONFIGS", f"topic {pair.source.name}", "reading its settings")),
            )
            for pair in pairs
            if error_codes.refused(unreadable.get(pair.source.name, Code.NONE))
        }
        topics = new_remote_topics(self._settings, self._filter, pairs, configs)
        partitions = {topic.name: topic.partitions for topic in topics}

        def created(name: TopicName) -> None:
            log.info(
                "%s: created remote topic %s (%s)", self._settings.name, name, counted(partitions[name], "partition")
            )

        return create_topics(self._settings.name, self._target, topics, created) | hidden

    def grow(self, pairs: Sequence[TopicPair]) -> dict[TopicName, Refusal]:
        """Add partitions to the remote topics of `pairs`; returns the refused topics."""
        refused = self._target.create_partitions({pair.remote: pair.source.partitions for pair in pairs})
        for pair in pairs:
            if pair.remote not in refused:
                partitions = counted(pair.source.partitions, "partition")
                log.info("%s: %s now has %s", self._settings.name, pair.remote, partitions)
        return refused
