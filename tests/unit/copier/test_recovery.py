"""A partition that one of its clusters lost track of is looked at once, copies nothing meanwhile, and goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.turns import let_others_go_on
from tests.unit.copier.partitions import NotedPartition
from twinlog.clock import SYSTEM
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.recovery import Recovery
from twinlog.copier.start.producer_ids import LAST_EPOCH, ProducerIds
from twinlog.copier.start.start_position import StartPosition
from twinlog.errors import CopyError
from twinlog.kafka.net.loop import Loop, Signal
from twinlog.kafka.producer.append_queue import MAX_WINDOW
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import SentAppend
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.types import SourceOffset, TopicName, TopicPartition

SOURCE, REMOTE = TopicPartition(TopicName("shop"), 0), TopicPartition(TopicName("north.shop"), 0)


class ScriptedGapCheck:
    """Finds a gap up to offset 10; notes at which positions it was asked, and whether the partition rested then."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.part: PartitionCopy
        self.asked: list[Position] = []
        self.rested: list[bool] = []

    async def find_position(self, position: Position, *_: Any) -> Position:
        self.asked.append(position)
        await self._loop.sleep(0.02)
        self.rested.append(self.part.paused and self.part.at_rest)
        return replace(position, next_source=SourceOffset(10))


def checked_part(*, transactional: bool = False) -> PartitionCopy:
    """A partition that does not read any more, with one batch on its way."""
    identity = ProducerIdentity(1, 0, transactional)
    part = NotedPartition(Grant(SOURCE, REMOTE, None, 1 << 20, None), Position(0, 0), SYSTEM, identity=identity).part
    data = encode_batch([(0, record_body(b"k", b"v", ()))])
    part.queue.put([Append(data, 1, SourceOffset(0), SourceOffset(1), 0, ((SourceOffset(0), 1),))])
    part.pause()
    return part


def recovery(
    loop: Loop, part: PartitionCopy, *, moved: Signal | None = None, settings: Any = None, **parts: Any
) -> Recovery:
    """One that needs only the `parts` that are given; the copier holds its partition to the end."""
    context: Any = SimpleNamespace(loop=loop, settings=settings, stopped=False, moved=moved or loop.signal())
    unused: dict[str, Any] = dict.fromkeys(("gap_check", "start_positions", "ids", "committer", "reader"))
    return Recovery(context, {part.source: part}, **{**unused, **parts})


def test_a_partition_is_checked_once_and_rests_meanwhile(loop: Loop) -> None:
    part, gap_check, moved = checked_part(), ScriptedGapCheck(loop), loop.signal()
    gap_check.part = part
    checks = recovery(loop, part, gap_check=gap_check, moved=moved)

    async def play() -> None:
        first = loop.spawn(checks.check_source, part, -1)
        await let_others_go_on(loop)
        assert gap_check.asked == []
        # The target lost track of the producer: it begins anew where it was, and the source refuses that again.
        part.queue.clear(ProducerIdentity(1, 1))
        part.seek(part.acknowledged)
        second = loop.spawn(checks.check_source, part, -1)
        await loop.gather([first, second])
        assert not part.paused
        assert part.acknowledged.next_source == 10
        # Another gap is another matter.
        await checks.check_source(part, -1)

    loop.run(play)
    assert [position.next_source for position in gap_check.asked] == [0, 10]
    assert gap_check.rested[0]


class StartPositions:
    """Finds everything up to offset 7 on the target, when asked for the second time; `meanwhile` happens before."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self._meanwhile = meanwhile
        self.asked = 0

    async def find_positions(self, grants: Sequence[Grant]) -> StartPosition:
        self.asked += 1
        self._meanwhile()
        return StartPosition({grant.source: Position(7, 7) for grant in grants} if self.asked > 1 else {}, {})


def resolve_again(
    loop: Loop,
    part: PartitionCopy,
    start_positions: StartPositions,
    stored: list[Writer | None] | None = None,
    committer: Callable[[], object] = lambda: None,
) -> list[tuple[int, int]]:
    """Resolve a partition; returns the producers that the target made for it.

    `stored` gets the writers stored, and `committer` happens while each of them is.
    """
    made: list[tuple[int, int]] = []
    writers = [] if stored is None else stored

    async def store(part: PartitionCopy) -> None:
        writers.append(part.acknowledged.writer)
        committer()

    async def ask() -> tuple[int, int]:
        made.append((2, 0))
        return made[-1]

    again = recovery(
        *(loop, part),
        start_positions=start_positions,
        ids=ProducerIds(ask),
        committer=SimpleNamespace(store_position=store),
    )
    loop.run(again.resolve_again, part)
    return made


@pytest.mark.parametrize(
    ("epoch", "identity", "made"),
    [
        (5, ProducerIdentity(1, 6), []),
        (LAST_EPOCH - 1, ProducerIdentity(1, LAST_EPOCH), []),
        (LAST_EPOCH, ProducerIdentity(2, 0), [(2, 0)]),
    ],
)
def test_after_the_last_epoch_comes_another_producer(
    loop: Loop, epoch: int, identity: ProducerIdentity, made: list[tuple[int, int]]
) -> None:
    part = checked_part()
    part.queue.clear(ProducerIdentity(1, epoch))
    stored: list[Writer | None] = []
    assert resolve_again(loop, part, StartPositions(), stored) == made
    assert part.queue.identity == identity
    writer = Writer(identity.producer_id, identity.epoch, 0)
    assert stored == [None, None, writer]
    assert (part.acknowledged, part.paused) == (Position(7, 7, writer=writer), False)


def sent_behind_a_hole(part: PartitionCopy) -> SentAppend:
    """What a partition sends that goes on as another copier's writer did, after a record that the source lost."""
    data = encode_batch([(0, record_body(b"k", b"v", ()))])
    part.queue.put([Append(data, 1, SourceOffset(9), SourceOffset(10), 0, ((SourceOffset(9), 1),))])
    return part.queue.take_append()


