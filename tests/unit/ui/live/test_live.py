"""Live readings: who reads when, the points of the last hour, and the events for browsers."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from harness.wait import wait_for
from tests.unit.ops.status.test_command import REPORTED
from tests.unit.ui.browser import DEADLINE_S, SESSION_COOKIE, Browser
from tests.unit.ui.fakes import FLOW, FakeSources, snapshot
from twinlog.clock import LONG_AGO, SYSTEM, SystemClock
from twinlog.errors import ClusterError, RefusedError
from twinlog.ui.app import console_app
from twinlog.ui.live.flows import MOST_TOPICS, LiveFlow
from twinlog.ui.live.kept_readings import GAP_MS, KEPT_S, MOST_POINTS, FlowPoint, FlowPoints
from twinlog.ui.live.poller import CLOSE_S, LOOKS_S, STALE_LEAST_S, LivePoller, LiveReading, LiveStep, next_step
from twinlog.ui.rendering import quoted
from twinlog.ui.site import ConsoleSettings


def poller_of(sources: FakeSources, clock: VirtualClock) -> LivePoller[Any]:
    return LiveFlow(FLOW, sources, clock).state


def join(poller: LivePoller[Any]) -> None:
    thread = poller._thread
    if thread is not None:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_nothing_is_read_before_a_browser_looks(sources: FakeSources) -> None:
    app = console_app(sources)
    assert sources.only.opened == 0
    assert not app.site.live.flow(FLOW).state.runs
    app.close()


def test_a_reader_reads_for_half_a_minute_and_is_closed_after_a_minute(sources: FakeSources) -> None:
    clock = VirtualClock()
    poller = poller_of(sources, clock)
    poller.touch()
    join(poller)
    answers = sources.only
    # The clock goes on only while the thread waits.
    assert answers.reads == LOOKS_S / 2
    assert (answers.opened, answers.closed) == (1, 1)
    assert not poller.runs
    assert poller.reading.version == answers.reads
    poller.touch()
    join(poller)
    assert (answers.opened, answers.closed) == (2, 2)


def test_a_failed_read_keeps_the_last_value_beside_the_reason(sources: FakeSources) -> None:
    poller = poller_of(sources, VirtualClock())
    poller.touch()
    join(poller)
    seen = poller.reading.value
    sources.only.flow = ClusterError("cluster b: no broker answers")
    poller.touch()
    join(poller)
    assert poller.reading.value is seen
    assert "no broker answers" in (poller.reading.trouble or "")


def test_a_reading_is_stale_after_a_pause(sources: FakeSources) -> None:
    clock = VirtualClock()
    poller = poller_of(sources, clock)
    assert poller.is_stale
    poller._read_once(None)
    assert not poller.is_stale
    clock.now += STALE_LEAST_S - 1
    assert not poller.is_stale
    clock.now += 2
    assert poller.is_stale


def test_a_later_look_waits_for_a_reading_of_now(sources: FakeSources) -> None:
    app = console_app(sources)
    poller = app.site.live.flow(FLOW).state
    first = poller.wait_fresh(DEADLINE_S).version
    assert first >= 1
    poller._read_at = LONG_AGO
    before = poller.reading.version
    assert poller.wait_fresh(DEADLINE_S).version > before
    app.close()


def test_a_read_that_began_before_an_action_is_followed_by_another_read() -> None:
    begun, action = threading.Event(), threading.Event()
    reads: list[int] = []

    class SlowReader:
        def read(self) -> int:
            reads.append(len(reads))
            begun.set()
            assert action.wait(DEADLINE_S)
            return reads[-1]

        def close(self) -> None:
            """It has no connection."""

    poller = LivePoller("slow", SlowReader, 3600.0, SYSTEM)
    poller.touch()
    assert begun.wait(DEADLINE_S)
    poller.hurry()
    action.set()
    assert poller.wait_fresh(DEADLINE_S).value == 1
    assert not poller.is_stale
    poller.hurry()
    assert poller.wait_fresh(DEADLINE_S).value == 2
    poller.close()


def test_the_first_page_of_a_flow_waits_for_state_and_topics_at_the_same_time(
    sources: FakeSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = console_app(sources)
    flow = app.site.live.flow(FLOW)
    wait, begun = LivePoller.wait_fresh, list[bool]()

    def watch(poller: LivePoller[Any], timeout_s: float) -> LiveReading[Any]:
        begun.append(flow.topics.runs)
        return wait(poller, timeout_s)

    monkeypatch.setattr(LivePoller, "wait_fresh", watch)
    assert Browser(app).get(f"/ui/flow?flow={quoted(FLOW)}").status == 200
    assert False not in begun
    app.close()


class CountedWaits(SystemClock):
    """Counts the waits of the threads that read."""

    def __init__(self) -> None:
        self.waits = 0

    def wait_for(  # type: ignore[override]
        self, changed: threading.Condition, true: Callable[[], bool], timeout_s: float
    ) -> bool:
        self.waits += threading.current_thread().name.startswith("console ")
        return super().wait_for(changed, true, timeout_s)


def test_a_look_lets_a_thread_sleep_that_reads_again_by_itself(sources: FakeSources) -> None:
    clock = CountedWaits()
    poller = LivePoller("idle", lambda: sources.open_flow(FLOW), 3600.0, clock)
    first = poller.wait_reading(DEADLINE_S).version
    wait_for(lambda: clock.waits == 1, DEADLINE_S, "the thread waits")
    for _ in range(50):
        poller.touch()
        # A thread that was woken would wait a second time meanwhile.
        time.sleep(0.001)
    assert clock.waits == 1
    poller.hurry()
    assert poller.wait_reading(DEADLINE_S, first).version == first + 1
    poller.close()


def test_a_failed_reading_shows_no_figures_of_earlier(sources: FakeSources) -> None:
    app = console_app(sources)
    browser = Browser(app)
    (row,) = browser.json("/ui/")["flows"]
    assert row["figures"] is not None
    sources.only.flow = RefusedError("cluster b: no READ on topic mm2-twinlog-progress")
    poller = app.site.live.flow(FLOW).state
    poller.hurry()
    poller.wait_reading(DEADLINE_S, poller.reading.version)
    (row,) = browser.json("/ui/")["flows"]
    assert (row["figures"], row["condition"], row["state"]) == (None, "unknown", "unknown")
    assert "no READ on topic" in row["detail"]
    answer = browser.json(f"/ui/readiness?flow={quoted(FLOW)}")
    assert answer["loss_if_source_is_lost"] is None
    assert "no READ on topic" in {one["check"]: one for one in answer["checks"]}["State of the flow"]["evidence"]
    app.close()


def test_the_newest_records_of_many_topics_are_read_of_the_most_recent_pages_only(sources: FakeSources) -> None:
    flow = LiveFlow(FLOW, sources, VirtualClock())
    first = flow.newest("t-0")
    assert flow.newest("t-0") is first
    others = [flow.newest(f"t-{number}") for number in range(1, MOST_TOPICS + 1)]
    first.touch()
    assert not first.runs, "it was closed for a more recent page"
    assert flow.newest("t-0") is not first
    assert flow.newest(f"t-{MOST_TOPICS}") is others[-1]
    flow.close()
    others[-1].touch()
    assert not others[-1].runs


def test_a_closed_poller_ends(sources: FakeSources) -> None:
    poller = poller_of(sources, VirtualClock())
    poller.close()
    poller.touch()
    assert not poller.runs


@pytest.mark.parametrize(
    ("now", "touched", "due", "step"),
    [
        (0.0, 0.0, 0.0, (LiveStep.READ, 0.0)),
        (1.0, 0.0, 2.0, (LiveStep.WAIT, 1.0)),
        (LOOKS_S - 1, 0.0, LOOKS_S + 5, (LiveStep.WAIT, 1.0)),
        (LOOKS_S, 0.0, 0.0, (LiveStep.WAIT, CLOSE_S - LOOKS_S)),
        (CLOSE_S, 0.0, 0.0, (LiveStep.END, 0.0)),
    ],
)
def test_steps(now: float, touched: float, due: float, step: tuple[LiveStep, float]) -> None:
    assert next_step(now, touched, due) == step


def test_points_are_those_of_the_last_hour_with_gaps() -> None:
    points = FlowPoints()
    seen = snapshot(replace(REPORTED, latency_ms=12))
    for at_ms in range(0, 3 * 3_600_000, 2000):
        points.add(FlowPoint.of(seen, at_ms))
    assert len(points) <= MOST_POINTS + 1
    found = points.columns()
    first, last = (found["at_s"][at] for at in (0, -1))
    assert first is not None
    assert last == first + KEPT_S - 2
    last_ms = 3 * 3_600_000 - 2000
    points.add(FlowPoint.of(seen, last_ms + GAP_MS + 1))
    found = points.columns(last_ms)
    assert found["lag"] == [None, 1204]
    assert found["latency_ms"] == [None, 12]
    # A clock that was set back adds no point before the last.
    points.add(FlowPoint.of(seen, 0))
    assert points.columns(last_ms) == found


def events(
    browser: Browser, url: str, most: int, *, last: str = "", meanwhile: Any = None
) -> tuple[int, list[dict[str, str]], str]:
    """The status, the first `most` events of a stream, and all of its text; then the browser hangs up."""

    async def run() -> tuple[int, list[dict[str, str]], str]:
        gone = asyncio.Event()
        status, text = 0, ""

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status, text
            if message["type"] == "http.response.start":
                status = message["status"]
                return
            text += message.get("body", b"").decode()
            if meanwhile is not None:
                meanwhile(text)
            if text.count("event: ") >= most:
                gone.set()

        headers = {"last_event_id": last} if last else {}
        scope = browser.scope("GET", url, headers)
        await asyncio.wait_for(browser.app(scope, receive, send), DEADLINE_S)
        found = []
        for block in text.split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and line[0] != ":")
            if "event" in lines:
                found.append(lines)
        return status, found, text

    return asyncio.run(run())


def test_a_browser_learns_of_new_readings_and_resumes(browser: Browser) -> None:
    browser.get("/ui/")
    status, found, text = events(browser, "/ui/events?live=a-%3Eb", 2)
    assert status == 200
    assert text.startswith("retry: ")
    assert [one["event"] for one in found] == ["reading", "reading"]
    first, second = (int(one["id"]) for one in found)
    assert second > first
    assert json.loads(found[0]["data"]) == {"versions": found[0]["id"]}
    page = browser.get("/ui/").text
    shown = re.search(r"live=a-%3Eb&amp;version=(\d+)", page)
    assert shown is not None
    _, later, _ = events(browser, f"/ui/events?live=a-%3Eb&version={shown[1]}", 1)
    assert int(later[0]["id"]) > int(shown[1])
    _, resumed, _ = events(browser, "/ui/events?live=a-%3Eb", 1, last=found[1]["id"])
    assert int(resumed[0]["id"]) > second


def test_streams_are_bounded_and_end(sources: FakeSources) -> None:
    app = console_app(sources, ConsoleSettings(streams=1))
    browser = Browser(app)
    browser.get("/ui/")
    refused = []

    async def ask() -> None:
        answer = await browser._ask("GET", "/ui/events?live=a-%3Eb", b"", {})
        refused.append(answer.status)
        app.site.sessions.end(browser.cookies[SESSION_COOKIE])

    tasks: list[asyncio.Task[None]] = []

    def meanwhile(text: str) -> None:
        if "event: reading" in text and not tasks:
            tasks.append(asyncio.get_running_loop().create_task(ask()))

    _, found, _ = events(browser, "/ui/events?live=a-%3Eb&live=topics:a-%3Eb", 99, meanwhile=meanwhile)
    assert refused == [503]
    assert found[-1]["event"] == "ended"
    browser.get("/ui/")
    app.close()
    assert events(browser, "/ui/events?live=a-%3Eb", 1)[1] == []


@pytest.mark.parametrize(("query", "status"), [("", 400), ("?live=x", 404), ("?" + "live=a-%3Eb&" * 200, 400)])
def test_a_wrong_stream_is_refused(browser: Browser, query: str, status: int) -> None:
    assert browser.get(f"/ui/events{query}").status == status
