"""The appends and routed rows of a fetch of which a transform routes some records to other partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.copy_state import CopyState
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appends import Append, PreparedFetch, RoutedRows
from twinlog.model.types import SourceOffset, TopicName


class RoutedFetch:
    """`own` appends and routed `rows` of a fetch from source offset `begin` on, made at `since` (monotonic seconds).

    `owner` is the partition that was read. The routed appends are `sent` once they are queued, and `left` of them are
    unacknowledged. `topics` are their target topics, each with True if the topic is for failed records.
    """

    __slots__ = (
        "_open",
        "_prepared",
        "begin",
        "given_up",
        "left",
        "own",
        "owner",
        "rows",
        "sent",
        "since",
        "topics",
    )

    def __init__(
        self,
        owner: CopyState,
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
        """The partition has stopped waiting for the unit before all of it arrived."""
        self._open = opened

    @property
    def wanted(self) -> bool:
        """Whether the partition waits for this unit."""
        return self._open.unit is self

    @property
    def arrived(self) -> bool:
        """All routed appends are acknowledged."""
        return self.sent and not self.left

    def is_news(self, text: str) -> bool:
        """Whether a report differs from the last report about its partition; the same records may be read again."""
        news, self._open.reported = text != self._open.reported, text
        return news

    def count_queued(self, appends: int) -> None:
        """The rows became `appends` routed appends, which are sent from now on."""
        self.sent, self.left, self.rows = True, appends, ()
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            self.owner.count_fetch(prepared)

    def take_own(self) -> list[Append]:
        """Return the appends that stay in the partition.

        The unit drops these appends, so that a holder of the unit lets their memory go.
        """
        own, self.own = self.own, []
        return own

    def append_own(self) -> None:
        """Queue the appends that stay in the partition, beside the routed appends in the same transaction."""
        if self.own:
            self._open.append_own(self)

    def free_rows(self) -> None:
        """Free the memory of a dropped unit: a look-up of its topics may hold the unit for long."""
        self.own, self.rows, self._prepared = [], (), None

    def read_again(self) -> None:
        """Drop the unit if it is unsent, and have its fetch read again."""
        if self.wanted and self._open.drop_unsent() is not None:
            self.owner.read_again(self.begin)

    def count_acknowledged(self, append: Append) -> None:
        """The target acknowledged a routed append of the unit, or the append is dropped."""
        self.left -= 1
        if self.wanted:
            self._open.count_routed(append)

    def count_split(self, more: int) -> None:
        """A routed append was split, which makes `more` appends more."""
        self.left += more


class PendingRoutedFetch:
    """The `unit` that a partition waits for, if any: the partition reads nothing until the unit is over.

    `queue` has the partition's own appends. `append(appends)` queues appends of the partition that follow the routed
    records; with an empty list, the position moves over skipped records. `route(unit)` appends the routed rows.
    """

    __slots__ = (
        "_append",
        "_context",
        "_owner",
        "_queue",
        "_route",
        "reported",
        "routed_to",
        "sends_all",
        "unit",
    )

    def __init__(
        self,
        owner: CopyState,
        queue: AppendQueue,
        context: CopierContext,
        append: Callable[[list[Append]], None],
        route: Callable[[RoutedFetch], None],
    ) -> None:
        self.unit: RoutedFetch | None = None
        self.reported: str | None = None
        """The last reported reason for which a unit waits."""
        self.sends_all = False
        """Some read records were routed, or are a part of the rows of a record: the remaining records must follow
        them."""
        self.routed_to = SourceOffset(0)
        """Records before this source offset were routed, and would be routed again if they were read again."""
        self._owner = owner
        self._queue = queue
        self._context = context
        self._append = append
        self._route = route

    def begin_fetch(self, begin: SourceOffset, prepared: PreparedFetch) -> bool:
        """Wait for the results of a fetch from source offset `begin` on.

        Returns False if the fetch goes straight to the queue.
        """
        self.sends_all = self.sends_all or prepared.spread or bool(prepared.routed)
        if not prepared.routed and not (prepared.spread and self._owner.transactional):
            return False
        if prepared.routed:
            self.routed_to = prepared.position
        self.unit = RoutedFetch(self._owner, self, begin, prepared, self._context.loop.clock.monotonic())
        self._route(self.unit)
        return True

    @property
    def waits_since(self) -> float:
        """The time since which the unit is unsent, in monotonic seconds; else infinite."""
        return float("inf") if self.unit is None or self.unit.sent else self.unit.since

    def append_own(self, unit: RoutedFetch) -> None:
        """Queue the appends of a unit that stay in the partition."""
        self._append(unit.take_own())

    def count_routed(self, append: Append) -> None:
        """The target acknowledged a routed append of the unit, perhaps the last append of the unit."""
        self._owner.clear_trouble()
        self._owner.copied.routed(append)
        self._owner.take_acknowledgement(self._queue.queued_bytes)
        if self._owner.transactional:
            self.end_if_arrived()
        elif self.unit is not None and self.unit.arrived:
            unit, self.unit = self.unit, None
            self.append_own(unit)
            self._owner.wake_reader()
        self._context.notify_progress()

    def drop_unsent(self) -> SourceOffset | None:
        """Stop waiting for an unsent unit; returns its first source offset, or None."""
        unit = self.unit
        if unit is None or unit.sent:
            return None
        self.drop_fetch()
        return unit.begin

    def drop_fetch(self) -> None:
        """Stop waiting for a unit."""
        if self.unit is not None:
            self.unit.given_up = True
            self.unit.free_rows()
        self.unit = None

    def end_if_arrived(self) -> None:
        """Within a transaction, end the unit once all its appends, own and routed, are acknowledged."""
        if self.unit is not None and self.unit.arrived and self._queue.idle:
            self.unit = None
            self._append([])
            self._owner.wake_reader()
