"""Kinds of items: what each of them copies, asks or starts, and how a scale makes it smaller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

from bench.items.goals import Goal, Wanted

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = ("source", "target")


@dataclass(frozen=True, slots=True)
class CopyItem:
    """A topic to be copied from its first record to its last.

    `record_bytes` is the size of a value; there are no keys. `batch_bytes` is the `batch.size` of the producer that
    fills the topic; 1 makes batches of one record. All systems copy the topic if the item has `goals`, otherwise
    MirrorMaker 2 and twinlog, and `wanted` has bounds of their ratio by figure, see `bench.reports.results`. `far` is
    the cluster that is 80 ms away, there and back, with 4 MB on their way at most. With `transform` both systems pass
    each record through one that changes nothing, and twinlog copies the topic once more without. With `sql` twinlog
    has a query in its place, and copies it no more. With `joins_at_once` brokers do not wait for more members of a
    new group.
    """

    name: str
    title: str
    records: int
    record_bytes: int
    wanted: Mapping[str, Wanted]
    partitions: int = 4
    codec: Codec = "none"
    batch_bytes: int = 65_536
    far: Side | None = None
    transform: bool = False
    sql: bool = False
    joins_at_once: bool = False
    goals: tuple[Goal, ...] = ()

    def scaled(self, scale: float) -> CopyItem:
        return replace(self, records=max(1_000, round(self.records * scale)))

    @property
    def payload_bytes(self) -> int:
        return self.records * self.record_bytes


@dataclass(frozen=True, slots=True)
class LatencyItem:
    """Records sent at an even pace; the time from sending one on the source to receiving it on the target.

    `warm_up_s` comes first and is not counted.
    """

    name: str
    title: str
    per_second: int
    record_bytes: int
    partitions: int
    seconds: int
    warm_up_s: int
    wanted: Mapping[str, Wanted]
    wanted_eager: Mapping[str, Wanted]
    """Bounds beside MirrorMaker 2 with `linger.ms=0`, which hold with twinlog's default and with 0 in both."""


@dataclass(frozen=True, slots=True)
class LowRateItem:
    """Topics in which each of the `rates`, records per second in all, is measured for some seconds."""

    name: str
    title: str
    topics: int
    partitions: int
    rates: tuple[int, ...]
    seconds: int
    wanted: Mapping[str, Wanted]

    def scaled(self, scale: float) -> LowRateItem:
        topics = max(1, round(self.topics * scale))
        return replace(self, topics=topics, seconds=max(3, round(self.seconds * min(1, scale))))


@dataclass(frozen=True, slots=True)
class ScaleItem:
    """Many topics of some partitions with `records` records in each, and consumer groups at the ends of two."""

    name: str
    title: str
    topics: int
    partitions: int
    records: int
    groups: int
    wanted: Mapping[str, Wanted]

    def scaled(self, scale: float) -> ScaleItem:
        return replace(self, topics=max(5, round(self.topics * scale)), groups=max(10, round(self.groups * scale)))


@dataclass(frozen=True, slots=True)
class DriverItem:
    """The driver alone, with many partitions and so many copiers that only pretend to copy.

    `wanted` are bounds for twinlog's own figures: there is nothing of MirrorMaker 2 to compare.
    """

    name: str
    title: str
    topics: int
    partitions: int
    copiers: int
    wanted: Mapping[str, Wanted]

    def scaled(self, scale: float) -> DriverItem:
        return replace(self, topics=max(5, round(self.topics * scale)), copiers=max(2, round(self.copiers * scale)))


@dataclass(frozen=True, slots=True)
class ConnectItem:
    """A worker of Kafka Connect: `starts` of its process, `listed` connectors that so many `clients` list for some
    `seconds`, and `idle` ones, half of them heartbeat and half checkpoint connectors, that have nothing to do."""

    name: str
    title: str
    starts: int
    listed: int
    clients: int
    seconds: int
    idle: int
    wanted: Mapping[str, Wanted]

    def scaled(self, scale: float) -> ConnectItem:
        def some(number: int) -> int:
            return max(2, round(number * scale))

        return replace(
            self,
            starts=max(1, round(self.starts * scale)),
            listed=some(self.listed),
            clients=some(self.clients),
            seconds=some(self.seconds),
            idle=some(self.idle),
        )


@dataclass(frozen=True, slots=True)
class RepeatedItem:
    """A topic that twinlog copies `rounds` times; bounds are for ratios of its own figures."""

    name: str
    title: str
    copy: CopyItem
    rounds: int
    wanted: Mapping[str, Wanted]

    def scaled(self, scale: float) -> Self:
        return replace(self, copy=self.copy.scaled(scale))


class WatchedItem(RepeatedItem):
    """With a watcher and as often without; the topic is paused until the watcher has its first pages."""


class VerifyItem(RepeatedItem):
    """Each time it is compared with its copy."""


@dataclass(frozen=True, slots=True)
class ProofItem(RepeatedItem):
    """With the proof of equality and as often without; then as many loads of `load_per_s` records for so many seconds
    in both ways."""

    load_per_s: int
    load_seconds: int

    @property
    def load_records(self) -> int:
        """The records of a load."""
        return self.load_per_s * self.load_seconds

    def scaled(self, scale: float) -> Self:
        return replace(
            self, copy=self.copy.scaled(scale), load_seconds=max(10, round(self.load_seconds * min(1, scale)))
        )


@dataclass(frozen=True, slots=True)
class ExecutorItem:
    """A topic under load that three executors copy, each of which is lost in another way; twinlog alone."""

    name: str
    title: str
    partitions: int
    per_second: int
    wanted: Mapping[str, Wanted]


@dataclass(frozen=True, slots=True)
class FramesItem:
    """Two topics that become DataFrames, and one that is written from one as large as `large`, `rounds` times each.

    Bounds are for twinlog's own figures.
    """

    name: str
    title: str
    large: CopyItem
    small: CopyItem
    rounds: int
    wanted: Mapping[str, Wanted]

    def scaled(self, scale: float) -> FramesItem:
        return replace(self, large=self.large.scaled(scale), small=self.small.scaled(scale))


Item = (
    CopyItem
    | LatencyItem
    | LowRateItem
    | ScaleItem
    | DriverItem
    | ConnectItem
    | RepeatedItem
    | ExecutorItem
    | FramesItem
)
