"""A target of one broker, in this process and in virtual time: it keeps logs as brokers do, and fails as asked."""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.virtual.clock import VirtualClock
from tests.source_log import read_back
from twinlog.errors import ClusterError, FencedError, RefusedError
from twinlog.kafka.coordinator.transactions import NOBODY, ProducerEpoch
from twinlog.kafka.metadata import Leader, TopicMetadata
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.produce_request import Appended
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.write.queue import NO_ANSWER

LOST_ANSWER = -20
"""The broker appends, and its answer is lost."""

REMEMBERED = 5
"""Batches of a producer that a broker recognises when they come again (Kafka class ProducerStateEntry)."""


def virtual_loop() -> Loop:
    """A loop whose clock jumps to the next moment at which anything happens."""
    clock = VirtualClock()

    class Jumping(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> Any:
            found = super().select(0)
            if not found:
                assert timeout is not None, "everybody waits, and nothing will happen"
                clock.sleep(timeout)
            return found

    return Loop(clock, selector=Jumping)


@dataclass
class Entry:
    """What is at one offset: a value, or None for a marker. `state` is open, committed or aborted."""

    value: bytes | None
    state: str


@dataclass
class Producer:
    """What a leader knows of the producer that appends to a partition."""

    epoch: int = -1
    next_sequence: int = 0
    last: dict[tuple[int, int], int] = field(default_factory=dict)
    """Base offsets of its last batches, by their first sequence number and how many records they have."""


class ScriptedTarget:
    """The target's client, and its transaction coordinator.

    `answers` are error codes for the next appends to a partition, `coordinator` what the next calls of `init`, `add`
    and `end` come to: an error is raised, anything else returned; None is as it should be. `leaderless` partitions
    refuse every append, `hanging_s` is how long an append takes that is never answered.
    """

    alias = Alias("south")
    far = False

    def __init__(self, loop: Loop, settings: FlowSettings) -> None:
        self.loop = loop
        self.settings = settings.producer.client
        self.logs: dict[TopicPartition, list[Entry]] = {}
        self.answers: dict[TopicPartition, deque[int]] = {}
        self.coordinator: dict[str, deque[Any]] = {"init": deque(), "add": deque(), "end": deque()}
        self.leaderless: set[TopicPartition] = set()
        self.hanging_s = 0.5
        self.holder = ProducerEpoch(1, -1)
        self.inside: set[TopicPartition] = set()
        self.handled: list[str] = []
        """What the coordinator did, in order, and in between the first append to each partition."""
        self.lent = 0
        self._producers: dict[TopicPartition, Producer] = {}

    # What a client of the cluster is asked for.

    def leader(self, partition: TopicPartition) -> Leader | None:
        return None if partition in self.leaderless else Leader(1, 0)

    def topic(self, name: TopicName) -> TopicMetadata:
        return TopicMetadata(name, None, {0: Leader(1, 0)}, partitions=1)

    def throttled_s(self, _node: int) -> float:
        return 0.0

    async def refresh(self, names: Iterable[TopicName]) -> dict[TopicName, TopicMetadata]:
        await self.loop.sleep(0.001)
        return {name: self.topic(name) for name in names}

    def unreachable(self, _node: int) -> bool:
        return False

    def lacks(self, *missing: str) -> RefusedError:
        return RefusedError("lacks " + " ".join(missing))

    async def append(
        self, _node: int, topics: Mapping[str, Collection[tuple[int, Any]]], *_: Any, **__: Any
    ) -> dict[tuple[str, int], Appended]:
        await self.loop.sleep(0.001)
        answers: dict[tuple[str, int], Appended] = {}
        silent = False
        for topic, batches in topics.items():
            for number, data in batches:
                at = TopicPartition(TopicName(topic), number)
                script = self.answers.get(at)
                code = script.popleft() if script else 0
                answer = Appended(code, -1, -1) if code not in (0, LOST_ANSWER) else self._append(at, bytes(data))
                silent = silent or code in (NO_ANSWER, LOST_ANSWER)
                answers[at] = answer
        if silent:
            await self.loop.sleep(self.hanging_s)
            raise ClusterError("cluster south: no answer in time")
        return answers

    def _append(self, at: TopicPartition, data: bytes) -> Appended:
        header, records = read_back(data)
        if at in self.leaderless:
            return Appended(Code.NOT_LEADER_OR_FOLLOWER, -1, -1)
        if (header.producer_id, header.producer_epoch) != self.holder:
            return Appended(Code.INVALID_PRODUCER_EPOCH, -1, -1)
        if at not in self.inside:
            return Appended(Code.INVALID_TXN_STATE, -1, -1)
        producer = self._producers.setdefault(at, Producer())
        if header.producer_epoch > producer.epoch:
            producer.epoch, producer.next_sequence = header.producer_epoch, 0
            producer.last.clear()
        batch = header.base_sequence, len(records)
        if batch in producer.last:
            return Appended(0, producer.last[batch], 5)
        if header.base_sequence != producer.next_sequence:
            return Appended(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, -1)
        log = self.logs.setdefault(at, [])
        base = len(log)
        log += [Entry(record.value, "open") for record in records]
        producer.next_sequence += len(records)
        producer.last[batch] = base
        if len(producer.last) > REMEMBERED:
            del producer.last[min(producer.last)]
        self._note(f"append {at}")
        return Appended(0, base, -1)

    def _note(self, what: str) -> None:
        if what not in self.handled[-4:]:
            self.handled.append(what)

    # What its transaction coordinator is asked for.

    async def lend(self) -> ProducerEpoch:
        """Fence whoever writes, as the driver does before it lends the id."""
        self.lent += 1
        return await self.init()

    async def _scripted(self, call: str) -> Any:
        await self.loop.sleep(0.001)
        script = self.coordinator[call]
        answer = script.popleft() if script else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def init(self, expected: ProducerEpoch = NOBODY) -> ProducerEpoch:
        await self._scripted("init")
        if expected not in (NOBODY, self.holder):
            raise FencedError("cluster south: somebody else writes")
        self._end("aborted")
        self.holder = ProducerEpoch(1, self.holder.epoch + 1)
        self.handled.append("init")
        return self.holder

    async def add(self, holder: ProducerEpoch, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        refused: Mapping[TopicPartition, int] | None = await self._scripted("add")
        if holder != self.holder:
            raise FencedError("cluster south: somebody else writes")
        if refused:
            return refused
        self.inside.update(partitions)
        self.handled.append("add " + ", ".join(map(str, sorted(partitions))))
        return {}

    async def end(self, holder: ProducerEpoch, *, commit: bool) -> bool:
        known = await self._scripted("end")
        if holder != self.holder:
            raise FencedError("cluster south: somebody else writes")
        if known is False or not self.inside:
            return False
        self._end("committed" if commit else "aborted")
        self.handled.append("commit" if commit else "abort")
        return True

    def _end(self, state: str) -> None:
        for at in self.inside:
            log = self.logs.setdefault(at, [])
            for entry in log:
                if entry.state == "open":
                    entry.state = state
            log.append(Entry(None, state))
        self.inside.clear()

    # What consumers see.

    def committed(self, at: TopicPartition) -> list[bytes]:
        return [
            entry.value for entry in self.logs.get(at, ()) if entry.state == "committed" and entry.value is not None
        ]
