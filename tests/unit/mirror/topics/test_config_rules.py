"""Which settings a remote topic gets, and what has to be changed for that."""

from __future__ import annotations

import pytest

from twinlog.mirror.topics.configs import differences, wanted_settings
from twinlog.mirror.topology.filters import DefaultConfigPropertyFilter
from twinlog.model.topics import ConfigChange, ConfigEntry, ConfigSource, listed

TARGETS_DEFAULTS = DefaultConfigPropertyFilter()
SOURCES_DEFAULTS = DefaultConfigPropertyFilter(defaults_from_source=True)


def entry(source: ConfigSource, name: str = "retention.ms", value: str | None = "1000") -> ConfigEntry:
    return ConfigEntry(name, value, source)


@pytest.mark.parametrize(
    ("origin", "by_target", "by_source"),
    [
        (ConfigSource.TOPIC, {"retention.ms": "1000"}, {"retention.ms": "1000"}),
        (ConfigSource.DYNAMIC_BROKER, {"retention.ms": "1000"}, {"retention.ms": "1000"}),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, {"retention.ms": "1000"}, {"retention.ms": "1000"}),
        (ConfigSource.STATIC_BROKER, {}, {}),
        (ConfigSource.DEFAULT, {"retention.ms": None}, {"retention.ms": "1000"}),
    ],
)
def test_where_a_setting_comes_from_decides(
    origin: ConfigSource, by_target: dict[str, str | None], by_source: dict[str, str | None]
) -> None:
    assert wanted_settings([entry(origin)], TARGETS_DEFAULTS) == by_target
    assert wanted_settings([entry(origin)], SOURCES_DEFAULTS) == by_source


def test_what_cannot_or_must_not_be_copied_is_left_alone() -> None:
    entries = [
        ConfigEntry("a", "1", ConfigSource.TOPIC, read_only=True),
        ConfigEntry("b", None, ConfigSource.TOPIC, sensitive=True),
        entry(ConfigSource.TOPIC, "min.insync.replicas", "2"),
        entry(ConfigSource.DEFAULT, "unclean.leader.election.enable", "false"),
        entry(ConfigSource.TOPIC, "vendor.setting", "x"),
        ConfigEntry("later", "1", 8),
    ]
    assert wanted_settings(entries, SOURCES_DEFAULTS) == {"vendor.setting": "x"}


def test_only_what_differs_is_changed() -> None:
    target = [
        entry(ConfigSource.TOPIC, "same", "1"),
        entry(ConfigSource.TOPIC, "other", "1"),
        entry(ConfigSource.TOPIC, "given-up", "1"),
        entry(ConfigSource.DEFAULT, "untouched", "1"),
        entry(ConfigSource.STATIC_BROKER, "by-chance", "1"),
        entry(ConfigSource.TOPIC, "only-here", "1"),
    ]
    wanted = {"same": "1", "other": "2", "given-up": None, "untouched": None, "by-chance": "1", "new": "3"}
    assert differences(wanted, target) == [
        ConfigChange("other", "2"),
        ConfigChange("given-up", None),
        # The target's broker has this value today; the source topic has it for good.
        ConfigChange("by-chance", "1"),
        ConfigChange("new", "3"),
    ]


def test_many_names_are_few_words() -> None:
    assert listed(["b", "a"]) == "a, b"
    assert listed(f"t{number}" for number in range(8)) == "t0, t1, t2, t3, t4 and 3 more"
