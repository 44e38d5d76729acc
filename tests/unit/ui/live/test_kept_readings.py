"""The memory of the console: older reports as points of charts, and the commits that its readings have seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.mirror.groups.test_safe_move import STANDS
from tests.unit.ops.status.test_command import REPORTED
from tests.unit.ui.browser import Browser
from tests.unit.ui.fakes import FLOW, FakeSources, group
from twinlog.errors import ClusterError
from twinlog.mirror.groups.move_facts import MoveFacts
from twinlog.model.types import GroupId, SourceOffset, TargetOffset
from twinlog.ops.groups.checkpoint_history import GroupSyncEvent
from twinlog.ops.groups.snapshot import GroupsSnapshot
from twinlog.ops.status.report_history import ReportHistory
from twinlog.ui.live.kept_readings import MOST_COMMITS, FlowPoint, GroupCommits, points_of_reports
from twinlog.worker.status.report import DriverReport

SHOP = GroupId("shop")
REMOTE = STANDS.remote
assert REMOTE is not None


def report(at_s: float, records: int, **changes: object) -> DriverReport:
    facts = {"record_rate": 5.0, "byte_rate": 50.0, "counts_since_ms": 0, "oldest_ms": None, "lag": 0, "lag_bytes": 0}
    return replace(REPORTED, at_ms=int(at_s * 1000), records=records, bytes=10 * records, **{**facts, **changes})


def rates(*reports: DriverReport) -> list[tuple[float, float | None, float | None]]:
    return [(one.at_ms / 1000, one.record_rate, one.byte_rate) for one in points_of_reports(reports)]


def test_rates_are_means_between_two_reports_of_a_process() -> None:
    assert rates(report(100, 0), report(160, 600), report(220, 6_600)) == [
        (100, 5.0, 50.0),
        (160, 10.0, 100.0),
        (220, 100.0, 1000.0),
    ]


@pytest.mark.parametrize(
    "changes",
    [{"counts_since_ms": 90_000}, {"counts_since_ms": None}, {"process": "host-2"}, {"records": 3}, {"bytes": 1}],
)
def test_another_count_begins_with_the_rate_of_its_report(changes: dict[str, object]) -> None:
    assert rates(report(100, 100), replace(report(160, 900), **changes))[1] == (160, 5.0, 50.0)


def test_a_time_without_reports_is_a_gap() -> None:
    found = rates(*(report(60 * number, 600 * number) for number in (1, 2, 3, 9, 10)))
    assert found[3:] == [(180.001, None, None), (540, 5.0, 50.0), (600, 10.0, 100.0)]


def test_a_clock_that_was_set_back_leaves_reports_out() -> None:
    found = points_of_reports([report(60, 0), report(120, 600), report(100, 700), report(180, 1200)])
    assert [one.at_ms for one in found] == [60_000, 120_000, 180_000]
    assert points_of_reports([]) == []


def test_the_figures_of_a_report_are_those_of_its_snapshot() -> None:
    (point,) = points_of_reports([report(100, 0, lag=7, lag_bytes=70, oldest_ms=97_500, latency_ms=12)])
    assert point == FlowPoint(100_000, 5.0, 50.0, 7, 70, 2.5, 12)
    (point,) = points_of_reports([report(100, 0, lag=-1, lag_bytes=None, latency_ms=-1)])
    assert point == FlowPoint(100_000, 5.0, 50.0)
    (point,) = points_of_reports([report(100, 0, lag=0, unknown=1)])
    assert (point.lag, point.lag_s) == (0, None)


def test_the_page_of_a_flow_gets_the_points_of_a_day(browser: Browser, sources: FakeSources) -> None:
    topic = ReportHistory("mm2-twinlog-progress.a.internal").topic
    sources.only.history = ReportHistory(topic, tuple(report(60 * number, 600 * number) for number in range(3)), True)
    found = browser.get("/ui/api/history?flow=a-%3Eb").json
    assert (found["flow"], found["reading"], found["trouble"]) == (FLOW, False, None)
    assert found["at_s"] == [0, 60, 120]
    assert found["record_rate"] == [5.0, 10.0, 10.0]
    assert found["note"] == (
        "3 reports of topic mm2-twinlog-progress.a.internal since 1970-01-01T00:00:00Z, about one every 60 s. "
        "Earlier reports are left out after 32.0 MB."
    )
    page = browser.get("/ui/flow?flow=a-%3Eb").text
    assert 'data-history="/ui/api/history?flow=a-%3Eb"' in page
    assert browser.get("/ui/api/history?flow=nothing").status == 404


def test_a_topic_without_reports_and_a_silent_cluster_say_so(browser: Browser, sources: FakeSources) -> None:
    found = browser.get("/ui/api/history?flow=a-%3Eb").json
    assert found["note"] == "Topic mm2-twinlog-progress.a.internal has no report of the last 24 hours."
    assert found["at_s"] == []
    poller = browser.app.site.live.flow(FLOW).history  # type: ignore[attr-defined]
    sources.only.history = ClusterError("cluster b: no broker answers")
    for _ in range(2):
        version = poller.reading.version
        poller.hurry()
        assert poller.wait_reading(60.0, version).version > version
    found = browser.get("/ui/api/history?flow=a-%3Eb").json
    assert (found["trouble"], found["note"], found["at_s"]) == ("cluster b: no broker answers", None, [])


def seen(at_ms: int, *facts: MoveFacts, trouble: str | None = None) -> GroupsSnapshot:
    groups = (group("shop", *facts),) if facts else ()
    return GroupsSnapshot(FLOW, at_ms, groups, source_trouble=trouble)


def committed(target: int | None, source: int = 0, checkpoint: int = 0) -> MoveFacts:
    return replace(
        STANDS,
        group=SHOP,
        target_committed=None if target is None else TargetOffset(target),
        checkpoint_source=SourceOffset(source),
        checkpoint_target=TargetOffset(checkpoint),
    )


def test_a_commit_is_a_change_between_two_readings() -> None:
    commits = GroupCommits()
    for at_ms, facts in enumerate(
        [committed(None), committed(5), committed(5), committed(8, 80, 8), committed(9, 80, 8)]
    ):
        commits.note(seen(at_ms, facts))
    assert commits.commits(SHOP) == [
        GroupSyncEvent(3, REMOTE, SourceOffset(80), TargetOffset(8)),
        GroupSyncEvent(4, REMOTE, None, TargetOffset(9)),
    ]
    assert commits.commits(GroupId("nobody")) == []


def test_kept_commits_are_bounded_and_those_of_gone_groups_are_forgotten() -> None:
    commits = GroupCommits()
    for number in range(MOST_COMMITS + 10):
        commits.note(seen(number, committed(number)))
    found = commits.commits(SHOP)
    assert (len(found), found[-1].target) == (MOST_COMMITS, MOST_COMMITS + 9)
    commits.note(seen(999, trouble="the source is silent"))
    assert commits.commits(SHOP) == found
    commits.note(seen(1000))
    assert commits.commits(SHOP) == []
    commits.note(seen(1001, committed(3)))
    assert commits.commits(SHOP) == [], "the commit before is unknown"


def test_the_page_of_a_group_has_its_syncs_the_newest_first(browser: Browser, sources: FakeSources) -> None:
    live = browser.app.site.live.flow(FLOW)  # type: ignore[attr-defined]
    for at_ms, target in ((1500, 69), (2500, STANDS.target_committed)):
        live.commits.note(seen(at_ms, committed(target)))
    sources.only.checkpoints = {
        SHOP: tuple(
            GroupSyncEvent(1000 * number, REMOTE, SourceOffset(number), TargetOffset(number)) for number in (1, 2, 3)
        ),
        GroupId("till"): (GroupSyncEvent(9000, REMOTE, SourceOffset(9), TargetOffset(9)),),
    }
    url = "/ui/group?flow=a-%3Eb&group=shop"
    rows = browser.json(url)["syncs"]
    assert [(one["at_ms"], one["kind"], one["source_offset"], one["target_offset"]) for one in rows] == [
        (3000, "checkpoint", 3, 3),
        (2500, "commit", None, 70),
        (2000, "checkpoint", 2, 2),
        (1000, "checkpoint", 1, 1),
    ]
    assert {one["partition"] for one in rows} == {str(REMOTE)}
    text = browser.get(url).text
    assert "since this console began" in text
    assert "live=groups%3Aa-%3Eb&amp;live=checkpoints%3Aa-%3Eb" in text


def test_silent_checkpoints_are_a_part_of_the_page(browser: Browser, sources: FakeSources) -> None:
    sources.only.checkpoints = ClusterError("cluster b: no broker answers")
    answer = browser.get("/ui/group?flow=a-%3Eb&group=shop")
    assert answer.status == 200
    assert "The checkpoints are unknown: cluster b: no broker answers" in answer.text
