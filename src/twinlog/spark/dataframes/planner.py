"""Finds the partitions that a reader's options name, and their start and end offsets (KafkaOffsetReaderAdmin)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from twinlog.clock import Clock
from twinlog.errors import ClusterError, OptionError, TopicGoneError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.retry import RetryPolicy, retry_in_thread
from twinlog.model.topics import listed
from twinlog.model.types import TopicName, TopicPartition
from twinlog.spark.dataframes.offset_range import OffsetRange
from twinlog.spark.dataframes.options import TopicOptions
from twinlog.spark.dataframes.ranges import (
    EARLIEST,
    LATEST,
    EarliestOrLatestRangeLimit,
    GlobalTimestampRangeLimit,
    Limit,
    Offsets,
    SpecificOffsetRangeLimit,
    SpecificTimestampRangeLimit,
    as_set,
)

T = TypeVar("T")

log = logging.getLogger(__name__)

ALIAS = "of kafka.bootstrap.servers"

_GREATER = """The resolved start offset {} is greater than the resolved end offset {} for topic {} partition {}.
There may be multiple reasons:
1. Start offset is set to too big a value that after resolution, end offset is smaller than it. There are multiple \
input cases:
  (a) Start offset is set to a timestamp, and the end offset is set to an index.
  (b) Start offset is set to an index, and the end offset is set to a timestamp.
  (c) Start offset is set, and the end offset is set to latest.
