"""Reads a range of offsets in a Spark task: fetches of megabytes become Arrow record batches.

Connections stay open in the process of the task for its next task.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

from twinlog.batches.arrow.decode import RowRules, decode
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.leader_fetch import GONE_S, LeaderFetch, RangeFetch, Silence, is_gone
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import EARLIEST, LATEST
from twinlog.kafka.retry import TASK_CONNECT_S
from twinlog.settings.client import ConsumerSettings
from twinlog.spark.dataframes.offset_range import OffsetRange, RowTask, report_loss

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

    `patience_s` is how long a partition may be silent. Records that retention has deleted raise GapError; with
    `fail_on_data_loss` off they are logged and left out.
    """

    def __init__(self, settings: ConsumerSettings, loop: Loop) -> None:
        self._settings = settings
        self._loop = loop
        self._client = ClusterClient(loop, ALIAS, settings.client)
        self._fetch = LeaderFetch(self._client, settings, read_committed=settings.isolation_level == "read_committed")

    def close(self) -> None:
        self._client.close()
        self._loop.close()

    def read(self, wanted: OffsetRange, *, headers: bool, fail_on_data_loss: bool, patience_s: float) -> Iterator[Any]:
        """Yield the records of a range in order, as Arrow record batches that contain records.

        Raises ClusterError, RefusedError, CorruptBatchError and GapError.
        """
        settings = self._settings
        self._fetch.connect_s = min(TASK_CONNECT_S, patience_s)
        rules = RowRules(headers, settings.isolation_level == "read_committed", settings.check_crcs, bounded=True)
        fetch = RangeFetch(
            self._fetch,
            wanted.partition,
            wanted.start,
            wanted.end,
            topic_id=wanted.topic_id,
            patience_s=patience_s,
            find_loss=partial(self._after_loss, wanted, fail_on_data_loss),
            way_out="; see option kafkaConsumer.pollTimeoutMs",
        )
        answers = fetch.answers()
        while (answer := next(answers, None)) is not None:
            while answer is not None:
                rows = decode(answer.records, wanted.partition, fetch.position, wanted.end, rules, answer.aborted)
                if rows.position <= fetch.position or rows.position >= min(fetch.past, wanted.end):
                    # Releases the answer's memory for the request after the next.
                    answer = None
                fetch.position = max(fetch.position, rows.position)
                yield from rows.batches
                # Released before the next rows are decoded.
                del rows

    def _after_loss(self, wanted: OffsetRange, fail: bool, silence: Silence) -> int:
        """The next position after a missing answer: after the lost records, or the range's end when all are lost.

        Returns the same position when all records are there, or when a loss is unknown; a deleted topic has to be sure.
        A log that ends at the position after the patience was cut there: the range was planned when the log had more
        records.
        """
        position, late = silence.position, silence.late
        if not late and silence.code not in _GONE:
            return position
        try:
            deleted, earliest, latest = self._loop.run(self._look, wanted)
        except RefusedError:
            raise
        except ClusterError as error:
            log.info("%s: where the log begins and ends is asked for again: %s", wanted.partition, error)
            return position
        cut = position > latest or (late and position == latest)
        sure = late or silence.waited_s > GONE_S
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
