"""Detects source records that the source deleted before the flow copied them.

MirrorMaker 2 resets its consumer silently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twinlog.kafka.leader_epochs import EpochOrder
from twinlog.model.amounts import counted
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.settings.flow import FlowSettings

UNKNOWN = SourceOffset(-1)


@dataclass(frozen=True, slots=True)
class Gap:
    """Source offsets from `first` up to `end` (exclusive) that are gone, before or after the flow copied them.

    Copying continues at `resume_at`.
    """

    kind: Literal["retention", "truncation", "recreated"]
    first: SourceOffset
    end: SourceOffset
    resume_at: SourceOffset

    def describe(self, partition: TopicPartition) -> str:
        """Return a sentence for the operator, with offsets."""
        if self.kind == "retention":
            return (
                f"{partition}: source offsets {self.first} to {self.end - 1} "
                f"({counted(self.end - self.first, 'offset')}) were deleted before they were copied; the source log "
                f"now starts at {self.end}"
            )
        if self.kind == "truncation":
            return (
                f"{partition}: the source log was cut back to offset {self.first}; offsets {self.first} to "
                f"{self.end - 1} ({counted(self.end - self.first, 'offset')}) were copied and are gone from the source"
            )
        return (
            f"{partition}: the source topic was deleted and created again; copying of the old topic had reached "
            f"offset {self.first}, the new topic starts at {self.resume_at}"
        )

    def way_out(self, partition: TopicPartition, settings: FlowSettings, *, with_ids: bool = True) -> str:
        """Return the operator's way to have the partition copied after the gap.

        For the flow of a file the way is a command, otherwise a setting of the flow's gap policy. A topic whose copies
        keep their offsets has to be copied as a whole again. `with_ids` tells whether the source's topics have ids.
        """
        if settings.keeps_offsets(partition.topic):
            return (
                f"delete the remote topic of {partition.topic}: it is created again, and copied from the first offset "
                "that the source still has"
            )
        policy = f"{settings.key('gap_policy')}.{partition.topic} = skip"
        if settings.kind is not None:
            return f"to go on at offset {self.resume_at}, set {policy}"
        chosen = f"FILE {partition} --flow {settings.as_option}"
        once = f"to go on at offset {self.resume_at}, run twinlog topics accept-gap {chosen}"
        if self.kind == "truncation" and not with_ids:
            once += (
                " (brokers before Kafka 2.8 hide whether a topic was recreated: if this topic was recreated, its new "
                f"records are copied by twinlog topics restart-from {chosen} --earliest)"
            )
        return f"{once}; to do so at later gaps, too, set {policy} and run twinlog reload FILE"


def is_of_another_topic(position: SourceOffset, end: int, order: EpochOrder) -> bool:
    """Return whether the partition belongs to a recreated topic, in a cluster before topic ids (Kafka 2.8).

    A log loses its end by an election, which raises the leader epoch; a recreated topic begins with epoch 0 again.
    `position` is the next offset to copy and `end` is the end of the log. `order` compares the epoch of the log's
    leader with the epoch of the record before the position. The check misses a recreated topic in the same epoch that
    already has at least as many records as the flow copied. A broker that loses the end of its log in a crash, and
    leads again in the same epoch, counts as the broker of a recreated topic: repeated records are better than lost
    records.
    """
    return order is EpochOrder.OLDER or (order is EpochOrder.SAME and end < position)


def find_gap(
    position: SourceOffset,
    log_start: SourceOffset,
    log_end: SourceOffset,
    *,
    diverging_end: SourceOffset = UNKNOWN,
    recreated: bool = False,
) -> Gap | None:
    """Compare the next offset to copy with the source log; None when the log has all records.

    `diverging_end` is the offset from which the log differs from the records that the flow read, by the broker's leader
    epochs (-1: the log agrees).
    """
    if recreated:
        return Gap("recreated", position, position, log_start)
    if 0 <= diverging_end < position:
        return Gap("truncation", diverging_end, position, max(diverging_end, log_start))
    if position < log_start:
        return Gap("retention", position, log_start, log_start)
    if position > log_end:
        return Gap("truncation", log_end, position, log_end)
    return None
