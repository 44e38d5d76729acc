"""Pauses between tries grow as Kafka's do, and never beyond the most."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.kafka.net.backoff import Backoff, pause_s

MS = st.integers(0, 2**63 - 1)


@given(st.integers(1, 10_000), MS, MS)
def test_a_pause_is_within_its_bounds(failures: int, initial_ms: int, most_ms: int) -> None:
    pause = pause_s(failures, initial_ms, most_ms)
    assert 0 <= pause <= most_ms / 1000
    assert pause >= min(0.8 * initial_ms, most_ms) / 1000 * 0.999


def test_it_doubles_and_begins_anew() -> None:
    backoff = Backoff(100, 1000)
    for middle in (0.1, 0.2, 0.4, 0.8):
        assert 0.8 * middle <= backoff.count_failure() <= 1.2 * middle
    assert 0.8 <= backoff.count_failure() <= 1.0
    backoff.reset_failures()
    assert backoff.count_failure() <= 0.12


def test_a_first_pause_above_the_most_is_the_most_every_time() -> None:
    assert {pause_s(failures, 500, 200) for failures in range(1, 9)} == {0.2}
