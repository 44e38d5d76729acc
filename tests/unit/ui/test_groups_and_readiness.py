"""The pages of groups, and of failover readiness: the verdicts of the commands, with evidence and age."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.unit.mirror.groups.test_safe_move import STANDS
from tests.unit.ops.status.test_command import REPORTED
from tests.unit.ops.switchover.machines import A_TO_B
from tests.unit.ops.switchover.scripted import Brokers, Kill
from tests.unit.ui.browser import Browser
from tests.unit.ui.fakes import (
    HELD,
    FakeAnswers,
    FakeRehearsalReader,
    FakeSources,
    ScriptedClusters,
    group,
    rehearsed,
    snapshot,
)
from twinlog.errors import ClusterError
from twinlog.mirror.unlisted_topics import HiddenOffsets
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.switchover.clusters import LiveClusters
from twinlog.ops.switchover.model import MovedGroups, MovedTopic, Preflight, SwitchoverOptions
from twinlog.ui.app import ConsoleApp
from twinlog.ui.live.poller import LivePoller, LiveReading
from twinlog.ui.rehearsal import Rehearsal, RehearsalReader

READY = "/ui/readiness?flow=a-%3Eb"
BEHIND = replace(STANDS, group=GroupId("late"), copied=SourceOffset(0))


def test_groups_have_the_verdicts_of_the_command(browser: Browser, sources: FakeSources) -> None:
    sources.only.groups = [group("shop"), group("late", BEHIND)]
    page = browser.json("/ui/groups?sort=answer")
    rows = {row["group"]: row for row in page["groups"]["rows"]}
    assert rows["shop"]["answer"] == "yes"
    assert rows["late"]["answer"] == "no"
    assert rows["late"]["reasons"]
    assert "1 of 2 groups may move now" in page["summary"]
    text = browser.get("/ui/groups").text
    assert rows["late"]["reasons"][0]["text"].split("'")[0] in text.replace("&#39;", "'")
    assert browser.json("/ui/groups?search=LAT")["groups"]["matching"] == 1


def test_a_group_shows_its_offsets_on_both_sides(browser: Browser) -> None:
    page = browser.json("/ui/group?flow=a-%3Eb&group=shop")
    (row,) = page["partitions"]["rows"]
    assert (row["source_offset"], row["translated"], row["target_offset"]) == (
        STANDS.committed,
        STANDS.translated,
        STANDS.target_committed,
    )
    assert (row["repeats"], row["skips"], row["answer"]) == (0, 0, "yes")
    assert browser.get("/ui/group?flow=a-%3Eb&group=shop").status == 200
    assert browser.get("/ui/group?flow=a-%3Eb&group=../nothing").status == 404


@pytest.mark.parametrize(
    ("changes", "cell"),
    [
        ({"target_committed": TargetOffset(75)}, "up to 5"),
        ({"exact": False, "past_copies": TargetOffset(77)}, "up to 7"),
    ],
)
def test_the_most_repeats_and_skips_of_a_group_are_shown_as_bounds(
    browser: Browser, sources: FakeSources, changes: dict[str, Any], cell: str
) -> None:
    sources.only.groups = [group("shop", replace(STANDS, **changes))]
    assert f'<td class="number">{cell}</td>' in browser.get("/ui/group?flow=a-%3Eb&group=shop").text


def test_silent_groups_are_a_part_of_the_page(browser: Browser, sources: FakeSources) -> None:
    sources.only.groups = ClusterError("cluster b: no broker answers")
    assert "no broker answers" in browser.get("/ui/groups").text
    assert browser.get("/ui/group?flow=a-%3Eb&group=shop").status == 502


def test_offsets_that_the_source_hides_are_no_green_check_of_groups(browser: Browser, sources: FakeSources) -> None:
    sources.only.hidden = HiddenOffsets((TopicName("orders"),), "cluster a: User:x lacks DESCRIBE on topic orders")
    checks = {one["check"]: one for one in browser.json(READY)["checks"]}
    assert not checks["Consumer groups"]["good"]
    assert "the source hides the offsets of groups in topic orders" in checks["Consumer groups"]["evidence"]


def test_the_answer_is_that_of_the_rehearsal(browser: Browser, sources: FakeSources) -> None:
    page = browser.json(READY)
    assert (page["ready"], page["seconds_without_producers"], page["loss_if_source_is_lost"]) == ("yes", 4.2, 1204)
    assert (len(page["steps"][0]["calls"]), page["steps"][0]["more_calls"]) == (20, 10)
    text = browser.get(READY).text
    assert "May a switchover from a to b begin now?" in text
    assert "1,204 at most" in text
    assert "super users pass" in text
    assert {one["check"] for one in page["checks"]} == {
        "State of the flow",
        "Records to copy",
        "Held partitions",
        "Paused partitions",
        "Missing remote topics",
        "Proof of equality",
        "Heartbeats",
        "Consumer groups",
    }
    assert all(one["read_at_ms"] for one in page["checks"])


@pytest.mark.parametrize("failure", [rehearsed("orders: nothing is copied yet"), ClusterError("a is silent")])
def test_an_obstacle_or_a_silent_cluster_is_never_a_yes(
    browser: Browser, sources: FakeSources, failure: Exception
) -> None:
    sources.only.rehearsal = failure
    page = browser.json(READY)
    assert page["ready"] == ("unknown" if isinstance(failure, Exception) else "no")
    assert page["seconds_without_producers"] is None
    assert ("a is silent" if isinstance(failure, Exception) else "nothing is copied yet") in browser.get(READY).text


def test_a_check_with_trouble_says_so(browser: Browser, sources: FakeSources) -> None:
    sources.only.flow = snapshot(replace(REPORTED, held=1, held_partitions=(HELD,), missing=2))
    sources.only.groups = [group("late", BEHIND)]
    found = {one["check"]: one for one in browser.json(READY)["checks"]}
    assert [found[name]["good"] for name in ("Held partitions", "Missing remote topics", "Consumer groups")] == [
        False,
        False,
        False,
    ]
    assert found["Held partitions"]["evidence"] == "1 partition"


def test_after_a_failed_repetition_the_last_answer_counts_as_unknown(browser: Browser, sources: FakeSources) -> None:
    assert browser.json(READY)["ready"] == "yes"
    sources.only.rehearsal = ClusterError("a is silent")
    app = browser.app
    poller = app.site.live.flow("a->b").rehearsal  # type: ignore[attr-defined]
    poller.hurry()
    poller.wait_reading(60, poller.reading.version)
    assert browser.json(READY)["ready"] == "unknown"


class GatedRehearsal(FakeRehearsalReader):
    """A rehearsal that ends with its gate."""

    def __init__(self, answers: FakeAnswers, gate: threading.Event) -> None:
        super().__init__(answers)
        self._gate = gate

    def read(self) -> Rehearsal:
        assert self._gate.wait(60)
        return super().read()


def test_the_page_is_shown_before_the_end_of_its_rehearsal(
    browser: Browser, app: ConsoleApp, sources: FakeSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    monkeypatch.setattr(sources, "open_rehearsal", lambda name: GatedRehearsal(sources.answers[name], gate))
    waited: list[str] = []
    wait = LivePoller.wait_fresh

    def watch(poller: LivePoller[Any], timeout_s: float) -> LiveReading[Any]:
        waited.append(poller.name)
        return wait(poller, timeout_s)

    monkeypatch.setattr(LivePoller, "wait_fresh", watch)
    text = browser.get(READY).text
    assert "rehearsal of a->b" not in waited
    assert "The rehearsal runs; it takes some seconds." in text
    assert "State of the flow" in text
    gate.set()
    app.site.live.flow("a->b").rehearsal.wait_reading(60)
    text = browser.get(READY).text
    assert "By a rehearsal at" in text
    assert '<span class="word running">yes</span>' in text


class KnowingClusters(ScriptedClusters):
    """Clusters that know each group of an earlier pre-flight until they forget it; the source has `listed` groups."""

    def __init__(self) -> None:
        super().__init__(Brokers(A_TO_B), Kill(), threading.Event())
        self.listed = {"shop", "till"}
        self.known: set[str] = set()
        self.asked: list[str] = []

    def preflight(self, options: SwitchoverOptions) -> Preflight:
        self.known |= self.listed
        return replace(super().preflight(options), groups=tuple(sorted(self.known)))

    def forget_groups(self) -> None:
        self.known.clear()

    def groups(
        self,
        topics: Collection[MovedTopic],
        cut: Mapping[TopicPartition, int],
        there: Mapping[TopicPartition, int],
        began: Mapping[TopicPartition, int],
        known: Collection[str],
    ) -> MovedGroups:
        self.asked = list(known)
        return MovedGroups({}, {}, ())


def test_a_deleted_group_leaves_the_next_rehearsal() -> None:
    world = KnowingClusters()
    reader = RehearsalReader(lambda: cast(LiveClusters, world))
    reader.read()
    assert world.asked == ["shop", "till"]
    world.listed = {"shop"}
    reader.read()
    assert world.asked == ["shop"]
