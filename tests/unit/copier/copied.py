"""A real copier between two clusters of this process, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.copier_reports import NotedReports, copy_partitions
from tests.policies import with_policies
from twinlog.copier.copier import Copier
from twinlog.errors import TwinlogError
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position, PositionRecord, decode_position
from twinlog.mirror.offsets.segments import segments_topic
from twinlog.model.held import HeldPartition
from twinlog.model.topic_names import progress_topic
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings, OffsetsMode
from twinlog.settings.per_topic import PerTopic

SOURCE, TARGET = Alias("north"), Alias("south")
TOPIC, REMOTE = TopicName("shop"), TopicName("north.shop")


def part(number: int = 0, topic: str = TOPIC) -> TopicPartition:
    return TopicPartition(TopicName(topic), number)


class World:
    """Two clusters with a topic each, and the copiers between them, one after the other."""

    def __init__(self, loop: VirtualLoop, *, partitions: int = 1, brokers: int = 1, **settings: Any) -> None:
        self.loop = loop
        self.source = VirtualCluster(loop, SOURCE, brokers)
        self.target = VirtualCluster(loop, TARGET, brokers)
        reading, writing = ClientSettings(self.source.bootstrap), ClientSettings(self.target.bootstrap)
        self.settings = FlowSettings(
            source=SOURCE,
            target=TARGET,
            consumer=ConsumerSettings(reading, **settings.pop("consumer", {})),
            producer=ProducerSettings(writing, **settings.pop("producer", {})),
            source_admin=AdminSettings(reading),
            target_admin=AdminSettings(writing),
        )
        self.settings = replace(self.settings, **with_policies(settings))
        self.source.create(TOPIC, partitions)
        self.target.create(REMOTE, partitions)
        self.target.create(self.settings.positions_topic)
        self.target.create(segments_topic(SOURCE))
        self.target.create(progress_topic(SOURCE))
        self.source.create(self.settings.offset_syncs_topic)
        self.failures: list[tuple[TopicPartition | None, TwinlogError]] = []
        self.events: list[tuple[str, str]] = []
        self.held: list[HeldPartition] = []
        self.copiers: list[Copier] = []
        self.allowed = True

    @property
    def clock(self) -> Any:
        return self.loop.clock

    def run(self, step: Callable[..., Any], *args: Any) -> Any:
        return self.loop.run(step, *args)

    def open(self) -> Copier:
        """A copier that has reached both clusters."""
        listener = NotedReports(self.failures, self.events, self.held)
        copier = Copier(self.loop, self.settings, listener, lambda: self.allowed)
        self.copiers.append(copier)
        self.run(copier.start)
        return copier

    def set_offsets(self, offsets: OffsetsMode) -> None:
        """Later copiers translate offsets, or keep them."""
        self.settings = replace(self.settings, offsets=PerTopic(offsets))

    def grant(self, number: int = 0, position: Position | None = None, *, drained: bool = False) -> Grant:
        return Grant(part(number), part(number, REMOTE), None, 1 << 20, position, drained=drained)

    def begin(self, *grants: Grant) -> Copier:
        """Copy what is granted, from the first partition's beginning if that is nothing."""
        copier = self.open()
        self.run(copy_partitions, copier, grants or [self.grant()])
        return copier

    def until(self, true: Callable[[], bool], within_s: float = 60.0) -> float:
        """Let virtual time pass until `true()`; returns how much of it passed."""
        begun = self.clock.now

        async def wait() -> None:
            while not true():
                assert self.clock.now - begun < within_s, f"{self.failures} {self.events} {self.held} {self.copied()}"
                await self.loop.sleep(0.005)

        self.run(wait)
        return float(self.clock.now - begun)

    def pass_by(self, seconds: float) -> None:
        self.run(self.loop.sleep, seconds)

    def copied(self, number: int = 0, *, committed: bool = False) -> list[bytes | None]:
        """What consumers of the remote partition see."""
        return self.target.log(REMOTE, number).values(committed=committed)

    def stored(self, number: int = 0) -> Position | None:
        """The last position of a source partition that a driver finds on the target; exactly once, a committed one."""
        found = None
        committed = self.settings.exactly_once == "enabled"
        for record in self.target.log(self.settings.positions_topic).records(committed=committed):
            known = decode_position(
                SOURCE,
                PositionRecord(
                    record.key or b"", record.value, tuple((name, value or b"") for name, value in record.headers)
                ),
            )
            if known is not None and known[0] == part(number):
                found = known[1]
        return found

    def write(self, *values: bytes, number: int = 0) -> None:
        self.source.write(TOPIC, *values, partition=number)

    def feed(self, values: Sequence[bytes], *, number: int = 0) -> None:
        """A batch of each three."""
        for at in range(0, len(values), 3):
            self.write(*values[at : at + 3], number=number)

    def crash(self, copier: Copier) -> None:
        """End a copier as a killed worker does."""

        async def stop() -> None:
            copier.stop()

        if not copier.stopped:
            self.run(stop)


@contextmanager
def world(seed: int = 1, **how: Any) -> Iterator[World]:
    """Both clusters, and no copier yet; ends all that were opened."""
    with virtual_loop(seed) as loop:
        here = World(loop, **how)
        try:
            yield here
        finally:
            for copier in here.copiers:
                here.crash(copier)
