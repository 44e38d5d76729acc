"""Transactions of a copier whose target refuses, is silent, forgets and fences: every record is committed once."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.virtual.loop import VirtualLoop, VirtualWorld
from tests.source_log import New, SourceLog
from tests.unit.task.scripted_target import LOST_ANSWER, ScriptedTarget
from twinlog.errors import ClusterError, FencedError, RefusedError, TwinlogError
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.lease.grant import Grant
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.offsets.positions import Position
from twinlog.settings.flow import (
    AdminSettings,
    ClientSettings,
    ConsumerSettings,
    FlowSettings,
    ProducerSettings,
)
from twinlog.task import transactions as module
from twinlog.task.hooks import Hooks
from twinlog.task.partition import PartitionCopy
from twinlog.task.transactions import LentId, Transactions
from twinlog.write.appender import TargetAppender
from twinlog.write.appends import CopyRules
from twinlog.write.queue import NO_ANSWER

CLIENT = ClientSettings((), retry_backoff_ms=10, retry_backoff_max_ms=100)
SETTINGS = FlowSettings(
    source=Alias("north"),
    target=Alias("south"),
    consumer=ConsumerSettings(CLIENT),
    producer=ProducerSettings(CLIENT, merge_batch_bytes=0),
    source_admin=AdminSettings(CLIENT),
    target_admin=AdminSettings(CLIENT),
    exactly_once="enabled",
)
RULES = CopyRules(max_batch_bytes=1 << 20, merge_batch_bytes=0, oversized="skip")
POSITIONS = TopicPartition(TopicName(SETTINGS.positions_topic), 0)
RECORDS = 20
BATCH = 4
"""Records in one source batch."""


class Copying:
    """What a copier does exactly once with some partitions of a source that always answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, partitions: int = 1) -> None:
        self.loop = VirtualLoop(VirtualWorld())
        self.loop.crashed = self._crashed
        self.target = ScriptedTarget(self.loop, SETTINGS)
        self.failures: list[TwinlogError] = []
        self.crashes: list[BaseException] = []
        self.events: list[str] = []
        self.looked: list[set[PartitionCopy]] = []
        self.timeout_ms = SETTINGS.producer.transaction_timeout_ms
        self.partitions: dict[TopicPartition, PartitionCopy] = {}
        self._logs: dict[TopicPartition, SourceLog] = {}
        self._pumping: set[TopicPartition] = set()
        target: Any = self.target
        target.transactional_id = "north-mm2-0"
        target.timeout_ms = self.timeout_ms
        monkeypatch.setattr(module, "TransactionCoordinator", lambda *_: target)

        async def look(_client: object, parts: Any, _producer_id: int) -> None:
            self.looked.append(set(parts))
            for part in parts:
                part.truncated(None)

        monkeypatch.setattr(module, "look_at_losses", look)
        self.appender = TargetAppender(
            self.loop,
            target,
            max_in_flight=5,
            max_request_bytes=1 << 20,
            max_in_flight_bytes=1 << 20,
            request_timeout_s=30.0,
            allowed=lambda: True,
            lost=self.failures.append,
        )
        self.transactions = Transactions(
            self.loop,
            target,
            SETTINGS,
            self.partitions,
            self.appender,
            lend=self._lend,
            mark=self._mark,
            lost=self.failures.append,
            event=lambda _, text: self.events.append(text),
        )
        self._hooks: Hooks[PartitionCopy] = Hooks(
            keep=lambda _: None,
            offer=self.transactions.offer,
            more=self._more,
            moved=self.transactions.moved,
            far_target=lambda: False,
            leaderless=self.appender.refresh,
            pause=self._unexpected,
            check=self._unexpected,
            resolve=self.transactions.abort,
            lost=self._unexpected,
            limit=lambda part: self.loop.start(self._allow, part),
            failed=lambda _, error: self.failures.append(error),
            foreign=self._unexpected,
            event=lambda _, text: self.events.append(text),
            source_lacks=target.lacks,
            target_lacks=target.lacks,
        )
        self._count = partitions

    @property
    def sources(self) -> list[TopicPartition]:
        return list(self.partitions)

    def remote(self, number: int) -> TopicPartition:
        return TopicPartition(TopicName("north.shop"), number)

    def run(self, until: Callable[[], bool], most_s: float = 3_000.0) -> None:
        """Copy until something is true; the positions of partitions begin at 0 when it is called first."""

        async def play() -> None:
            if not self.partitions:
                await self._begin()
            deadline = self.loop.clock.monotonic() + most_s
            while not until():
                assert self.crashes == []
                assert self.loop.clock.monotonic() < deadline, (self.events, self.target.handled)
                await self.loop.sleep(0.01)

        self.loop.run(play)

    def release(self, timeout_s: float) -> bool:
        """Release all partitions; whether what they appended was committed in time."""

        async def play() -> bool:
            for part in self.partitions.values():
                part.leave()
            return await self.transactions.commit(self.partitions.values(), timeout_s)

        return self.loop.run(play)

    @property
    def done(self) -> bool:
        """Everything is committed, and so are the positions behind it."""
        return all(part.committed.next_source == RECORDS for part in self.partitions.values())

    def assert_copied_once(self) -> None:
        for part in self.partitions.values():
            assert self.target.committed(part.remote) == [b"%d" % number for number in range(RECORDS)]
            log = self.target.logs[part.remote]
            assert part.committed.next_target == log.end
            assert part.copied.counts.records == RECORDS
        assert (self.failures, self.crashes) == ([], [])

    def close(self) -> None:
        self.transactions.stop()
        self.appender.stop()
        self.loop.close()

    async def _begin(self) -> None:
        await self.transactions.start()
        self.appender.start(lambda: {part.remote.topic for part in self.partitions.values()})
        for number in range(self._count):
            source = TopicPartition(TopicName("shop"), number)
            log = self._logs[source] = SourceLog()
            for first in range(0, RECORDS, BATCH):
                log.batch([New(first, b"%d" % value) for value in range(first, first + BATCH)])
            self.partitions[source] = PartitionCopy(
                Grant(source, self.remote(number), None, 1 << 20, None),
                Position(0, 0),
                RULES,
                self.transactions.identity,
                producer=SETTINGS.producer,
                hooks=self._hooks,
                clock=self.loop.clock,
            )
            self._more(source)

    def _more(self, source: TopicPartition) -> None:
        if source not in self._pumping:
            self._pumping.add(source)
            self.loop.start(self._pump, source)

    async def _pump(self, source: TopicPartition) -> None:
        """Read batch by batch, as long as anybody wants more."""
        part, log = self.partitions[source], self._logs[source]
        while True:
            await self.loop.sleep(0.003)
            asked = part.fetch_position(1 << 20)
            if asked is None or asked.offset >= log.next_offset:
                break
            whole = log.fetch(asked.offset)
            records = whole[: len(whole) // max(1, len([end for end in log.ends if end > asked.offset]))]
            end = log.next_offset
            part.deliver(asked, PartitionResponse(source.partition, 0, end, end, 0, (), records))
        self._pumping.discard(source)

    async def _allow(self, part: PartitionCopy) -> None:
        """The remote topic takes large batches, whatever its broker answered once."""
        part.take_limit(1 << 20)

    async def _lend(self) -> LentId:
        return LentId("north-mm2-0", await self.target.lend())

    async def _mark(self, positions: Any) -> Any:
        return dict(positions)

    def _unexpected(self, *asked: Any) -> None:
        raise AssertionError(f"the partition asks for {asked}")

    def _crashed(self, error: BaseException) -> None:
        self.crashes.append(error)


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Copying]]:
    made: list[Copying] = []

    def make(partitions: int = 1) -> Copying:
        made.append(Copying(monkeypatch, partitions))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_records_and_their_positions_are_committed_together(copying: Callable[..., Copying]) -> None:
    one = copying(2)
    one.run(lambda: one.done)
    one.assert_copied_once()
    handled = one.target.handled
    # The position is appended behind the acknowledged records, and takes part before the commit.
    first = handled[: handled.index("commit") + 1]
    assert first[0] == "init"
    assert first.index(f"add {POSITIONS}") > max(first.index(f"append north.shop-{number}") for number in (0, 1))
    assert first[-2:] == [f"append {POSITIONS}", "commit"]
    assert one.events == []


