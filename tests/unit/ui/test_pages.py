"""The pages of the console: their content, their twins in JSON, and the answers to failures."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

import pytest

from tests.unit.ops.status.test_command import REPORTED
from tests.unit.ops.status.test_state import NOW
from tests.unit.ui.browser import Browser
from tests.unit.ui.fakes import FLOW, HELD, FakeSources, snapshot, topic
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.errors import ClusterError
from twinlog.model.amounts import shown_moment
from twinlog.ops.status.status_text import flow_json
from twinlog.ops.topics.snapshot import TopicState
from twinlog.ui.app import console_app
from twinlog.worker.status.report import GroupsProgress, LogLevelProgress, TaskPlace

PAGES = ("/ui/", "/ui/flow?flow=a-%3Eb", "/ui/topics", "/ui/topic?flow=a-%3Eb&topic=orders")


def test_the_overview_shows_each_flow_with_the_words_and_figures_of_status(browser: Browser) -> None:
    text = browser.get("/ui/").text
    assert "<title>Overview · twinlog</title>" in text
    for shown in ("a-&gt;b", "running", "1,000", "2.0 MB", "1,204", "1.2 MB", "last error: gap: lost"):
        assert shown in text, shown
    (row,) = browser.json("/ui/")["flows"]
    expected = flow_json(snapshot())
    assert row["state"] == expected["state"]
    assert row["figures"]["lag"]["records"] == expected["lag"]["records"] == 1204


@pytest.mark.parametrize("page", PAGES)
def test_each_page_has_a_twin_and_answers_head(browser: Browser, page: str) -> None:
    answer = browser.get(page)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    twin = browser.json(page)
    path = page.replace("/ui/", "/ui/api/", 1)
    assert browser.get("/ui/api/overview" if path == "/ui/api/" else path).json.keys() == twin.keys()
    assert browser.ask("HEAD", page).status == 200
    assert answer.headers["cache-control"] == "no-store"


def test_the_live_part_alone_is_a_part_of_the_page(browser: Browser) -> None:
    for page in PAGES:
        part = browser.get(page, hx_request="true", hx_target="div#live").text
        assert "<html" not in part
        assert "<table" in part


def test_a_failed_refresh_of_the_live_part_is_a_part_of_the_page(browser: Browser) -> None:
    part = browser.get("/ui/flow?flow=nothing", hx_request="true", hx_target="div#live")
    assert part.status == 404
    assert "The flow &#39;nothing&#39; is unknown" in part.text
    for tag in ("<html", "<h1", "<nav", "<main"):
        assert tag not in part.text, tag
    assert "<h1>Unknown</h1>" in browser.get("/ui/flow?flow=nothing").text


def test_what_needs_attention_comes_first_with_its_id_and_the_way_out(browser: Browser, sources: FakeSources) -> None:
    sources.only.flow = snapshot(replace(REPORTED, held=1, held_by_reason=(("gap", 1),), held_partitions=(HELD,)))
    first, *rest = browser.json("/ui/")["attention"]
    assert (first["urgency"], first["message_id"], first["way_out"]) == ("held", "TW-GAP-01", "accept the gap")
    assert first["since_ms"] == HELD.since_ms
    assert [one["urgency"] for one in rest] == ["note"]
    text = browser.get("/ui/flow?flow=a-%3Eb").text
    assert "TW-GAP-01" in text
    assert "Way out:</b> accept the gap" in text


def test_partitions_of_unknown_lag_stand_beside_the_lag(browser: Browser, sources: FakeSources) -> None:
    sources.only.flow = snapshot(replace(REPORTED, lag=0, lag_bytes=0, oldest_ms=None, unknown=2, eta_s=None))
    text = browser.get("/ui/flow?flow=a-%3Eb").text
    assert "<dd>0 records, of 2 partitions unknown, ?, oldest record ?" in text
    assert browser.json("/ui/flow?flow=a-%3Eb")["figures"]["lag"]["bytes"] is None
    assert "<dt>Time to catch up</dt><dd>?</dd>" in text
    assert "lag 0 + 2 unknown" in browser.get("/ui/").text


@pytest.mark.parametrize(
    ("groups", "shown"),
    [
        (GroupsProgress(7, inexact=1), "7 followed, 1 with offsets that lack an exact translation</dd>"),
        (GroupsProgress(7, ahead=2), "exact translation, 2 ahead of their translation on the target</dd>"),
        (GroupsProgress(7, before_start=3), "exact translation, 3 before the first record of the target</dd>"),
    ],
)
def test_a_flow_shows_each_kind_of_unsafe_group(
    browser: Browser, sources: FakeSources, groups: GroupsProgress, shown: str
) -> None:
    sources.only.flow = snapshot(replace(REPORTED, groups=groups))
    assert shown in browser.get("/ui/flow?flow=a-%3Eb").text


def test_held_partitions_without_a_report_are_unknown(browser: Browser, sources: FakeSources) -> None:
    sources.only.flow = ClusterError("cluster b: no broker answers")
    text = browser.get("/ui/flow?flow=a-%3Eb").text
    assert 'Held partitions <span class="count">?</span>' in text
    assert "No partition is held" not in text


def test_a_silent_cluster_is_a_part_of_the_page(browser: Browser, sources: FakeSources) -> None:
    sources.only.flow = ClusterError("cluster b: no broker answers")
    answer = browser.get("/ui/")
    assert answer.status == 200
    assert "no broker answers" in answer.text
    (row,) = browser.json("/ui/")["flows"]
    assert (row["state"], row["figures"]) == ("unknown", None)


def test_an_unexpected_error_has_no_stack_on_the_page(browser: Browser, sources: FakeSources) -> None:
    sources.only.flow = ValueError("secret")
    text = browser.get("/ui/").text
    assert "TW-FAULT-04" in text
    assert "ValueError" not in text
    assert "secret" not in text
    assert "Traceback" not in text


@pytest.mark.parametrize("name", ["topics:shop", "groups:", "rehearsal:a->b"])
def test_a_connector_may_have_the_name_of_a_reading(name: str) -> None:
    flow = replace(SETTINGS, connector_name=name, kind="source")
    sources = FakeSources(flow)
    sources.only.flow = snapshot(replace(REPORTED, flow=name), flow)
    app = console_app(sources)
    browser = Browser(app)
    for page in ("/ui/", f"/ui/flow?{urlencode({'flow': name})}", f"/ui/topics?{urlencode({'flow': name})}"):
        assert browser.get(page).status == 200, page
    assert browser.json("/ui/")["flows"][0]["flow"] == name
    app.close()


def test_topics_are_searched_sorted_and_paged_on_the_server(browser: Browser, sources: FakeSources) -> None:
    sources.only.topics = [topic(f"t-{number:03}", number % 3 + 1) for number in range(120)]
    page = browser.json("/ui/topics?search=T-1&sort=partitions&order=desc")["topics"]
    assert (page["total"], page["matching"], page["pages"]) == (120, 20, 1)
    assert [row["partitions"] for row in page["rows"]] == sorted((n % 3 + 1 for n in range(100, 120)), reverse=True)
    second = browser.json("/ui/topics?page=3")["topics"]
    assert len(second["rows"]) == 20
    assert second["next"] is None
    assert browser.json("/ui/topics?page=999999999&sort=nothing")["topics"]["page"] == 1
    text = browser.get("/ui/topics?page=2").text
    assert text.count('<th scope="row">') == 50
    assert "120 of 120 topics, page 2 of 3" in text


def test_a_page_with_ten_thousand_partitions_is_as_light_as_any(browser: Browser, sources: FakeSources) -> None:
    sources.only.topics = [topic("big", 10_000), *(topic(f"t-{number}") for number in range(1000))]
    assert len(browser.get("/ui/topics").content) < 60_000
    assert len(browser.get("/ui/topic?flow=a-%3Eb&topic=big").content) < 60_000
    assert len(browser.get("/ui/flow?flow=a-%3Eb").content) < 60_000


def test_a_topic_shows_its_partitions_with_the_offsets_of_both_sides(browser: Browser, sources: FakeSources) -> None:
    sources.only.topics = [topic("orders", 2, TopicState.HELD, "TW-GAP-01: lost")]
    page = browser.json("/ui/topic?flow=a-%3Eb&topic=orders")
    assert page["partitions"]["rows"][1] == {
        "partition": 1,
        "source_start": 0,
        "source_end": 11,
        "source_offset": 4,
        "target_offset": 3,
        "lag": 7,
        "source_newest_ms": NOW - 9000,
        "copy_newest_ms": NOW - 8000,
        "state": "held",
        "detail": "TW-GAP-01: lost",
        "resume": None,
        "proven_source": None,
        "proven_target": None,
        "proof_lag_s": None,
        "differences": None,
        "difference": None,
        "unproved": None,
    }
    text = browser.get("/ui/topic?flow=a-%3Eb&topic=orders").text
    assert "a.orders" in text
    assert shown_moment(NOW - 9000) in text


def test_the_newest_records_of_a_topic_are_unknown_on_a_silent_cluster(browser: Browser, sources: FakeSources) -> None:
    sources.only.newest = ClusterError("cluster b: no broker answers")
    page = browser.json("/ui/topic?flow=a-%3Eb&topic=orders")
    assert [row["source_newest_ms"] for row in page["partitions"]["rows"]] == [None, None]
    assert page["newest_trouble"] == "cluster b: no broker answers"
    answer = browser.get("/ui/topic?flow=a-%3Eb&topic=orders")
    assert (answer.status, "The last read of the newest records failed" in answer.text) == (200, True)


def test_a_flow_shows_its_tasks_with_their_places(browser: Browser, sources: FakeSources) -> None:
    places = (TaskPlace("host-9-17-ab", "host-9", 3, 17, "2"), TaskPlace("bridge-host-1-18-cd", "host-1", 4))
    level = LogLevelProgress("l1", "debug", NOW + 60_000)
    sources.only.flow = snapshot(replace(REPORTED, tasks=places, copiers=5, log_level=level))
    page = browser.json("/ui/flow?flow=a-%3Eb")
    assert page["tasks"]["more"] == 3
    assert page["tasks"]["first"][0] == {
        "copier": "host-9-17-ab",
        "host": "host-9",
        "executor": "2",
        "task": 17,
        "bridge": False,
        "partitions": 3,
    }
    assert [(one["bridge"], one["executor"]) for one in page["tasks"]["first"]] == [(False, "2"), (True, None)]
    text = browser.get("/ui/flow?flow=a-%3Eb").text
    for shown in ("host-9-17-ab", "<td>bridge</td>", "and 3 more copiers", "Level of the log"):
        assert shown in text, shown


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/ui/nothing", 404),
        ("GET", "/ui/static/../app.py", 404),
        ("GET", "/ui/static/0000/..%2Fapp.py", 404),
        ("GET", "/ui/flow?flow=nothing", 404),
        ("GET", "/ui/topic?flow=a-%3Eb&topic=nothing", 404),
        ("DELETE", "/ui/", 405),
        ("POST", "/ui/", 405),
        ("PATCH", "/ui/nothing", 405),
        ("GET", "/ui/logout", 405),
    ],
)
def test_a_failure_has_a_page_and_a_body_in_json(browser: Browser, method: str, path: str, status: int) -> None:
    answer = browser.ask(method, path)
    assert (answer.status, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    twin = browser.ask(method, path, accept="application/json")
    assert twin.json["error_code"] == status
    assert twin.json["message"]


def test_the_root_leads_to_the_console(browser: Browser) -> None:
    for path in ("/", "/ui"):
        assert browser.get(path).headers["location"] == "/ui/"


def test_points_are_kept_for_charts(browser: Browser) -> None:
    browser.get("/ui/")
    points = browser.get("/ui/api/points?flow=a-%3Eb").json
    assert points["flow"] == FLOW
    assert points["lag"][-1] == 1204
    last = int(points["at_s"][-1] * 1000)
    assert browser.get(f"/ui/api/points?flow=a-%3Eb&since={last + 60_000}").json["at_s"] == []


def test_an_error_that_is_over_needs_no_attention(browser: Browser, sources: FakeSources) -> None:
    sources.only.flow = snapshot(replace(REPORTED, last_error_over_ms=1_700_000_000_000))
    assert "last error: gap: lost" not in browser.get("/ui/").text
    assert "gap: lost; over since 2023-11-14T22:13:20Z" in browser.get("/ui/flow?flow=a-%3Eb").text
