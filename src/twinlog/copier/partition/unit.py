"""What comes of one fetch of a partition when a transform routes some of it to other partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from twinlog.errors import TwinlogError
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appends import Append, CopyRules, PreparedFetch, RoutedRows
from twinlog.model.types import SourceOffset, TopicName, TopicPartition


class RoutedFetchOwner(Protocol):
    """The partition that was read."""

    @property
    def source(self) -> TopicPartition: ...

    @property
    def remote(self) -> TopicPartition: ...

    @property
    def rules(self) -> CopyRules: ...

    def count_fetch(self, prepared: PreparedFetch) -> None:
        """Count and report what became of a fetch: it is not read again."""

    def append(self, own: list[Append]) -> None:
        """Append what stays in this partition, perhaps nothing."""

    def count_routed(self, append: Append) -> None:
        """The target acknowledged an append of this partition that was routed to another one."""

    def resume_reading(self) -> None:
        """Read again: no routed append is waited for any more."""

    def read_again(self, offset: SourceOffset) -> None:
        """Read from a source offset on again: what was made of it is dropped."""

    @property
    def trouble(self) -> str | None:
        """What hinders it."""

    def report_trouble(self, trouble: str) -> None:
        """Report what keeps the unit from being appended."""

    def left_out(self, kind: str, text: str) -> None:
        """A policy left a record out."""

    def fail_partition(self, error: TwinlogError) -> None:
        """The unit never can be appended."""


class RoutedFetch:
    """`own` appends and routed `rows` of one fetch from source offset `begin` on, made at `since` (monotonic seconds).
    The routed ones are `sent` once they are queued, and `left` of them are not acknowledged. `topics` are those that
    they go to, and whether for failed records."""

    __slots__ = ("_open", "_prepared", "begin", "given_up", "left", "own", "owner", "rows", "sent", "since", "topics")

    def __init__(
        self,
        owner: RoutedFetchOwner,
        opened: PendingRoutedFetch,
        begin: SourceOffset,
        prepared: PreparedFetch,
        since: float,
    ) -> None:
        self.begin = begin
        self.owner = owner
        self.own = list(prepared.appends)
        self.rows: Sequence[RoutedRows] = prepared.routed
        self._prepared: PreparedFetch | None = prepared
        self.topics: dict[TopicName, bool] = {}
        for routed in self.rows:
            self.topics[routed.topic] = routed.dead or self.topics.get(routed.topic, False)
        self.since = since
        self.sent = False
        self.left = 0
        self.given_up = False
        """Its partition waits for it no longer, though not all of it arrived."""
        self._open = opened

    @property
    def wanted(self) -> bool:
        """Whether its partition waits for it."""
        return self._open.unit is self

    @property
    def arrived(self) -> bool:
        """All routed appends are acknowledged."""
        return self.sent and not self.left

    def is_news(self, text: str) -> bool:
        """Whether this was not the last report about its partition, as when the same records were read before."""
        news, self._open.reported = text != self._open.reported, text
        return news

    def count_queued(self, appends: int) -> None:
        """Its rows became so many routed appends, which are sent from now on."""
        self.sent, self.left, self.rows = True, appends, ()
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            self.owner.count_fetch(prepared)

    def take_own(self) -> list[Append]:
        """What stays in its partition, which is queued from now on: who keeps the unit does not keep that."""
        own, self.own = self.own, []
        return own

    def free_rows(self) -> None:
        """Free its memory, as nothing waits for it: a look-up of its topics may keep the unit for long."""
        self.own, self.rows, self._prepared = [], (), None

    def read_again(self) -> None:
        """Drop it, if nothing of it was sent, and have it read again."""
        if self.wanted and self._open.drop_unsent() is not None:
            self.owner.read_again(self.begin)

    def count_acknowledged(self, append: Append) -> None:
        """The target acknowledged one of its routed appends, or will not get it."""
        self.left -= 1
        if self.wanted:
            self._open.count_routed(append)

    def count_split(self, more: int) -> None:
        """One of its routed appends became so many more."""
        self.left += more


class PendingRoutedFetch:
    """The `unit` that a partition waits for, if any: it reads nothing until that is over.

    `queue` has the partition's own appends. `route(unit)` appends what is routed; `moved()` is called when something of
    that was acknowledged. `now()` is monotonic, in seconds.
    """

    __slots__ = (
        "_moved",
        "_now",
        "_owner",
        "_queue",
        "_route",
        "_transactional",
        "reported",
        "routed_to",
        "sends_all",
        "unit",
    )

    def __init__(
        self,
        owner: RoutedFetchOwner,
        queue: AppendQueue,
        *,
        transactional: bool,
        route: Callable[[RoutedFetch], None],
        moved: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self.unit: RoutedFetch | None = None
        self.reported: str | None = None
        """What was reported last of what a unit waits for."""
        self.sends_all = False
        """Some of what was read was routed, or is a part of what became of a record: the rest has to follow it."""
        self.routed_to = SourceOffset(0)
        """Before this source offset something was routed, which would be routed again if it were read again."""
        self._owner = owner
        self._queue = queue
        self._transactional = transactional
        self._route = route
        self._moved = moved
        self._now = now

    def begin_fetch(self, begin: SourceOffset, prepared: PreparedFetch) -> bool:
        """Wait for what comes of a fetch from source offset `begin` on; False where it needs no unit."""
        self.sends_all = self.sends_all or prepared.spread or bool(prepared.routed)
        if not prepared.routed and not (prepared.spread and self._transactional):
            return False
        if prepared.routed:
            self.routed_to = prepared.position
        self.unit = RoutedFetch(self._owner, self, begin, prepared, self._now())
        self._route(self.unit)
        return True

    @property
    def waits_since(self) -> float:
        """Since when nothing of the unit could be sent, in monotonic seconds; infinite where it is not so."""
        return float("inf") if self.unit is None or self.unit.sent else self.unit.since

    def count_routed(self, append: Append) -> None:
        """The target acknowledged a routed append of the unit, and perhaps with it all of them."""
        self._owner.count_routed(append)
        if self._transactional:
            self.end_if_arrived()
        elif self.unit is not None and self.unit.arrived:
            unit, self.unit = self.unit, None
            self._owner.append(unit.take_own())
            self._owner.resume_reading()
        self._moved()

    def drop_unsent(self) -> SourceOffset | None:
        """Wait no longer for a unit of which nothing is sent; returns where it begins on the source."""
        unit = self.unit
        if unit is None or unit.sent:
            return None
        self.drop_fetch()
        return unit.begin

    def drop_fetch(self) -> None:
        """Wait for no unit."""
        if self.unit is not None:
            self.unit.given_up = True
            self.unit.free_rows()
        self.unit = None

    def end_if_arrived(self) -> None:
        """Within a transaction a unit is over once all of it is acknowledged, what stays in the partition too."""
        if self.unit is not None and self.unit.arrived and self._queue.idle:
            self.unit = None
            self._owner.append([])
            self._owner.resume_reading()
