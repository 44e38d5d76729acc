"""Reads a topic on both sides of a flow: records beside their copies, and the settings that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinlog.errors import ClusterError, RequestError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.consumer.leader_fetch import LeaderFetch
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.record.batch import AbortedFilter, scan
from twinlog.kafka.record.records import Record, decode_records, is_abort_marker
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.mirror.topology.plugins import config_filter_of, group_filter_of
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.diff.differences import FlowTopicPairing
from twinlog.ops.status.readers import ClustersReader
from twinlog.ops.translate.offset_lookup import Lookup, TranslatedOffset
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control.model import LogPlace, LogPlaceKind

ANSWER_BYTES = 1024 * 1024
MOST_PARTITIONS = 1_000
"""The partitions of a topic whose newest records are looked up."""

MOST_ANSWERS = 20
"""Answers for a page of records: a page with fewer records than wanted is shown after them."""


@dataclass(frozen=True, slots=True)
class RecordPair:
    """A source record with its copy; `reason` tells why the copy is missing. A copy may also lack its source record."""

    source: Record | None
    copy: Record | None = None
    reason: str = ""

    @property
    def differences(self) -> tuple[str, ...]:
        """The parts that differ between a record and its copy."""
        if self.source is None or self.copy is None:
            return ()
        names = ("timestamp", "key", "value", "headers")
        return tuple(name for name in names if getattr(self.source, name) != getattr(self.copy, name))


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records of a partition from source offset `start` on, with their copies, and the ends of the source's log."""

    partition: TopicPartition
    remote: TopicPartition
    start: int
    log_start: int
    log_end: int
    pairs: tuple[RecordPair, ...]

    @property
    def next_offset(self) -> int | None:
        """The first source offset of the next page; None at the end."""
        last = max((pair.source.offset for pair in self.pairs if pair.source is not None), default=None)
        return None if last is None or last + 1 >= self.log_end else last + 1


@dataclass(frozen=True, slots=True)
class NewestTimes:
    """The newest timestamps (Unix ms) of a partition's records on the source and of their copies on the target.

    None is unknown, as on brokers before Kafka 3.0, or of an empty partition.
    """

    source_ms: int | None
    copy_ms: int | None


