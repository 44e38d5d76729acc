"""Whatever happens to processes, coordinators and connections: one leads at most, and one in the end."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import FIND_COORDINATOR, HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from tests.unit.worker.processes import LEADS, STANDS_BY, world
from twinlog.kafka.protocol.error_codes import Code

ANYWHERE = (
    Fault(lost=True),
    Fault(lost=True, done=True),
    Fault(delay_s=4.0),
    Fault(code=Code.COORDINATOR_NOT_AVAILABLE),
)

BY_COORDINATORS = (
    Fault(code=Code.NOT_COORDINATOR),
    Fault(code=Code.COORDINATOR_LOAD_IN_PROGRESS),
    Fault(code=Code.UNKNOWN_MEMBER_ID),
)


@pytest.mark.parametrize("number", range(4))
def test_whatever_happens_one_leads_at_most_and_one_in_the_end(number: int) -> None:
    drawn = random.Random(number)
    with world(number) as here:
        for name in ("one", "two", "three"):
            here.begin(name)

        def trouble() -> None:
            what = drawn.choice(["freeze", "wake", "move", "stop", "fault", "fault"])
            one = drawn.choice(here.processes)
            if what == "freeze":
                one.freeze()
            elif what == "wake":
                one.wake()
            elif what == "move":
                here.target.groups.move(drawn.choice([1, 2]))
            elif what == "stop":
                node = drawn.choice([1, 2])
                here.target.start(node) if node in here.target.down else here.target.stop(node)
            else:
                key = drawn.choice([JOIN_GROUP, SYNC_GROUP, HEARTBEAT, FIND_COORDINATOR])
                faults = ANYWHERE if key == FIND_COORDINATOR else (*ANYWHERE, *BY_COORDINATORS)
                here.target.fault(key, drawn.choice(faults), times=drawn.randint(1, 3))

        for _ in range(25):
            trouble()
            here.pass_by(drawn.choice([0.1, 1.0, 7.0]))
        here.target.faults.clear()
        for node in (1, 2):
            here.target.start(node)
        for one in here.processes:
            one.wake()

        def settled() -> bool:
            standings = sorted(one.standing.name for one in here.processes)
            return standings == ["LEADING", "STANDBY", "STANDBY"] and len(here.leaders) == 1

        here.until(settled, 300)
        here.pass_by(20)
        assert settled()


def test_a_seed_repeats_the_whole_course_of_events() -> None:
    def play() -> Any:
        with world(7) as here:
            one, two = here.begin("one", LEADS), here.begin("two", STANDS_BY)
            one.freeze()
            here.until(lambda: two.may_append)
            one.wake()
            passed = here.until(lambda: one.standing is STANDS_BY)
            return passed, dict(here.target.asked), replace(here.group, members={}).assigned.keys()

    assert play() == play()
