"""Adds up the partitions of a flow by topic: lags, the oldest waiting record, and the records of the last seconds.

Only topics with new reports are added up again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from twinlog.lease.progress import PartitionCounters, PartitionProgress
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.worker.status.report import TopicProgress

WINDOW_S = 5.0
"""The period from which rates are computed."""


@dataclass(slots=True)
class _Mark:
    """The source ended at `end` at the time `at_ms`.

    `clear_ms` is the newest time of this kind whose end has been reached by now. So all records from before it are
    copied. It is -1 before the first time.
    """

    end: int
    at_ms: int
    clear_ms: int = -1


@dataclass(frozen=True, slots=True)
class _FirstRecord:
    """The first uncopied record of a partition: its source offset, and the time at which it was written, in Unix ms."""

    offset: SourceOffset
    written_ms: int


class OldestRecords:
    """The time at which the first uncopied record of each partition was written. For a single thread at a time.

    Times are Unix ms. The time is the record's timestamp as soon as a copier has read the record: the producer's time
    or, with LogAppendTime, the broker's, as in MirrorMaker 2's `record-age-ms`. A timestamp in the future counts as the
    time of the report. An unread record was written after the last time at which the source ended at or before the
    present position.
    """

    def __init__(self) -> None:
        self._marks: dict[TopicPartition, _Mark] = {}
        self._first: dict[TopicPartition, _FirstRecord] = {}

    def add_progress(
        self, key: TopicPartition, part: PartitionProgress, at_ms: int, age_ms: int = 0, unchanged_ms: int = -1
    ) -> None:
        """Note a report of a partition, made at `at_ms`.

        Its end was requested `age_ms` before at the latest. A copier reports changes only: the partition stayed at lag
        0, as reported before, up to `unchanged_ms`, if given.
        """
        reported_ms, at_ms = at_ms, at_ms - age_ms
        self._note_first(key, part, reported_ms)
        mark = self._marks.get(key)
        if mark is None:
            if part.end >= 0:
                self._marks[key] = _Mark(part.end, at_ms, at_ms if part.lag == 0 else -1)
            return
        mark.at_ms = max(mark.at_ms, unchanged_ms)
        if 0 <= part.end < mark.end and at_ms > mark.at_ms:
            # The source topic was recreated, or lost records: the old end may be out of reach for ever.
            self._marks[key] = _Mark(part.end, at_ms, at_ms if part.lag == 0 else -1)
            self._first.pop(key, None)
            self._note_first(key, part, reported_ms)
        elif part.source_offset >= mark.end:
            mark.clear_ms = max(mark.clear_ms, mark.at_ms)
            if part.end >= 0:
                mark.end, mark.at_ms = part.end, at_ms
                if part.lag == 0:
                    mark.clear_ms = at_ms

    def _note_first(self, key: TopicPartition, part: PartitionProgress, reported_ms: int) -> None:
        # The next copier of a held partition has to read the record again, and its time stays.
        known = self._first.get(key)
        if known is not None and known.offset != part.source_offset:
            del self._first[key]
            known = None
        if part.waiting_ms >= 0 and known is None:
            self._first[key] = _FirstRecord(part.source_offset, min(part.waiting_ms, reported_ms))

    def forget_partition(self, key: TopicPartition) -> None:
        """Forget a partition that has left the plan."""
        self._marks.pop(key, None)
        self._first.pop(key, None)

    def get_oldest_ms(self, key: TopicPartition) -> int | None:
        """The time for a partition with waiting records; None while it is unknown."""
        first = self._first.get(key)
        if first is not None:
            return first.written_ms
        mark = self._marks.get(key)
        return None if mark is None or mark.clear_ms < 0 else mark.clear_ms


class RecentCounts:
    """The records and bytes of the reports of the last seconds: together, and of each topic with records.

    For a single thread at a time.
    """

    def __init__(self) -> None:
        self._reports: deque[tuple[float, PartitionCounters, Mapping[str, PartitionCounters]]] = deque()
        self._of_topics: defaultdict[str, PartitionCounters] = defaultdict(PartitionCounters)

    def add(self, now: float, counted: PartitionCounters, of_topics: Mapping[str, PartitionCounters]) -> None:
        """Add the counts of a report: all together, and of each topic with records."""
        self._reports.append((now, counted, of_topics))
        for topic, copied in of_topics.items():
            self._of_topics[topic].records += copied.records
            self._of_topics[topic].bytes += copied.bytes
        self._forget_old(now)

    def total(self, now: float) -> tuple[PartitionCounters, float]:
        """The counts of all topics together, and the number of seconds in which they were copied."""
        self._forget_old(now)
        span = max(1.0, now - self._reports[0][0]) if self._reports else WINDOW_S
        return PartitionCounters.total(counted for _, counted, _ in self._reports), span

    def with_rates(self, topics: Iterable[TopicProgress], now: float) -> list[TopicProgress]:
        """The topics, with their rates over the seconds of `total`."""
        _, span = self.total(now)
        return [
            topic if (copied := self._of_topics.get(topic.topic)) is None else _with_rates(topic, copied, span)
            for topic in topics
        ]

    def _forget_old(self, now: float) -> None:
        while self._reports and now - self._reports[0][0] > WINDOW_S:
            _, _, of_topics = self._reports.popleft()
            for topic, copied in of_topics.items():
                left = self._of_topics[topic]
                left.records -= copied.records
                left.bytes -= copied.bytes
                if not left.records:
                    del self._of_topics[topic]


def _with_rates(topic: TopicProgress, copied: PartitionCounters, seconds: float) -> TopicProgress:
    return replace(topic, record_rate=round(copied.records / seconds, 3), byte_rate=round(copied.bytes / seconds, 3))


class TopicSums:
    """The topics of the `add`ed partitions, as of the last `read`. For a single thread at a time."""

    def __init__(self) -> None:
        self._partitions: dict[str, list[TopicPartition]] = {}
        self._shown: dict[str, TopicProgress] = {}
        self._changed: set[str] = set()

    def plan(self, partitions: Iterable[TopicPartition]) -> None:
        """Count only these partitions from now on."""
        self._partitions, self._shown, self._changed = {}, {}, set()
        for key in partitions:
            self.add(key)

    def add(self, key: TopicPartition) -> None:
        """Count another partition."""
        self._partitions.setdefault(key.topic, []).append(key)
        self._changed.add(key.topic)

    def mark_changed(self, topic: str) -> None:
        """Add the topic up again at the next `read`."""
        self._changed.add(topic)

    def all_changed(self) -> None:
        """Add every topic up again at the next `read`."""
        self._changed.update(self._partitions)

    def read(
        self,
        known: Callable[[TopicPartition], PartitionProgress | None],
        stuck: Mapping[TopicPartition, str],
        oldest: OldestRecords,
        copied: Mapping[str, PartitionCounters],
    ) -> list[TopicProgress]:
        """The topics, without rates.

        `known` gives the last report of a partition if it is recent, `stuck` the trouble of stuck partitions, `copied`
        the counters of each topic. A topic without copied records is estimated by the mean record size of the other
        topics.
        """
        mean = _mean(copied.values())
        for topic, partitions in self._partitions.items():
            if topic in self._changed:
                counters = copied.get(topic, PartitionCounters())
                shown = _add_up(topic, partitions, known, stuck, oldest)
                lag_bytes = bytes_of(shown.lag, shown.unknown, _mean([counters]) or mean)
                self._shown[topic] = replace(shown, lag_bytes=lag_bytes, records=counters.records, bytes=counters.bytes)
            elif (shown := self._shown[topic]).lag and not shown.records:
                self._shown[topic] = replace(shown, lag_bytes=bytes_of(shown.lag, shown.unknown, mean))
        self._changed.clear()
        return list(self._shown.values())


def _add_up(
    topic: str,
    partitions: Sequence[TopicPartition],
    known: Callable[[TopicPartition], PartitionProgress | None],
    stuck: Mapping[TopicPartition, str],
    oldest: OldestRecords,
) -> TopicProgress:
    all_lag = unknown = undated = 0
    oldest_ms: int | None = None
    trouble: str | None = None
    for key in partitions:
        if trouble is None and key in stuck:
            trouble = f"{key}: {stuck[key]}"
        part = known(key)
        lag = -1 if part is None else part.lag
        if lag < 0:
            unknown += 1
        elif lag > 0:
            all_lag += lag
            at_ms = oldest.get_oldest_ms(key)
            if at_ms is None:
                undated += 1
            elif oldest_ms is None or at_ms < oldest_ms:
                oldest_ms = at_ms
    return TopicProgress(
        topic, len(partitions), all_lag, unknown, oldest_ms=oldest_ms, undated=undated, trouble=trouble
    )


def bytes_of(lag: int, unknown: int, mean: float | None) -> int | None:
    """The bytes of this number of records of a mean size; None if there are records and the mean is unknown.

    `unknown` further partitions may have records: without any known record the bytes are unknown, too.
    """
    if not lag:
        return None if unknown else 0
    return None if mean is None else int(lag * mean)


def _mean(copied: Iterable[PartitionCounters]) -> float | None:
    """The mean size of the records, None before the first record."""
    counters = PartitionCounters.total(copied)
    return counters.bytes / counters.records if counters.records else None
