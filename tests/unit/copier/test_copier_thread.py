"""A copier in its thread, and the driver at the other end of its line: leases that end, silence, and being dropped.

The real thread, in virtual time: the driver is a script that runs on the copier's own loop.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualSocket
from harness.virtual.requests import PRODUCE
from harness.wait import wait_for
from tests import transforms
from tests.unit.copier.copied import REMOTE, TOPIC, World, part, world
from twinlog import __version__
from twinlog.copier.copier_thread import GRACE_S, CopierThread
from twinlog.errors import DriverLostError
from twinlog.lease.channel import VALID_S, DriverAddress, LeaseTicket
from twinlog.lease.messages import (
    VERSION,
    Claim,
    CopierEnded,
    CopierHeartbeat,
    CopierHeartbeatResponse,
    CopierHello,
    CopierLogLine,
    Drop,
    Event,
    Failed,
    Grants,
    Hold,
    LeaseEnded,
    Release,
    Released,
    SetLogLevel,
    Stop,
    Welcome,
    decode,
    encode,
)
from twinlog.process.flow_levels import FLOW_LEVELS
from twinlog.settings.transform import TransformSettings

VALUES = [b"%d" % number for number in range(12)]
LATER = [b"later %d" % number for number in range(12)]


class Line(VirtualSocket):
    """The copier's end of its line; what it sends the driver takes at once."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver, ("driver", 1))
        self._driver = driver
        self.messages: deque[bytes] = deque()
        self.writable = True

    @property
    def readable(self) -> bool:
        return bool(self.messages) or self.broken

    def send(self, message: Any) -> None:  # type: ignore[override]
        if self.broken or self.closed:
            raise OSError("the line is broken")
        self._driver.hear(decode(encode(message)))

    def receive_bytes(self) -> bytes:
        if not self.messages:
            raise EOFError
        return self.messages.popleft()

    def receive(self) -> Any:
        return decode(self.receive_bytes())

    def poll(self) -> bool:
        return self.readable

    def break_after(self, _seconds: float) -> None:
        """Nothing is ever half sent here."""

    def shut(self) -> None:
        self.broken = True


class Driver:
    """Answers beats while `answers`, and keeps everything else that it hears, with the time."""

    def __init__(self, here: World) -> None:
        self.answers = True
        self.heard: list[tuple[float, Any]] = []
        self._here = here
        self.line = Line(self)

    def received(self, sock: VirtualSocket, data: bytes) -> None:
        """Nothing comes as bytes."""

    def lost(self, sock: VirtualSocket) -> None:
        """The copier has ended."""

    def connect(self, _address: DriverAddress) -> Any:
        return self.line

    def send(self, message: Any) -> None:
        self.line.messages.append(encode(message))

    def hear(self, message: Any) -> None:
        match message:
            case CopierHello():
                self.send(Welcome(VERSION, __version__))
            case CopierHeartbeat(at):
                if self.answers:
                    self.send(CopierHeartbeatResponse(at, VALID_S))
            case CopierEnded():
                self.line.break_off()
        self.heard.append((self._here.clock.now, message))

    def times(self, kind: type) -> list[float]:
        return [at for at, message in self.heard if isinstance(message, kind)]

    def first(self, kind: type) -> Any:
        return next(message for _, message in self.heard if isinstance(message, kind))


class Scene:
    """A copier's thread that was just made; `script` runs on its loop, beside the copier."""

    def __init__(self, here: World) -> None:
        self.here = here
        self.driver = Driver(here)
        self.over = threading.Event()
        self.ticket = LeaseTicket.of(here.settings, DriverAddress("driver", 1, b""), 1, 0)
        self.problems: list[BaseException] = []
        self.copier: CopierThread

    def play(self, script: Callable[[], Any]) -> None:
        """Let the copier work under lease 1 by a script of its driver, until it ends by itself."""

        async def act() -> None:
            try:
                # Blocks the loop on purpose: virtual time stands still until there is a copier to play with.
                assert made.wait(60)
                self.driver.send(Grants(1, (self.here.grant(),)))
                await script()
            except BaseException as error:
                self.problems.append(error)
                self.driver.line.break_off()

        made = threading.Event()
        self.here.write(*VALUES)
        self.here.loop.net.begin(act)
        self.copier = CopierThread(self.ticket, self.here.loop, self.driver.connect)
        made.set()
        assert self.copier.ended.wait(60)
        self.copier._thread.join(60)
        if self.problems:
            raise self.problems[0]

    async def until(self, true: Callable[[], bool], within_s: float = 60.0) -> None:
        begun = self.here.clock.now
        while not true():
            assert self.here.clock.now - begun < within_s, self.driver.heard[-5:]
            await self.here.loop.sleep(0.005)

    async def copied(self, *values: bytes) -> None:
        await self.until(lambda: self.here.copied()[-len(values) :] == list(values))

    def join(self) -> None:
        assert self.copier.join_lease(self.ticket, self.over)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with world() as here:
        yield Scene(here)


