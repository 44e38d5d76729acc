"""Reads a topic of twinlog on an event loop, page by page: a page has an answer of each leader with new records."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from twinlog.clock import LONG_AGO
from twinlog.errors import ClusterError, RefusedError, TopicGoneError
from twinlog.kafka.admin.partition_states import name_open_transaction
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.fetch_session import Fetched, FetchSession
from twinlog.kafka.metadata import TopicMetadata
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.kafka.protocol.offsets import EARLIEST, LATEST
from twinlog.kafka.record.batch import AbortedFilter, Batch, scan
from twinlog.kafka.record.records import is_abort_marker
from twinlog.kafka.retry import TOPIC_READING, GrowingRest
from twinlog.model.types import TopicName, TopicPartition

T = TypeVar("T")

FETCH_BYTES = 4 << 20
"""The most bytes of an answer of a broker, and so the bytes in memory at once for each broker."""

STALLED_S = 5.0
"""The seconds for which a call waits for a stalled partition, which lacks a leader or has an open transaction."""

METADATA_S = 10.0
"""The seconds for which leaders are believed that have answered without an error: a reading every second, of each of
many connectors, would ask for metadata more often than for anything else."""

ANSWER_MS = 100
"""The milliseconds for which a broker waits for records; with records an answer comes at once."""


@dataclass(slots=True)
class _NextFetch:
    """The next offset of a partition, and the leader epoch of the records before it (-1 unknown)."""

    offset: int
    epoch: int = -1


class _Aim(NamedTuple):
    """The present topic, and the end offsets to read to; `ends` is empty when the topic is missing."""

    topic_id: uuid.UUID | None
    leaders: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]


_MISSING = _Aim(None, {}, {})


class TopicPages:
    """The position of a reader in each partition of a topic. With `optional` a missing topic is empty.

    A record is read once, even after errors: each reading continues at the end of the previous reading, and so makes
    progress. Only a recreated topic is read from its beginning. If the log lost its beginning (DeleteRecords), reading
    continues at the new beginning. If the log lost its end (an unclean election), reading continues at the first offset
    with a different record.

    With `committed` aborted records are hidden, and the reader waits for open transactions below the end: an open
    transaction may hold the newest record of a key. At most a single reading runs at a time. `stalled_s` is the time in
    seconds to wait for a stalled partition, None for `STALLED_S`. With `last` the first reading begins so many offsets
    before the end of each partition, if the partition has more.

    An optional topic that is missing is looked for again after a `GrowingRest` of `missing_s` seconds at most: by
    default at each reading.
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
        missing_s: float = 0.0,
    ) -> None:
        self._client = client
        self._topic = topic
        self._optional = optional
        self._committed = committed
        self._stalled_s = stalled_s
        self._most = last
        self._next: dict[TopicPartition, _NextFetch] = {}
        self._out_of_range: set[TopicPartition] = set()
        """Partitions whose logs lack the next offset to read."""
        self._topic_id: uuid.UUID | None = None
        self._known: TopicMetadata | None = None
        """The last metadata, while no leader has refused or failed since."""
        self._known_at = LONG_AGO
        self._rest = GrowingRest(missing_s)

    def set_client(self, client: ClusterClient) -> None:
        """Continue to read over other connections to the same cluster; call this between two readings."""
        self._client = client
        self._known = None
        self._rest.end()

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The id of the topic at the last reading: a recreated topic has another id (KIP-516)."""
        return self._topic_id

    @property
    def exists(self) -> bool:
        """Whether the topic existed at the last reading; before Kafka 2.8 topics lack the ids that would show this."""
        return bool(self._next)

    def next_offset(self, partition: TopicPartition) -> int:
        """The next offset to read."""
        return self._next[partition].offset

    def pass_by(self, partition: TopicPartition, offset: int) -> None:
        """Pass a record that was taken: the record is read only once, even after an error."""
        self._next[partition].offset = offset + 1

    def begin_scan(self, timeout_s: float | None = None) -> TopicScan:
        """Begin to read the records since the last reading, up to the present end.

        With `timeout_s` the reading tries again after each error, for so many seconds in all.
        """
        stalled_s = STALLED_S if self._stalled_s is None else self._stalled_s
        return TopicScan(self, _Patience(self._client, self._topic, stalled_s, timeout_s))

    async def held_up(self, held: TopicPartition, end: int) -> ClusterError:
        """Why a partition whose leader answers has stalled."""
        where = f"cluster {self._client.alias}: {held} is held up at offset {self._next[held].offset} of {end}"
        if not self._committed:
            return ClusterError(f"{where}: its leader returns no more records", message_id="TW-NET-12")
        by = await name_open_transaction(self._client, held)
        return ClusterError(
            f"{where} by {by}; it ends with its transaction timeout, or is ended by kafka-transactions.sh abort",
            message_id="TW-INTERNAL-04",
        )

    def behind(self, ends: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """The partitions that are still to read up to these ends."""
        return [part for part, end in ends.items() if self._next[part].offset < end]

    def visible(self, fetched: Fetched) -> Iterator[tuple[TopicPartition, PartitionResponse, Batch]]:
        """Batches with visible records; `next_offset` moves past a batch when the next batch is asked for."""
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
        """The trouble of a partition, None if it is readable. Raises RefusedError."""
        answer, next_fetch = fetched.answer, self._next[fetched.partition]
        if error_codes.refused(answer.error):
            raise self._lacks_read()
        if answer.error == Code.OFFSET_OUT_OF_RANGE:
            self._out_of_range.add(fetched.partition)
        if answer.error:
            self._known = None
            return f"{fetched.partition}: {error_codes.explain(answer.error)}"
        if answer.diverging_epoch >= 0:
            # The leader's log has lost the read records from this offset on; other records may have their offsets.
            next_fetch.offset = min(next_fetch.offset, answer.diverging_end)
            next_fetch.epoch = answer.diverging_epoch
        return None

    async def refresh_aim(self) -> _Aim:
        """Find the ends to read to, with metadata of the last `METADATA_S` seconds; after an error with new metadata.

        A topic that was recreated meanwhile is recognized when its metadata is read again.
        """
        now = self._client.loop.clock.monotonic()
        known, self._known = self._known, None
        if self._rest.is_on(now):
            return _MISSING
        if known is not None and now - self._known_at < METADATA_S:
            try:
                aim = await self._find_aim(known)
            except RefusedError:
                raise
            except ClusterError:
                pass
            else:
                self._known = known
                return aim
        topic = (await self._client.refresh([self._topic])).get(self._topic)
        aim = await self._find_aim(topic)
        self._known, self._known_at = (topic if aim.ends else None), now
        if aim is _MISSING:
            self._rest.extend(now)
        else:
            self._rest.end()
        return aim

    async def _find_aim(self, topic: TopicMetadata | None) -> _Aim:
        client = self._client
        if topic is not None and error_codes.refused(topic.error):
            raise self._lacks_read()
        if self._optional and topic is not None and topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            self._next.clear()
            return _MISSING
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
        # A log that ends below the next offset is read again from its beginning: its new records may lie before this
        # offset.
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
        """The answers of the leaders, all asked at once, and the last reason for a missing answer."""
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
        if trouble is not None:
            self._known = None
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
        """Raise ClusterError if partitions lack a value, with the first of these partitions and the reason."""
        missing = [part for part in wanted if part not in known]
        if missing:
            more = f" (nor do {len(missing) - 1} more)" if len(missing) > 1 else ""
            why = error_codes.explain(errors.get(missing[0], Code.LEADER_NOT_AVAILABLE))
            raise ClusterError(
                f"cluster {self._client.alias}: {missing[0]} does not report {what}{more}: {why}",
                message_id="TW-INTERNAL-07",
            )

    def _lacks_read(self) -> RefusedError:
        return self._client.lacks("READ", f"topic {self._topic}", "reading it")


class TopicScan:
    """A reading of a topic, up to the end at the begin of the reading."""

    def __init__(self, pages: TopicPages, patience: _Patience) -> None:
        self._pages = pages
        self._patience = patience
        self._aim: _Aim | None = None
        self._first: _Aim | None = None
        self._progressed = False
        self._trouble: str | None = None

    async def page(self) -> list[Fetched]:
        """The next answers, empty at the end. Read their `TopicPages.visible` batches before the next call.

        Raises ClusterError when a partition stalls or a cluster fails to answer, RefusedError if the principal lacks
        READ on the topic. The next reading returns the remaining records.
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
        """Handle the troubles of the previous page. Raises ClusterError."""
        if self._progressed:
            # Progress is noted only now, so that the time of a caller for a page is never counted as a stall.
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
        # A partition that grows must not hide a stalled partition.
        if self._first is None or self._first.topic_id != aim.topic_id:
            self._first = aim
        first = self._first
        return aim._replace(ends={part: min(end, first.ends.get(part, end)) for part, end in aim.ends.items()})


class _Patience:
    """The limits of a reading: `stalled_s` since the last progress, or `timeout_s` in all."""

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
        """Note that records were read."""
        if not self.limited:
            self._over_at = self._now() + self._stalled_s

    async def limit(self, step: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run a coroutine within the remaining time. Raises ClusterError."""
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
        """Handle an error of the cluster; raises the error unless there is time to try again."""
        if not self.limited or isinstance(error, RefusedError):
            raise error
        await self.wait(str(error))

    async def wait(self, trouble: str) -> None:
        """Pause before the next try; raises ClusterError when the time is over."""
        self._trouble = trouble
        if self.over:
            raise self.late()
        await self._loop.sleep(TOPIC_READING.first_s)

    def late(self) -> ClusterError:
        """The error at the end of the time."""
        if self.limited:
            return ClusterError(f"{self._what} was not read to its end in time: {self._trouble}")
        return ClusterError(f"{self._what} cannot be read on: {self._trouble}")
