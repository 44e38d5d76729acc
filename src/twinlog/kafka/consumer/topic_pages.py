"""Reads a topic of our own on an event loop, a page at a time: one answer of each leader that has something new."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from twinlog.errors import ClusterError, RefusedError, TopicGoneError
from twinlog.kafka.admin.producer_states import name_open_transaction
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.fetch_session import Fetched, FetchSession
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.kafka.protocol.list_offsets import EARLIEST, LATEST
from twinlog.kafka.record.aborted import AbortedFilter
from twinlog.kafka.record.batch import Batch, scan
from twinlog.kafka.record.records import is_abort_marker
from twinlog.model.types import TopicName, TopicPartition

T = TypeVar("T")

FETCH_BYTES = 4 << 20
"""What one answer of a broker holds, and so what is in memory at once for each broker."""

STALLED_S = 5.0
"""How long one call waits for a partition that makes no progress: without a leader, or held up by an open
transaction."""

ANSWER_MS = 100
"""How long one answer waits for that; where there are records it comes at once."""

RETRY_S = 0.2


@dataclass(slots=True)
class _NextFetch:
    """Where a partition is read next, and the leader epoch of what was read before (-1 unknown)."""

    offset: int
    epoch: int = -1


class _Aim(NamedTuple):
    """The topic as it is now, and the ends that are read to; `ends` is empty when there is no such topic."""

    topic_id: uuid.UUID | None
    leaders: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]


class TopicPages:
    """Where one reader stands in each partition of a topic. With `optional` a topic that does not exist is empty.

    What was read once is not read again, whatever goes wrong in between: each reading goes on where the last one
    stopped, and so gets further. Only a recreated topic is read from its beginning. Where the log lost its begin
    (DeleteRecords) reading goes on after that, where it lost its end (an unclean election) at the offset from which it
    is another one.

    With `committed` it sees no aborted records, and waits for transactions that are open below the end: one of them may
    hold the newest record of a key. One reading at a time; `stalled_s` is how long it waits for a partition without
    progress, None for `STALLED_S`. With `last` it begins so many offsets before the end of each partition, if there
    are more.
    """

    def __init__(
        self,
        client: ClusterClient,
        topic: TopicName,
        *,
        optional: bool = False,
        committed: bool = False,
        stalled_s: float | None = None,
        last: int | None = None,
    ) -> None:
        self._client = client
        self._topic = topic
        self._optional = optional
        self._committed = committed
        self._stalled_s = stalled_s
        self._most = last
        self._next: dict[TopicPartition, _NextFetch] = {}
        self._out_of_range: set[TopicPartition] = set()
        """Partitions whose logs do not have the offset that is read next."""
        self._topic_id: uuid.UUID | None = None

    def set_client(self, client: ClusterClient) -> None:
        """Read on over other connections to the same cluster; nothing may be reading."""
        self._client = client

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The topic that was read: another one once it was recreated (KIP-516)."""
        return self._topic_id

    @property
    def exists(self) -> bool:
        """Whether there was such a topic when it was read last; ids alone do not show that before Kafka 2.8."""
        return bool(self._next)

    def next_offset(self, partition: TopicPartition) -> int:
        """The offset that is read next."""
        return self._next[partition].offset

    def pass_by(self, partition: TopicPartition, offset: int) -> None:
        """A record was taken: whatever happens, it does not come again."""
        self._next[partition].offset = offset + 1

    def begin_scan(self, timeout_s: float | None = None) -> TopicScan:
        """Read what was added since the last reading, up to the end as it is now.

        With `timeout_s` it is tried again for so many seconds, whatever happens, and no longer.
        """
        stalled_s = STALLED_S if self._stalled_s is None else self._stalled_s
        return TopicScan(self, _Patience(self._client, self._topic, stalled_s, timeout_s))

    async def held_up(self, held: TopicPartition, end: int) -> ClusterError:
        """Why there is no more of a partition whose leader answers."""
        where = f"cluster {self._client.alias}: {held} is held up at offset {self._next[held].offset} of {end}"
        if not self._committed:
            return ClusterError(f"{where}: its leader returns no more records")
        by = await name_open_transaction(self._client, held)
        return ClusterError(
            f"{where} by {by}; it ends with its transaction timeout, or is ended by kafka-transactions.sh abort"
        )

    def behind(self, ends: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """The partitions that were not read to these ends."""
        return [part for part, end in ends.items() if self._next[part].offset < end]

    def visible(self, fetched: Fetched) -> Iterator[tuple[TopicPartition, PartitionResponse, Batch]]:
        """Batches with records that are to be seen; `next_offset` is after a batch once the next one is asked for."""
        partition, answer = fetched.partition, fetched.answer
        next_fetch = self._next[partition]
        hidden = AbortedFilter(answer.aborted) if self._committed and answer.aborted else None
        for batch in scan(answer.records):
            if batch.is_control:
                if hidden is not None:
                    hidden.hides(batch, abort_marker=is_abort_marker(answer.records, batch))
            elif (
                hidden is None or not hidden.hides(batch, abort_marker=False)
            ) and batch.last_offset >= next_fetch.offset:
                yield partition, answer, batch
            next_fetch.offset = max(next_fetch.offset, batch.last_offset + 1)
            next_fetch.epoch = batch.leader_epoch

    def check_fetched(self, fetched: Fetched) -> str | None:
        """What keeps a partition from being read, None if nothing does. Raises RefusedError."""
        answer, next_fetch = fetched.answer, self._next[fetched.partition]
        if error_codes.refused(answer.error):
            raise self._lacks_read()
        if answer.error == Code.OFFSET_OUT_OF_RANGE:
            self._out_of_range.add(fetched.partition)
        if answer.error:
            return f"{fetched.partition}: {error_codes.explain(answer.error)}"
        if answer.diverging_epoch >= 0:
            # What was read after this offset is not there any more; others may have been written instead.
            next_fetch.offset = min(next_fetch.offset, answer.diverging_end)
            next_fetch.epoch = answer.diverging_epoch
        return None

    async def refresh_aim(self) -> _Aim:
        client = self._client
        topic = (await client.refresh([self._topic])).get(self._topic)
        if topic is not None and error_codes.refused(topic.error):
            raise self._lacks_read()
        if self._optional and topic is not None and topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            self._next.clear()
            return _Aim(None, {}, {})
        if topic is None or topic.error:
            code = Code.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
            gone = code == Code.UNKNOWN_TOPIC_OR_PARTITION
            what = "does not exist" if gone else f"cannot be read: {error_codes.explain(code)}"
            kind = TopicGoneError if gone else ClusterError
            raise kind(f"cluster {client.alias}: topic {self._topic} {what}")
        if topic.topic_id != self._topic_id:
            # The topic was recreated, so reading begins again.
            self._topic_id = topic.topic_id
            self._next.clear()
        leaders = {TopicPartition(self._topic, number): leader.node for number, leader in topic.leaders.items()}
        errors = {TopicPartition(self._topic, number): code for number, code in topic.errors.items()}
        ends = await client.list_offsets(leaders, LATEST, errors=errors)
        everything = [TopicPartition(self._topic, number) for number in range(topic.partitions)]
        self._require_all("where it ends", everything, ends, errors)
        # A log that lost its end is read anew: what it has got since may lie before what is fetched next.
        unknown = [
            part
            for part, end in ends.items()
            if part not in self._next or part in self._out_of_range or self._next[part].offset > end
        ]
        if unknown:
            starts = await client.list_offsets(unknown, EARLIEST, errors=errors)
            self._require_all("where it begins", unknown, starts, errors)
            for part in unknown:
                next_fetch = self._next.get(part)
                if next_fetch is None or not starts[part] <= next_fetch.offset <= ends[part]:
                    most = ends[part] if self._most is None else self._most
                    next_fetch = _NextFetch(max(starts[part], ends[part] - most))
                self._next[part] = _NextFetch(next_fetch.offset)
                self._out_of_range.discard(part)
        return _Aim(topic.topic_id, leaders, ends)

    async def fetch(self, aim: _Aim, behind: Sequence[TopicPartition]) -> tuple[list[Fetched], str | None]:
        """One answer of each leader, asked all at once, and why there is none of some."""
        loop = self._client.loop
        nodes = {aim.leaders[part] for part in behind}
        asked = [
            loop.spawn(self._fetch_from, aim, node, [part for part in behind if aim.leaders[part] == node])
            for node in nodes
        ]
        found: list[Fetched] = []
        trouble = None
        for answers, error in await loop.gather(asked):
            found += answers
            trouble = error or trouble
        return found, trouble

    async def _fetch_from(
        self, aim: _Aim, node: int, parts: Sequence[TopicPartition]
    ) -> tuple[list[Fetched], str | None]:
        session = FetchSession(self._client, node, read_committed=self._committed, kept=False)
        wanted = {
            part: FetchPosition(next_fetch.offset, FETCH_BYTES, next_fetch.epoch, topic_id=aim.topic_id)
            for part in parts
            for next_fetch in [self._next[part]]
        }
        try:
            return await session.fetch(wanted, max_wait_ms=ANSWER_MS, min_bytes=1, max_bytes=FETCH_BYTES), None
        except RefusedError:
            raise
        except ClusterError as error:
            return [], str(error)

    def _require_all(
        self,
        what: str,
        wanted: Sequence[TopicPartition],
        known: Container[TopicPartition],
        errors: Mapping[TopicPartition, int],
    ) -> None:
        """Raise ClusterError for partitions that did not report something, with the first of them and why."""
        missing = [part for part in wanted if part not in known]
        if missing:
            more = f" (nor do {len(missing) - 1} more)" if len(missing) > 1 else ""
            why = error_codes.explain(errors.get(missing[0], Code.LEADER_NOT_AVAILABLE))
            raise ClusterError(f"cluster {self._client.alias}: {missing[0]} does not report {what}{more}: {why}")

    def _lacks_read(self) -> RefusedError:
        return self._client.lacks("READ", f"topic {self._topic}", "reading it")


class TopicScan:
    """One reading of a topic, up to the end that it had when that began."""

    def __init__(self, pages: TopicPages, patience: _Patience) -> None:
        self._pages = pages
        self._patience = patience
        self._aim: _Aim | None = None
        self._first: _Aim | None = None
        self._progressed = False
        self._trouble: str | None = None

    async def page(self) -> list[Fetched]:
        """The next answers, whose `TopicPages.visible` batches are to be read before the next call; none at the end.

        Raises ClusterError when a partition makes no progress or a cluster does not answer, RefusedError without READ
        on the topic. What was not read comes with the next reading.
        """
        pages, patience = self._pages, self._patience
        while True:
            await self._look_back()
            try:
                aim = self._aim
                if aim is None:
                    aim = self._aim = self._no_further(await patience.limit(pages.refresh_aim))
                behind = pages.behind(aim.ends)
                if not behind:
                    return []
                answers, self._trouble = await patience.limit(pages.fetch, aim, behind)
            except ClusterError as error:
                await patience.failed(error)
                self._aim = None
                continue
            for fetched in answers:
                self._trouble = pages.check_fetched(fetched) or self._trouble
                self._progressed = self._progressed or len(fetched.answer.records) > 0
            if answers:
                return answers

    async def _look_back(self) -> None:
        """Handle what was in the way of the page before this one. Raises ClusterError."""
        if self._progressed:
            # Only now: a caller that takes long over a page must not look like a partition without progress.
            self._progressed = False
            self._patience.progressed()
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            await self._patience.wait(trouble)
            self._aim = None
        elif self._aim is not None and self._patience.over:
            held = next(iter(self._pages.behind(self._aim.ends)), None)
            if held is not None:
                if self._patience.limited:
                    raise self._patience.late()
                raise await self._pages.held_up(held, self._aim.ends[held])

    def _no_further(self, aim: _Aim) -> _Aim:
        # A partition that grows must not hide one that returns nothing.
        if self._first is None or self._first.topic_id != aim.topic_id:
            self._first = aim
        first = self._first
        return aim._replace(ends={part: min(end, first.ends.get(part, end)) for part, end in aim.ends.items()})


class _Patience:
    """How long one reading waits: `stalled_s` without any progress, or `timeout_s` in all, whatever happens."""

    def __init__(self, client: ClusterClient, topic: TopicName, stalled_s: float, timeout_s: float | None) -> None:
        self.limited = timeout_s is not None
        self._loop = client.loop
        self._now = client.loop.clock.monotonic
        self._what = f"cluster {client.alias}: {topic}"
        self._stalled_s = stalled_s
        self._over_at = self._now() + (stalled_s if timeout_s is None else timeout_s)
        self._trouble = "there is more of it than could be read in that time"

    @property
    def over(self) -> bool:
        return self._now() > self._over_at

    def progressed(self) -> None:
        """Something was read."""
        if not self.limited:
            self._over_at = self._now() + self._stalled_s

    async def limit(self, step: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run a coroutine for no longer than there is time. Raises ClusterError."""
        if not self.limited:
            return await step(*args)
        ended = self._loop.signal()
        running = self._loop.spawn(step, *args)
        running.add_both(lambda _: ended.set())
        if not await ended.wait(max(0.0, self._over_at - self._now())):
            raise self.late()
        found: T = await running
        return found

    async def failed(self, error: ClusterError) -> None:
        """The cluster did not answer; raises the error unless there is time to try again."""
        if not self.limited or isinstance(error, RefusedError):
            raise error
        await self.wait(str(error))

    async def wait(self, trouble: str) -> None:
        """Pause before it is tried again; raises ClusterError when there is no more time."""
        self._trouble = trouble
        if self.over:
            raise self.late()
        await self._loop.sleep(RETRY_S)

    def late(self) -> ClusterError:
        """The error for that there is no more time."""
        if self.limited:
            return ClusterError(f"{self._what} was not read to its end in time: {self._trouble}")
        return ClusterError(f"{self._what} cannot be read on: {self._trouble}")