@pytest.mark.parametrize(
    ("code", "writer", "halves"),
    [
        (0, Writer(1, 0, 6), 2),
        (Code.NOT_LEADER_OR_FOLLOWER, Writer(1, 0, 6), 1),
        (0, Writer(1, 1, 0), 1),
    ],
)
def test_doubt_goes_on_where_it_was(code: int, writer: Writer, halves: int) -> None:
    """What the target answered is in the log that was looked at; what it did not answer may be on its way still."""
    part = checked_part()
    part.set_writer(Writer(1, 0, 5), Position(3, 3))
    part.queue.record_response(sent_behind_a_hole(part), code, 3, there=True)
    part.set_writer(writer, Position(8, 4))
    sent = sent_behind_a_hole(part)
    part.queue.record_response(sent, 0, 4, there=True)
    assert part.queue.late_bytes_left == MAX_WINDOW * (1 << 20) - halves * sent.append.bytes


def test_no_other_hook_lets_it_read_before_its_writer_is_stored(loop: Loop) -> None:
    part = checked_part()
    read: list[bool] = []

    def meanwhile() -> None:
        part.resume()
        part.take_limit(1000)
        read.append(not part.paused)

    resolve_again(loop, part, StartPositions(), committer=meanwhile)
    # Twice where it stood, then with the writer that it became.
    assert read == [True, True, False]
    assert not part.paused


def test_a_check_does_not_put_back_what_was_moved_meanwhile(loop: Loop) -> None:
    part, gap_check = checked_part(), ScriptedGapCheck(loop)
    part.queue.clear(ProducerIdentity(1, 0))
    gap_check.part = part
    checks = recovery(loop, part, gap_check=gap_check)

    async def play() -> None:
        check = loop.spawn(checks.check_source, part, -1)
        while not gap_check.asked:
            await loop.sleep(0.001)
        part.set_writer(Writer(1, 1, 0), Position(3, 3))
        while not gap_check.rested:
            await loop.sleep(0.001)
        await let_others_go_on(loop)
        assert part.paused
        part.stored()
        await check

    loop.run(play)
    # It looked again, from there.
    assert [position.next_source for position in gap_check.asked] == [0, 3]
    assert part.acknowledged.next_target == 3


class Shortened:
    """A target whose log was cut back to offset 2; notes what was asked about it."""

    def __init__(self, *, anew: bool = False) -> None:
        self._anew = anew
        self.asked: list[tuple[int, int]] = []

    async def after_what_is_left(self, grant: Grant, end: int, next_source: int) -> Position:
        self.asked.append((end, next_source))
        assert grant.position is not None
        if self._anew:
            return replace(grant.position, next_source=next_source, next_target=3, remote_topic_id="another")
        return replace(grant.position, next_source=SourceOffset(2), next_target=3)


def misplaced_part(*, transactional: bool = False) -> PartitionCopy:
    """What it sent as record 5 the target has appended at offset 2, though it had acknowledged everything up to 5."""
    part = checked_part(transactional=transactional)
    part.queue.clear(ProducerIdentity(1, 0, transactional))
    part.queue.open()
    part.commit(Position(5, 5, remote_topic_id="one"))
    part.seek(part.committed)
    data = encode_batch([(0, record_body(b"k", b"v", ()))])
    part.queue.put([Append(data, 1, SourceOffset(5), SourceOffset(6), 0, ((SourceOffset(5), 1),))])
    part.queue.record_response(part.queue.take_append(), 0, 2)
    return part


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("anew", [False, True])
def test_what_the_target_lost_is_copied_again_also_when_it_is_released(loop: Loop, anew: bool, leaves: bool) -> None:
    part = misplaced_part()
    part.take_runs()
    assert (part.acknowledged.next_source, part.arrived, part.paused) == (5, False, True)
    if leaves:
        part.stop_reading()
    target: Any = Shortened(anew=anew)
    resolve_again(loop, part, target)
    assert target.asked == [(2, 6)]
    assert (part.acknowledged.next_source, part.arrived) == (6 if anew else 2, True)
    assert part.paused == leaves
    # Of a topic that was recreated it is known where the append is.
    jump = CopiedRun(part.acknowledged.next_source, 3, 0)
    assert part.take_runs() == ([CopiedRun(5, 2, 1), jump] if anew else [jump])


def test_what_the_target_lost_of_transactions_is_copied_again(loop: Loop) -> None:
    part = misplaced_part(transactional=True)
    assert (part.committed.next_source, part.paused) == (5, True)
    part.abort(ProducerIdentity(1, 1, transactional=True))
    assert part.paused
    target: Any = Shortened()
    copies = recovery(loop, part, start_positions=target)
    loop.run(copies.copy_again, part)
    assert target.asked == [(2, 5)]
    assert (part.committed.next_source, part.acknowledged.next_source, part.paused) == (2, 2, False)


def test_what_failed_meanwhile_is_not_resolved(loop: Loop) -> None:
    part = checked_part()
    start_positions = StartPositions(lambda: part.fail_partition(CopyError("too late")))
    resolve_again(loop, part, start_positions)
    assert (start_positions.asked, part.trouble, part.paused) == (1, "too late", True)
