"""Memory of frames is never given out twice while somebody can see it, and is given out again when nobody can."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.virtual.clock import VirtualClock
from twinlog.kafka.net.frame_memory import KEEP_S, LARGE_BYTES, FrameMemory

MB = 1 << 20
MOST_BYTES = 4 * MB
SIZES = st.sampled_from((1, LARGE_BYTES - 1, LARGE_BYTES, MB, MB + 1, MOST_BYTES, MOST_BYTES + 1))
# Take a frame of a size and keep a part of it, or drop the oldest part that is kept.
STEPS = st.lists(st.tuples(SIZES, st.floats(0, 1)) | st.none(), max_size=30)


@settings(deadline=None)
@given(STEPS)
def test_frames_in_use_are_left_alone(steps: list[tuple[int, float] | None]) -> None:
    memory = FrameMemory(VirtualClock().monotonic, MOST_BYTES)
    held: list[tuple[memoryview, int]] = []
    for number, step in enumerate(steps):
        if step is None:
            del held[:1]
            continue
        size, where = step
        frame = memory.allocate_frame(size)
        assert len(frame) == size
        assert not frame.readonly
        at = min(int(size * where), size - 1)
        part = frame[at : at + 8]
        part[0] = number
        held.append((part, number))
        assert memory.kept_bytes <= MOST_BYTES
    assert all(part[0] == number for part, number in held)


def test_the_same_memory_serves_one_frame_after_the_other() -> None:
    memory = FrameMemory(VirtualClock().monotonic)
    first = memory.allocate_frame(3 * MB)
    first[0] = 7
    part = first[MB : MB + 1]
    del first
    other = memory.allocate_frame(3 * MB)
    assert other[0] == 0
    del part
    assert memory.allocate_frame(2 * MB)[0] == 7
    assert memory.kept_bytes == 6 * MB


def test_small_memory_makes_room_for_larger() -> None:
    memory = FrameMemory(VirtualClock().monotonic, MOST_BYTES)
    small = [memory.allocate_frame(MB) for _ in range(MOST_BYTES // MB)]
    assert memory.kept_bytes == MOST_BYTES
    # All in use: this frame is on its own.
    assert len(memory.allocate_frame(2 * MB)) == 2 * MB
    assert memory.kept_bytes == MOST_BYTES
    del small[1:]
    memory.allocate_frame(2 * MB)
    assert memory.kept_bytes == 3 * MB


def test_nothing_is_kept_once_frames_are_small() -> None:
    clock = VirtualClock()
    memory = FrameMemory(clock.monotonic)
    memory.allocate_frame(MB)
    memory.allocate_frame(100)
    assert memory.kept_bytes == MB
    clock.now += KEEP_S + 1
    memory.allocate_frame(100)
    assert memory.kept_bytes == 0