@pytest.mark.parametrize(
    "code",
    [
        Code.TRANSACTION_ABORTABLE,
        Code.INVALID_TXN_STATE,
        Code.INVALID_PRODUCER_ID_MAPPING,
        Code.INVALID_PRODUCER_EPOCH,
        Code.PRODUCER_FENCED,
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Code.UNKNOWN_PRODUCER_ID,
        Code.DUPLICATE_SEQUENCE_NUMBER,
    ],
)
def test_a_lost_transaction_is_aborted_and_its_records_are_copied_again(
    copying: Callable[..., Copying], code: int
) -> None:
    one = copying(2)
    one.target.answers[one.remote(0)] = deque([0, code])
    one.run(lambda: one.done)
    one.assert_copied_once()
    (event,) = one.events
    assert event.startswith("north-mm2-0: aborted, its records are copied again: north.shop-0: target: ")
    assert "abort" in one.target.handled
    # Both took part, so of both it is asked whether anything was lost.
    assert [{part.remote.partition for part in parts} for parts in one.looked] == [{0, 1}]


@pytest.mark.parametrize("code", [NO_ANSWER, LOST_ANSWER, Code.NOT_LEADER_OR_FOLLOWER, Code.REQUEST_TIMED_OUT])
def test_what_passes_is_sent_again_within_the_transaction(copying: Callable[..., Copying], code: int) -> None:
    one = copying()
    one.target.answers[one.remote(0)] = deque([code, code, 0, code])
    one.run(lambda: one.done)
    one.assert_copied_once()
    assert (one.events, "abort" in one.target.handled) == ([], False)


