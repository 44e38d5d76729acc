"""The live parts of pages: one rendering for all browsers with the page, by the newest readings, for each session."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from starlette.responses import Response

from tests.unit.ui.browser import DEADLINE_S, SESSION_COOKIE, Answer, Browser
from tests.unit.ui.fakes import FLOW, FakeSources, topic
from twinlog.clock import LONG_AGO
from twinlog.ui.app import ConsoleApp, console_app
from twinlog.ui.live.parts import MOST_PARTS
from twinlog.ui.rendering import PageRenderer, quoted

SHARED = (
    "/ui/",
    f"/ui/flow?flow={quoted(FLOW)}",
    "/ui/topics",
    "/ui/groups",
    "/ui/readiness",
)
BROWSERS = 5


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The titles of the pages that are rendered."""
    made: list[str] = []
    html = PageRenderer.html

    def count(renderer: PageRenderer, page: Any, frame: Any, *, partial: bool) -> Response:
        made.append(page.title)
        return html(renderer, page, frame, partial=partial)

    monkeypatch.setattr(PageRenderer, "html", count)
    return made


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings that only `hurry` repeats."""
    for name in ("EVERY_S", "TOPICS_EVERY_S", "GROUPS_EVERY_S", "REHEARSE_EVERY_S"):
        monkeypatch.setattr(f"twinlog.ui.live.flows.{name}", 3600.0)


def part(browser: Browser, url: str, **headers: str) -> Answer:
    """The live part of a page, as the script of the page asks for it."""
    return browser.get(url, hx_request="true", hx_target="div#live", x_live="1", **headers)


def warm_up(browser: Browser, app: ConsoleApp, url: str) -> None:
    """Have the page read all that it shows, and ask for its part twice: then its readings are known."""
    assert browser.get(url).status == 200
    app.site.live.flow(FLOW).rehearsal.wait_reading(DEADLINE_S)
    for _ in range(2):
        assert part(browser, url).status == 200


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("url", SHARED)
def test_all_browsers_with_a_page_share_a_rendering(app: ConsoleApp, rendered: list[str], url: str) -> None:
    browsers = [Browser(app) for _ in range(BROWSERS)]
    for browser in browsers:
        browser.get("/ui/")
    warm_up(browsers[0], app, url)
    rendered.clear()
    plain = [part(browser, url) for browser in browsers]
    packed = [part(browser, url, accept_encoding="gzip") for browser in browsers]
    assert rendered == []
    assert {one.text for one in [*plain, *packed]} == {plain[0].text}
    assert {one.headers["content-type"] for one in [*plain, *packed]} == {"text/html; charset=utf-8"}
    assert "content-encoding" not in plain[0].headers
    for one in packed:
        assert one.headers["content-encoding"] == "gzip"
        assert one.headers["content-length"] == str(len(one.content))
        assert "Accept-Encoding" in one.headers["vary"]
        assert one.headers["cache-control"] == "no-store"
        assert "content-security-policy" in one.headers
    for browser in browsers:
        assert browser.get(url).status == 200
    assert len(rendered) == BROWSERS, "whole pages have the user and the tokens of a session"


@pytest.mark.usefixtures("still")
def test_a_reading_brings_another_rendering(
    browser: Browser, app: ConsoleApp, sources: FakeSources, rendered: list[str]
) -> None:
    url = SHARED[1]
    warm_up(browser, app, url)
    before = part(browser, url).text
    sources.only.topics = [topic("later")]
    topics = app.site.live.flow(FLOW).topics
    version = topics.reading.version
    topics.hurry()
    assert topics.wait_reading(DEADLINE_S, version).version > version
    rendered.clear()
    after = part(browser, url).text
    assert after != before
    assert "later" in after
    assert part(browser, url).text == after
    assert len(rendered) == 1


@pytest.mark.usefixtures("still")
def test_a_part_is_old_with_its_readings(sources: FakeSources) -> None:
    app = console_app(sources)
    browser, url = Browser(app), SHARED[0]
    warm_up(browser, app, url)
    assert "the last reading is old" not in part(browser, url).text
    app.site.live.flow(FLOW).state._read_at = LONG_AGO
    app.site.settings = replace(app.site.settings, first_read_s=0.0)
    assert "the last reading is old" in part(browser, url).text
    app.close()


@pytest.mark.usefixtures("still")
def test_other_searches_and_other_pages_are_other_parts(
    browser: Browser, app: ConsoleApp, sources: FakeSources
) -> None:
    sources.only.topics = [topic("orders"), topic("logs")]
    url = "/ui/topics?search="
    for search in ("orders", "logs"):
        warm_up(browser, app, url + search)
    for search, other in (("orders", "logs"), ("logs", "orders")):
        text = part(browser, url + search).text
        assert f">{search}</a>" in text
        assert f">{other}</a>" not in text
    for number in range(2 * MOST_PARTS):
        part(browser, f"{url}{number}")
    parts = app.site.live_parts
    assert len(parts._followed) == MOST_PARTS
    assert len(parts._parts) <= MOST_PARTS


@pytest.mark.usefixtures("still")
def test_a_shared_part_needs_a_login(locked: ConsoleApp) -> None:
    session = locked.site.sessions.begin("alice")
    browser = Browser(locked, cookies={SESSION_COOKIE: session.name})
    url = SHARED[1]
    warm_up(browser, locked, url)
    answer = part(Browser(locked), url)
    assert answer.status == 401
    assert "orders" not in answer.text
    assert browser.json(url)["flow"] == FLOW


@pytest.mark.usefixtures("still")
def test_changed_settings_of_a_flow_bring_its_new_readings(
    browser: Browser, app: ConsoleApp, rendered: list[str]
) -> None:
    url = SHARED[1]
    warm_up(browser, app, url)
    live = app.site.live
    live.flow(FLOW).close()
    del live._flows[FLOW]
    live.flow(FLOW).state.wait_fresh(DEADLINE_S)
    live.flow(FLOW).topics.wait_fresh(DEADLINE_S)
    rendered.clear()
    assert part(browser, url).status == 200
    assert len(rendered) == 1
