"""Timers of the selector: called in their order, not at all once cancelled, and not kept for long then."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from harness.virtual.loop import VirtualLoop, virtual_loop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop(1) as made:
        yield made


class Called:
    def __init__(self) -> None:
        self.numbers: list[int] = []

    def add(self, number: int) -> None:
        self.numbers.append(number)

    async def add_later(self, number: int) -> None:
        self.add(number)


def test_functions_methods_and_coroutines_are_called_in_order(loop: VirtualLoop) -> None:
    called = Called()
    net = loop.net
    net.call_later(0.3, lambda: called.add(3))

    async def second() -> None:
        await loop.sleep(0.05)
        called.add(2)

    net.call_later(0.2, second)
    net.call_later(0.1, lambda: called.add_later(1))
    loop.run(loop.sleep, 1.0)
    assert called.numbers == [1, 2, 3]


def test_a_cancelled_timer_is_not_called_and_a_moved_one_once(loop: VirtualLoop) -> None:
    called = Called()
    net = loop.net
    timers = [net.call_later(0.1 * number, lambda number=number: called.add(number)) for number in range(1, 6)]
    net.cancel(timers[0])
    net.cancel(timers[3])
    net.reschedule(loop.clock.monotonic() + 0.9, timers[1])
    loop.run(loop.sleep, 2.0)
    assert called.numbers == [3, 5, 2]


def test_a_timer_that_fails_ends_no_other(loop: VirtualLoop) -> None:
    called = Called()

    def fail() -> None:
        raise ValueError("broken")

    loop.net.call_later(0.1, fail)
    loop.net.call_later(0.2, lambda: called.add(2))
    loop.run(loop.sleep, 1.0)
    assert called.numbers == [2]


def test_what_a_cancelled_timer_would_have_used_is_free_and_few_of_them_stay(loop: VirtualLoop) -> None:
    """Each request has a timer of half a minute, and there are thousands of requests a second."""
    held = Called()
    seen = weakref.ref(held)
    timer = loop.net.call_later(30.0, lambda held=held: held.add(1))
    del held
    loop.net.cancel(timer)
    gc.collect()
    assert seen() is None
    for _ in range(5_000):
        loop.net.cancel(loop.net.call_later(30.0, lambda: None))
    assert len(loop.net._scheduled) < 200
    assert loop.net.next_timer() is None


def test_a_rest_looks_at_no_socket_until_its_end_or_the_next_timer(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, net = Called(), loop.net
    rests: list[float] = []
    begun = loop.clock.monotonic()

    def rest(seconds: float) -> None:
        rests.append(round(seconds, 6))
        loop.clock.sleep(seconds)

    monkeypatch.setattr(net, "_rest", rest)

    async def first() -> None:
        net.call_soon(lambda: called.add(1))
        await loop.rest(0.002)
        called.add(3)

    net.call_later(0.0005, lambda: called.add(2))
    loop.run(first)
    assert rests == [0.0005]
    assert called.numbers == [1, 2, 3]
    loop.run(loop.rest, 0.0015)
    loop.run(loop.sleep, 0.0015)
    assert rests == [0.0005, 0.0015]
    assert round(loop.clock.monotonic() - begun, 6) == 0.005