def test_a_batch_that_is_too_large_is_cut_within_the_transaction(copying: Callable[..., Copying]) -> None:
    one = copying()
    one.target.answers[one.remote(0)] = deque([Code.MESSAGE_TOO_LARGE])
    one.run(lambda: one.done)
    one.assert_copied_once()
    assert (one.events, "abort" in one.target.handled) == ([], False)


def test_a_transaction_that_the_coordinator_forgot_is_copied_again(copying: Callable[..., Copying]) -> None:
    one = copying()
    one.target.coordinator["end"].append(False)
    one.run(lambda: one.done)
    one.assert_copied_once()
    assert one.events == [
        "north-mm2-0: aborted, its records are copied again: the coordinator no longer knows the transaction"
    ]


@pytest.mark.parametrize("call", ["init", "add", "end"])
def test_a_coordinator_that_does_not_answer_is_asked_until_it_does(copying: Callable[..., Copying], call: str) -> None:
    one = copying()
    seen: set[str | None] = set()
    if call == "init":
        # Not the first, which the driver asks for.
        one.target.answers[one.remote(0)] = deque([Code.TRANSACTION_ABORTABLE])
    one.target.coordinator[call].extend([None] * (call == "init") + [ClusterError("cluster south: away")] * 5)

    def until() -> bool:
        seen.add(one.transactions.trouble)
        return one.done

    one.run(until)
    one.assert_copied_once()
    assert "cluster south: away" in seen
    assert one.transactions.trouble is None


def test_who_was_fenced_stops(copying: Callable[..., Copying]) -> None:
    one = copying()
    one.target.coordinator["add"].append(FencedError("cluster south: somebody else writes"))
    one.run(lambda: one.transactions.ended)
    (error,) = one.failures
    assert isinstance(error, FencedError)
    assert "south.group.id must differ" in str(error)
    assert one.events == [str(error)]
    assert one.target.committed(one.remote(0)) == []
    # Nor does it commit anything for who leaves.
    assert not one.release(1.0)