def test_a_lease_that_no_other_follows_ends_in_order(scene: Scene) -> None:
    ended_at = 0.0

    async def script() -> None:
        nonlocal ended_at
        scene.join()
        await scene.copied(*VALUES)
        await scene.here.loop.sleep(20)
        assert scene.driver.first(Claim) == Claim(1)
        assert not scene.over.is_set()
        scene.driver.send(LeaseEnded(1))
        ended_at = scene.here.clock.now
        await scene.until(scene.over.is_set)
        # The copier goes on for a while: another lease may find it.
        scene.here.write(*LATER)
        await scene.copied(*LATER)

    scene.play(script)
    assert scene.copier.error is None
    assert GRACE_S <= scene.driver.times(CopierEnded)[0] - ended_at < GRACE_S + 3
    assert scene.driver.first(Released) == Released((part(),), ())
    stored = scene.here.stored()
    assert stored is not None
    assert stored.next_source == len(scene.here.copied()) == 24


def test_the_next_lease_finds_the_copier_at_work(scene: Scene) -> None:
    second = LeaseTicket.of(scene.here.settings, scene.ticket.address, 2, 0)

    async def script() -> None:
        scene.join()
        await scene.copied(*VALUES)
        scene.driver.send(LeaseEnded(1))
        await scene.until(scene.over.is_set)
        assert not scene.copier.works_under(1)
        await scene.here.loop.sleep(GRACE_S / 2)
        fresh = threading.Event()
        assert scene.copier.join_lease(second, fresh)
        await scene.here.loop.sleep(10 * GRACE_S)
        assert scene.copier.works_under(2)
        scene.here.write(*LATER)
        await scene.copied(*LATER)
        scene.driver.send(Stop())

    scene.play(script)
    assert len(scene.driver.times(Released)) == 1
    assert scene.copier.error is None
    assert not scene.copier.join_lease(second, threading.Event())


def test_nothing_is_appended_once_its_driver_is_silent(scene: Scene) -> None:
    silent_at = 0.0

    async def script() -> None:
        nonlocal silent_at
        scene.join()
        await scene.copied(*VALUES)
        scene.driver.answers = False
        silent_at = scene.here.clock.now
        await scene.here.loop.sleep(VALID_S + 0.1)
        scene.here.write(*LATER)
        await scene.here.loop.sleep(60)
        assert scene.here.copied() == VALUES
        # It is heard again: what waited goes on.
        scene.driver.answers = True
        await scene.copied(*LATER)
        scene.driver.send(Stop())

    scene.play(script)
    assert scene.here.copied() == VALUES + LATER


def test_a_transform_that_takes_longer_than_silence_may_last_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver would give the partitions to another copier, which the same record would keep as long."""
    with world(transform=TransformSettings("tests.transforms:slow")) as here:
        scene = Scene(here)

        lasted: list[float] = []
        # Of the first call; sums of them are not exact, so none is just what a report waits for.
        steps_s = iter((5.5, 5.5, 6.0, 6.0))

        def told() -> list[Event]:
            return [message for _, message in scene.driver.heard if isinstance(message, Event)]

        def slow(batch: Any) -> Any:
            begun = here.clock.now
            for seconds in steps_s:
                here.clock.now += seconds
                wait_for(
                    lambda: scene.driver.times(CopierHeartbeat)[-1] == here.clock.now, 60, "a beat comes in the middle"
                )
            lasted.append(here.clock.now - begun)
            return batch

        monkeypatch.setattr(transforms, "slow", slow, raising=False)

        async def script() -> None:
            scene.join()
            await scene.until(lambda: len(here.copied()) > 0)
            scene.driver.send(Stop())

        scene.play(script)
        where = "on the record at offset 0; this task copies nothing meanwhile"
        assert told() == [
            Event("transform", f"shop-0: the transform has worked for {seconds} s {where}") for seconds in (11, 23)
        ]
        assert lasted[0] == pytest.approx(23.0)
        assert scene.copier.error is None


def test_a_transform_that_is_imported_for_longer_than_silence_may_last_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each copier would import it anew, and none would begin."""
    with world(transform=TransformSettings("tests.transforms:identity")) as here:
        scene = Scene(here)

        def told() -> list[Event]:
            return [message for _, message in scene.driver.heard if isinstance(message, Event)]

        def load(_path: str) -> Any:
            for seconds in (5.5, 5.5, 6.0, 6.0):
                here.clock.now += seconds
                wait_for(
                    lambda: scene.driver.times(CopierHeartbeat)[-1] == here.clock.now, 60, "a beat comes in the middle"
                )
            return transforms.identity

        monkeypatch.setattr("twinlog.transforms.build.load", load)

        async def script() -> None:
            scene.join()
            await scene.copied(*VALUES)
            scene.driver.send(Stop())

        scene.play(script)
        what = "the transform tests.transforms:identity has been imported"
        assert told() == [
            Event("transform", f"{what} for {seconds} s; this task copies nothing meanwhile") for seconds in (11, 23)
        ]
        assert scene.copier.error is None


