"""Which settings of an internal topic are changed, by what it has and where that comes from."""

from __future__ import annotations

import pytest

from twinlog.mirror.bounds import too_loose
from twinlog.model.topics import ConfigEntry, ConfigSource

BOUNDS = {"segment.bytes": "100", "min.cleanable.dirty.ratio": "0.1"}


@pytest.mark.parametrize(
    ("value", "source", "to_set", "own"),
    [
        ("1073741824", ConfigSource.DEFAULT, {"segment.bytes": "100"}, {}),
        ("101", ConfigSource.STATIC_BROKER, {"segment.bytes": "100"}, {}),
        ("101", ConfigSource.DYNAMIC_BROKER, {"segment.bytes": "100"}, {}),
        ("100", ConfigSource.DEFAULT, {}, {}),
        ("50", ConfigSource.STATIC_BROKER, {}, {}),
        ("50", ConfigSource.TOPIC, {}, {}),
        ("101", ConfigSource.TOPIC, {}, {"segment.bytes": "100"}),
        (None, ConfigSource.DEFAULT, {}, {}),
    ],
)
def test_stricter_settings_and_own_settings_stay(
    value: str | None, source: ConfigSource, to_set: dict[str, str], own: dict[str, str]
) -> None:
    entries = [ConfigEntry("segment.bytes", value, source), ConfigEntry("retention.ms", "7", ConfigSource.DEFAULT)]
    assert too_loose(entries, BOUNDS) == (to_set, own)
