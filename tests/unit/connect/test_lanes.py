"""The threads in which the herder is asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from harness.wait import wait_for
from twinlog.connect.rest.lanes import Lane

DEADLINE_S = 60.0


@pytest.fixture
def lane() -> Iterator[Lane]:
    lane = Lane("test", 2)
    yield lane
    lane.close()


def fail(wrong: BaseException) -> None:
    raise wrong


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("rest-test-")]


def test_a_call_returns_or_raises_in_another_thread(lane: Lane) -> None:
    async def calls() -> None:
        assert await lane.run(lambda: threading.current_thread().name) == "rest-test-1"
        with pytest.raises(KeyError):
            await lane.run(partial(fail, KeyError("x")))
        for wrong in (StopIteration(), SystemExit()):
            with pytest.raises(RuntimeError, match=type(wrong).__name__):
                await lane.run(partial(fail, wrong))
        assert await lane.run(lambda: threading.current_thread().name) in ("rest-test-1", "rest-test-2")

    asyncio.run(calls())


def test_there_are_as_many_threads_as_calls_up_to_the_bound(lane: Lane) -> None:
    go_on = threading.Event()
    begun: list[int] = []

    async def calls() -> None:
        def wait(number: int) -> int:
            begun.append(number)
            go_on.wait(DEADLINE_S)
            return number

        running = [asyncio.ensure_future(lane.run(partial(wait, number))) for number in range(5)]
        while len(begun) < 2:
            await asyncio.sleep(0.01)
        assert len(threads()) == 2
        running[4].cancel()
        go_on.set()
        assert await asyncio.gather(*running[:4]) == [0, 1, 2, 3]

    asyncio.run(calls())
    assert sorted(begun) == [0, 1, 2, 3]


def test_an_answer_that_nobody_waits_for_is_left(lane: Lane) -> None:
    go_on = threading.Event()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await lane.run(lambda: go_on.wait(DEADLINE_S))

    asyncio.run(leave())
    go_on.set()
    assert asyncio.run(lane.run(lambda: 1)) == 1


def test_its_threads_end_with_it(lane: Lane) -> None:
    asyncio.run(lane.run(lambda: 1))
    lane.close()
    wait_for(lambda: not threads(), DEADLINE_S, "the threads to end")
