"""The micro-batches of a streaming query, with their start and end offsets (Spark class KafkaMicroBatchStream)."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping

from twinlog.clock import Clock
from twinlog.errors import GapError
from twinlog.model.types import TopicName, TopicPartition
from twinlog.spark.dataframes.offset_range import OffsetRange, report_loss
from twinlog.spark.dataframes.options import TopicOptions
from twinlog.spark.dataframes.planner import TopicPlanner
from twinlog.spark.dataframes.ranges import LATEST, JsonOffsets, Offsets, as_set, from_json, limit_rate, split, to_json

_AVAILABLE_NOW = (
    "Some of partitions in Kafka topic(s) have been lost during running query with Trigger.AvailableNow. The error "
    "could be transient - restart your query, and report if you still see the same issue. topic-partitions for latest "
    "offset: {}, topic-partitions for end offset: {}"
)
_LESS_AVAILABLE = (
    "Some of partitions in Kafka topic(s) report available offset which is less than end offset during running query "
    "with Trigger.AvailableNow. The error could be transient - restart your query, and report if you still see the "
    "same issue. latest offset: {}, end offset: {}"
)
_ANEW = "Topic {} has been deleted and recreated"
_ANEW_FAILS = (
    ". When this query is started again it goes by offsets alone, and leaves out the new topic's records below the "
    "checkpoint's offsets: begin with a new checkpointLocation to read all of it"
)
_ANEW_GOES_ON = ", which is read from its first record on"

LEAST_PAUSE_S = 0.02
MOST_PAUSE_S = 0.5
"""The longest pause before an answer that lacks new offsets, in seconds.

Spark repeats its question every ten milliseconds, and each question takes requests to brokers. So the pause grows while
new offsets are missing.
"""

AT_ONCE_S = 0.05
"""The least time between an answer and a question of a trigger with an interval, in seconds.

