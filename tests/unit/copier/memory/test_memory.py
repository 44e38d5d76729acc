"""A copier's memory: what is asked for, received and waiting stays within one budget, and everybody gets some of it."""

from __future__ import annotations

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.copier.partitions import NotedPartition
from twinlog.copier import memory as rules
from twinlog.copier.memory import CopierMemory
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.kafka.net.frame_memory import FrameMemory
from twinlog.kafka.producer.appends import STEP_BYTES, Append, Markers
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TopicName, TopicPartition

KB, MB = 1 << 10, 1 << 20
LIMIT = 16 * MB


class World:
    """A copier's partitions and their memory; `receive` is an answer of one broker with batches for some of them."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.frames = FrameMemory(self.clock.monotonic)
        self.parts: dict[TopicPartition, PartitionCopy] = {}
        self.memory = CopierMemory(LIMIT, self.frames, self.parts, self.clock.monotonic)

    def part(self, number: int) -> PartitionCopy:
        at = TopicPartition(TopicName("shop"), number)
        if at not in self.parts:
            grant = Grant(at, at, None, MB, None)
            self.parts[at] = NotedPartition(grant, Position(0, 0), self.clock, memory=self.memory).part
        return self.parts[at]

    def receive(self, sizes: dict[int, int], *, size: int = 0) -> None:
        """An answer of `size` bytes or just what it has for partitions."""
        frame = self.frames.allocate_frame(max(size, sum(sizes.values())))
        at = 0
        for number, length in sizes.items():
            part = self.part(number)
            first = part.read.offset
            part.read.offset += 1
            append = Append(frame[at : at + length], 1, SourceOffset(first), SourceOffset(first + 1), 0, ((first, 1),))
            at += length
            self.memory.track_waiting([append])
            part.queue.put([append])

    def wants(self) -> list[int]:
        """Partitions that may be read now."""
        room = min(8 * MB, self.memory.room_bytes)
        return [at.partition for at, part in self.parts.items() if part.fetch_position(room) is not None]


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_asked_for_counts_until_it_came(world: World) -> None:
    assert world.memory.share_bytes(1) == LIMIT // 4
    assert world.memory.share_bytes(8) == LIMIT // 32
    assert world.memory.reserve(1, 4 * MB) == 4 * MB
    assert world.memory.used_bytes == 4 * MB
    world.memory.release(1)
    assert world.memory.used_bytes == 0


def test_markers_count_though_they_have_no_batch(world: World) -> None:
    part = world.part(0)
    steps = [
        Append(bytearray(), 1, SourceOffset(at), SourceOffset(at + 1), -1, ((SourceOffset(at), 1),), step=Markers())
        for at in range(1_000)
    ]
    world.memory.track_waiting(steps)
    part.queue.put(steps)
    assert part.queue.queued_bytes == world.memory.used_bytes == 1_000 * STEP_BYTES
    assert part.fetch_position(1_000 * STEP_BYTES) is None
    del steps
    part.queue.drop_pending()
    assert (part.queue.queued_bytes, world.memory.used_bytes) == (0, 0)


def test_half_of_the_room_is_left_for_others(world: World) -> None:
    given = [world.memory.reserve(node, LIMIT) for node in range(3)]
    assert given == [LIMIT // 2, LIMIT // 4, LIMIT // 8]


def test_an_answer_counts_whole_while_anything_of_it_waits(world: World) -> None:
    world.receive({0: 10 * KB}, size=5 * MB)
    assert world.memory.used_bytes == 5 * MB
    world.part(0).queue.drop_pending()
    assert world.memory.used_bytes == 0


def test_while_there_is_room_nothing_is_copied(world: World) -> None:
    world.receive({0: MB, 1: MB})
    assert world.memory.reserve(1, MB) == MB
    assert all(type(append.data) is memoryview for part in world.parts.values() for append in part.queue.waiting())


def test_one_that_waits_does_not_hold_on_to_all_the_others(world: World) -> None:
    for _ in range(7):
        world.receive({0: 10 * KB, 1: 2 * MB - 10 * KB})
        world.part(1).queue.drop_pending()
    assert world.memory.used_bytes > LIMIT * 3 // 4
    assert world.memory.reserve(1, 4 * MB) == 4 * MB
    # What waits is 70 KB, and that is what counts.
    assert world.memory.used_bytes == 4 * MB + 70 * KB
    assert [len(append.data) for append in world.part(0).queue.waiting()] == [10 * KB] * 7
    world.part(0).queue.drop_pending()
    assert world.memory.used_bytes == 4 * MB


def test_an_answer_that_is_nearly_done_with_is_freed_early(world: World) -> None:
    for number in range(3):
        world.receive({number: 2 * MB, number + 3: MB // 2})
        world.receive({6: MB // 2})
    for number in range(3):
        world.part(number).queue.drop_pending()
    # Half of the budget, by answers of which a fifth waits.
    assert world.memory.used_bytes == 9 * MB
    assert world.memory.reserve(1, MB) == MB
    world.memory.release(1)
    assert world.memory.used_bytes == 3 * MB
    assert [type(append.data) for append in world.part(6).queue.waiting()] == [memoryview] * 3


def test_when_it_is_tight_batches_are_copied_as_they_come(world: World) -> None:
    world.receive({0: 13 * MB})
    world.receive({1: 10 * KB}, size=2 * MB)
    assert world.memory.used_bytes == 13 * MB + 10 * KB


def test_a_built_batch_counts_as_well(world: World) -> None:
    append = Append(bytearray(MB), 1, SourceOffset(0), SourceOffset(1), 0, ((0, 1),))
    world.memory.track_waiting([append])
    assert world.memory.used_bytes == MB
    del append
    assert world.memory.used_bytes == 0


@pytest.mark.parametrize(("shared", "held"), [(MB // 8, 0), (MB, 4 * MB)])
def test_a_few_unchanged_batches_beside_built_batches_do_not_hold_their_answer(
    world: World, shared: int, held: int
) -> None:
    frame = world.frames.allocate_frame(4 * MB)
    data: list[bytearray | memoryview] = [bytearray(MB), frame[:shared], bytearray(MB)]
    del frame
    appends = [Append(one, 1, SourceOffset(0), SourceOffset(1), 0, ((0, 1),)) for one in data]
    del data
    world.memory.track_waiting(appends)
    assert world.memory.used_bytes == 2 * MB + (held or shared)
    assert world.frames.used_bytes == held


def test_many_that_wait_leave_room_for_one_more(world: World) -> None:
    received = 0
    for turn in range(2000):
        for number in range(40):
            world.part(number)
        wants = world.wants()
        size = world.memory.reserve(1, world.memory.share_bytes(1))
        world.memory.release(1)
        if not size or not wants:
            break
        world.receive({wants[turn % len(wants)]: size // 2})
        received += size // 2
        assert world.memory.used_bytes <= LIMIT
    assert LIMIT // 2 < received <= LIMIT
    # A partition that has nothing waiting may be read still.
    world.part(41)
    assert 41 in world.wants()


def test_the_longest_waiting_partition_gives_way(world: World) -> None:
    for number in range(32):
        world.receive({number: 512 * KB})
        world.clock.now += 0.01
    assert not world.memory.reserve(1, MB)
    assert len(world.parts) == 32
    world.clock.now += rules.STUCK_S + 1
    assert world.memory.reserve(1, MB) == MB
    world.memory.release(1)
    gone = [at.partition for at, part in world.parts.items() if part.queue.idle]
    assert gone == list(range(16))
    first = world.part(0)
    assert first.read.offset == 0
    # It is read again, but not at once.
    assert first.fetch_position(MB) is None
    assert first.held_back
    world.clock.now += rules.STUCK_S + 1
    assert first.fetch_position(MB) is not None


def test_a_partition_that_gives_way_again_waits_longer(world: World) -> None:
    part = world.part(0)
    for longer in (2, 4, 8, 16, 32, 32):
        world.receive({0: 512 * KB})
        part.free_memory(world.clock.now)
        world.clock.now += longer - 0.1
        assert part.fetch_position(MB) is None
        world.clock.now += 0.2
        assert part.fetch_position(MB) is not None


def test_no_partition_gives_way_while_the_target_takes_appends(world: World) -> None:
    for number in range(30):
        world.receive({number: 512 * KB})
    world.clock.now += rules.STUCK_S + 1
    assert world.memory.reserve(1, MB)
    world.memory.release(1)
    world.receive({31: MB})
    world.clock.now += rules.STUCK_S / 2
    assert not world.memory.reserve(1, MB)
    assert not any(part.queue.idle for part in world.parts.values())
