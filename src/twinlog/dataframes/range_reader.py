"""Reads a range of offsets in a Spark task: fetches of megabytes become Arrow record batches.

Connections stay open in the process of the task for its next task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from twinlog.arrow.decode import RowRules, decode
from twinlog.dataframes.offset_range import OffsetRange, RowTask, report_loss
from twinlog.errors import ClusterError, CorruptBatchError, RefusedError, TopicGoneError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.leader_fetch import CONNECT_S, EMPTY_PAUSE_S, GONE_S, LeaderFetch, is_gone
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.kafka.protocol.list_offsets import EARLIEST, LATEST
from twinlog.kafka.record.batch import next_start, read_batch
from twinlog.kafka.retry import TROUBLED_S, Backoff
from twinlog.log_once import AGAIN_S, LogOnce
from twinlog.settings.flow import ConsumerSettings

log = logging.getLogger(__name__)


MOST_READERS = 4
"""The most clusters, or logins to clusters, to which a process keeps connections."""

_readers: dict[ConsumerSettings, RangeReader] = {}
"""The readers are kept because Spark reuses its Python workers for consecutive tasks."""


def read_rows(task: RowTask, wanted: OffsetRange) -> Iterator[Any]:
    """Yield the records of a range as Arrow record batches; see `RangeReader.read`."""
    # kafka-python logs every lost connection as an error; a lasting failure is raised.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    # A reader that was left in the middle of a range, as for a LIMIT, is idle: its own thread uses it again for the
    # next range.
    reader = _readers.pop(task.consumer, None) or RangeReader(task.consumer, Loop())
    _readers[task.consumer] = reader
    while len(_readers) > MOST_READERS:
        _readers.pop(next(iter(_readers))).close()
    return reader.read(
        wanted, headers=task.headers, fail_on_data_loss=task.fail_on_data_loss, patience_s=task.patience_s
    )


ALIAS = "of kafka.bootstrap.servers"

_GONE = error_codes.OTHER_TOPIC | {Code.OFFSET_OUT_OF_RANGE}

_LOST = "Could not read records in offset [{}, {}) for topic partition {}: {}"


class RangeReader:
    """Connections to a cluster, kept for the next range; for a single thread.

    `patience_s` is how long a partition may be silent. Records that retention has deleted raise GapError; without
    `fail_on_data_loss` they are logged and left out.
    """

    def __init__(self, settings: ConsumerSettings, loop: Loop) -> None:
        self._settings = settings
        self._loop = loop
        self._now: Callable[[], float] = loop.clock.monotonic
        self._client = ClusterClient(loop, ALIAS, settings.client)
        self._fetch = LeaderFetch(self._client, settings, read_committed=settings.isolation_level == "read_committed")
        self._ahead: tuple[OffsetRange, int, Any] | None = None
        """The fetch that was sent ahead: a range, its first offset, and the answer to come."""

    def close(self) -> None:
        self._client.close()
        self._loop.close()

    def read(self, wanted: OffsetRange, *, headers: bool, fail_on_data_loss: bool, patience_s: float) -> Iterator[Any]:
        """Yield the records of a range in order, as Arrow record batches that contain records.

        Raises ClusterError, RefusedError, CorruptBatchError and GapError.
        """
        settings = self._settings
        self._fetch.connect_s = min(CONNECT_S, patience_s)
        rules = RowRules(headers, settings.isolation_level == "read_committed", settings.check_crcs, bounded=True)
        # A response that stays unread for its timeout is lost with its connection.
        prompt_s = settings.client.request_timeout_ms / 1000 / 2
        took_s = 0.0
        backoff = Backoff.of(settings.client)
        position, got_on_at = wanted.start, self._now()
        troubled = LogOnce(self._loop.clock)
        while position < wanted.end:
            answer, trouble, gone = None, None, False
            try:
                answer = self._loop.run(self._next, wanted, position)
            except ClusterError as error:
                if isinstance(error, RefusedError):
                    raise
                trouble, gone = str(error), isinstance(error, TopicGoneError)
            if answer is not None and answer.error:
                if error_codes.refused(answer.error):
                    raise self._client.lacks("READ", f"topic {wanted.partition.topic}", "reading its records")
                trouble, gone = error_codes.explain(answer.error), answer.error in _GONE
            elif answer is not None:
                begun, asked_at, past = position, self._now(), _end_of(answer.records)
                if took_s < prompt_s:
                    self._ask_ahead(wanted, position, past)
                while answer is not None:
                    rows = decode(answer.records, wanted.partition, position, wanted.end, rules, answer.aborted)
                    if rows.position <= position or rows.position >= min(past, wanted.end):
                        # Releases the answer's memory for the request after the next.
                        answer = None
                    position = max(position, rows.position)
                    yield from rows.batches
                    # Released before the next rows are decoded.
                    del rows
                if position > begun:
                    backoff.reset_failures()
                    if troubled.end_condition(wanted):
                        log.warning("%s is read again, from offset %d on", wanted.partition, begun)
                    # The patience counts from here, so that a slow consumer of a batch is never taken for a silent
                    # partition.
                    got_on_at = self._now()
                    took_s = got_on_at - asked_at
                    continue
            waited_s = self._now() - got_on_at
            late = waited_s > patience_s
            if late or gone:
                sure = late or waited_s > GONE_S
                after = self._after_loss(wanted, position, fail_on_data_loss, sure=sure, late=late)
                if after > position:
                    position, got_on_at = after, self._now()
                    continue
            why = trouble or "the broker has no more of it"
            if late:
                raise ClusterError(
                    f"cluster {ALIAS}: {wanted.partition} returned nothing from offset {position} on for "
                    f"{patience_s:g} s, though it was to be read to {wanted.end}: {why}; see option "
                    "kafkaConsumer.pollTimeoutMs"
                )
            if troubled.is_due(wanted, TROUBLED_S, AGAIN_S):
                log.warning(
                    "%s returns nothing from offset %d on, and is fetched again for up to %g s: %s",
                    wanted.partition,
                    position,
                    patience_s,
                    why,
                )
            if trouble is not None:
                log.info("%s is fetched again: %s", wanted.partition, trouble)
                self._fetch.stale = True
            # Without an error the broker itself has waited, as a rule.
            self._loop.run(self._loop.sleep, backoff.count_failure() if trouble else EMPTY_PAUSE_S)

    def _ask_ahead(self, wanted: OffsetRange, position: int, past: int) -> None:
        """Fetch the records after an answer, so that the broker and the network work while it is decoded."""
        if position < past < wanted.end:
            self._ahead = (
                wanted,
                past,
                self._loop.spawn(self._fetch.fetch_answer, wanted.partition, past, wanted.topic_id),
            )
            self._loop.run(self._loop.sleep, 0)

    async def _next(self, wanted: OffsetRange, position: int) -> PartitionResponse | None:
        """The answer that was fetched ahead, or a new answer; an answer for an abandoned range is dropped."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[:2] == (wanted, position):
            answer: PartitionResponse | None = await ahead[2]
            return answer
        return await self._fetch.fetch_answer(wanted.partition, position, wanted.topic_id)

    def _after_loss(self, wanted: OffsetRange, position: int, fail: bool, *, sure: bool, late: bool) -> int:
        """The next position without an answer: after the lost records, or the range's end when all are lost.

        Returns the same position when no record is lost, or when that is unknown; a deleted topic has to be `sure`.
        `late` means that the patience is over. A log that then ends at `position` was cut there: the range was planned
        when the log had more records.
        """
        try:
            deleted, earliest, latest = self._loop.run(self._look, wanted)
        except RefusedError:
            raise
        except ClusterError as error:
            log.info("%s: where the log begins and ends is asked for again: %s", wanted.partition, error)
            return position
        cut = position > latest or (late and position == latest)
        lost = sure if deleted else earliest > position or cut
        if not lost:
            return position
        if wanted.from_earliest and position == wanted.start and earliest > position:
            log.info("%s is read from offset %d on, where it begins now", wanted.partition, earliest)
            return min(earliest, wanted.end)
        why = "the topic was deleted" if deleted else f"the log has offsets {earliest} to {latest} now"
        report_loss(_LOST.format(position, wanted.end, wanted.partition, why), fail=fail)
        return wanted.end if deleted or cut else min(earliest, wanted.end)

    async def _look(self, wanted: OffsetRange) -> tuple[bool, int, int]:
        """Whether the topic was deleted or recreated, and the start and the end of the partition's log."""
        client, part = self._client, wanted.partition
        topic = (await client.refresh([part.topic])).get(part.topic)
        if is_gone(topic, wanted.topic_id):
            return True, 0, 0
        earliest = await client.list_offsets([part], EARLIEST)
        latest = await client.list_offsets([part], LATEST)
        return False, earliest.get(part, 0), latest.get(part, wanted.end)


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