A longer answer would overrun the interval of this trigger.
"""


class TopicStream:
    """The offsets of a streaming query, in dicts of Spark's JSON form.

    The query can continue from a checkpoint of Spark's own source. A partition that begins at its end has `LATEST` in
    the query's first offset. Spark stores the first offset only after the first micro-batch. A real offset, found again
    after a crash, would leave out the records in between.
    """

    def __init__(self, options: TopicOptions, planner: TopicPlanner, clock: Clock) -> None:
        self._options = options
        self._planner = planner
        self._clock = clock
        self._now = clock.monotonic
        self._pause_s = LEAST_PAUSE_S
        self._answered_s = self._now()
        self._last_batch_s: float | None = None
        self._latest: Offsets = {}
        self._available_now = False
        self._target: Offsets | None = None
        self._read: dict[TopicName, uuid.UUID | None] = {}
        """The topics that the last micro-batches read."""

    def close(self) -> None:
        self._planner.close()

    def initial(self) -> JsonOffsets:
        """The first offsets of the first micro-batch."""
        return to_json(self._planner.resolve(self._options.starting, starting=True, end_open=True))

    def prepare_available_now(self) -> None:
        """Have the stream end at the offsets of the next question."""
        self._available_now = True

    def latest(self, start: Mapping[str, Mapping[str, int]], *, everything: bool) -> JsonOffsets:
        """The end of the micro-batch that begins at `start`; equal to `start` until a micro-batch is due.

        With `everything` the reader's limits are ignored.
        """
        begin = from_json(start)
        at_once = self._now() - self._answered_s >= AT_ONCE_S
        end = self._end(begin, everything)
        if end != begin or self._available_now:
            self._pause_s = LEAST_PAUSE_S
        elif not at_once:
            self._clock.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, MOST_PAUSE_S)
        self._answered_s = self._now()
        return to_json(end)

    def _end(self, begin: Offsets, everything: bool) -> Offsets:
        known = {part: offset for part, offset in begin.items() if offset != LATEST}
        if self._available_now and self._target is not None:
            latest = self._target
        else:
            latest = self._planner.latest(known)
            if self._available_now:
                self._target = latest
        self._latest = latest
        most = self._options.max_offsets_per_trigger
        if everything or not latest:
            return latest or begin
        # A query with `Trigger.AvailableNow` ends with the present records, so it would wait for ever.
        if not self._available_now and self._waits(begin):
            return begin
        if most is None:
            return latest
        return limit_rate(most, self._with_new(begin), latest)

    def reported(self) -> JsonOffsets | None:
        """The ends of the topics, by the last question."""
        return to_json(self._latest) if self._latest else None

    def ranges(self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]) -> list[OffsetRange]:
        """The ranges for the tasks of the micro-batch. Raises GapError for lost offsets, or logs the loss."""
        begin, until = from_json(start), from_json(end)
        if self._target is not None:
            self._require_available(until)
        begin = {part: until.get(part, offset) if offset == LATEST else offset for part, offset in begin.items()}
        new = until.keys() - begin.keys()
        found = self._planner.earliest(new)
        if found.keys() != new:
            self._lost(
                f"Cannot find initial offsets for partitions {as_set(new - found.keys())}. They may have been deleted."
            )
        for part, offset in sorted(found.items()):
            if offset:
                self._lost(f"Added partition {part} starts from {offset} instead of 0.")
        gone = begin.keys() - until.keys()
        if gone:
            self._lost(f"Partitions {as_set(gone)} have been deleted.")
        starts = {part: {**begin, **found}[part] for part in until if part in begin or part in found}
        if starts and not self._planner.topic_ids:
            # A query that resumes with a planned micro-batch has still to ask the cluster.
            self._planner.latest()
        anew = self._recreated({part.topic for part in starts}, {part.topic for part in begin})
        starts |= self._planner.earliest(part for part in starts if part.topic in anew)
        for part, offset in sorted(starts.items()):
            if until[part] < offset:
                self._lost(
                    f"Partition {part} offset was changed from {offset} to {until[part]}. This could either be a user "
                    "error that the start offset is set too high and this is the first batch, or the kafka "
                    "topic-partition is broken, and some data may have been missed."
                )
        everything = self._planner.ranges(starts, until)
        return split(everything, self._options.min_partitions, self._options.max_records_per_partition)

    def _waits(self, begin: Mapping[TopicPartition, int]) -> bool:
        """Whether the micro-batch waits for more records: it has too few, and is in time."""
        least = self._options.min_offsets_per_trigger
        if least is None:
            return False
        new = sum(end - begin.get(part, 0) for part, end in self._latest.items() if begin.get(part) != LATEST)
        last = self._last_batch_s
        late = last is None or (self._now() - last) * 1000 >= self._options.max_trigger_delay_ms
        if new < least and not late:
            return True
        self._last_batch_s = self._now()
        return False

    def _with_new(self, begin: Offsets) -> Offsets:
        """Add new partitions at their first offset; a new partition with an unknown first offset begins at its end."""
        new = self._latest.keys() - begin.keys()
        found = self._planner.earliest(new)
        return {**{part: found.get(part, self._latest[part]) for part in new}, **begin}

    def _require_available(self, until: Mapping[TopicPartition, int]) -> None:
        latest = self._planner.latest(until)
        if until.keys() - latest.keys():
            raise GapError(_AVAILABLE_NOW.format(as_set(latest), as_set(until)))
        if any(latest[part] < offset for part, offset in until.items()):
            raise GapError(_LESS_AVAILABLE.format(to_json(latest), to_json(until)))

    def _recreated(self, topics: Iterable[TopicName], going_on: Collection[TopicName]) -> set[TopicName]:
        """The recreated topics among `topics`: old offsets of a topic in `going_on` are invalid for its successor."""
        found = set()
        for name in sorted(topics):
            before, now = self._read.get(name), self._planner.topic_ids.get(name)
            self._read[name] = now
            if name in going_on and before is not None and now not in {None, before}:
                found.add(name)
                self._lost(_ANEW.format(name) + (_ANEW_FAILS if self._options.fail_on_data_loss else _ANEW_GOES_ON))
        return found

    def _lost(self, why: str) -> None:
        report_loss(why, fail=self._options.fail_on_data_loss)
