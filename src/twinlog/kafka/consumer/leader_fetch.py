"""Fetches from leaders: many partitions once, or a range of a partition answer by answer."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from twinlog.errors import ClusterError, CorruptBatchError, RefusedError, TopicGoneError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.fetch_session import FetchSession
from twinlog.kafka.metadata import TopicMetadata
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.kafka.record.batch import next_start, read_batch
from twinlog.kafka.retry import TASK_CONNECT_S, TROUBLED_S, Backoff
from twinlog.model.types import TopicPartition
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.settings.client import ConsumerSettings

log = logging.getLogger(__name__)

WAIT_MS = 500
QUOTA_S = 0.5
"""The pause before a broker over its quota is asked again."""
EMPTY_PAUSE_S = 0.02
"""The pause after an empty answer; as a rule the broker has waited before it."""
GONE_S = 10.0
"""A deleted or recreated topic counts after this time only: a broker that has just started reports the same."""

_NO_MORE = "the broker has no more of it"


async def fetch_once(
    client: ClusterClient,
    offsets: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    partition_bytes: int,
    most_bytes: int,
    epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
    wait_ms: int = 0,
) -> dict[TopicPartition, PartitionResponse]:
    """Returns the answers of the leaders for the records of each partition from an offset on.

    An answer has up to `partition_bytes` of each partition; less if the partitions of a leader share the `most_bytes`
    of an answer. A leader that lacks records answers after `wait_ms` milliseconds. `epochs` are leader epochs of the
    records before the offsets. With an epoch a leader answers with the offset from which its log differs from a log
    with a record of this epoch (KIP-595). A partition is missing if it lacks a leader or if the answer of its leader
    omits it, as over a quota. Raises ClusterError.
    """
    found: dict[TopicPartition, PartitionResponse] = {}

    async def ask(node: int, partitions: Sequence[TopicPartition]) -> None:
        share = min(partition_bytes, most_bytes // len(partitions))
        wanted = {}
        for partition in partitions:
            topic = client.topic(partition.topic)
            topic_id = None if topic is None else topic.topic_id
            wanted[partition] = FetchPosition(offsets[partition], share, epochs.get(partition, -1), topic_id=topic_id)
        session = FetchSession(client, node, read_committed=read_committed, kept=False)
        for one in await session.fetch(wanted, max_wait_ms=wait_ms, min_bytes=min(wait_ms, 1), max_bytes=most_bytes):
            found[one.partition] = one.answer

    groups = client.group_by_leader(offsets)
    await client.loop.gather([client.loop.spawn(ask, node, partitions) for node, partitions in groups.items()])
    return found


class LeaderFetch:
    """Fetches from partitions of one cluster, each answer by a request of its own to the leader.

    `partition_bytes` is the size of an answer, in bytes; a larger batch comes whole. `stale` has the next fetch ask for
    leaders first. `connect_s` is the patience of the first connection, in seconds.
    """

    def __init__(
        self,
        client: ClusterClient,
        settings: ConsumerSettings,
        *,
        read_committed: bool,
        partition_bytes: int | None = None,
        connect_s: float = TASK_CONNECT_S,
    ) -> None:
        self.stale = True
        self.connect_s = connect_s
        self.client = client
        self._read_committed = read_committed
        self._max_bytes = settings.fetch_max_bytes
        self._partition_bytes = settings.max_partition_fetch_bytes if partition_bytes is None else partition_bytes

    async def fetch_answer(
        self, partition: TopicPartition, position: int, topic_id: uuid.UUID | None
    ) -> PartitionResponse | None:
        """The answer of the leader from `position` on; None for a broker over its quota, which names no partition.

        Without `topic_id` the topic may be of any id. Raises TopicGoneError for a topic that the metadata lack,
        or have under another id, and ClusterError.
        """
        client = self.client
        if not client.connected:
            await client.connect(self.connect_s)
        leader = client.leader(partition)
        if self.stale or leader is None:
            topic = (await client.refresh([partition.topic])).get(partition.topic)
            self.stale = is_gone(topic, topic_id)
            if self.stale:
                raise TopicGoneError(f"cluster {client.alias}: topic {partition.topic} was deleted")
            leader = client.leader(partition)
        if leader is None:
            self.stale = True
            raise ClusterError(f"cluster {client.alias}: {partition} has no leader")
        session = FetchSession(client, leader.node, read_committed=self._read_committed, kept=False)
        known = client.topic(partition.topic)
        known_id = known.topic_id if topic_id is None and known is not None else topic_id
        at = FetchPosition(position, self._partition_bytes, topic_id=known_id)
        answers = await session.fetch({partition: at}, max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=self._max_bytes)
        return answers[0].answer if answers else None

    async def fetch_allowed(self, partition: TopicPartition, position: int) -> PartitionResponse:
        """The answer of the leader from `position` on, as soon as its quota admits an answer.

        The only error code of an answer is OFFSET_OUT_OF_RANGE. Raises the errors of `fetch_answer`, and ClusterError
        for each other code.
        """
        while (answer := await self.fetch_answer(partition, position, None)) is None:
            await self.client.loop.sleep(QUOTA_S)
        if answer.error not in (Code.NONE, Code.OFFSET_OUT_OF_RANGE):
            self.stale = True
            reason = error_codes.explain(answer.error)
            raise ClusterError(f"cluster {self.client.alias}: reading {partition}: {reason}")
        return answer


def is_gone(topic: TopicMetadata | None, topic_id: uuid.UUID | None) -> bool:
    """Whether the metadata lack the topic, or have a topic of another id under its name."""
    if topic is None or topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
        return True
    return not topic.error and topic_id not in {None, topic.topic_id}


@dataclass(frozen=True, slots=True)
class Silence:
    """A time without progress in a range: `position` is the next offset to fetch.

    `code` is the error code of the last answer, `UNKNOWN_TOPIC_ID` for a deleted topic, else 0. `late` means that the
    patience is over.
    """

    position: int
    code: int
    waited_s: float
    late: bool


class RangeFetch:
    """Fetches the offsets from `start` to below `end` of a partition, and retries while the partition is silent.

    The reader of an answer moves `position` past the offsets that it has read. `find_loss` takes a silence, and returns
    the offset after the lost offsets, or the same position without a loss. `way_out` ends the message of the error
    after `patience_s` seconds of silence. With `ahead` the next answer is requested before the reader has the present
    answer; the loop of the client must then run on the reading thread.
    """

    def __init__(
        self,
        fetch: LeaderFetch,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        topic_id: uuid.UUID | None,
        patience_s: float,
        find_loss: Callable[[Silence], int],
        ahead: bool = True,
        way_out: str = "",
    ) -> None:
        self.position = start
        self.past = start
        """The offset after the last whole batch of the present answer; -1 without a batch, or if it is corrupt."""
        self._fetch = fetch
        self._loop = fetch.client.loop
        self._partition = partition
        self._end = end
        self._topic_id = topic_id
        self._patience_s = patience_s
        self._find_loss = find_loss
        self._with_ahead = ahead
        self._way_out = way_out
        self._ahead: tuple[int, Any] | None = None
        """The fetch that was sent ahead: its first offset, and the answer to come."""

    def answers(self) -> Iterator[PartitionResponse]:
        """Yield the answers from `position` on, without errors, until the position is at the end.

        An answer may be empty. Raises RefusedError if the principal lacks READ on the topic, and ClusterError after
        `patience_s` seconds without progress.
        """
        loop, settings, partition = self._loop, self._fetch.client.settings, self._partition
        now: Callable[[], float] = loop.clock.monotonic
        # A response that stays unread for its timeout is lost with its connection.
        prompt_s = settings.request_timeout_ms / 1000 / 2
        took_s = 0.0
        backoff = Backoff.of(settings)
        progressed_at = now()
        troubled = LogOnce(loop.clock)
        while self.position < self._end:
            answers: list[PartitionResponse] = []
            trouble, code = None, 0
            try:
                answers += loop.run(self._next_answers)
            except ClusterError as error:
                if isinstance(error, RefusedError):
                    raise
                trouble = str(error)
                if isinstance(error, TopicGoneError):
                    code = Code.UNKNOWN_TOPIC_ID
            if answers and (code := answers[0].error):
                if error_codes.refused(code):
                    raise self._fetch.client.lacks("READ", f"topic {partition.topic}", "reading its records")
                trouble = error_codes.explain(code)
            elif answers:
                begun, answered_at = self.position, now()
                self.past = _end_of(answers[0].records)
                if self._with_ahead and took_s < prompt_s:
                    self._fetch_ahead()
                # Only the reader holds the answer, and so releases its memory.
                yield answers.pop()
                if self.position > begun:
                    backoff.reset_failures()
                    if troubled.end_condition(partition):
                        log.warning("TW-NET-12: %s is read again, from offset %d on", partition, begun)
                    # The patience counts from here, so that a slow reader of an answer is never taken for a silent
                    # partition.
                    progressed_at = now()
                    took_s = progressed_at - answered_at
                    continue
            waited_s = now() - progressed_at
            late = waited_s > self._patience_s
            after = self._find_loss(Silence(self.position, code, waited_s, late))
            if after > self.position:
                self.position, progressed_at = after, now()
                continue
            if late:
                raise self.silent(self._patience_s, trouble)
            if troubled.is_due(partition, TROUBLED_S, AGAIN_S):
                log.warning(
                    "TW-NET-12: %s returns nothing from offset %d on, and is fetched again for up to %g s: %s",
                    partition,
                    self.position,
                    self._patience_s,
                    trouble or _NO_MORE,
                )
            if trouble is not None:
                log.info("%s is fetched again: %s", partition, trouble)
                self._fetch.stale = True
            # Without an error the broker itself has waited, as a rule.
            loop.run(loop.sleep, backoff.count_failure() if trouble else EMPTY_PAUSE_S)

    def silent(self, waited_s: float, trouble: str | None) -> ClusterError:
        """The error for a partition that returned nothing for a time, with the last trouble."""
        return ClusterError(
            f"cluster {self._fetch.client.alias}: {self._partition} returned nothing from offset {self.position} on "
            f"for {waited_s:g} s, though it was to be read to {self._end}: {trouble or _NO_MORE}{self._way_out}"
        )

    def _fetch_ahead(self) -> None:
        """Fetch the records after an answer, so that the broker and the network work while the answer is read."""
        if self.position < self.past < self._end:
            self._ahead = (
                self.past,
                self._loop.spawn(self._fetch.fetch_answer, self._partition, self.past, self._topic_id),
            )
            self._loop.run(self._loop.sleep, 0)

    async def _next_answers(self) -> list[PartitionResponse]:
        """The answer that was fetched ahead, or a new answer; empty for a broker over its quota."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == self.position:
            answer: PartitionResponse | None = await ahead[1]
        else:
            answer = await self._fetch.fetch_answer(self._partition, self.position, self._topic_id)
        return [] if answer is None else [answer]


def _end_of(records: memoryview) -> int:
    """The offset after the last whole batch; -1 when there is none, or when it is corrupt."""
    last, at = -1, 0
    while 0 <= (following := next_start(records, at)) <= len(records):
        last, at = at, following
    try:
        batch = None if last < 0 else read_batch(records, last)
    except CorruptBatchError:
        return -1
    return -1 if batch is None else batch.last_offset + 1
