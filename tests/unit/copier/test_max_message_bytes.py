"""What a record that is too large for the remote topic waits for."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.copier.copied import REMOTE, TOPIC, World, world
from twinlog.copier.recovery import FOLLOWS_S

LARGE = bytes(5_000)


def _held_after_s(here: World) -> float:
    here.source.topics.configs[TOPIC]["max.message.bytes"] = "1000000"
    here.target.topics.configs[REMOTE]["max.message.bytes"] = "2000"
    here.write(LARGE)
    here.begin(replace(here.grant(), max_batch_bytes=2_000))
    seconds = here.until(lambda: bool(here.held))
    assert [held.message_id for held in here.held] == ["TW-RECORD-02"]
    return seconds


def test_a_limit_that_does_not_follow_is_not_waited_for() -> None:
    with world(sync_topic_configs_interval_s=None) as here:
        assert _held_after_s(here) < 2
        assert here.events == []


def test_a_limit_that_follows_is_waited_for_and_the_driver_is_asked_once() -> None:
    with world() as here:
        assert _held_after_s(here) > FOLLOWS_S
        ((kind, text),) = here.events
        assert kind == "limit"
        assert text == (
            "a record does not fit, north.shop takes 2000 bytes and shop 1000000; the settings of both are compared now"
        )
