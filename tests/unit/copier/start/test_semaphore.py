"""What may be done at a time: so much in all, so much of one kind, and in order."""

from __future__ import annotations

from twinlog.copier.start.stored_maps import KeyedSemaphore
from twinlog.kafka.net.loop import Loop


def test_what_hangs_holds_up_only_its_own_kind(loop: Loop) -> None:
    permits = KeyedSemaphore(loop, 4, 2)
    done: list[str] = []
    answers = loop.signal()

    async def work(key: str, name: str) -> None:
        async with permits.make_permit(key):
            if key == "hangs":
                await answers.wait()
            await loop.sleep(0.001)
            done.append(name)

    async def play() -> None:
        asked = [loop.spawn(work, "hangs", f"hangs {number}") for number in range(4)]
        others = [loop.spawn(work, "goes", f"goes {number}") for number in range(6)]
        await loop.gather(others)
        assert done == [f"goes {number}" for number in range(6)]
        for _ in asked:
            answers.set()
            await loop.sleep(0.01)
        await loop.gather(asked)

    loop.run(play)
    assert len(done) == 10


def test_who_works_on_does_not_overtake_who_waits(loop: Loop) -> None:
    permits = KeyedSemaphore(loop, 1, 1)
    order: list[str] = []

    async def work(name: str, times: int) -> None:
        for _ in range(times):
            async with permits.make_permit(name):
                await loop.sleep(0.001)
                order.append(name)

    async def play() -> None:
        await loop.gather([loop.spawn(work, "many", 4), loop.spawn(work, "few", 2)])

    loop.run(play)
    assert order == ["many", "few", "many", "few", "many", "many"]
