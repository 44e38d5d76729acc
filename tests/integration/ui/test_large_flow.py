"""The pages of a flow of 1,000 topics with 10 partitions each in Chromium, and the map of many clusters, without a
cluster: the readings are given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, sync_playwright

from harness.wait import slowness, wait_for
from harness.web.browser import launch_chromium
from tests.integration.ui.test_browser import WatchedPage, chromium_program, require_good_pages
from tests.unit.ops.status.test_command import REPORTED
from tests.unit.ui.fakes import FLOW, FakeSources, snapshot
from tests.unit.ui.test_assets import fill_large
from tests.unit.ui.test_flow_map import FAN, LONG, both_ways, many_flows, ring
from twinlog.connect.rest.serving import Limits, ServerThread, bind, close, servers
from twinlog.settings.worker import ListenerAddress
from twinlog.ui.app import console_app

FIRST_PAINT_MS = 300.0
LOADS = 4
LOOK_S = 60.0
PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length > 0"
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    program = chromium_program()
    with sync_playwright() as play:
        browser = launch_chromium(play, program)
        yield browser
        browser.close()


@contextmanager
def served(sources: FakeSources) -> Iterator[str]:
    """The address of a console of these sources."""
    bound = bind([ListenerAddress("http", "127.0.0.1", 0)])
    app = console_app(sources)
    serving = ServerThread("large flow")
    try:
        assert serving.begin(servers(bound, app, None, Limits()))
        yield f"http://127.0.0.1:{bound[0].listener.port}"
    finally:
        app.close()
        serving.end()
        close(bound)


def test_the_first_paint_of_a_large_flow_is_soon(window: Browser) -> None:
    """The least of some loads, each with an empty cache; a busy machine has more time."""
    sources = FakeSources()
    fill_large(sources)
    with served(sources) as root:
        for path, query in (("/", {}), ("/flow", {"flow": FLOW}), ("/topics", {"flow": FLOW})):
            found = []
            for _ in range(LOADS):
                context = window.new_context()
                page = WatchedPage(context, root).open(path, **query)
                page.wait_for_function(PAINTED)
                found.append(float(page.evaluate(FIRST_PAINT)))
                context.close()
            sys.stdout.write(f"{path}: first paint after {min(found):.0f} ms, the first time {found[0]:.0f} ms\n")
            assert min(found) <= FIRST_PAINT_MS * slowness(), (path, found)


@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("light", 390),
        ("dark", 1440),
        pytest.param("dark", 390, marks=pytest.mark.scenario),
        pytest.param("light", 1440, marks=pytest.mark.scenario),
    ],
)
def test_the_map_fits_and_is_accessible(window: Browser, theme: str, width: int) -> None:
    for ends in ([("east", "west"), ("west", "east")], both_ways(FAN[:6]), [*ring(7), ("c0", LONG)]):
        sources = many_flows(ends)
        with served(sources) as root:
            require_good_pages(root, [("/", {})], ["hub", "c1"], window, theme, width)


def test_an_arrow_follows_its_flow_and_leads_to_it(window: Browser) -> None:
    sources = FakeSources()
    with served(sources) as root:
        context = window.new_context()
        watched = WatchedPage(context, root)
        page = watched.open("/")
        arrow = page.locator("a.flow-arrow")
        assert arrow.count() == 1
        page.evaluate("window.same = true; document.querySelector('a.flow-arrow').kept = true")
        sources.only.flow = snapshot(replace(REPORTED, record_rate=77.0))
        wait_for(
            lambda: "77 records/s" in (arrow.text_content() or ""), LOOK_S, "the label has the new rate", every_s=0.5
        )
        assert page.evaluate("window.same && document.querySelector('a.flow-arrow').kept")
        assert page.evaluate("document.querySelector('a.flow-arrow path').namespaceURI") == "http://www.w3.org/2000/svg"
        assert arrow.locator(".line").evaluate("one => getComputedStyle(one).fill") == "none"
        arrow.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/ui/flow?flow=a-%3Eb")
        # The button of the last day shows the text of the topic, and the hour again.
        page.get_by_role("button", name="Last 24 hours").click()
        page.get_by_text("has no report of the last 24 hours").wait_for(timeout=LOOK_S * 1000)
        context.close()
        assert watched.complaints == []
        assert watched.elsewhere == []
