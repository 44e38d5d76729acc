"""When a reader waits for a moment before its next fetch."""

from __future__ import annotations

import pytest

from tests.source_log import New, SourceLog
from tests.unit.copier.copied import TOPIC, World, world
from twinlog.kafka.consumer.fetch_pace import LINGER_SHARE, MOST_S, EvenPacer, FetchPacer, count_batches

FETCH, PRODUCE = 1, 0
PAUSE_S = 0.005 * LINGER_SHARE
"""Of Kafka's default, 5 ms."""


def answer(batches: int = 1, size: int = 100) -> memoryview:
    log = SourceLog()
    for _ in range(batches):
        log.batch([New(1, b"x" * size)])
    return log.fetch()


def paused(
    pace: FetchPacer, *, every_s: float, batches: int = 1, answers: int = 200, begin: float = 100.0
) -> set[float]:
    """The pauses after the last ones of many answers."""
    records = answer(batches)
    return {pace.pause_s([records], begin + number * every_s) for number in range(answers)} - {0.0}


def test_batches_that_come_fast_wait_for_each_other() -> None:
    assert paused(FetchPacer(5), every_s=0.001) == {PAUSE_S}


def test_batches_that_would_wait_alone_do_not() -> None:
    assert paused(FetchPacer(5), every_s=0.004) == set()


def test_several_in_each_answer_count_one_by_one() -> None:
    """As they come once there are pauses."""
    assert paused(FetchPacer(5), every_s=0.0025, batches=3) == {PAUSE_S}


@pytest.mark.parametrize(
    ("linger_ms", "pauses"), [(0, set()), (2, {0.002 * LINGER_SHARE}), (100, {MOST_S}), (2**63, {MOST_S})]
)
def test_linger_bounds_the_pause(linger_ms: int, pauses: set[float]) -> None:
    assert paused(FetchPacer(linger_ms), every_s=0.0004) == pauses


def test_large_answers_and_empty_ones_are_followed_by_a_fetch_at_once() -> None:
    pace = FetchPacer(5)
    assert paused(pace, every_s=0.0005)
    assert pace.pause_s([answer(40, 1_000)], 200.0) == 0.0
    assert pace.pause_s([answer(20, 1_000)], 201.0) == 0.0
    assert paused(pace, every_s=0.0005, begin=201.0)
    assert pace.pause_s([], 202.0) == 0.0


def test_a_reader_that_may_be_late_waits_after_each_answer_that_is_not_large() -> None:
    pace = EvenPacer(0.1, large_bytes=60_000)
    assert pace.pause_s([answer()], 100.0) == 0.1
    assert pace.pause_s([answer(20, 1_000), answer(20, 1_000)], 200.0) == 0.1
    assert pace.pause_s([answer(40, 1_000), answer(30, 1_000)], 200.0) == 0.0
    assert pace.pause_s([], 200.1) == pace.pause_s([memoryview(b"")], 200.1) == 0.0


def test_a_record_after_a_rest_is_not_followed_by_a_pause() -> None:
    pace = FetchPacer(5)
    assert paused(pace, every_s=0.0005)
    assert pace.pause_s([answer()], 300.0) == 0.0


def test_a_batch_that_was_cut_off_is_the_last_one() -> None:
    records = answer(3)
    assert [count_batches(records[:size]) for size in (0, 11, 12, len(records) - 1, len(records))] == [0, 0, 1, 3, 3]


def requests(here: World, records: int, every_s: float) -> tuple[int, int]:
    """Fetches and appends for records that come one by one, the first hundred not counted."""
    here.begin(here.grant())

    async def write(count: int) -> None:
        for _ in range(count):
            here.source.write(TOPIC, b"x")
            await here.loop.sleep(every_s)

    here.run(write, 100)
    for cluster in (here.source, here.target):
        cluster.asked.clear()
    here.run(write, records)
    return here.source.asked[FETCH], here.target.asked[PRODUCE]


@pytest.mark.parametrize(("linger_ms", "least", "most"), [(5, 200, 350), (0, 950, 1_050)])
def test_a_thousand_a_second_share_requests_unless_linger_is_0(linger_ms: int, least: int, most: int) -> None:
    with world(producer={"linger_ms": linger_ms}) as here:
        fetches, appends = requests(here, 1_000, 0.001)
    assert least < fetches < most
    assert least < appends < most + 20


def test_a_hundred_a_second_travel_at_once() -> None:
    with world() as here:
        fetches, _ = requests(here, 200, 0.01)
    assert 195 < fetches < 205


@pytest.mark.parametrize(("brokers", "rests"), [(1, True), (2, False)])
def test_the_loop_rests_while_a_single_broker_is_read(
    brokers: int, rests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers of another broker would wait for the end of the rest."""
    with world(brokers=brokers, partitions=2) as here:
        here.begin(here.grant(0), here.grant(1))
        rested: list[float] = []
        monkeypatch.setattr(here.loop.net, "rest_until", rested.append)

        async def write() -> None:
            for number in range(400):
                here.write(b"x", number=number % 2)
                await here.loop.sleep(0.0004)

        here.run(write)
        here.until(lambda: len(here.copied(0)) + len(here.copied(1)) == 400)
        assert bool(rested) == rests
