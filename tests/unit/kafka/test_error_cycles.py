"""Errors hold nothing that holds them: what they hold is free at once, also where the collector does not come by."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.unit.kafka.producer.test_topic_writer import TOPIC, Target
from twinlog.errors import ClusterError
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.topic_writer import TopicWriter

ROUNDS = 20


class CountedError(ClusterError):
    """`alive` are all that something still refers to."""

    alive: ClassVar[weakref.WeakSet[CountedError]] = weakref.WeakSet()

    def __init__(self) -> None:
        super().__init__("counted")
        self.alive.add(self)


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop(1) as loop:
        yield loop


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    CountedError.alive.clear()
    gc.disable()
    yield
    gc.enable()


async def fail(loop: Loop, seconds: float) -> None:
    await loop.sleep(seconds)
    raise CountedError


def test_an_error_of_a_coroutine_that_was_awaited_is_free(loop: VirtualLoop) -> None:
    async def await_one(seconds: float) -> None:
        spawned = loop.spawn(fail, loop, seconds)
        try:
            if not seconds:
                # It has ended before.
                await loop.sleep(0.1)
            await spawned
        finally:
            del spawned

    async def await_all() -> int:
        caught = 0
        for seconds in (0.0, 0.1) * ROUNDS:
            try:
                await await_one(seconds)
            except CountedError:
                caught += 1
        return caught

    assert loop.run(await_all) == 2 * ROUNDS
    assert len(CountedError.alive) == 0


def test_errors_of_coroutines_that_were_gathered_are_free(loop: VirtualLoop) -> None:
    async def gather() -> None:
        questions = [loop.spawn(fail, loop, seconds) for seconds in (0.2, 0.1, 0.0)]
        await loop.gather(questions)

    async def gather_all() -> int:
        caught = 0
        for _ in range(ROUNDS):
            try:
                await gather()
            except CountedError:
                caught += 1
        return caught

    assert loop.run(gather_all) == ROUNDS
    assert len(CountedError.alive) == 0


def test_what_was_gathered_comes_in_order_and_the_first_error_after_all_have_ended(loop: VirtualLoop) -> None:
    ended: list[float] = []

    async def wait(seconds: float) -> float:
        await loop.sleep(seconds)
        ended.append(seconds)
        if seconds == 0.2:
            raise ClusterError("the second")
        if seconds == 0.1:
            raise ClusterError("the third")
        return seconds

    async def gather(*all_of_them: float) -> list[Any]:
        return await loop.gather([loop.spawn(wait, seconds) for seconds in all_of_them])

    assert loop.run(gather, 0.5, 0.3, 0.4) == [0.5, 0.3, 0.4]
    with pytest.raises(ClusterError, match="the second"):
        loop.run(gather, 0.3, 0.2, 0.1, 0.6)
    assert 0.6 in ended


def test_errors_of_appends_to_a_topic_of_ours_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target()

    async def refused(*_: Any, **__: Any) -> Any:
        raise CountedError

    monkeypatch.setattr(target, "append", refused)
    client: Any = target
    writer = TopicWriter(client, TOPIC, 1.0, "the test")
    caught = 0
    for _ in range(ROUNDS):
        appending = writer.append([(b"key", b"value")])
        try:
            appending.send(None)
        except CountedError:
            caught += 1
    assert caught == ROUNDS
    assert len(CountedError.alive) == 0
