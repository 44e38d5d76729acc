"""A topic of a user is one whatever its name ends in: copied as MirrorMaker 2 does, said once, and counted."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from tests.unit.mirror.test_heartbeats import append
from tests.unit.worker.topics.refreshing import World, world
from twinlog.errors import RefusedError
from twinlog.mirror.records import Heartbeat
from twinlog.model.types import Alias, TopicName

DEVICE, HEARTBEATS, NORTH = map(TopicName, ("device.heartbeats", "heartbeats", "north.heartbeats"))


def warnings_of(here: World, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What `refresh` warns of."""
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        here.refresh()
    return [record.getMessage() for record in caplog.records]


def test_it_is_copied_past_the_filter_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with world(topics=("orders",)) as here:
        for name in ("orders", "heartbeats", "device.heartbeats", "audit"):
            here.source.create(name)
        here.source.write("device.heartbeats", b"alive")
        (warning,) = warnings_of(here, caplog)
        assert warning.startswith("TW-TOPIC-20: east->west: mirrored in spite of `topics`: device.heartbeats;")
        assert "heartbeats.replication.enabled = false leaves these topics out" in warning
        assert here.copied == {"orders": 1, "heartbeats": 1, "device.heartbeats": 1}
        assert warnings_of(here, caplog) == []
        here.source.topics.delete("device.heartbeats")
        here.refresh()
        here.source.create("device.heartbeats")
        assert warnings_of(here, caplog) == []
        assert {name: here.topics.is_heartbeats(name) for name in (DEVICE, HEARTBEATS)} == {
            DEVICE: False,
            HEARTBEATS: True,
        }
        assert {pair.source.name: pair.heartbeats for pair in here.topics.pairs} == {
            "orders": False,
            "heartbeats": True,
            "device.heartbeats": False,
        }


def test_where_the_filter_accepts_it_there_is_something_to_mirror(caplog: pytest.LogCaptureFixture) -> None:
    with world(topics=(r"device\.heartbeats",)) as here:
        here.source.create("device.heartbeats")
        here.source.create("heartbeats")
        assert warnings_of(here, caplog) == []
        assert here.topics.nothing is None
        here.topics.require_all()


def test_what_is_copied_past_the_filter_does_not_hide_that_the_filter_is_wrong() -> None:
    with world(topics=("ordres",)) as here:
        here.source.create("orders")
        here.source.create("device.heartbeats")
        here.refresh()
        assert here.copied == {"device.heartbeats": 1}
        assert "orders" in (here.topics.nothing or "")
        assert "device.heartbeats" not in (here.topics.nothing or "")


def test_heartbeats_of_a_mirror_of_another_file_are_known_once_there_are_some() -> None:
    with world() as here:
        here.source.create("north.heartbeats")
        here.refresh()
        assert not here.topics.is_heartbeats(NORTH)
        beat = Heartbeat(Alias("island"), Alias("north"), 1)
        append(here.source.log("north.heartbeats"), beat.key, beat.value)
        here.refresh()
        assert here.topics.is_heartbeats(NORTH)
        assert [pair.heartbeats for pair in here.topics.pairs] == [True]


def test_the_file_names_clusters_whose_heartbeats_are_not_read() -> None:
    with world(aliases=(Alias("north"),)) as here:
        here.source.create("north.heartbeats")
        here.refresh()
        assert here.topics.is_heartbeats(NORTH)


def test_one_that_seems_a_copy_without_an_original_keeps_a_run_from_its_end() -> None:
    with world() as here:
        here.source.create("west.device.heartbeats")
        here.source.create("west.heartbeats")
        here.refresh()
        with pytest.raises(RefusedError, match=r"^west\.device\.heartbeats: not mirrored") as raised:
            here.topics.require_all()
        assert "west.heartbeats" not in str(raised.value)


def test_settings_know_all_aliases_of_their_file() -> None:
    with world() as here:
        settings = replace(here.settings, aliases=(Alias("north"),))
        assert settings.heartbeat_names.is_heartbeats(NORTH)
        assert not here.settings.heartbeat_names.is_heartbeats(NORTH)
