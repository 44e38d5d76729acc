"""Which settings of an internal topic are changed, by what it has and where that comes from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.kafka.admin.topics import replace_configs
from twinlog.mirror.topics.bounds import TopicBounds, too_loose
from twinlog.mirror.topics.internal_topics import InternalTopic
from twinlog.model.topics import ConfigEntry, ConfigSource, Refusal
from twinlog.model.types import Alias, TopicName

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


class OldCluster:
    """Takes whole sets of settings only, and refuses each set with `bad`; its topic has a setting of its own."""

    alias = "west"
    client: Any = SimpleNamespace(
        supports=lambda *_: False, settings=SimpleNamespace(bootstrap_servers=("a:9092",)), alias="west"
    )

    def __init__(self, bad: str) -> None:
        self.bad = bad
        self.settings = {"retention.ms": "7"}

    def call(self, step: Any, _client: Any, sets: dict[TopicName, dict[str, str]]) -> dict[TopicName, Refusal]:
        assert step is replace_configs
        ((name, settings),) = sets.items()
        if self.bad in settings:
            return {name: Refusal(40, "no such setting")}
        self.settings = dict(settings)
        return {}


def test_a_whole_set_of_settings_resets_none_that_was_set_before_it(caplog: pytest.LogCaptureFixture) -> None:
    """A cluster before Kafka 2.3 resets what a request does not name, also where the settings are tried one by one."""
    admin: Any = OldCluster("min.cleanable.dirty.ratio")
    bounds = {"segment.bytes": "100", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "5"}
    topic = InternalTopic(TopicName("t"), Alias("west"), 1, bounds, None)
    entries = [ConfigEntry("retention.ms", "7", ConfigSource.TOPIC)]
    entries += [ConfigEntry(name, "1000", ConfigSource.DEFAULT) for name in bounds]
    TopicBounds(SETTINGS, admin, admin)._bound(admin, topic, entries)
    assert admin.settings == {"retention.ms": "7", "segment.bytes": "100", "segment.ms": "5"}
    assert "to bound it: kafka-configs.sh (that of the brokers' own release)" in caplog.text
