"""After a loss Spark is started again, sooner or later, but not for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from twinlog.spark.supervisor import WAITS_S, WINDOW_S, Restarts


def test_every_loss_waits_longer_until_there_were_too_many() -> None:
    restarts = Restarts((0.0, 1.0, 5.0), 600.0)
    assert [restarts.count_loss(10.0 * number) for number in range(5)] == [0.0, 1.0, 5.0, None, None]
    assert restarts.rule == "3 times within 10 min"


def test_what_is_long_ago_does_not_count() -> None:
    restarts = Restarts((0.0, 1.0), 60.0)
    assert [restarts.count_loss(at) for at in (0.0, 30.0)] == [0.0, 1.0]
    assert (restarts.count_loss(61.0), restarts.count) == (1.0, 2)
    assert (restarts.count_loss(62.0), restarts.count) == (None, 3)
    assert (restarts.count_loss(200.0), restarts.count) == (0.0, 1)


def test_five_times_within_ten_minutes() -> None:
    assert (len(WAITS_S), WINDOW_S) == (5, 600.0)
    assert list(WAITS_S) == sorted(WAITS_S)
    # The first time records should go on within fifteen seconds, and Spark needs most of them.
    assert WAITS_S[0] == 0


@given(some.lists(some.floats(0, 300), max_size=30))
def test_it_goes_on_as_long_as_no_window_has_more_than_the_limit(gaps: list[float]) -> None:
    restarts = Restarts((0.0, 1.0, 2.0), 600.0)
    at, times = 0.0, []
    for gap in gaps:
        at += gap
        times.append(at)
        within = [one for one in times if at - one < 600.0]
        assert (restarts.count_loss(at) is None) == (len(within) > 3)
