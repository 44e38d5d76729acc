"""What a record costs at a low rate: the calls from an answer of the source to the next fetch, in Python code."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import twinlog
from harness.virtual.requests import FETCH, PRODUCE
from tests.unit.copier.copied import World, world

PARTITIONS = 4
RECORDS = 400
MOST_CALLS = 680
"""647 were counted, and 733 before calls were removed. A copier of 1,000 records/s has some 260 rounds a second."""

PACKAGE = str(Path(twinlog.__file__).parent)
DECODERS = ("records.py", "builder.py", "varint.py")
"""The virtual brokers use these modules, too."""
LOOPS = ("selector.py", "loop.py")
"""The virtual brokers are coroutines of the same loop."""


def count_calls(here: World) -> int:
    """The calls of twinlog's functions while a record comes each millisecond."""
    calls: Counter[bool] = Counter()

    def note(frame: FrameType, event: str, _arg: Any) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            calls[file.startswith(PACKAGE) and not file.endswith(DECODERS + LOOPS)] += 1

    async def feed() -> None:
        for number in range(RECORDS):
            here.write(b"x" * 100, number=number % PARTITIONS)
            await here.loop.sleep(0.001)

    here.run(feed)
    asked = here.source.asked[FETCH]
    sys.setprofile(note)
    try:
        here.run(feed)
    finally:
        sys.setprofile(None)
    rounds = here.source.asked[FETCH] - asked
    assert RECORDS / 6 < rounds < RECORDS / 2
    return calls[True] // rounds


def test_a_round_of_a_fetch_and_an_append_takes_few_calls() -> None:
    with world(partitions=PARTITIONS) as here:
        here.begin(*map(here.grant, range(PARTITIONS)))
        calls = count_calls(here)
        assert here.target.asked[PRODUCE] > RECORDS / 3
        assert len(here.copied(0)) > RECORDS / PARTITIONS
        assert calls <= MOST_CALLS
