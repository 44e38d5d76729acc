"""Checks a source partition that lacks the offset a copier fetched, and decides by the flow's gap policy."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from twinlog.errors import ClusterError, GapError
from twinlog.kafka.admin.partition_states import require_current_id
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.leader_epochs import EpochOrder, compare_leader_epochs
from twinlog.kafka.metadata import OLDER_S
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import EARLIEST, LATEST
from twinlog.lease.messages import Grant
from twinlog.mirror.gaps import Gap, find_gap, is_of_another_topic
from twinlog.mirror.offsets.positions import Position
from twinlog.model.held import gap_id
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.settings.flow import FlowSettings


class GapCheck:
    """Finds gaps; `event("gap", text)` reports each gap before the flow continues."""

    def __init__(self, source: ClusterClient, settings: FlowSettings, event: Callable[[str, str], None]) -> None:
        self._source = source
        self._settings = settings
        self._event = event
        self._older_since: dict[TopicPartition, float] = {}
        """The time since which the leader of a partition answers with an older leader epoch, in monotonic seconds."""

    async def find_position(
        self, position: Position, partition: TopicPartition, grant: Grant, diverging_end: SourceOffset
    ) -> Position:
        """Return the position to continue from.

        Raises GapError when records are missing and the policy is `hold` or `stop`, and ClusterError while the source
        is silent about the partition.
        """
        found = await self._source.refresh_soon([partition.topic])
        topic = found.get(partition.topic)
        if topic is None or topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise ClusterError(f"source topic {partition.topic} no longer exists")
        if topic.error or partition.partition not in topic.leaders:
            raise ClusterError(f"source partition {partition} has no leader")
        known = position.topic_id or grant.topic_id
        recreated = known is not None and topic.topic_id is not None and uuid.UUID(known) != topic.topic_id
        if recreated:
            await require_current_id(self._source, partition)
        starts = await self._source.list_offsets([partition], EARLIEST)
        ends = await self._source.list_offsets([partition], LATEST)
        if partition not in starts or partition not in ends:
            raise ClusterError(f"source partition {partition} does not report its offsets")
        if topic.topic_id is None:
            recreated = await self._is_of_another_topic(partition, position)
        gap = find_gap(
            position.next_source,
            SourceOffset(starts[partition]),
            SourceOffset(ends[partition]),
            diverging_end=diverging_end,
            recreated=recreated,
        )
        if gap is None:
            return position
        return self.handle_gap(gap, grant, position, None if topic.topic_id is None else str(topic.topic_id))

    async def _is_of_another_topic(self, partition: TopicPartition, position: Position) -> bool:
        """Whether a topic without an id was recreated. Raises ClusterError while that is uncertain."""
        orders = await compare_leader_epochs(self._source, {partition: position.leader_epoch})
        if partition not in orders:
            raise ClusterError(f"source partition {partition} does not report its leader epoch")
        order, end = orders[partition]
        if order is not EpochOrder.OLDER:
            self._older_since.pop(partition, None)
            return is_of_another_topic(position.next_source, end, order)
        # A broker that is cut off from its cluster may believe that it still leads (KIP-320).
        now = self._source.loop.clock.monotonic()
        if now - self._older_since.setdefault(partition, now) <= OLDER_S:
            raise ClusterError(
                f"source partition {partition}: its leader has an older leader epoch than what was copied; that is "
                f"believed after {OLDER_S:.0f} s",
                message_id="TW-WAIT-10",
            )
        del self._older_since[partition]
        return True

    def handle_gap(self, gap: Gap, grant: Grant, position: Position, topic_id: str | None) -> Position:
        """Report a gap and continue after it, or raise GapError; a gap in heartbeats is always skipped."""
        text = gap.describe(grant.source)
        event = f"{gap_id(gap.kind)}: {text}"
        if grant.heartbeats:
            # The writer of heartbeats creates a deleted topic again, and users lose no records.
            self._event(
                "heartbeats", f"{text}; the flow continues at offset {gap.resume_at}, as these are no user's records"
            )
            return self._after(gap, position, topic_id)
        policy = self._settings.held_policy("gap", grant.source.topic)
        if policy in ("hold", "stop"):
            if policy == "stop":
                self._event("gap", f"{event}; the flow stops on it")
            way_out = gap.way_out(grant.source, self._settings, with_ids=topic_id is not None)
            raise GapError(text, kind=gap.kind, resume_at=gap.resume_at, way_out=way_out, message_id=gap_id(gap.kind))
        self._event("gap", f"{event}; the flow continues at offset {gap.resume_at}")
        return self._after(gap, position, topic_id)

    @staticmethod
    def _after(gap: Gap, position: Position, topic_id: str | None) -> Position:
        return replace(position, next_source=gap.resume_at, leader_epoch=-1, topic_id=topic_id)
