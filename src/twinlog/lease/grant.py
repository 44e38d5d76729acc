"""What a driver hands to a task: its share of each flow, and the right to copy partitions."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.model.types import TopicPartition
from twinlog.offsets.positions import Position
from twinlog.offsets.segments import Tip


@dataclass(frozen=True, slots=True)
class Share:
    """What a task is to do for one flow: its copier claims a slot of this lease."""

    flow: str
    lease: int
    slot: int


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to copy one source partition into one remote partition.

    `position` is None for a partition that was never copied. `max_batch_bytes` is the remote topic's
    `max.message.bytes`. With `settled` its last copier released it with all appends answered; otherwise
    appends on their way may yet arrive. `tip` is where the partition's exact map ends, None when there is none.
    """

    source: TopicPartition
    remote: TopicPartition
    topic_id: str | None
    max_batch_bytes: int
    position: Position | None
    settled: bool = False
    tip: Tip | None = None
