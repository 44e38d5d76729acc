"""Detects source records that are gone before they were copied. MirrorMaker 2 resets its consumer silently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twinlog.kafka.leader_epochs import EpochOrder
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.settings.flow import FlowSettings

UNKNOWN = SourceOffset(-1)


@dataclass(frozen=True, slots=True)
class Gap:
    """Source offsets from `first` up to, not including, `end` cannot be copied any more, or were copied and are gone
    from the source. `resume_at` is where copying can go on."""

    kind: Literal["retention", "truncation", "recreated"]
    first: SourceOffset
    end: SourceOffset
    resume_at: SourceOffset

    def describe(self, partition: TopicPartition) -> str:
        """One sentence for the operator, with offsets."""
        if self.kind == "retention":
            return (
                f"{partition}: source offsets {self.first} to {self.end - 1} ({self.end - self.first} offsets) were "
                f"deleted before they were copied; the source log now starts at {self.end}"
            )
        if self.kind == "truncation":
            return (
                f"{partition}: the source log was cut back to offset {self.first}; offsets {self.first} to "
                f"{self.end - 1} ({self.end - self.first} offsets) were copied and are gone from the source"
            )
        return (
            f"{partition}: the source topic was deleted and created again; copying of the old one had reached offset "
            f"{self.first}, the new one starts at {self.resume_at}"
        )

    def way_out(self, partition: TopicPartition, settings: FlowSettings, *, with_ids: bool = True) -> str:
        """What an operator can do to have the partition copied after the gap: set the flow's policy or, for the flow of
        a file, run a command. Without `with_ids` the source's topics have no ids."""
        policy = f"{settings.key('gap_policy')}.{partition.topic} = skip"
        if settings.kind is not None:
            return f"to go on at offset {self.resume_at}, set {policy}"
        once = f"to go on at offset {self.resume_at}, run twinlog topics accept-gap FILE {partition}"
        if self.kind == "truncation" and not with_ids:
            once += (
                " (brokers before Kafka 2.8 do not tell a topic from a recreated one: if this topic was recreated, its "
                f"new records are copied by twinlog topics restart-from FILE {partition} --earliest)"
            )
        return f"{once}; to do so at later gaps, too, set {policy} and run twinlog reload FILE"


def is_of_another_topic(position: SourceOffset, end: int, order: EpochOrder) -> bool:
    """Whether a partition is that of a recreated topic, in a cluster without topic ids (before Kafka 2.8).

    A log loses its end by an election, which raises the leader epoch, and a recreated topic begins with epoch 0 again.
    `position` is the next offset to copy, `end` the end of the log, `order` how the epoch of its leader compares with
    that of the record before the position. A recreated topic that has as many records by now as were copied, or more,
    in the same epoch, is not told apart. A broker that loses the end of its log in a crash, and leads again in the same
    epoch, is taken for one that recreated it: records are rather repeated than lost.
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
    """Compare the next offset to copy with the source log; None when nothing is missing.

    `diverging_end` is the offset from which the log differs from what was read, by the broker's leader epochs (-1: it
    does not differ).
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