class BothSidesReader(ClustersReader):
    """The source and the target of a flow. Every method raises ClusterError, and RefusedError if a right is missing."""

    def __init__(self, settings: FlowSettings, *, connect: Connect = ClusterAdmin) -> None:
        self._settings = settings
        self._source, self._target = both_clusters(settings, connect)
        super().__init__((self._source, self._target))
        self._topology = topology_of(settings)
        self._lookup = Lookup(settings, connect=connect, connect_s=LOOK_CONNECT_S)

    def close(self) -> None:
        self._lookup.close()
        super().close()

    def differing_settings(self, topic: TopicName) -> list[tuple[str, str, str]]:
        """The settings of the remote topic that differ from the settings of the topic, as `twinlog diff` compares them:
        name, value on the source, value on the target. Raises RequestError 404 if a side lacks the topic."""
        self._connect()
        remote = self._topology.remote_name(topic)
        mine, theirs = self._source.configs([topic]).get(topic), self._target.configs([remote]).get(remote)
        if mine is None or theirs is None:
            missing = f"{topic} on {self._source.alias}" if mine is None else f"{remote} on {self._target.alias}"
            raise RequestError(404, f"The topic {missing} is missing.")
        settings = self._settings
        pairing = FlowTopicPairing(
            self._topology, group_filter_of(settings), config_filter_of(settings), settings.name, -1
        )
        return sorted(pairing.settings(mine, theirs))

    def newest_times(self, topic: TopicName) -> dict[int, NewestTimes]:
        """The times of the newest records of a source topic by partition, of the first `MOST_PARTITIONS` at most."""
        self._connect()
        remote = self._topology.remote_name(topic)
        sides = (
            cluster.newest_timestamps([TopicPartition(name, number) for number in range(MOST_PARTITIONS)])
            for cluster, name in ((self._source, topic), (self._target, remote))
        )
        source, copies = ({part.partition: at for part, at in side.items() if at >= 0} for side in sides)
        return {number: NewestTimes(source.get(number), copies.get(number)) for number in source.keys() | copies.keys()}

    def records(self, partition: TopicPartition, place: LogPlace, count: int) -> RecordPage:
        """Up to `count` records from a place of a source partition on, each with its copy.

        Raises RequestError 404 if the source lacks the partition.
        """
        self._connect()
        start, log_start, log_end = self._place(partition, place, count)
        found = self._read(self._source, partition, start, count)
        remote = TopicPartition(self._topology.remote_name(partition.topic), partition.partition)
        try:
            places = {one.offset: one for one in self._lookup.offsets(partition, [one.offset for one in found])}
        except ClusterError as error:
            places = {one.offset: TranslatedOffset(partition, one.offset, reason=str(error)) for one in found}
        wanted = [int(one.found.offset) for one in places.values() if one.found is not None]
        copies: Sequence[Record] = ()
        if wanted and remote.topic in self._target.topics():
            copies = self._read(self._target, remote, min(wanted), count + max(wanted) - min(wanted))
        return RecordPage(partition, remote, start, log_start, log_end, _paired(found, places, copies))

    def _connect(self) -> None:
        for cluster in (self._target, self._source):
            if not cluster.client.connected:
                cluster.connect(LOOK_CONNECT_S)

    def _place(self, partition: TopicPartition, place: LogPlace, count: int) -> tuple[int, int, int]:
        """The offset of a place within the log, and the ends of the log."""
        starts, ends = (self._source.offsets([partition], latest=latest) for latest in (False, True))
        if partition not in starts or partition not in ends:
            raise RequestError(404, f"The partition {partition} is missing on {self._source.alias}, or has no leader.")
        log_start, log_end = starts[partition], ends[partition]
        if place.kind is LogPlaceKind.TIME:
            at = self._source.first_since([partition], place.value)[partition]
            at = log_end if at < 0 else at
        elif place.kind is LogPlaceKind.OFFSET:
            at = place.value
        else:
            at = log_start if place.kind is LogPlaceKind.EARLIEST else log_end - count
        return max(log_start, min(at, log_end)), log_start, log_end

    def _read(self, cluster: ClusterAdmin, partition: TopicPartition, start: int, count: int) -> list[Record]:
        """Up to `count` records from an offset on, as a consumer with the flow's isolation level sees them."""
        committed = self._settings.consumer.isolation_level == "read_committed"
        fetch = LeaderFetch(
            cluster.client, self._settings.consumer, read_committed=committed, partition_bytes=ANSWER_BYTES
        )
        end = cluster.offsets([partition], latest=True, read_committed=committed).get(partition, start)
        found: list[Record] = []
        position = start
        for _ in range(MOST_ANSWERS):
            if position >= end or len(found) >= count:
                break
            answer = cluster.call(fetch.fetch_answer, partition, position, None)
            if answer is None or answer.error:
                why = "a quota delays its answers" if answer is None else error_codes.explain(answer.error)
                raise ClusterError(f"cluster {cluster.alias}: {partition} is unreadable: {why}")
            hidden = AbortedFilter(answer.aborted) if committed and answer.aborted else None
            before = position
            for batch in scan(answer.records):
                marker = batch.is_control and is_abort_marker(answer.records, batch)
                hides = hidden is not None and hidden.hides(batch, abort_marker=marker)
                if not batch.is_control and not hides:
                    found += [one for one in decode_records(answer.records, batch) if one.offset >= start]
                position = max(position, batch.last_offset + 1)
            if position == before:
                break
        return found[:count]


@dataclass(frozen=True, slots=True)
class NewestTimesReader:
    """Reads the times of the newest records of a source topic again and again."""

    both_sides: BothSidesReader
    topic: TopicName

    def read(self) -> dict[int, NewestTimes]:
        """See `BothSidesReader.newest_times`."""
        return self.both_sides.newest_times(self.topic)

    def close(self) -> None:
        self.both_sides.close()


def _paired(
    found: Sequence[Record], places: Mapping[int, TranslatedOffset], copies: Sequence[Record]
) -> tuple[RecordPair, ...]:
    """Each source record with its copy, and between them copies whose source records are absent."""
    by_offset = {one.offset: one for one in copies}
    pairs: list[tuple[int, RecordPair]] = []
    paired: set[int] = set()
    last = -1
    for record in found:
        place = places[record.offset]
        copy, reason = None, place.reason
        if place.found is not None:
            last = max(last, int(place.found.offset))
            if place.found.exact:
                copy = by_offset.get(last)
                reason = "" if copy is not None else f"the copy at target offset {last} is missing"
            else:
                reason = f"its copy is at target offset {last} or later"
        if copy is not None:
            paired.add(copy.offset)
        pairs.append((last, RecordPair(record, copy, reason)))
    first = min(paired, default=0)
    extra = [one for one in copies if first <= one.offset <= max(paired, default=-1) and one.offset not in paired]
    pairs += [(one.offset, RecordPair(None, one, "a record of another source offset")) for one in extra]
    return tuple(pair for _, pair in sorted(pairs, key=lambda one: one[0]))
