"""Whether a flow may report that all is copied."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.topics.refreshing import world
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.errors import RefusedError
from twinlog.kafka.admin.topics import find_unlisted_topics
from twinlog.mirror.topics.remote_topics import TopicMirror
from twinlog.model.topics import Topic
from twinlog.model.types import TopicName
from twinlog.worker.topics.topic_refresh import TopicRefresh


class Cluster:
    """Has topics of one partition."""

    client = None
    clock = VirtualClock()

    def __init__(self, *names: str) -> None:
        self.names = names

    def topics(self) -> dict[TopicName, Topic]:
        return {TopicName(name): Topic(TopicName(name), 1) for name in self.names}

    def call(self, step: object, *_: object) -> tuple[dict[str, Any], Any]:
        return {}, frozenset() if step is find_unlisted_topics else {}


def test_not_everything_is_copied_where_the_flows_own_naming_takes_a_topic_for_a_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TopicMirror, "create", lambda *_: {})
    positions: Any = SimpleNamespace(read=lambda _: {}, read_all=dict)
    there = flow("a", "b", "default")

    def mirrored(*names: str, excluded: tuple[str, ...] = ()) -> TopicRefresh:
        settings = replace(there, topics_exclude=excluded)
        found = TopicRefresh(settings, (settings,), Cluster(*names), Cluster("t"), positions)  # type: ignore[arg-type]
        found.refresh()
        return found

    mirrored("t", "b.t", "b.heartbeats", "c.t").require_all()
    found = mirrored("t", "b.t", "b.own", "c.t")
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"^b\.own: not mirrored: by its name it is a copy"):
            found.require_all()
        found.refresh()
    mirrored("t", "b.own", excluded=("b.own",)).require_all()


def test_not_everything_is_copied_where_a_topic_of_ones_own_looks_like_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicMirror, "create", lambda *_: {})
    there, back = flow("a", "b", "default"), replace(flow("b", "a", "default"), separator="_")
    positions: Any = SimpleNamespace(read=lambda _: {}, read_all=dict)
    target = Cluster("t")

    def mirrored(topics: tuple[str, ...], *names: str) -> TopicRefresh:
        settings = replace(there, topics=topics)
        found = TopicRefresh(settings, (settings, back), Cluster(*names), target, positions)  # type: ignore[arg-type]
        found.refresh()
        return found

    mirrored((".*",), "t", "b_t", "b_heartbeats").require_all()
    found = mirrored((".*",), "t", "b_t", "b_own")
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"b_own: not mirrored: .*the original is missing there") as raised:
            found.require_all()
        assert "b_t" not in str(raised.value)
        found.refresh()
    mirrored((".*", "b_own"), "t", "b_own").require_all()
    found = mirrored((".*",), "t", "b_own")
    target.names = ("t", "own")
    # Of one that is seen without an original at first nobody knows more later.
    found.refresh()
    with pytest.raises(RefusedError):
        found.require_all()
    mirrored((".*",), "t", "b_own").require_all()


@pytest.mark.parametrize(
    ("topics", "names", "only_copies"),
    [
        ((".*",), ("b.t", "b.heartbeats", "heartbeats"), True),
        # As in a file that names the same topics for both directions.
        (("t",), ("b.t",), True),
        (("u",), ("b.t", "t"), False),
        # There may be some that the login must not see.
        ((".*",), (), False),
    ],
)
def test_where_no_topic_is_mirrored_a_passive_cluster_is_known_by_its_copies(
    monkeypatch: pytest.MonkeyPatch, topics: tuple[str, ...], names: tuple[str, ...], only_copies: bool
) -> None:
    monkeypatch.setattr(TopicMirror, "create", lambda *_: {})
    settings = replace(flow("a", "b", "default"), topics=topics)
    positions: Any = SimpleNamespace(read=lambda _: {}, read_all=dict)
    found = TopicRefresh(settings, (settings,), Cluster(*names), Cluster("t"), positions)  # type: ignore[arg-type]
    found.refresh()
    assert (found.nothing is not None, found.only_copies) == (True, only_copies)


def test_topics_come_and_go_with_other_settings(caplog: pytest.LogCaptureFixture) -> None:
    with world() as here:
        for name in ("kept", "more", "shared"):
            here.source.create(name)
        kept = replace(here.settings, topics=("kept",))
        here.topics.change_settings(kept, [kept])
        here.refresh()
        assert here.copied == {"kept": 1}
        both = replace(here.settings, topics=("kept", "more"))
        here.topics.change_settings(both, [both])
        here.refresh()
        assert here.copied == {"kept": 1, "more": 1}
        here.topics.change_settings(kept, [kept])
        here.refresh()
        assert here.copied == {"kept": 1}
        # Nothing is gone from the source.
        assert "gone from" not in caplog.text
        nothing = replace(here.settings, topics=("nothing",))
        for _ in range(2):
            here.topics.change_settings(nothing, [nothing])
            here.refresh()
        assert caplog.text.count("no topic of east is mirrored") == 1