def test_a_line_that_breaks_ends_the_copier_at_once(scene: Scene) -> None:
    broken_at = 0.0

    async def script() -> None:
        nonlocal broken_at
        scene.join()
        await scene.copied(*VALUES)
        scene.here.target.fault(PRODUCE, Fault(delay_s=1.0), times=100)
        scene.here.write(*LATER[:3])
        await scene.here.loop.sleep(0.1)
        scene.here.write(*LATER[3:])
        broken_at = scene.here.clock.now
        scene.driver.line.break_off()

    scene.play(script)
    assert isinstance(scene.copier.error, DriverLostError)
    assert scene.here.clock.now - broken_at < 0.1
    assert scene.over.is_set()


def test_with_a_level_of_the_log_the_driver_gets_the_lines_of_the_copier_until_the_level_ends(scene: Scene) -> None:
    def lines() -> list[str]:
        return [message.text for _, message in scene.driver.heard if isinstance(message, CopierLogLine)]

    def copied() -> int:
        return sum(int(line.split()[0]) for line in lines() if "records were copied" in line)

    async def script() -> None:
        scene.join()
        scene.driver.send(SetLogLevel(logging.DEBUG, 900.0))
        await scene.copied(*VALUES)
        await scene.until(lambda: copied() == len(VALUES))
        scene.driver.send(SetLogLevel(0, 0.0))
        await scene.here.loop.sleep(0.1)
        known = len(lines())
        scene.here.write(*LATER)
        await scene.copied(*LATER)
        await scene.here.loop.sleep(3.0)
        assert len(lines()) == known
        scene.driver.send(SetLogLevel(logging.DEBUG, 900.0))
        await scene.until(lambda: len(lines()) > known)
        scene.driver.line.break_off()

    scene.play(script)
    assert any(line.startswith(f"{TOPIC}-0 begins at source offset 0") for line in lines()), lines()
    assert not any(scene.ticket.flow in line for line in lines())
    assert FLOW_LEVELS.lowest > logging.CRITICAL, "the level ends with the copier"


def test_what_is_dropped_stores_and_appends_nothing_more(scene: Scene) -> None:
    before: list[Any] = []

    async def script() -> None:
        scene.join()
        await scene.copied(*VALUES)
        await scene.here.loop.sleep(20)
        scene.here.write(*LATER)
        await scene.copied(*LATER)
        before.append(scene.here.stored())
        scene.driver.send(Drop())

    scene.play(script)
    assert scene.copier.error is None
    assert scene.here.stored() == before[0]
    assert scene.driver.times(Released) == []
    # Whoever goes on finds what the position does not count.
    assert before[0] is not None
    assert before[0].next_source < 24


def test_what_is_asked_back_is_released_and_nothing_else(scene: Scene) -> None:
    async def script() -> None:
        scene.join()
        await scene.copied(*VALUES)
        scene.driver.send(Release((part(),)))
        await scene.until(lambda: bool(scene.driver.times(Released)))
        scene.here.write(*LATER)
        await scene.here.loop.sleep(30)
        assert scene.here.copied() == VALUES
        scene.driver.send(Grants(1, (scene.here.grant(position=scene.here.stored(), drained=True),)))
        await scene.copied(*LATER)
        scene.driver.send(Stop())

    scene.play(script)
    assert scene.here.copied() == VALUES + LATER


def test_a_partition_that_is_held_is_told_to_the_driver(scene: Scene) -> None:
    async def script() -> None:
        scene.join()
        await scene.copied(*VALUES)
        scene.here.target.fault(PRODUCE, Fault(code=29), topic=REMOTE)
        scene.here.write(*LATER)
        await scene.until(lambda: bool(scene.driver.times(Hold)))
        scene.driver.send(Drop())

    scene.play(script)
    held = scene.driver.first(Hold).held
    assert (held.source, held.reason) == (part(), "missing right")
    assert "lacks WRITE on topic north.shop" in held.text
    assert not scene.driver.times(Failed)
    assert scene.here.source.log(TOPIC).end == 24
