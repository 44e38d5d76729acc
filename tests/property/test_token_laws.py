"""A token is renewed before it ends, and as the settings ask where its life is long enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.kafka.auth.oauth import renewal
from twinlog.settings.oauth import TokenSettings

seconds = st.floats(0, 100_000)


@given(
    age=seconds,
    left=st.floats(0.001, 100_000),
    factor=st.floats(0.5, 1.0),
    jitter=st.floats(0.0, 0.25),
    period=st.integers(0, 900),
    buffer=st.integers(0, 3600),
)
def test_a_token_is_renewed_in_time(
    age: float, left: float, factor: float, jitter: float, period: int, buffer: int
) -> None:
    now, ends = 1_000_000.0, 1_000_000.0 + left
    settings = TokenSettings(
        refresh_factor=factor, refresh_jitter=jitter, refresh_period_s=period, refresh_buffer_s=buffer
    )
    at = renewal(now, now - age, ends, settings)
    assert now <= at <= ends
    if left < period + buffer:
        # Too short for both: a part of what is left counts alone.
        assert at < ends
        assert at >= now + 0.49 * left
    else:
        assert at >= now + period
        assert at <= max(ends - buffer, now + period)
