"""Reads a topic of our own on the driver: all of it, and then what is added, in memory that does not grow with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from twinlog.clock import Clock
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.producer_states import name_open_transaction
from twinlog.kafka.client import EARLIEST, LATEST
from twinlog.kafka.fetch_session import Fetched, FetchSession
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch_request import FetchPosition
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.model.types import TopicName, TopicPartition
from twinlog.record.aborted import AbortedFilter
from twinlog.record.batch import Batch, scan
from twinlog.record.last_records import LastRecords, keep_last
from twinlog.record.records import Record, decode_records, is_abort_marker

T = TypeVar("T")

FETCH_BYTES = 4 << 20
"""What one answer of a broker holds, and so what is in memory at once for each broker."""

STALLED_S = 5.0
"""How long one call waits for a partition that does not get on: without a leader, or behind an open transaction."""

ANSWER_MS = 100
"""How long one answer waits for that; where there are records it comes at once."""

RETRY_S = 0.2


@dataclass(slots=True)
class _Place:
    """Where a partition is read next, and the leader epoch of what was read before (-1 unknown)."""

    offset: int
    epoch: int = -1


class _Aim(NamedTuple):
    """The topic as it is now, and the ends that are read to; `ends` is empty when there is no such topic."""

    topic_id: uuid.UUID | None
    leaders: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]


class TopicReader:
    """Where one reader stands in each partition of a topic. With `optional` a topic that does not exist is empty.

    What was read once is not read again, whatever goes wrong in between: each call goes on where the last one stopped,
    and so gets further. Only a topic made anew is read from its beginning. Where the log lost its begin (DeleteRecords)
    reading goes on behind that, where it lost its end (an unclean election) at the place from which it is another one.

    With `committed` it sees no aborted records, and waits for transactions that are open below the end: one of them may
    hold the newest record of a key. One thread at a time may use it; records are decoded on that thread.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        topic: TopicName,
        *,
        optional: bool = False,
        committed: bool = False,
    ) -> None:
        self._admin = admin
        self._topic = topic
        self._optional = optional
        self._committed = committed
        self._places: dict[TopicPartition, _Place] = {}
        self._astray: set[TopicPartition] = set()
        """Partitions whose logs do not have the place where we are."""
        self._topic_id: uuid.UUID | None = None

    def use(self, admin: ClusterAdmin) -> None:
        """Read on over other connections to the same cluster; nothing may be reading."""
        self._admin = admin

    def read(self) -> Iterator[tuple[TopicPartition, Record]]:
        """Records added since the last call, up to the end as it is now.

        Raises ClusterError when a partition does not get on for `STALLED_S` seconds or a cluster does not answer,
        RefusedError without READ on the topic; what was not yielded comes with the next call.
        """
        for partition, answer, batch in self._batches(None):
            place = self._places[partition]
            for record in decode_records(answer.records, batch):
                if record.offset >= place.offset:
                    place.offset = record.offset + 1
                    yield partition, record

    def read_last(self, last: LastRecords, *, timeout_s: float | None = None, deletions: bool = True) -> None:
        """Put into `last` what was added since the last call, the last record of each key only.

        Without `deletions` it is the last one that has a value. What was read before an error stays in `last`, and
        comes no second time. With `timeout_s` it is tried again for so many seconds, whatever happens, and no longer.
        Raises as `read` does, and ClusterError when the time is over.
        """
        for partition, answer, batch in self._batches(timeout_s):
            keep_last(answer.records, batch, self._places[partition].offset, last, deletions=deletions)

    def _batches(self, timeout_s: float | None) -> Iterator[tuple[TopicPartition, PartitionResponse, Batch]]:
        """Batches with records that are to be seen; the place is behind a batch once the next one is asked for."""
        patience = _Patience(f"cluster {self._admin.alias}: {self._topic}", timeout_s, self._admin.clock)
        aim: _Aim | None = None
        first: _Aim | None = None
        while True:
            try:
                if aim is None:
                    aim = patience.call(self._admin, self._look)
                    # A partition that grows must not hide that another one gives nothing.
                    if first is None or first.topic_id != aim.topic_id:
                        first = aim
                    aim = aim._replace(
                        ends={part: min(end, first.ends.get(part, end)) for part, end in aim.ends.items()}
                    )
                behind = [part for part, end in aim.ends.items() if self._places[part].offset < end]
                if not behind:
                    return
                answers, trouble = patience.call(self._admin, self._fetch, aim, behind)
            except ClusterError as error:
                patience.failed(error)
                aim = None
                continue
            for fetched in answers:
                trouble = self._judge(fetched) or trouble
                yield from self._visible(fetched, patience)
            if trouble is not None:
                patience.wait(trouble)
                aim = None
            elif patience.over:
                held = next((part for part in behind if self._places[part].offset < aim.ends[part]), None)
                if held is not None:
                    where = f"{held} is held up at offset {self._places[held].offset} of {aim.ends[held]}"
                    raise patience.late() if timeout_s is not None else self._held_up(held, where)

    def _held_up(self, partition: TopicPartition, where: str) -> ClusterError:
        """A partition whose leader answers, and gives nothing out."""
        if not self._committed:
            return ClusterError(f"cluster {self._admin.alias}: {where}: its leader gives out no more")
        by = self._admin.call(name_open_transaction, self._admin.client, partition)
        return ClusterError(
            f"cluster {self._admin.alias}: {where} by {by}; it ends with its transaction timeout, or is ended by "
            "kafka-transactions.sh abort"
        )

    def _visible(
        self, fetched: Fetched, patience: _Patience
    ) -> Iterator[tuple[TopicPartition, PartitionResponse, Batch]]:
        partition, answer = fetched.partition, fetched.answer
        place = self._places[partition]
        hidden = AbortedFilter(answer.aborted) if self._committed and answer.aborted else None
        batches = scan(answer.records)
        for batch in batches:
            if batch.is_control:
                if hidden is not None:
                    hidden.hides(batch, abort_marker=is_abort_marker(answer.records, batch))
            elif (hidden is None or not hidden.hides(batch, abort_marker=False)) and batch.last_offset >= place.offset:
                yield partition, answer, batch
            place.offset = max(place.offset, batch.last_offset + 1)
            place.epoch = batch.leader_epoch
        if batches:
            patience.got_on()

    def _judge(self, fetched: Fetched) -> str | None:
        """What keeps a partition from being read, None if nothing does. Raises RefusedError."""
        answer, place = fetched.answer, self._places[fetched.partition]
        if error_codes.refused(answer.error):
            raise self._lacks_read()
        if answer.error == Code.OFFSET_OUT_OF_RANGE:
            self._astray.add(fetched.partition)
        if answer.error:
            return f"{fetched.partition}: {error_codes.explain(answer.error)}"
        if answer.diverging_epoch >= 0:
            # What was read behind this place is not there any more; others may have been written instead.
            place.offset = min(place.offset, answer.diverging_end)
            place.epoch = answer.diverging_epoch
        return None

    # On the cluster's own thread.

    async def _look(self) -> _Aim:
        client = self._admin.client
        topic = (await client.refresh([self._topic])).get(self._topic)
        if topic is not None and error_codes.refused(topic.error):
            raise self._lacks_read()
        if self._optional and topic is not None and topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            self._places.clear()
            return _Aim(None, {}, {})
        if topic is None or topic.error:
            code = Code.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
            gone = code == Code.UNKNOWN_TOPIC_OR_PARTITION
            what = "does not exist" if gone else f"cannot be read: {error_codes.explain(code)}"
            raise ClusterError(f"cluster {client.alias}: topic {self._topic} {what}")
        if topic.topic_id != self._topic_id:
            # Created anew, so it begins anew.
            self._topic_id = topic.topic_id
            self._places.clear()
        leaders = {TopicPartition(self._topic, number): leader.node for number, leader in topic.leaders.items()}
        errors = {TopicPartition(self._topic, number): code for number, code in topic.errors.items()}
        ends = await client.list_offsets(leaders, LATEST, errors=errors)
        everything = [TopicPartition(self._topic, number) for number in range(topic.partitions)]
        self._require_all("where it ends", everything, ends, errors)
        # A log that lost its end is read anew: what it has got since may lie before the old place.
        unknown = [
            part
            for part, end in ends.items()
            if part not in self._places or part in self._astray or self._places[part].offset > end
        ]
        if unknown:
            starts = await client.list_offsets(unknown, EARLIEST, errors=errors)
            self._require_all("where it begins", unknown, starts, errors)
            for part in unknown:
                place = self._places.get(part)
                if place is None or not starts[part] <= place.offset <= ends[part]:
                    place = _Place(starts[part])
                self._places[part] = _Place(place.offset)
                self._astray.discard(part)
        return _Aim(topic.topic_id, leaders, ends)

    async def _fetch(self, aim: _Aim, behind: Sequence[TopicPartition]) -> tuple[list[Fetched], str | None]:
        """One answer of each leader, asked all at once, and why there is none of some."""
        loop = self._admin.client.loop
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
        session = FetchSession(self._admin.client, node, read_committed=self._committed, kept=False)
        wanted = {
            part: FetchPosition(place.offset, FETCH_BYTES, place.epoch, topic_id=aim.topic_id)
            for part in parts
            for place in [self._places[part]]
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
        told: Container[TopicPartition],
        errors: Mapping[TopicPartition, int],
    ) -> None:
        """Raise ClusterError for partitions that did not tell something, with the first of them and why."""
        missing = [part for part in wanted if part not in told]
        if missing:
            more = f" (nor do {len(missing) - 1} more)" if len(missing) > 1 else ""
            why = error_codes.explain(errors.get(missing[0], Code.LEADER_NOT_AVAILABLE))
            raise ClusterError(f"cluster {self._admin.alias}: {missing[0]} does not tell {what}{more}: {why}")

    def _lacks_read(self) -> RefusedError:
        return self._admin.client.lacks("READ", f"topic {self._topic}", "reading it")


