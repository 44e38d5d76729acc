"""The threads in which the herder is asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from harness.wait import wait_for
from twinlog.connect.rest.thread_pools import ThreadPool

DEADLINE_S = 60.0


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    pool = ThreadPool("test", 2)
    yield pool
    pool.close()
    # The threads of the next test have the same names.
    wait_for(lambda: not threads(), DEADLINE_S, "the threads have ended")


def fail(wrong: BaseException) -> None:
    raise wrong


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("rest-test-")]


def test_a_call_returns_or_raises_in_another_thread(pool: ThreadPool) -> None:
    async def calls() -> None:
        assert await pool.run(lambda: threading.current_thread().name) == "rest-test-1"
        with pytest.raises(KeyError):
            await pool.run(partial(fail, KeyError("x")))
        for wrong in (StopIteration(), SystemExit()):
            with pytest.raises(RuntimeError, match=type(wrong).__name__):
                await pool.run(partial(fail, wrong))
        assert await pool.run(lambda: threading.current_thread().name) in ("rest-test-1", "rest-test-2")

    asyncio.run(calls())


def test_there_are_as_many_threads_as_calls_up_to_the_bound(pool: ThreadPool) -> None:
    go_on = threading.Event()
    begun: list[int] = []

    async def calls() -> None:
        def wait(number: int) -> int:
            begun.append(number)
            go_on.wait(DEADLINE_S)
            return number

        running = [asyncio.ensure_future(pool.run(partial(wait, number))) for number in range(5)]
        while len(begun) < 2:
            await asyncio.sleep(0.01)
        assert len(threads()) == 2
        running[4].cancel()
        go_on.set()
        assert await asyncio.gather(*running[:4]) == [0, 1, 2, 3]

    asyncio.run(calls())
    assert sorted(begun) == [0, 1, 2, 3]


def test_an_answer_that_nobody_waits_for_is_left(pool: ThreadPool) -> None:
    go_on = threading.Event()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await pool.run(lambda: go_on.wait(DEADLINE_S))

    asyncio.run(leave())
    go_on.set()
    assert asyncio.run(pool.run(lambda: 1)) == 1


def refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_calls_go_on_once_the_system_has_threads_again(pool: ThreadPool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def call() -> int:
        async with asyncio.timeout(DEADLINE_S):
            return await pool.run(lambda: 1)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                asyncio.run(call())
    assert asyncio.run(call()) == 1


def test_a_call_waits_for_a_busy_thread_where_the_system_has_no_further_thread(
    pool: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, busy = threading.Event(), threading.Event()

    def wait() -> bool:
        busy.set()
        return go_on.wait(DEADLINE_S)

    async def calls() -> None:
        first = asyncio.ensure_future(pool.run(wait))
        while not busy.is_set():
            await asyncio.sleep(0.01)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            second = asyncio.ensure_future(pool.run(lambda: 2))
            await asyncio.sleep(0)
        assert len(threads()) == 1
        go_on.set()
        assert (await first, await second) == (True, 2)

    asyncio.run(calls())


def test_its_threads_end_with_it(pool: ThreadPool) -> None:
    asyncio.run(pool.run(lambda: 1))
    pool.close()
    wait_for(lambda: not threads(), DEADLINE_S, "the threads to end")
