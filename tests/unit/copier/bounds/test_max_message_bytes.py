"""What a record that the remote topic does not take waits for, and since when."""

from __future__ import annotations

from dataclasses import replace

from harness.virtual.requests import PRODUCE
from tests.unit.copier.copied import REMOTE, TOPIC, World, world
from twinlog.copier.recovery import FOLLOWS_S
from twinlog.kafka.protocol.error_codes import Code

LARGE = bytes(5_000)


def _held_after_s(here: World) -> float:
    here.source.topics.configs[TOPIC]["max.message.bytes"] = "1000000"
    here.target.topics.configs[REMOTE]["max.message.bytes"] = "2000"
    here.write(LARGE)
    here.begin(replace(here.grant(), max_batch_bytes=2_000))
    seconds = here.until(lambda: bool(here.held))
    assert [held.message_id for held in here.held] == ["TW-RECORD-02"]
    return seconds


def test_a_held_record_waits_since_its_own_time() -> None:
    with world(sync_topic_configs_interval_s=None) as here:
        here.write(b"before")
        copier = here.begin(replace(here.grant(), max_batch_bytes=2_000))
        here.until(lambda: here.copied() == [b"before"])
        here.pass_by(120)
        at_ms = round(here.clock.now * 1000)
        here.source.topics.configs[TOPIC]["max.message.bytes"] = "1000000"
        here.target.topics.configs[REMOTE]["max.message.bytes"] = "2000"
        here.source.log(TOPIC).write(LARGE, b"after", at_ms=at_ms)
        here.source.news()
        here.until(lambda: bool(here.held))
        (stalled,) = copier.held_back.values()
        assert stalled.waiting_ms == at_ms


def test_a_record_that_the_target_refuses_waits_since_its_own_time() -> None:
    with world() as here:
        copier = here.begin()
        here.target.codes(PRODUCE, REMOTE, *[Code.INVALID_RECORD] * 9)
        here.source.log(TOPIC).write(b"refused", at_ms=7_000)
        here.source.news()
        here.until(lambda: bool(here.held))
        (stalled,) = copier.held_back.values()
        assert stalled.waiting_ms == 7_000


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
