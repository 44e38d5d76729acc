"""The rules of `batches.prepare.prepare`, and its result: batches ready to be appended, counts of left-out records.

`copier.partition.appends` appends these batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from twinlog.kafka.producer.proof import Element
from twinlog.kafka.record.batch import HEADER, LOG_APPEND_TIME
from twinlog.kafka.record.compression import NONE
from twinlog.model.topics import DEFAULT_MAX_MESSAGE_BYTES
from twinlog.model.types import SourceOffset, TopicName
from twinlog.settings.client import MERGED_BYTES
from twinlog.settings.flow import FlowSettings, RecordPolicy

LARGEST_MERGED_BYTES = 4 << 20
JOIN_RECORDS = 160
_ANY_RECORDS = 1 << 30

Road = Literal[
    "as it is", "merged", "recompressed", "split", "holes", "position", "log append time", "old format", "transformed"
]
"""The way in which a batch for the target was made; every way but the first costs time for each record or byte.

Small batches are `merged`. All other ways build a batch again: for another codec (`recompressed`), or because the batch
is too large for the remote topic (`split`). A batch is also built again if compaction left holes in its offsets
(`holes`), or if it has records before the `position`, the source's `log append time`, or the format before Kafka 0.11
(`old format`). All batches of a transform are `transformed`.
"""

STEP_BYTES = 768
"""The memory of an append of markers, which has no batch, and of its places in queues: 726 bytes were measured with
Python 3.11."""

ADDED = SourceOffset(-1)
"""In the place of a source offset: marks a record that a transform added."""


@dataclass(frozen=True, slots=True)
class CopyRules:
    """The rules by which the batches of a fetch are prepared.

    `of` makes them from the flow's settings, once for each partition. `copier.partition.partition` changes them for a
    fetch while more records wait: `merging_all` for a distant target, else `joining`.

    `codec` is the producer's `compression.type`, a name in `CODECS`, or None to keep the codec of each batch.
    `codec_level` is the level of that codec, None for Kafka's default. `max_batch_bytes` is the remote topic's
    `max.message.bytes`, or less if the produce request must be smaller. Neighbours below `merge_below` bytes
    (`merge_compressed_below` with a codec) and `merge_records` records are merged into batches of up to
    `merge_batch_bytes`; `merge_below` 0 turns merging off. Uncompressed neighbours of up to `join_records` records are
    joined into batches of up to `join_batch_bytes`; `join_records` 0 turns joining off.

    With `keep_offsets` the copies get the offsets of their sources: a hole in these offsets ends a batch, and an
    `OffsetStep` fills the hole.

    `oversized` is the policy for a record that exceeds the limit even in a batch of its own. `refused` is the policy
    for a record that the target refuses for another reason. A transform gets the first `most_records` records of a
    fetch, None for all records.

    A broker takes a single batch per partition and request, and a request costs about 50 us of CPU here and as much
    there. Merging costs about 0.7 us a record, and with a codec as much again for every 100 (zstd) to 200 bytes (lz4).
    Up to these limits merging is the cheaper way.
    """

    max_batch_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    read_committed: bool = False
    codec: str | None = None
    codec_level: int | None = None
    merge_batch_bytes: int = MERGED_BYTES
    merge_below: int = 16_384
    merge_compressed_below: int = 4_096
    merge_records: int = 64
    join_batch_bytes: int = 1_048_576
    join_records: int = 0
    check_crcs: bool = True
    keep_offsets: bool = False
    oversized: RecordPolicy = "hold"
    refused: RecordPolicy = "hold"
    most_records: int | None = None

    @classmethod
    def of(cls, settings: FlowSettings, topic: TopicName) -> CopyRules:
        """The rules of a flow for a source topic, before the limit of the remote topic is known."""
        producer, consumer = settings.producer, settings.consumer
        return cls(
            max_batch_bytes=1 << 30,
            read_committed=consumer.isolation_level == "read_committed",
            codec=producer.compression_type,
            codec_level=producer.compression_level,
            merge_batch_bytes=producer.merge_batch_bytes,
            check_crcs=consumer.check_crcs,
            keep_offsets=settings.keeps_offsets(topic),
            oversized=settings.record_policy(settings.oversized_record_policy, topic),
            refused=settings.record_policy(settings.refused_record_policy, topic),
        )

    @property
    def leave_out(self) -> bool:
        """Whether a policy leaves records out, so that the remote log lacks records of the source."""
        return not {self.oversized, self.refused}.isdisjoint(("skip", "dead-letter"))

    def merging_all(self) -> CopyRules:
        """These rules for a distant target: batches as large as the topic allows, up to 4 MB.

        An idempotent producer may have five batches of a partition in flight (KIP-98): with 64 KB each and a round trip
        of 80 ms that would be 4 MB/s. Rules that turn merging off stay the same.
        """
        if not self.merge_batch_bytes or not self.merge_below:
            return self
        most = min(self.max_batch_bytes, LARGEST_MERGED_BYTES)
        return replace(
            self,
            merge_batch_bytes=most,
            merge_below=most,
            merge_compressed_below=most,
            merge_records=_ANY_RECORDS,
            join_batch_bytes=most,
            join_records=_ANY_RECORDS,
        )

    def joining(self) -> CopyRules:
        """These rules while records wait: uncompressed neighbours of few records are joined.

        A batch of its own and its part of a request cost this copier some 40 us, and the target's broker some 30 us. A
        joined record costs this copier 0.3 us (500 B) to 0.5 us (1 KB).
        """
        if not self.merge_batch_bytes or not self.merge_below:
            return self
        # A smaller `batch.size` of the user counts here, too.
        most = self.join_batch_bytes if self.merge_batch_bytes >= MERGED_BYTES else self.merge_batch_bytes
        return replace(self, join_records=JOIN_RECORDS, join_batch_bytes=most)

    def small(self, codec: int) -> int:
        """Bytes below which a batch of a codec is merged with its neighbours."""
        return self.merge_below if codec == NONE else min(self.merge_below, self.merge_compressed_below)


class Route(Protocol):
    """Counts the routed appends that it waits for."""

    def count_acknowledged(self, append: Append) -> None:
        """Note that the target acknowledged a routed append."""

    def count_split(self, more: int) -> None:
        """Note that a routed append became so many more appends."""


class SourceTransaction(NamedTuple):
    """An aborted transaction of a source partition: the id of its producer, and the offset of its first record."""

    producer_id: int
    begin: SourceOffset


@dataclass(frozen=True, slots=True)
class Markers:
    """The source lacks a record at the offsets of an append; a marker of a transaction takes each of them."""


@dataclass(frozen=True, slots=True)
class AbortedRecords:
    """The records of an append are in an aborted transaction, which consumers of committed records leave out."""

    transaction: SourceTransaction


@dataclass(frozen=True, slots=True)
class AbortMarker:
    """The append is the marker that ends an aborted transaction."""

    transaction: SourceTransaction


OffsetStep: TypeAlias = Markers | AbortedRecords | AbortMarker
"""An append out of reach of an idempotent producer: it waits for all earlier appends, and all later appends wait."""


@dataclass(slots=True, weakref_slot=True)
class Append:
    """A batch for a produce request, before it is stamped.

    `spans` are the source offsets of its records, as runs of (first offset, count). Target offsets run on from the base
    offset that the broker answers. Records that a transform added have the offset `ADDED`. `next_source_offset` is the
    position once the append is acknowledged. `data` may be a part of the fetched buffer. `max_timestamp` is in
    milliseconds. `route` is set when a transform routed the records to this partition. `element` is set for the proof
    of equality (`copier.proof`). `step` is set for offsets out of reach of a plain batch; `data` is empty for markers.
    `fills` is set for records that take offsets before the first copy (`batches.fillers`).
    """

    data: bytearray | memoryview
    count: int
    first_source_offset: SourceOffset
    next_source_offset: SourceOffset
    max_timestamp: int
    spans: tuple[tuple[SourceOffset, int], ...]
    route: Route | None = None
    element: Element | None = None
    step: OffsetStep | None = None
    fills: bool = False

    @property
    def bytes(self) -> int:
        """The size of the batch; 0 for markers."""
        return len(self.data)

    @property
    def memory_bytes(self) -> int:
        """The memory of the append while it waits: a fetch may have tens of thousands of markers, each by itself."""
        return len(self.data) if self.step is None else len(self.data) + STEP_BYTES

    @property
    def continues(self) -> bool:
        """Whether the append begins in the middle of the rows that a transform made of a record."""
        return self.spans[0][0] == ADDED

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the first record in ms; with LogAppendTime the timestamp of all records; -1 for markers."""
        if not self.data:
            return self.max_timestamp
        header = HEADER.unpack_from(self.data, 0)
        return self.max_timestamp if header[5] & LOG_APPEND_TIME else int(header[7])