def test_a_transaction_that_the_target_ended_by_itself_is_no_fence(copying: Callable[..., Copying]) -> None:
    """A producer is fenced as well by the coordinator that ends a transaction which was open for too long."""
    one = copying()
    # Answered neither, so that it takes nearly as long as the transaction may.
    target: Any = one.target
    one.timeout_ms = target.timeout_ms = 3_000
    one.target.hanging_s = 3.5
    one.target.answers[one.remote(0)] = deque([NO_ANSWER])
    one.target.coordinator["end"].append(FencedError("cluster south: somebody else writes"))
    one.run(lambda: one.done)
    one.assert_copied_once()
    (event,) = one.events
    assert "the target ended a transaction that was open for 4 s; its records are copied again" in event
    assert one.target.lent == 2


def test_a_partition_without_a_leader_holds_up_nobody(copying: Callable[..., Copying]) -> None:
    one = copying(2)
    one.target.leaderless.add(one.remote(0))
    other = TopicPartition(TopicName("shop"), 1)
    one.run(lambda: other in one.partitions and one.partitions[other].committed.next_source == RECORDS, 1.0)
    assert one.target.committed(one.remote(0)) == []
    one.target.leaderless.clear()
    one.run(lambda: one.done)
    one.assert_copied_once()
    assert one.events == []


def test_a_partition_that_the_coordinator_does_not_take_holds_up_nobody(copying: Callable[..., Copying]) -> None:
    one = copying(2)
    refused = {one.remote(0): int(Code.UNKNOWN_TOPIC_OR_PARTITION)}
    one.target.coordinator["add"].extend([refused, None, None, refused])
    one.run(lambda: one.done)
    one.assert_copied_once()
    assert one.events == []


def test_a_missing_permission_ends_the_flow(copying: Callable[..., Copying]) -> None:
    one = copying()
    one.target.coordinator["add"].append({one.remote(0): int(Code.TOPIC_AUTHORIZATION_FAILED)})
    one.run(lambda: one.transactions.ended)
    (error,) = one.failures
    assert isinstance(error, RefusedError)
    assert str(error) == "lacks WRITE topic north.shop copying to it"
    assert one.target.committed(one.remote(0)) == []


def test_appends_that_do_not_land_are_given_up(copying: Callable[..., Copying]) -> None:
    """Their partition sits out, and the others go on."""
    one = copying(2)
    one.target.answers[one.remote(0)] = deque([0, *[int(Code.NOT_LEADER_OR_FOLLOWER)] * 150])
    one.run(lambda: bool(one.events), 60.0)
    assert one.events[0].endswith("the target did not take what was appended to north.shop-0")
    one.run(lambda: one.done)
    one.assert_copied_once()


@pytest.mark.parametrize("code", [NO_ANSWER, LOST_ANSWER, Code.NOT_LEADER_OR_FOLLOWER])
def test_positions_are_sent_again(copying: Callable[..., Copying], code: int) -> None:
    one = copying()
    one.target.answers[POSITIONS] = deque([code] * 3)
    one.run(lambda: one.done)
    one.assert_copied_once()
    assert one.events == []


def test_positions_that_the_target_does_not_take_in_time_abort_the_transaction(
    copying: Callable[..., Copying],
) -> None:
    one = copying()
    one.target.answers[POSITIONS] = deque([int(Code.NOT_LEADER_OR_FOLLOWER)] * 150)
    one.run(lambda: one.done)
    one.assert_copied_once()
    assert f"the target does not acknowledge positions in {POSITIONS.topic}" in one.events[0]


