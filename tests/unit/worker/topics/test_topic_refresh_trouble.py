"""Remote topics where topics come, grow and are recreated, and where a cluster refuses or does not answer.

The real refresh between clusters of this process, in virtual time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.requests import CREATE_PARTITIONS, CREATE_TOPICS, DESCRIBE_CONFIGS, METADATA
from tests.unit.worker.topics.refreshing import World, retried, world
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.retry import REFUSED
from twinlog.model.topics import DEFAULT_MAX_MESSAGE_BYTES
from twinlog.model.types import TopicName
from twinlog.worker.topics import topic_conflicts

THROTTLING_QUOTA_EXCEEDED = 89


@pytest.fixture
def here() -> Iterator[World]:
    with world() as one:
        yield one


def test_a_new_topic_gets_a_remote_topic_like_it_and_nothing_is_asked_twice(here: World) -> None:
    here.source.create("orders", 3, **{"retention.ms": "1000", "max.message.bytes": "5000"})
    here.refresh()
    assert here.copied == {"orders": 3}
    assert here.target.topics.configs["east.orders"] == {"retention.ms": "1000", "max.message.bytes": "5000"}
    assert here.topics.limit(TopicName("east.orders")) == 5000
    assert here.topics.topic_id(TopicName("orders")) == str(here.source.topics.ids["orders"])
    here.source.create("bills", 1)
    here.refresh()
    assert here.copied == {"orders": 3, "bills": 1}
    asked = [here.target.asked[key] for key in (CREATE_TOPICS, CREATE_PARTITIONS, DESCRIBE_CONFIGS)]
    here.refresh()
    assert asked == [2, 0, 2]
    assert asked == [here.target.asked[key] for key in (CREATE_TOPICS, CREATE_PARTITIONS, DESCRIBE_CONFIGS)]


def test_a_topic_that_grows_is_followed(here: World) -> None:
    here.source.create("orders", 2)
    here.refresh()
    here.source.topics.grow("orders", 5)
    here.refresh()
    assert here.copied == {"orders": 5}
    assert here.target.topics.count("east.orders") == 5


def test_a_topic_that_was_recreated_has_another_id_and_the_same_remote_topic(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    here.source.create("orders", 3)
    here.refresh()
    remote, first = here.target.topics.ids["east.orders"], here.topics.topic_id(TopicName("orders"))
    here.source.topics.delete("orders")
    here.refresh()
    assert here.copied == {}
    assert "gone from east: orders; what was copied stays on west" in caplog.text
    here.source.create("orders", 2)
    here.refresh()
    # The remote topic is never made smaller.
    assert (here.copied, here.target.topics.count("east.orders")) == ({"orders": 2}, 3)
    assert here.topics.topic_id(TopicName("orders")) != first
    assert here.target.topics.ids["east.orders"] == remote


def test_a_remote_topic_that_was_deleted_is_created_again(here: World) -> None:
    here.source.create("orders", 2)
    here.refresh()
    here.target.topics.delete("east.orders")
    here.refresh()
    assert here.copied == {"orders": 2}
    assert here.target.topics.count("east.orders") == 2


def test_a_topic_that_another_process_creates_in_the_same_moment_counts(here: World) -> None:
    here.source.create("orders", 2)
    here.target.codes(CREATE_TOPICS, "east.orders", Code.TOPIC_ALREADY_EXISTS, partition=-1)
    create = here.target.topics.create
    here.loop.net.call_later(0.002, lambda: create("east.orders", 2, {}))
    here.refresh()
    assert (here.copied, here.topics.refused) == ({"orders": 2}, None)


# What is refused.


def test_topics_for_which_the_target_is_too_busy_are_created_after_a_moment(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("bills", "orders", "parcels"):
        here.source.create(name, 2)
    for name in ("east.bills", "east.orders"):
        here.target.codes(CREATE_TOPICS, name, *[THROTTLING_QUOTA_EXCEEDED] * 3, partition=-1)
    now = here.loop.clock.monotonic
    pauses = []
    for _ in range(3):
        here.refresh()
        assert here.copied == {"parcels": 2}
        assert here.topics.refused_topics == {"bills", "orders"}
        pauses.append(here.topics.due_at - now())
        # Looking for topics meanwhile puts nothing off.
        here.pass_by(0.5)
        here.refresh()
        here.pass_by(here.topics.due_at - now())
    assert all(0.8 * about <= pause <= 1.2 * about for about, pause in zip((1, 2, 4), pauses, strict=True))
    here.refresh()
    assert here.copied == {"bills": 2, "orders": 2, "parcels": 2}
    assert (here.topics.due_at, here.topics.refused) == (inf, None)
    assert [one.levelname for one in caplog.records if "east.bills" in one.getMessage()] == ["WARNING", "INFO"]


@pytest.mark.parametrize("code", [THROTTLING_QUOTA_EXCEEDED, Code.TOPIC_AUTHORIZATION_FAILED])
def test_a_refused_topic_that_is_created_by_hand_is_copied_and_refused_no_more(here: World, code: int) -> None:
    here.source.create("orders", 2)
    here.target.topics.refusals["east.orders"] = (code, "")
    here.refresh()
    assert here.topics.refused_topics == {"orders"}
    here.target.create("east.orders", 2)
    here.refresh()
    assert here.copied == {"orders": 2}
    assert (here.topics.refused, here.topics.missing, here.topics.due_at) == (None, {}, inf)


def test_without_the_right_to_create_a_topic_the_others_are_copied_until_it_is_granted(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("bills", "orders"):
        here.source.create(name, 2)
    here.target.topics.refusals["east.bills"] = (Code.TOPIC_AUTHORIZATION_FAILED, "")
    for _ in range(3):
        here.refresh()
    assert here.copied == {"orders": 2}
    assert "lacks CREATE on topic east.bills" in (here.topics.refused or "")
    assert "lacks CREATE on topic east.bills" in here.topics.missing.pop(TopicName("bills"))
    assert caplog.text.count("remote topic east.bills: ") == 1
    # A run until all is copied goes on with the others.
    here.topics.require_all()
    # Nor is it asked for all the time.
    assert here.target.asked[CREATE_TOPICS] == 1
    here.target.topics.refusals.clear()
    here.refresh()
    assert here.copied == {"orders": 2}
    here.pass_by(REFUSED.first_s)
    here.refresh()
    assert (here.copied, here.topics.refused) == ({"bills": 2, "orders": 2}, None)
    here.topics.require_all()


def test_of_topics_that_may_not_grow_the_first_partitions_are_copied(here: World) -> None:
    for name in ("bills", "orders"):
        here.source.create(name, 1)
    here.refresh()
    for name in ("bills", "orders"):
        here.source.topics.grow(name, 4)
    here.target.topics.refusals["east.bills"] = (Code.TOPIC_AUTHORIZATION_FAILED, "")
    here.refresh()
    assert here.copied == {"bills": 1, "orders": 4}
    assert "lacks ALTER on topic east.bills" in (here.topics.refused or "")
    here.target.topics.refusals.clear()
    here.pass_by(REFUSED.first_s)
    here.refresh()
    assert (here.copied, here.topics.refused) == ({"bills": 4, "orders": 4}, None)


def test_a_topic_whose_settings_are_hidden_is_not_created_without_them(here: World) -> None:
    for name in ("bills", "orders"):
        here.source.create(name)
    here.source.codes(DESCRIBE_CONFIGS, "bills", Code.TOPIC_AUTHORIZATION_FAILED, partition=-1)
    here.refresh()
    assert here.copied == {"orders": 1}
    assert "lacks DESCRIBE_CONFIGS on topic bills" in (here.topics.refused or "")
    here.pass_by(REFUSED.first_s)
    here.refresh()
    assert here.copied == {"bills": 1, "orders": 1}


def test_a_remote_topic_whose_settings_are_hidden_is_taken_to_have_the_default(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    here.source.create("orders", **{"max.message.bytes": "5000"})
    here.target.codes(DESCRIBE_CONFIGS, "east.orders", Code.TOPIC_AUTHORIZATION_FAILED, partition=-1)
    here.refresh()
    assert here.copied == {"orders": 1}
    assert here.topics.limit(TopicName("east.orders")) == DEFAULT_MAX_MESSAGE_BYTES
    assert "the default is taken, and what the target refuses is split" in caplog.text


def test_what_a_policy_of_the_target_refuses_is_named_with_its_words(here: World) -> None:
    for name in ("bills", "orders"):
        here.source.create(name)
    here.target.topics.refusals["east.bills"] = (Code.POLICY_VIOLATION, "names begin with the team's")
    here.refresh()
    assert here.copied == {"orders": 1}
    assert here.topics.refused == "east.bills: names begin with the team's"


@pytest.mark.parametrize("code", [Code.INVALID_CONFIG, Code.POLICY_VIOLATION])
@pytest.mark.parametrize("words", ["retention.ms is too small", "see the rules of this cluster"])
def test_a_topic_is_created_without_a_setting_that_the_target_refuses(
    here: World, caplog: pytest.LogCaptureFixture, code: int, words: str
) -> None:
    here.source.create("orders", **{"retention.ms": "1", "cleanup.policy": "compact"})
    here.target.topics.refuse = lambda _, configs: (
        code if "retention.ms" in configs else 0,
        words,
    )
    here.refresh()
    assert here.copied == {"orders": 1}
    assert here.target.topics.configs["east.orders"]["cleanup.policy"] == "compact"
    assert f"cluster west refuses retention.ms of east.orders ({words}); created without" in caplog.text


def test_a_topic_that_cannot_have_so_many_replicas_gets_as_many_as_the_broker_gives_it(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    here.source.create("orders")
    here.target.codes(CREATE_TOPICS, "east.orders", Code.INVALID_REPLICATION_FACTOR, partition=-1)
    with caplog.at_level(logging.WARNING):
        here.refresh()
    assert here.copied == {"orders": 1}
    assert "refuses replication factor 2 of east.orders" in caplog.text


def test_its_own_topics_do_without_bounds_that_a_policy_refuses() -> None:
    refused: list[str] = []

    def strict(topic: str, configs: Mapping[str, str]) -> tuple[int, str]:
        if "segment.bytes" in configs:
            refused.append(topic)
            return Code.POLICY_VIOLATION, "segments are for the operators"
        return 0, ""

    with world(refuse=strict) as here:
        assert len(set(refused)) == 3
        assert all(here.target.topics.count(topic) for topic in refused)


# Who does not answer.


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_cluster_that_does_not_answer_changes_nothing(here: World, side: str) -> None:
    here.source.create("orders", 2)
    here.refresh()
    here.source.create("bills")
    away: VirtualCluster = getattr(here, side)
    for node in away.nodes:
        away.stop(node)
    with pytest.raises(ClusterError):
        here.refresh()
    assert here.copied == {"orders": 2}
    for node in away.nodes:
        away.start(node)
    retried(here.refresh, here)
    assert here.copied == {"orders": 2, "bills": 1}


@pytest.mark.parametrize("done", [True, False])
def test_an_answer_that_is_lost_leaves_the_topic_to_the_next_look(here: World, *, done: bool) -> None:
    """Whether the target has created it meanwhile or not."""
    here.source.create("orders", 2)
    here.target.fault(CREATE_TOPICS, Fault(lost=True, done=done))
    with pytest.raises(ClusterError):
        here.refresh()
    assert here.target.topics.count("east.orders") == (2 if done else 0)
    retried(here.refresh, here)
    assert here.copied == {"orders": 2}
    assert here.target.asked[CREATE_TOPICS] == (1 if done else 2)


def test_of_many_topics_those_that_were_created_are_copied(here: World, caplog: pytest.LogCaptureFixture) -> None:
    """The first request of two is carried out, the second one gets no answer; each topic is logged once."""
    caplog.set_level(logging.INFO)
    for number in range(150):
        here.source.create(f"topic-{number:03}")
    here.target.fault(CREATE_TOPICS, Fault(), topic="east.topic-000")
    here.target.fault(CREATE_TOPICS, Fault(lost=True), topic="east.topic-149")
    with pytest.raises(ClusterError):
        here.refresh()
    assert sum(name.startswith("east.topic-") for name in here.target.topics.ids) == 100
    retried(here.refresh, here)
    assert len(here.copied) == 150
    created = [text.split()[4] for text in caplog.messages if "created remote topic" in text]
    assert sorted(created) == [f"east.topic-{number:03}" for number in range(150)]


@pytest.mark.parametrize("leaderless", [(0, 1), (1,)])
def test_a_remote_topic_without_a_leader_is_waited_for_but_not_each_of_its_partitions(
    here: World, leaderless: tuple[int, ...]
) -> None:
    here.source.create("orders", 2)
    create = here.target.topics.create

    def found(topic: str) -> None:
        for number in leaderless:
            here.target.move(topic, number, 2)

    def late(topic: str, partitions: int, configs: dict[str, str]) -> None:
        create(topic, partitions, configs)
        for number in leaderless:
            here.target.move(topic, number, None)
        here.target.later(12.0, lambda: found(topic))

    here.target.topics.create = late  # type: ignore[method-assign]
    begun = here.loop.clock.monotonic()
    here.refresh()
    assert (here.loop.clock.monotonic() - begun >= 12) == (0 in leaderless)
    assert here.copied == {"orders": 2}


def test_a_topic_that_a_broker_leaves_out_of_a_list_is_found_by_its_name(here: World) -> None:
    here.source.create("orders", 2)
    here.refresh()
    here.source.fault(METADATA, Fault(code=Code.TOPIC_AUTHORIZATION_FAILED))
    here.refresh()
    assert here.copied == {"orders": 2}


# Two flows into one topic.


class AtOnce:
    """In the place of a thread that looks again and again: it has looked once when it was started."""

    clock: Any = None

    def __init__(self, target: Callable[[], None], **_: Any) -> None:
        self._target = target

    def start(self) -> None:
        meanwhile = self.clock.meanwhile

        def looked(_true: Callable[[], bool], _most_s: float) -> None:
            raise InterruptedError

        self.clock.meanwhile = looked
        try:
            self._target()
        except InterruptedError:
            pass
        finally:
            self.clock.meanwhile = meanwhile

    def join(self, _timeout_s: float) -> None:
        """It has ended."""


def test_a_topic_that_an_earlier_flow_of_the_file_copies_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_conflicts.threading, "Thread", AtOnce)
    with world(rival=True) as here:
        monkeypatch.setattr(AtOnce, "clock", here.loop.clock)
        here.source.create("orders")
        here.source.create("bills")
        here.north.create("orders")
        here.refresh()
        assert here.copied == {"bills": 1}
        with pytest.raises(RefusedError, match=r"orders: north->west copies orders of north to the same topic orders"):
            here.topics.require_all()


def test_a_topic_is_left_to_another_flow_once_that_is_to_copy_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has changed while both run."""
    monkeypatch.setattr(topic_conflicts.threading, "Thread", AtOnce)
    with world(rival=True) as here:
        monkeypatch.setattr(AtOnce, "clock", here.loop.clock)
        for cluster in (here.source, here.north):
            cluster.create("orders")
        rival, own = here.topics._flows
        here.topics.change_settings(own, [replace(rival, topics=("other",)), own])
        here.refresh()
        assert here.copied == {"orders": 1}
        here.topics.change_settings(own, [rival, own])
        here.refresh()
        assert here.copied == {}
        assert "north->west copies orders of north" in here.topics.left_out[TopicName("orders")]


def test_without_a_thread_to_look_for_conflicts_nothing_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: AtOnce) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(AtOnce, "start", full)
    monkeypatch.setattr(topic_conflicts.threading, "Thread", AtOnce)
    with world(rival=True) as here:
        here.source.create("orders")
        with pytest.raises(ClusterError, match=r"the topics of north cannot be looked at yet"):
            here.refresh()
        assert here.target.topics.count("orders") == 0
