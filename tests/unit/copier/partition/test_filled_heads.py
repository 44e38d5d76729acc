"""Fillers before the first copy: they are deleted in steps while more are appended, through crashes and faults."""

from __future__ import annotations

import random
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import DELETE_RECORDS, PRODUCE, topics_of
from tests.unit.copier.copied import REMOTE, TOPIC, World, world
from tests.unit.copier.identical.identical_log import again, logs, same
from twinlog.batches import fillers
from twinlog.copier import offset_fillers
from twinlog.kafka.protocol.error_codes import Code

HEAD = 20_000
STEP = 2_000
BATCH = 512


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_fillers, "DELETED_AT_ONCE", STEP)
    monkeypatch.setattr(offset_fillers, "PORTION", 5)
    for module in (offset_fillers, fillers):
        monkeypatch.setattr(module, "MAX_RECORDS", BATCH)


def begin_at(here: World, head: int) -> None:
    """Let the log of the source begin at offset `head`."""
    here.source.log(TOPIC).start = head
    here.write(b"first", b"second")


def test_fillers_are_deleted_in_steps_and_some_stay_until_all_are_there() -> None:
    """A copier without a position knows a log without copies by its fillers."""
    with world(offsets="identical") as here:
        begin_at(here, HEAD)
        bounds: list[tuple[int, int]] = []

        def note(key: int, _: Any) -> None:
            if key == DELETE_RECORDS:
                bounds.append((here.target.log(REMOTE).start, here.target.log(REMOTE).end))

        here.target.carried_out = note
        here.begin()
        here.until(lambda: same(here) or bool(here.held))
        assert here.held == []
        steps = list(dict.fromkeys(bounds))
        assert here.target.log(REMOTE).start == HEAD
        assert 4 < len(steps) < HEAD // STEP
        assert all(start < end for start, end in steps)
        assert max(end - start for start, end in steps) < STEP + 12 * BATCH


def test_a_missing_right_to_delete_is_found_at_the_first_step() -> None:
    with world(offsets="identical") as here:
        begin_at(here, HEAD)
        here.target.codes(DELETE_RECORDS, REMOTE, Code.TOPIC_AUTHORIZATION_FAILED)
        here.begin()
        here.until(lambda: bool(here.held))
        assert "lacks DELETE on topic north.shop" in here.held[0].text
        assert here.target.log(REMOTE).end < HEAD


def test_fillers_always_wait_for_the_target() -> None:
    """A far target would get as many fillers in a round trip as are under way."""
    with world(offsets="identical") as here:
        begin_at(here, HEAD)
        here.target.fault(PRODUCE, Fault(delay_s=0.1), times=1_000, topic=REMOTE)
        waiting: list[int] = []

        def note(key: int, request: Any) -> None:
            if key == PRODUCE and REMOTE in topics_of(key, request):
                (copied,) = copier.partitions.values()
                waiting.append(len(list(copied.queue.waiting())))

        copier = here.begin()
        here.target.carried_out = note
        here.until(lambda: same(here) or bool(here.held), 60)
        assert min(waiting[1 : HEAD // BATCH - 5]) >= 5


@pytest.mark.parametrize("number", range(40))
def test_crashes_and_faults_at_any_moment(number: int, chance: random.Random) -> None:
    del number
    seed = chance.randrange(1 << 31)
    chance = random.Random(seed)
    with world(seed, offsets="identical", brokers=2) as here:
        begin_at(here, chance.randrange(HEAD))
        position = None
        for _ in range(chance.randrange(1, 5)):
            for _ in range(chance.randrange(3)):
                fault = chance.choice((Fault(lost=True), Fault(lost=True, done=True), Fault(delay_s=1.0)))
                here.target.fault(chance.choice((PRODUCE, DELETE_RECORDS)), fault, topic=None)
            copier = here.begin(here.grant(position=position))
            here.pass_by(chance.choice([0.02, 0.3, 2.0]) * chance.random())
            if chance.random() < 0.2:
                here.source.log(TOPIC).delete_before(here.source.log(TOPIC).start + 1)
                here.write(b"later")
            here.crash(copier)
            position = here.stored() if chance.random() < 0.6 else None
        here.target.faults.clear()
        here.begin(again(here) if chance.random() < 0.6 else here.grant())
        here.until(lambda: same(here) or bool(here.held), 300)
        assert here.held == [], (seed, here.held, [(one.start, one.end) for one in logs(here)])
        assert here.failures == [], seed