@pytest.mark.parametrize("code", [Code.INVALID_PRODUCER_EPOCH, Code.TRANSACTION_ABORTABLE])
def test_positions_of_a_lost_transaction_abort_it(copying: Callable[..., Copying], code: int) -> None:
    one = copying()
    one.target.answers[POSITIONS] = deque([int(code)])
    one.run(lambda: one.done)
    one.assert_copied_once()
    assert len(one.events) == 1


@pytest.mark.parametrize("where", ["add", "append"])
def test_positions_that_may_not_be_stored_end_the_flow(copying: Callable[..., Copying], where: str) -> None:
    one = copying()
    code = int(Code.TOPIC_AUTHORIZATION_FAILED)
    if where == "add":
        one.target.coordinator["add"].extend([None, {POSITIONS: code}])
    else:
        one.target.answers[POSITIONS] = deque([code])
    one.run(lambda: one.transactions.ended)
    (error,) = one.failures
    assert str(error) == f"lacks WRITE topic {POSITIONS.topic} storing positions"
    # Without its position nothing is committed.
    assert one.target.committed(one.remote(0)) == []


def test_the_positions_topic_may_have_no_leader_for_a_while(copying: Callable[..., Copying]) -> None:
    one = copying()
    refused = {POSITIONS: int(Code.UNKNOWN_TOPIC_OR_PARTITION)}
    one.target.coordinator["add"].extend([None, refused, refused])
    one.run(lambda: one.done)
    one.assert_copied_once()
    assert one.events == []


def test_what_leaves_is_committed_first(copying: Callable[..., Copying]) -> None:
    one = copying()
    one.run(lambda: bool(one.target.logs.get(one.remote(0))))
    assert one.release(10.0)
    (part,) = one.partitions.values()
    copied = part.committed.next_source
    assert 0 < copied <= RECORDS
    assert one.target.committed(one.remote(0)) == [b"%d" % number for number in range(copied)]
    assert part.at_rest


def test_what_cannot_be_committed_in_time_is_left_behind(copying: Callable[..., Copying]) -> None:
    one = copying()
    one.target.coordinator["end"].extend([ClusterError("cluster south: away")] * 10_000)
    one.run(lambda: bool(one.target.logs.get(one.remote(0))))
    assert not one.release(2.0)
    assert one.target.committed(one.remote(0)) == []


FAULTS = (
    NO_ANSWER,
    LOST_ANSWER,
    *(Code.NOT_LEADER_OR_FOLLOWER, Code.REQUEST_TIMED_OUT, Code.CONCURRENT_TRANSACTIONS),
    *(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID, Code.TRANSACTION_ABORTABLE),
    *(Code.INVALID_TXN_STATE, Code.INVALID_PRODUCER_EPOCH),
)


@pytest.mark.parametrize("course", range(12))
def test_whatever_happens_every_record_is_committed_once(
    copying: Callable[..., Copying], course: int, chance: random.Random
) -> None:
    one = copying(3)

    def script(most: int, faults: tuple[Any, ...], share: float) -> deque[Any]:
        return deque(chance.choice(faults) if chance.random() < share else None for _ in range(chance.randrange(most)))

    codes = tuple(map(int, FAULTS))
    for number in range(3):
        faults = script(25, codes, 0.5)
        one.target.answers[one.remote(number)] = deque(code or 0 for code in faults)
    one.target.answers[one.remote(chance.randrange(3))].appendleft(int(Code.MESSAGE_TOO_LARGE))
    one.target.answers[POSITIONS] = deque(code or 0 for code in script(15, codes, 0.4))
    away = ClusterError("cluster south: away")
    leaderless = {one.remote(chance.randrange(3)): int(Code.NOT_LEADER_OR_FOLLOWER)}
    one.target.coordinator["init"].extend([None, *script(5, (away,), 0.5)])
    one.target.coordinator["add"].extend(script(15, (away, leaderless), 0.4))
    one.target.coordinator["end"].extend(script(15, (away, False), 0.4))
    one.run(lambda: one.done)
    one.assert_copied_once()