2. The Kafka topic partition is broken."""


class TopicPlanner:
    """Requests partitions and offsets; connects with the first request, and has to be closed.

    Each request is repeated up to `fetchOffset.numRetries` times. Raises ClusterError.
    """

    def __init__(self, options: TopicOptions, clock: Clock, connect: Connect = ClusterAdmin) -> None:
        self._options = options
        self._clock = clock
        self._connect = connect
        self._admin: ClusterAdmin | None = None
        self.topic_ids: dict[TopicName, uuid.UUID | None] = {}

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def batch_ranges(self) -> list[OffsetRange]:
        """The ranges of a batch query. Raises OptionError for starts and ends that contradict each other."""
        options = self._options
        starts = self.resolve(options.starting, starting=True)
        ends = self.resolve(options.ending, starting=False)
        if starts.keys() != ends.keys():
            raise OptionError(
                f"different topic partitions for starting offsets topics[{','.join(map(str, sorted(starts)))}] and "
                f"ending offsets topics[{','.join(map(str, sorted(ends)))}]"
            )
        for part, start in sorted(starts.items()):
            if start > ends[part]:
                raise OptionError(_GREATER.format(start, ends[part], part.topic, part.partition))
        found = self.ranges(starts, ends)
        return [replace(one, from_earliest=_is_earliest(options.starting, one.partition)) for one in found]

    def ranges(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[OffsetRange]:
        """The ranges between the starts and the ends, with the ids of their topics."""
        return [OffsetRange(part, starts[part], ends[part], self.topic_ids.get(part.topic)) for part in sorted(starts)]

    def resolve(self, limit: Limit, *, starting: bool, end_open: bool = False) -> Offsets:
        """The offset of each partition in the options; with `end_open` a partition at its end has `LATEST`."""
        return self._again(lambda: self._resolve(limit, starting, end_open))

    def earliest(self, wanted: Iterable[TopicPartition]) -> Offsets:
        """The first offsets of partitions; missing partitions are left out."""
        names = set(wanted)
        return self._again(lambda: self._offsets(names & self._assigned(), EARLIEST)) if names else {}

    def latest(self, known: Mapping[TopicPartition, int] | None = None) -> Offsets:
        """The ends of all partitions.

        The request is repeated while an end is before its `known` offset, or a known partition is missing: a broker's
        metadata may be old (KAFKA-7703).
        """
        found = self._again(lambda: self._offsets(self._assigned(), LATEST))
        for _ in range(1, self._options.offset_tries):
            if all(found.get(part, -1) >= offset for part, offset in (known or {}).items()):
                break
            self._pause()
            found = self._again(lambda: self._offsets(self._assigned(), LATEST))
        return found

    def at_timestamp(self, wanted: Iterable[TopicPartition], timestamp: int) -> Offsets:
        """The first offsets with a record of this timestamp in ms or a later timestamp; -1 for a missing record."""
        parts = set(wanted)
        return self._again(lambda: self._offsets(parts, timestamp))

    def _resolve(self, limit: Limit, starting: bool, end_open: bool) -> Offsets:
        parts = self._assigned()
        if isinstance(limit, SpecificOffsetRangeLimit):
            if parts != limit.offsets.keys():
                raise OptionError(
                    "Partitions specified for Kafka start offsets don't match what are assigned. Maybe topic "
                    "partitions are created or deleted while the query is running. Use -1 for latest, -2 for earliest. "
                    f"Specified: {as_set(limit.offsets)} Assigned: {as_set(parts)}"
                )
            found = dict(limit.offsets)
        elif isinstance(limit, GlobalTimestampRangeLimit):
            times = dict.fromkeys(parts, limit.timestamp)
            found = self._at_times(times, starting, limit.or_latest)
        elif isinstance(limit, SpecificTimestampRangeLimit):
            if parts != limit.timestamps.keys():
                raise OptionError(
                    f"Partitions specified for Kafka timestamp based {'start' if starting else 'end'} offsets don't "
                    "match what are assigned. Maybe topic partitions are created or deleted while the query is "
                    "running, or you didn't specify all the partitions. "
                    f"Specified: {as_set(limit.timestamps)} Assigned: {as_set(parts)}"
                )
            found = self._at_times(limit.timestamps, starting, limit.or_latest)
        else:
            found = dict.fromkeys(parts, limit.at)
        for at in (EARLIEST,) if end_open else (EARLIEST, LATEST):
            found |= self._offsets({part for part, offset in found.items() if offset == at}, at)
        return found

    def _at_times(self, times: Mapping[TopicPartition, int], starting: bool, or_latest: bool) -> Offsets:
        found: Offsets = {}
        for timestamp in sorted(set(times.values())):
            found |= self._offsets({part for part, time in times.items() if time == timestamp}, timestamp)
        if starting and not or_latest:
            for part, offset in sorted(found.items()):
                if offset < 0:
                    raise OptionError(
                        f"No offset matched from request of topic-partition {part} and timestamp {times[part]}."
                    )
        return {part: LATEST if offset < 0 else offset for part, offset in found.items()}

    def _assigned(self) -> set[TopicPartition]:
        """The present partitions that the options name; notes the ids of their topics."""
        options, admin = self._options, self._connected()
        names = options.topics or {part.topic for part in options.partitions}
        pattern = options.pattern
        if pattern is not None:
            names = {name for name, topic in admin.topics().items() if not topic.internal and pattern.find(name)}
        if not names:
            return set()
        found = admin.call(admin.client.refresh, sorted(names))
        parts = set()
        for name, topic in found.items():
            if topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION and pattern is None:
                raise TopicGoneError(
                    f"cluster {admin.alias}: topic {name} is missing; create it, or name other topics in option "
                    f"{'subscribe' if options.topics else 'assign'}"
                )
            if error_codes.refused(topic.error):
                raise admin.client.lacks("DESCRIBE", f"topic {name}", "finding its partitions")
            if topic.error:
                # A topic with an error would otherwise have an empty set of partitions, and be read as empty or count
                # as deleted.
                raise ClusterError(
                    f"cluster {admin.alias}: partitions of topic {name} are missing: {error_codes.explain(topic.error)}"
                )
            self.topic_ids[name] = topic.topic_id
            parts |= {TopicPartition(name, number) for number in range(topic.partitions)}
        return parts & options.partitions if options.partitions else parts

    def _offsets(self, parts: set[TopicPartition], at: int) -> Offsets:
        if not parts:
            return {}
        admin = self._connected()
        errors: dict[TopicPartition, int] = {}

        async def ask() -> Offsets:
            return await admin.client.list_offsets(
                parts, at, read_committed=self._options.read_committed, errors=errors
            )

        found = admin.call(ask)
        missing = parts - found.keys()
        if missing:
            why = error_codes.explain(errors.get(min(missing), Code.LEADER_NOT_AVAILABLE))
            raise ClusterError(f"cluster {admin.alias}: offsets of {listed(map(str, missing))} are missing: {why}")
        return found

    def _connected(self) -> ClusterAdmin:
        if self._admin is None:
            client = self._options.consumer.client
            self._admin = self._connect(ALIAS, client)
            self._admin.connect(client.request_timeout_ms / 1000)
        return self._admin

    def _again(self, question: Callable[[], T]) -> T:
        def failed(error: TwinlogError) -> None:
            log.warning("TW-DATA-05: offsets are asked for again: %s", error)
            self.close()

        pause_s = self._options.offset_retry_ms / 1000
        policy = RetryPolicy(pause_s, pause_s, tries=max(1, self._options.offset_tries))
        return retry_in_thread(self._clock, policy, question, failed=failed)

    def _pause(self) -> None:
        self._clock.sleep(self._options.offset_retry_ms / 1000)


def _is_earliest(limit: Limit, part: TopicPartition) -> bool:
    if isinstance(limit, SpecificOffsetRangeLimit):
        return limit.offsets.get(part) == EARLIEST
    return limit == EarliestOrLatestRangeLimit(EARLIEST)
