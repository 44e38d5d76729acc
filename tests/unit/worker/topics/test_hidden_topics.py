"""Topics that a login may no longer describe stay in the flow; deleted topics leave the flow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.virtual.requests import CREATE_TOPICS, METADATA
from tests.unit.worker.topics.refreshing import World, world
from twinlog.mirror.offsets.positions import Position
from twinlog.model.topics import Topic
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.ops.plan.obstacles import hidden_topics

LACKS = "lacks DESCRIBE on topic orders, needed for copying it"


@pytest.fixture
def here() -> Iterator[World]:
    with world() as one:
        yield one


def test_a_topic_without_the_right_to_describe_it_stays_in_the_flow(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    here.source.create("orders", 2)
    here.source.create("bills")
    here.refresh()
    topic_id = here.topics.topic_id(TopicName("orders"))
    here.source.topics.hidden.add("orders")
    for _ in range(3):
        here.refresh()
        assert here.copied == {"bills": 1, "orders": 2}
    assert here.topics.topic_id(TopicName("orders")) == topic_id
    assert caplog.text.count(LACKS) == 1
    assert "gone from" not in caplog.text
    here.source.topics.hidden.clear()
    here.source.topics.grow("orders", 3)
    here.refresh()
    assert here.copied == {"bills": 1, "orders": 3}


def test_a_login_without_any_right_keeps_all_topics_in_the_flow(here: World) -> None:
    names = {f"topic-{number}" for number in range(5)}
    for name in names:
        here.source.create(name)
    here.refresh()
    here.source.topics.hidden |= names
    here.refresh()
    assert here.copied.keys() == names


@pytest.mark.parametrize("hidden", [False, True])
def test_a_deleted_topic_leaves_the_flow_even_without_rights(
    here: World, caplog: pytest.LogCaptureFixture, *, hidden: bool
) -> None:
    """A broker refuses the name of a deleted topic in the same way; its id is unknown."""
    here.source.create("orders", 2)
    here.refresh()
    if hidden:
        here.source.topics.hidden.add("orders")
        here.refresh()
    here.source.topics.delete("orders")
    here.refresh()
    assert here.copied == {}
    assert "gone from east: orders" in caplog.text
    asked = here.source.asked[METADATA]
    here.refresh()
    assert here.source.asked[METADATA] == asked + 1


def test_a_topic_that_the_file_spells_out_and_the_login_never_saw_is_named_until_it_is_seen(
    caplog: pytest.LogCaptureFixture,
) -> None:
    orders = TopicName("orders")
    with world(topics=("orders", "bills")) as here:
        here.source.create("orders", 2)
        here.source.topics.hidden.add("orders")
        for _ in range(3):
            here.refresh()
        assert here.copied == {}
        # The topic `bills` is absent, and hidden from nobody.
        assert here.topics.missing.keys() == here.topics.refused_topics == {orders}
        assert LACKS in here.topics.missing[orders]
        assert LACKS in (here.topics.refused or "")
        assert caplog.text.count(LACKS) == 1
        here.source.topics.hidden.clear()
        here.refresh()
        assert (here.copied, here.topics.missing, here.topics.refused) == ({"orders": 2}, {}, None)


def test_only_missing_topics_are_asked_for(here: World) -> None:
    here.source.create("orders")
    here.refresh()
    asked = here.source.asked[METADATA], here.target.asked[METADATA]
    here.refresh()
    assert (here.source.asked[METADATA], here.target.asked[METADATA]) == (asked[0] + 1, asked[1] + 1)


def test_a_topic_that_was_hidden_before_the_start_is_known_by_its_positions(
    here: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here.source.create("orders", 3)
    here.target.create("east.orders", 3)
    topic_id = str(here.source.topics.ids["orders"])
    stored = {
        TopicPartition(TopicName("orders"), 2): Position(SourceOffset(7), topic_id=topic_id),
        TopicPartition(TopicName("orders"), 0): Position(SourceOffset(7)),
        # By MirrorMaker 2, and deleted since; its name is refused as well.
        TopicPartition(TopicName("deleted"), 0): Position(SourceOffset(7)),
        TopicPartition(TopicName("strange"), 0): Position(SourceOffset(7), topic_id="no id"),
        TopicPartition(TopicName("__internal"), 0): Position(SourceOffset(7), topic_id=topic_id),
    }
    monkeypatch.setattr(here.topics._positions, "read_all", lambda: stored)
    here.source.topics.hidden |= {"orders", "deleted", "strange", "__internal"}
    here.refresh()
    assert here.copied == {"orders": 3}
    assert here.topics.topic_id(TopicName("orders")) == topic_id
    assert LACKS in caplog.text


def test_a_remote_topic_without_the_right_to_describe_it_is_not_created_again(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    here.source.create("orders", 2)
    here.refresh()
    created = here.target.asked[CREATE_TOPICS]
    here.target.topics.hidden.add("east.orders")
    here.refresh()
    assert (here.copied, here.target.asked[CREATE_TOPICS]) == ({"orders": 2}, created)
    assert "lacks DESCRIBE on topic east.orders, needed for copying to it" in caplog.text
    here.target.topics.hidden.clear()
    here.target.topics.delete("east.orders")
    here.refresh()
    assert (here.copied, here.target.asked[CREATE_TOPICS]) == ({"orders": 2}, created + 1)


def test_a_plan_names_hidden_topics_and_no_deleted_topic(here: World) -> None:
    """A topic that the flow copied has an id, and a topic that the file spells out has none."""
    for name in ("orders", "deleted"):
        here.source.create(name)
    topics = [Topic(TopicName(name), 1, here.source.topics.ids[name]) for name in ("orders", "deleted")]
    absent = Topic(TopicName("absent"), 0)
    here.source.topics.hidden |= {"orders", "deleted"}
    here.source.topics.delete("deleted")
    (problem,) = hidden_topics(here.admins[0], [*topics, absent], "copying it")
    assert problem.text.endswith(LACKS)
    assert hidden_topics(here.admins[0], [absent], "copying it") == []
