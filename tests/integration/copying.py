"""Copies topics between two clusters with a copier in this process: what a Spark task does, without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaException

from harness.cluster import KafkaCluster
from harness.topics import create_topic, offsets, topic_config, topics
from harness.wait import wait_for
from tests.copier_reports import NotedReports, copy_partitions
from tests.integration.flows.child_copier import ChildCopier
from tests.policies import with_policies
from twinlog.copier.copier import Copier
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.errors import ClusterError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.net.loop import Loop
from twinlog.lease.fencing import TransactionalIds
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import segments_topic
from twinlog.mirror.offsets.starts import AT_FIRST, StartSpec
from twinlog.mirror.offsets.translator import Translator
from twinlog.model.held import HeldPartition
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings

SOURCE, TARGET = Alias("north"), Alias("south")
DEADLINE_S = 60.0
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
POSITION_PARTITIONS = 3
FOR_EVER = {"retention.ms": "-1"}


def flow_settings(
    source: KafkaCluster,
    target: KafkaCluster,
    *,
    consumer: Mapping[str, Any] | None = None,
    producer: Mapping[str, Any] | None = None,
    **others: Any,
) -> FlowSettings:
    """A flow north->south over the plaintext listeners; the mappings and `others` replace defaults of the settings."""
    reading = ClientSettings(tuple(source.bootstrap.split(",")), client_id="twinlog-test-consumer")
    writing = ClientSettings(tuple(target.bootstrap.split(",")), client_id="twinlog-test-producer")
    settings = FlowSettings(
        source=SOURCE,
        target=TARGET,
        consumer=ConsumerSettings(reading, **(consumer or {})),
        producer=ProducerSettings(writing, **(producer or {})),
        source_admin=AdminSettings(reading),
        target_admin=AdminSettings(writing),
        replication_factor=1,
        offset_storage_replication_factor=1,
        sync_topic_configs_interval_s=None,
        offset_storage_partitions=POSITION_PARTITIONS,
    )
    return replace(settings, **with_policies(others))


class RunningCopier:
    """A copier on a loop and a thread of its own; ends with `release` (in order) or `crash` (as a killed worker)."""

    def __init__(self, settings: FlowSettings) -> None:
        self.settings = settings
        self.heard = NotedReports()
        self.allowed = threading.Event()
        """Cleared: the copier may not append, as when its driver does not answer."""
        self.allowed.set()
        self._loop = Loop()
        self._loop.net.start()
        self._ended = False
        self.copier = Copier(self._loop, settings, self.heard, self.allowed.is_set)
        self._loop.run(self.copier.start)

    def grant(self, grants: Sequence[Grant]) -> None:
        """Begin to copy; returns when each partition has its position."""
        self._loop.run(copy_partitions, self.copier, grants)

    def partition_copy(self, topic: str, partition: int = 0) -> PartitionCopy:
        """One source partition while it is copied: waits until it begins, fails at once if it is held."""
        part = TopicPartition(TopicName(topic), partition)

        def begun() -> PartitionCopy | None:
            copied = self.copier.partitions.get(part)
            if copied is None:
                reasons = [f"{held.message_id}: {held.text}" for held in self.heard.held if held.source == part]
                assert not reasons, f"{part} is held: {reasons}"
                assert self.heard.failures == []
            return copied

        return wait_for(begun, DEADLINE_S, f"{part} begins", every_s=0.005)

    def position(self, topic: str, partition: int = 0) -> Position:
        """What is acknowledged of one source partition."""
        return self.partition_copy(topic, partition).acknowledged

    def lag(self, topic: str, partition: int = 0) -> int:
        """Source offsets still to be copied, -1 while the end is unknown."""
        return self.partition_copy(topic, partition).lag

    def queued_bytes(self, topic: str, partition: int = 0) -> int:
        """What is read of one source partition and not appended."""
        return self.partition_copy(topic, partition).queue.queued_bytes

    def wait_for_position(self, topic: str, next_source: int, partition: int = 0) -> Position:
        """Wait until everything before a source offset is acknowledged.

        Fails at once when the copier fails or holds the partition.
        """

        def reached() -> bool:
            return bool(self.heard.failures) or self.position(topic, partition).next_source >= next_source

        wait_for(reached, DEADLINE_S, f"{topic}-{partition} is copied up to {next_source}", every_s=0.005)
        assert self.heard.failures == []
        return self.position(topic, partition)

    def wait_for_held(self) -> HeldPartition:
        """Wait until the copier holds a partition, and return what it reports of the first."""
        wait_for(lambda: bool(self.heard.held), DEADLINE_S, "a partition is held", every_s=0.005)
        assert self.heard.failures == []
        return self.heard.held[0]

    def wait_for_failure(self) -> tuple[TopicPartition | None, TwinlogError]:
        """Wait until the copier reports what the flow stops on."""
        wait_for(lambda: bool(self.heard.failures), DEADLINE_S, "the copier fails", every_s=0.005)
        return self.heard.failures[0]

    def wait_for_event(self, kind: str) -> str:
        """Wait for an event of a kind and return its text."""

        def found() -> str | None:
            return next((text for what, text in self.heard.events if what == kind), None)

        return wait_for(found, DEADLINE_S, f"an event {kind!r}", every_s=0.005)

    def events(self, kind: str) -> list[str]:
        """Texts of all events of a kind."""
        return [text for what, text in self.heard.events if what == kind]

    def memory_bytes(self) -> int:
        """What the copier holds now of what it may hold."""

        async def look() -> int:
            return self.copier.memory.used_bytes

        return self._loop.run(look)

    def stand_still(self, seconds: float) -> None:
        """Block the copier's thread, as a frozen process would."""

        async def stand() -> None:
            time.sleep(seconds)

        self._loop.run(stand)

    def run(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something on the copier's thread."""
        self._loop.run(step)

    def abort_transaction(self) -> None:
        """Have the copier abort what it has open, as after trouble with the first of its partitions."""

        async def abort() -> None:
            assert self.copier.transactions is not None
            self.copier.transactions.abort(next(iter(self.copier.partitions.values())))

        self._loop.run(abort)

    def release_one(self, partition: TopicPartition) -> Position:
        """Release one partition in order and go on with the others; returns its position."""
        return self._loop.run(self.copier.release_partitions, [partition])[partition]

    def release(self) -> dict[TopicPartition, Position]:
        """Release all partitions in order, with their positions stored, and end."""
        released = self._loop.run(self.copier.release_partitions, self.copier.granted)
        self.crash()
        return released

    def crash(self) -> None:
        """End at once: nothing more is sent or stored."""
        if self._ended:
            return
        self._ended = True

        async def stop() -> None:
            self.copier.stop()

        self._loop.run(stop)
        self._loop.net.stop(timeout_ms=60_000)
        self._loop.close()


def _retry(step: Callable[[], None], what: str) -> bool:
    def done() -> bool:
        with suppress(ClusterError):
            step()
            return True
        return False

    return wait_for(done, DEADLINE_S, what)


class CopyFlow:
    """Starts copiers for topics, with positions and limits looked up as the driver does it; ends them with `close`."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster) -> None:
        self.source = source
        self.target = target
        settings = flow_settings(source, target)
        self.positions_topic = settings.positions_topic
        if self.positions_topic not in topics(target):
            create_topic(target, self.positions_topic, POSITION_PARTITIONS, config={"cleanup.policy": "compact"})
        compacted = {"cleanup.policy": "compact"}
        for cluster, name in ((target, segments_topic(SOURCE)), (source, settings.offset_syncs_topic)):
            if name not in topics(cluster):
                create_topic(cluster, name, config=compacted)
        self._admin = ClusterAdmin(TARGET, settings.target_admin.client)
        self._admin.connect()
        self._far = ClusterAdmin(SOURCE, settings.source_admin.client)
        self._far.connect()
        self._store = PositionStore(settings, self._admin)
        self.maps = MapStore(settings, self._admin, self._store)
        self.translator = Translator(settings, self._far, self._admin, self.maps)
        self._running: list[RunningCopier] = []
        self._children: list[ChildCopier] = []

    def remote(self, topic: str) -> str:
        """What a topic is called on the target."""
        return f"{SOURCE}.{topic}"

    def create(
        self,
        topic: str,
        partitions: int = 1,
        *,
        config: Mapping[str, str] | None = None,
        remote_config: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic on both clusters and return its remote name. No record is too old to be kept."""
        create_topic(self.source, topic, partitions, config={**FOR_EVER, **(config or {})})
        return self.create_remote(topic, partitions, config=remote_config)

    def create_remote(self, topic: str, partitions: int = 1, *, config: Mapping[str, str] | None = None) -> str:
        """Create the remote topic of a topic and return its name."""
        return create_topic(self.target, self.remote(topic), partitions, config={**FOR_EVER, **(config or {})})

    def stored(self, topic: str, partition: int = 0) -> Position | None:
        """The stored position of a source partition."""
        part = TopicPartition(TopicName(topic), partition)
        return self._store.read([part]).get(part)

    def take_over(self) -> None:
        """Fence copiers that crashed, as a driver does it first."""
        ids = TransactionalIds(flow_settings(self.source, self.target), self._admin, _retry)
        _retry(lambda: ids.take_over(1), "fence earlier copiers")

    def open(self, **settings: Any) -> RunningCopier:
        """A copier that copies nothing yet."""
        running = RunningCopier(flow_settings(self.source, self.target, **settings))
        self._running.append(running)
        return running

    def grant(self, partition: TopicPartition) -> Grant:
        """What a copier needs to go on with a partition that another released in order."""
        position = self.stored(*partition)
        self.maps.read()
        tip = self.maps.tips([partition]).get(partition)
        remote = TopicPartition(TopicName(self.remote(partition.topic)), partition.partition)
        return Grant(partition, remote, None, self._limit(partition.topic), position, drained=True, tip=tip)

    def start(
        self, *names: str, max_batch_bytes: int | None = None, begin: StartSpec = AT_FIRST, **settings: Any
    ) -> RunningCopier:
        """Begin to copy topics from their stored positions, partitions without one where `begin` says.

        `max_batch_bytes` replaces the limit of the remote topic; `settings` go to `flow_settings`.
        """
        running = RunningCopier(flow_settings(self.source, self.target, **settings))
        self._running.append(running)
        running.grant([replace(grant, begin=begin) for grant in self._grants(names, max_batch_bytes)])
        return running

    def start_child(self, *names: str, **settings: Any) -> ChildCopier:
        """`start` in a process that can be killed; returns before it copies."""
        child = ChildCopier(flow_settings(self.source, self.target, **settings), self._grants(names, None))
        self._children.append(child)
        return child

    def _grants(self, names: Sequence[str], max_batch_bytes: int | None) -> list[Grant]:
        there = topics(self.source)
        parts = [TopicPartition(TopicName(name), number) for name in names for number in range(there[name])]
        stored: dict[TopicPartition, Position] = {}

        def read() -> None:
            stored.update(self._store.read(parts))
            self.maps.read()

        # A driver tries that again, too: a broker may just have come back.
        _retry(read, "read what is stored")
        tips = self.maps.tips(parts)
        limits = {name: max_batch_bytes or self._limit(name) for name in names}
        return [
            Grant(
                source=part,
                remote=TopicPartition(TopicName(self.remote(part.topic)), part.partition),
                topic_id=None,
                max_batch_bytes=limits[part.topic],
                position=stored.get(part),
                tip=tips.get(part),
            )
            for part in parts
        ]

    def wait_until_caught_up(self, running: RunningCopier, *names: str) -> None:
        """Wait until a copier has everything that its topics hold now, up to their last offset."""
        for name in names:
            for number in range(topics(self.source)[name]):
                running.wait_for_position(name, offsets(self.source, name, number)[1], number)

    def copy(self, *names: str, **settings: Any) -> RunningCopier:
        """copy what topics hold now, release in order, and return the copier for what it heard."""
        running = self.start(*names, **settings)
        self.wait_until_caught_up(running, *names)
        running.release()
        assert running.heard.failures == []
        return running

    def close(self) -> None:
        """End what still runs."""
        for child in self._children:
            child.kill()
        for running in self._running:
            running.crash()
        self._admin.close()
        self._far.close()

    def _limit(self, topic: str) -> int:
        try:
            config = topic_config(self.target, self.remote(topic))
        except KafkaException as error:
            raise AssertionError(f"{self.remote(topic)} has to be created first") from error
        return int(config.get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES))
