"""Translates a group's offset on the source to the target, with the maps of the flow and of the flow back."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from twinlog.clock import LONG_AGO
from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.offsets.translator import Translation, Translator
from twinlog.mirror.topics.checks import common_broker
from twinlog.mirror.topology.plugins import policy_of, topic_filter_of
from twinlog.mirror.topology.topology import topology_of
from twinlog.mirror.unlisted_topics import HiddenOffsets, find_hidden_offsets
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.process.log_once import LogOnce
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

HIDDEN_S = 10.0
"""The seconds for which an answer about hidden topics counts: the answer costs a list of all topics."""


class TranslatedGroupOffset(NamedTuple):
    """A partition of the target and the offset to commit there; with `exact` the group skips and repeats no record.

    With `recreated` the partition has no copy yet, and earlier translations are of a deleted topic. `by_syncs`
    is True for a translation by offset syncs.
    """

    partition: TopicPartition
    offset: TargetOffset
    exact: bool
    recreated: bool = False
    by_syncs: bool = False

    @classmethod
    def of(
        cls, partition: TopicPartition, found: Translation[TargetOffset] | Translation[SourceOffset]
    ) -> TranslatedGroupOffset:
        """A translation to `partition`; of a flow back, the source is the cluster at which the group continues."""
        return cls(partition, TargetOffset(found.offset), found.exact, found.by == "start", found.by == "syncs")


class GroupOffsetTranslator:
    """Translates commits on a flow's source: in its own topics, and in topics that came from the target.

    Topics from the target are for the way back: a group that reads `west.orders` on east continues in `orders` on west.
    MirrorMaker 2 names the topics on the target in the same way (class MirrorCheckpointTask, renameTopicPartition).
    MirrorMaker 2 has no offsets for these topics, because the flow does not copy them. Here the flow from the target to
    the source copies these topics and has written its maps on the source.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterAdmin,
        target: ClusterAdmin,
        translator: Translator,
        reverse: FlowSettings | None = None,
    ) -> None:
        """`reverse` is the flow back, if the file has it; a disabled flow is enough."""
        self._settings = settings
        self._policy = policy_of(settings)
        self._filter = topic_filter_of(settings)
        self._there = translator
        self.reverse = reverse or reverse_of(settings)
        """The flow back."""
        self._source = source
        self._target = target
        self._back = Translator(self.reverse, target, source)
        self._way_back = False
        self._one_cluster: bool | None = None
        """Whether source and target are the same cluster; None before the first check."""
        self._logged = LogOnce(target.clock)
        self._hidden: HiddenOffsets | None = None
        self._hidden_at = LONG_AGO

    def accepts(self, topic: TopicName) -> bool:
        """Return whether commits on a topic of the source are translated.

        The topic filter decides, as in MirrorMaker 2; copies within a single cluster are left out. Raises ClusterError.
        """
        return self._filter.accepts(topic) and not self.is_copy_beside(topic)

    def is_copy_beside(self, topic: TopicName) -> bool:
        """Return whether `topic` is a copy by this flow or the flow back, and source and target are the same cluster.

        A group that reads copies stays on the copies, and its offsets in their originals are its own. Asks both
        clusters once, and raises ClusterError.
        """
        ends = (self._settings.source, self._settings.target)
        return self._policy.source_alias(topic) in ends and self._within_one_cluster()

    def came_from_target(self, topic: TopicName) -> bool:
        """Return whether a topic of the source is a copy from the target, by its name."""
        return self._policy.source_alias(topic) == self._settings.target_name

    def left_to_switchover(self, topic: TopicName) -> bool:
        """Return whether only a switchover commits positions in `topic` on the target.

        This is so for a copy from the target that the topic filter rejects. Raises ClusterError.
        """
        return self.came_from_target(topic) and not self._filter.accepts(topic) and not self.is_copy_beside(topic)

    def refresh(self, topics: Iterable[TopicName]) -> None:
        """Read the new positions since the last call, for commits on these topics. Raises ClusterError."""
        self._there.refresh()
        self.refresh_back(topics)

    def refresh_back(self, topics: Iterable[TopicName]) -> None:
        """Read the new positions of the flow back, if some of these topics came from the target. Raises
        ClusterError."""
        if any(self.came_from_target(topic) and not self.is_copy_beside(topic) for topic in topics):
            self._way_back = self._refresh_back()

    def find_hidden(self) -> HiddenOffsets | None:
        """Return the copied topics whose commits the source hides from the login; None if the login sees all.

        An answer counts for `HIDDEN_S`. Needs the positions of `refresh`, and raises ClusterError.
        """
        now = self._source.clock.monotonic()
        if now >= self._hidden_at:
            topology, positions = topology_of(self._settings), self._there.positions()
            seen = self._source.topics()
            self._hidden = find_hidden_offsets(self._source, topology, positions, seen, self._target.topics)
            self._hidden_at = now + HIDDEN_S
        return self._hidden

    def copied_up_to(self) -> dict[TopicPartition, SourceOffset]:
        """Return the next offset to copy of each source partition with a stored position, as of the last `refresh`."""
        return {where: SourceOffset(position.next_source) for where, position in self._there.positions().items()}

    def _within_one_cluster(self) -> bool:
        if self._one_cluster is None:
            self._one_cluster = common_broker(self._source, self._target) is not None
        return self._one_cluster

    def _refresh_back(self) -> bool:
        client = self._source.client
        positions = TopicName(self.reverse.positions_topic)
        found = self._source.call(client.refresh, [positions])[positions]
        if found.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        try:
            self._back.refresh()
        except RefusedError as error:
            if self._logged.is_new("way back"):
                log.warning(
                    "TW-GROUP-06: %s: offsets of groups in topics that came from %s stay untranslated: %s",
                    self._settings.name,
                    self._settings.target,
                    error,
                )
            return False
        return True

    def translate_offset(self, partition: TopicPartition, offset: SourceOffset) -> TranslatedGroupOffset | None:
        """Return the target position for `offset`, committed in a partition of the source; None when it is unknown."""
        there = self.remote(partition)
        if there is None:
            return None
        found: Translation[TargetOffset] | Translation[SourceOffset] | None
        if self.came_from_target(partition.topic):
            found = self.to_original(there, offset)
        else:
            found = self._there.to_target(partition, offset)
        return None if found is None else TranslatedGroupOffset.of(there, found)

    def to_original(self, original: TopicPartition, offset: SourceOffset) -> Translation[SourceOffset] | None:
        """Return the position in a partition of the target for `offset`, committed in its copy on the source; None when
        it is unknown."""
        # The source of the flow back is this flow's target.
        return self._back.to_source(original, TargetOffset(offset)) if self._way_back else None

    def remote(self, partition: TopicPartition) -> TopicPartition | None:
        """Return the partition of the target at which a group continues; None for a copy whose original lacks a
        name."""
        if not self.came_from_target(partition.topic):
            topic: TopicName | None = self._policy.remote_name(self._settings.source_name, partition.topic)
        else:
            topic = self._policy.upstream_name(partition.topic)
        return None if topic is None else TopicPartition(topic, partition.partition)

    def past_copies(self, partition: TopicPartition, offset: SourceOffset) -> TargetOffset | None:
        """Return a target offset from which on all records are unread by the group; None when unknown."""
        return None if self.came_from_target(partition.topic) else self._there.past_copies(partition, offset)


def reverse_of(settings: FlowSettings) -> FlowSettings:
    """Return the flow back with default settings."""
    return replace(
        settings,
        source=settings.target,
        target=settings.source,
        source_cluster_alias=settings.target_cluster_alias,
        target_cluster_alias=settings.source_cluster_alias,
        offset_storage_topic=None,
        worker_group_id=None,
    )
