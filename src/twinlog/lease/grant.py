"""What a driver hands to a copier and gets back: plain values that travel as JSON over the lease connection."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from twinlog.model.types import TopicName, TopicPartition
from twinlog.offsets.positions import Position
from twinlog.offsets.segments import Tip


@dataclass(frozen=True, slots=True)
class Share:
    """What a task is to do for one flow: its copier claims a slot of this lease."""

    flow: str
    lease: int
    slot: int

    def as_json(self) -> list[Any]:
        return [self.flow, self.lease, self.slot]

    @classmethod
    def from_json(cls, value: list[Any]) -> Share:
        return cls(*value)


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to copy one source partition into one remote partition.

    `position` is None for a partition that was never copied. `max_batch_bytes` is the remote topic's
    `max.message.bytes`. `settled` says that whoever copied it before let go with all its appends answered; otherwise
    what was on its way may yet arrive. `tip` is where the partition's exact map ends, None when there is none.
    """

    source: TopicPartition
    remote: TopicPartition
    topic_id: str | None
    max_batch_bytes: int
    position: Position | None
    settled: bool = False
    tip: Tip | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Grant:
        position = value["position"]
        return cls(
            source=partition_from_json(value["source"]),
            remote=partition_from_json(value["remote"]),
            topic_id=value["topic_id"],
            max_batch_bytes=value["max_batch_bytes"],
            position=None if position is None else Position.from_json(position),
            settled=value["settled"],
            tip=None if value["tip"] is None else Tip(*value["tip"]),
        )


def partition_from_json(value: list[Any]) -> TopicPartition:
    """A partition that was written as [topic, partition]."""
    return TopicPartition(TopicName(value[0]), int(value[1]))
