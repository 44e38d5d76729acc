"""A target of one broker, in this process and in virtual time: it keeps logs as brokers do, and fails as asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from harness.virtual.log import VirtualLog
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
        self.logs: dict[TopicPartition, VirtualLog] = {}
        self.answers: dict[TopicPartition, deque[int]] = {}
        self.coordinator: dict[str, deque[Any]] = {"init": deque(), "add": deque(), "end": deque()}
        self.leaderless: set[TopicPartition] = set()
        self.hanging_s = 0.5
        self.holder = ProducerEpoch(1, -1)
        self.inside: set[TopicPartition] = set()
        self.handled: list[str] = []
        """What the coordinator did, in order, and in between the first append to each partition."""
        self.lent = 0

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
        header, _ = read_back(data)
        if at in self.leaderless:
            return Appended(Code.NOT_LEADER_OR_FOLLOWER, -1, -1)
        if (header.producer_id, header.producer_epoch) != self.holder:
            return Appended(Code.INVALID_PRODUCER_EPOCH, -1, -1)
        if at not in self.inside:
            return Appended(Code.INVALID_TXN_STATE, -1, -1)
        code, base = self.logs.setdefault(at, VirtualLog()).append(data)
        if code == Code.NONE:
            self._note(f"append {at}")
        return Appended(code, base, -1)

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
        self._end(commit=False)
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
        self._end(commit=commit)
        self.handled.append("commit" if commit else "abort")
        return True

    def _end(self, *, commit: bool) -> None:
        for at in self.inside:
            self.logs.setdefault(at, VirtualLog()).mark(self.holder.producer_id, self.holder.epoch, commit=commit)
        self.inside.clear()

    # What consumers see.

    def committed(self, at: TopicPartition) -> list[bytes | None]:
        return self.logs[at].values(committed=True) if at in self.logs else []
