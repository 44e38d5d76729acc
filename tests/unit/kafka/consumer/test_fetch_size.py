"""What a broker is asked for at a time grows with its distance."""

from __future__ import annotations

from twinlog.kafka.consumer.fetch_pace import FetchSize

MB = 1 << 20
FAR_S = 0.08
PER_S = 100 * MB


def grown(size: FetchSize, most: int, *, round_trip_s: float = FAR_S, full: bool = True, turns: int = 8) -> int:
    """Where it ends after some answers over a line of 100 MB/s."""
    for _ in range(turns):
        asked = min(size.bytes, most)
        received = asked - 1000 if full else asked // 2
        size.record_answer(received, asked, round_trip_s + received / PER_S, round_trip_s)
    return size.bytes


def test_a_near_broker_is_asked_for_no_more() -> None:
    assert grown(FetchSize(8 * MB), 64 * MB, round_trip_s=0.001) == 8 * MB


def test_from_afar_it_grows_until_most_of_the_time_something_comes() -> None:
    assert grown(FetchSize(8 * MB), 64 * MB) == 32 * MB
    assert grown(FetchSize(MB), 64 * MB) == 32 * MB


def test_it_stops_at_what_may_be_asked_for() -> None:
    assert grown(FetchSize(8 * MB), 12 * MB) == 16 * MB


def test_answers_below_their_limit_change_nothing() -> None:
    assert grown(FetchSize(8 * MB), 64 * MB, full=False) == 8 * MB


def test_a_line_that_became_slow_gets_smaller_ones() -> None:
    size = FetchSize(8 * MB)
    grown(size, 64 * MB)
    for _ in range(5):
        size.record_answer(size.bytes, size.bytes, 3.0, FAR_S)
    assert size.bytes == 8 * MB
