"""Rates as users write them, and durations as they read them."""

from __future__ import annotations

import pytest
import typer

from twinlog.console.table import rate_of, shown_duration


@pytest.mark.parametrize(
    ("text", "rate"),
    [("50MB/s", 50e6), ("1 Gbit/s", 125e6), ("200kB", 2e5), ("1.5GB/s", 1.5e9), ("1000", 1000.0)],
)
def test_a_rate_has_a_unit(text: str, rate: float) -> None:
    assert rate_of(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "50mb/s", "0", "-1MB", "MB/s"])
def test_what_is_no_rate_is_refused_with_the_units(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="as in 50MB/s") as refused:
        rate_of(text)
    assert refused.value.param_hint == "--rate"


def test_a_duration_has_its_two_largest_units() -> None:
    durations = (0.2, 59, 61, 3600, 3661, 86_400 + 7_200 + 59)
    assert [shown_duration(seconds) for seconds in durations] == [
        "1 s",
        "59 s",
        "1 min 1 s",
        "1 h",
        "1 h 1 min",
        "1 d 2 h",
    ]