class _Patience:
    """How long one call waits: `STALLED_S` without any progress, or `timeout_s` in all, whatever happens."""

    def __init__(self, what: str, timeout_s: float | None, clock: Clock) -> None:
        self._clock = clock
        self._what = what
        self._limited = timeout_s is not None
        self._over_at = self._clock.monotonic() + (STALLED_S if timeout_s is None else timeout_s)
        self._trouble = "there is more of it than could be read in that time"

    @property
    def over(self) -> bool:
        return self._clock.monotonic() > self._over_at

    def got_on(self) -> None:
        """Something was read."""
        if not self._limited:
            self._over_at = self._clock.monotonic() + STALLED_S

    def call(self, admin: ClusterAdmin, step: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run a coroutine on the cluster's thread, for no longer than there is time. Raises ClusterError."""
        if not self._limited:
            return admin.call(step, *args)
        found: T = admin.call(self._within, admin, step, *args)
        return found

    async def _within(self, admin: ClusterAdmin, step: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        loop = admin.client.loop
        ended = loop.signal()
        running = loop.spawn(step, *args)
        running.add_both(lambda _: ended.set())
        if not await ended.wait(max(0.0, self._over_at - self._clock.monotonic())):
            raise self.late()
        return await running

    def failed(self, error: ClusterError) -> None:
        """The cluster did not answer; raises the error unless there is time to try again."""
        if not self._limited or isinstance(error, RefusedError):
            raise error
        self.wait(str(error))

    def wait(self, trouble: str) -> None:
        """Pause before it is tried again; raises ClusterError when there is no more time."""
        self._trouble = trouble
        if self.over:
            raise self.late()
        self._clock.sleep(RETRY_S)

    def late(self) -> ClusterError:
        """The error for that there is no more time."""
        if self._limited:
            return ClusterError(f"{self._what} was not read to its end in time: {self._trouble}")
        return ClusterError(f"{self._what} cannot be read on: {self._trouble}")
