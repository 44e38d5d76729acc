"""The requests of a partition to its copier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from twinlog.copier.partition.counters import CopierCounters
from twinlog.copier.partition.dead_letters import RefusedAppend
from twinlog.copier.partition.unit import RoutedFetch
from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appends import Append, RoutedRows
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class CopierHooks(Generic[P]):
    """The copier's side of `PartitionCopy`; `P` is that class.

    `keep(waiting)`: these appends and rows will wait for a while. `offer(queue)`: the queue has appends.
    `more(partition)`: the partition may be read again. `moved()`: appends were acknowledged. `far_target()`: True if
    the distance to the target decides how fast the target takes records. `leaderless()`: look for the target's leader.
    `pause(partition, refusals)`: the source refused a fetch for now.

    `check(partition, end)`: check the source again. Its log differs from the copied records from `end` on, or lacks the
    offset (-1), or the topic is another topic (None). `resolve(partition)`: find the position again from the remote
    log. `lost(partition)`: find the position after the remaining records of committed transactions. `abort(partition)`:
    abort the open transaction.

    `limit(partition)`: ask for the largest batch of the remote topic. `failed(partition, error)`: copying the partition
    ends. `foreign(remote, first, end)`: these target offsets have records of another program. `event(kind, text)`: an
    event for operators. `source_lacks` and `target_lacks` make the error for a missing permission from operation,
    resource and purpose.

    `dead_letter(partition, refused)`: write a record to the dead-letter topic. `tally` counts for all partitions. With
    `log_left_out` each left-out record is reported. `route(unit)`: append the routed rows of a unit.
    `unready(partition)`: continue once the transform can change records again.
    """

    keep: Callable[[Sequence[Append | RoutedRows]], None]
    offer: Callable[[AppendQueue], None]
    more: Callable[[TopicPartition], None]
    moved: Callable[[], None]
    far_target: Callable[[], bool]
    leaderless: Callable[[], None]
    pause: Callable[[P, int], None]
    check: Callable[[P, SourceOffset | None], None]
    resolve: Callable[[P], None]
    lost: Callable[[P], None]
    abort: Callable[[P], None]
    limit: Callable[[P], None]
    dead_letter: Callable[[P, RefusedAppend], None]
    failed: Callable[[P, TwinlogError], None]
    foreign: Callable[[TopicPartition, TargetOffset, TargetOffset], None]
    event: Callable[[str, str], None]
    source_lacks: Callable[[str, str, str], RefusedError]
    target_lacks: Callable[[str, str, str], RefusedError]
    tally: CopierCounters = field(default_factory=CopierCounters)
    log_left_out: bool = False
    route: Callable[[RoutedFetch], None] = lambda unit: None
    unready: Callable[[P], None] = lambda part: None
