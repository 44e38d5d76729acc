"""What a partition asks of the copier that it belongs to."""

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
    """The copier's side of `PartitionCopy`, which is what `P` stands for.

    `keep(waiting)`: these will wait for a while. `offer(queue)`: it has appends. `more(partition)`: reading may go on.
    `moved()`: something was acknowledged. `far_target()`: the way to the target decides how fast it takes records.
    `leaderless()`: the target's leader is to be looked for. `pause(partition, refusals)`: the source refused a fetch
    for now. `check(partition, end)`: look at the source again, because its log parts from what was read at `end`, or
    does not have the offset (-1), or the topic is another one (None). `resolve(partition)`: find the position anew from
    the remote log. `lost(partition)`: find the position after what is left of committed transactions.
    `abort(partition)`: abort the open transaction.
    `limit(partition)`: ask how large a batch the remote topic takes. `failed(partition, error)`: the partition is not
    copied further.
    `foreign(remote, first, end)`: target offsets that are not ours. `event(kind, text)`: an operator should see it.
    `source_lacks` and `target_lacks` make the error for a missing permission: operation, what on, what for.
    `dead_letter(partition, refused)`: write a record to the dead-letter topic. `tally` counts for
    all of them. With `log_left_out` each record that is left out is
    reported. `route(unit)`: append what a transform routed. `unready(partition)`: go on once
    records can be changed again.
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
