"""The grants of a driver to a task: its share of each flow, and the right to copy partitions."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import LastPoint
from twinlog.mirror.offsets.starts import AT_FIRST, StartSpec
from twinlog.model.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a flow's lease, for a single task: the task's copier claims it, or another share of the same lease.

    `number` counts from 0, and names the clients of the copier.
    """

    flow: str
    lease: int
    number: int


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to copy a source partition into a remote partition.

    `position` is None for a partition that was never copied; the partition then begins by `begin`. `max_batch_bytes` is
    the remote topic's `max.message.bytes`. With `drained` its last copier released it with all appends answered;
    otherwise late appends may arrive. `tip` is the last point of the partition's exact map, or None. With `on_trial`
    the partition was held, and is tried again. `heartbeats` belong to no user: they stay untransformed, and a gap in
    them is harmless.
    """

    source: TopicPartition
    remote: TopicPartition
    topic_id: str | None
    max_batch_bytes: int
    position: Position | None
    drained: bool = False
    tip: LastPoint | None = None
    heartbeats: bool = False
    begin: StartSpec = AT_FIRST
    on_trial: bool = False