@dataclass(frozen=True, slots=True)
class OversizedRecord:
    """A record left out because it exceeds every batch of the remote topic; `size` is its smallest batch, in bytes."""

    source_offset: SourceOffset
    size: int


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record left out because a transform failed on it; `shown` is the record, for the log."""

    source_offset: SourceOffset
    reason: str
    shown: str = ""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class RoutedRows:
    """Rows for another partition, in order, as an Arrow record batch (`arrow.arrays.schema`).

    The key determines the partition of a row whose partition is null. `dead` rows are the rows that a transform failed
    on.
    """

    topic: TopicName
    rows: Any
    codec: int = NONE
    dead: bool = False

    @property
    def memory_bytes(self) -> int:
        """The memory of the rows while they wait."""
        return int(self.rows.nbytes)


Prepare = Callable[[memoryview, SourceOffset, CopyRules, Iterable[tuple[int, int]] | None], "PreparedFetch"]
"""Makes appends of a partition's fetch: as `batches.prepare.prepare`, with the same arguments."""


@dataclass(slots=True)
class PreparedFetch:
    """The appends of a fetch in order, and `position`: the source offset to fetch next.

    `position` is after all consumed records, also after left-out records: `aborted`, `control` and `oversized` records.
    `dropped` counts the records that a transform dropped. `failed` are the records that a transform failed on; with
    `log_failed` each is reported. `routed` are the rows that a transform routed, by their topic. With `spread` the rows
    of some record are in several appends. `roads` counts the appends by the way they were made. `leader_epoch` belongs
    to the last batch read, -1 if it is unknown.
    """

    position: SourceOffset
    appends: list[Append] = field(default_factory=list)
    aborted: int = 0
    control: int = 0
    leader_epoch: int = -1
    oversized: list[OversizedRecord] = field(default_factory=list)
    roads: dict[Road, int] = field(default_factory=dict)
    dropped: int = 0
    failed: list[FailedRecord] = field(default_factory=list)
    log_failed: bool = False
    spread: bool = False
    routed: list[RoutedRows] = field(default_factory=list)

    def count(self, road: Road, appends: int = 1) -> None:
        """Count so many appends of this road."""
        self.roads[road] = self.roads.get(road, 0) + appends
