"""The pages of the console in Chromium, beside a flow that runs: both themes, a phone and a desk, accessibility.

Chromium is that of the system's packages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from harness.produce import numbered, produce
from harness.wait import wait_for
from harness.web.browser import MISSING, find_chromium, launch_chromium
from tests.integration.ui.scene import Scene

REQUIRED = "TWINLOG_BROWSER_REQUIRED"
"""With this variable a missing Chromium is a failure, as in CI; otherwise these tests are skipped."""

LOOK_S = 60.0
SHIFTS = "document.body.dataset.shift = 0; new PerformanceObserver(list => { for (const one of list.getEntries()) "
SHIFTS += "{ if (!one.hadRecentInput) document.body.dataset.shift = +document.body.dataset.shift + one.value; } })"
SHIFTS += ".observe({type: 'layout-shift', buffered: true});"
LENGTHEN = """names => {
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) for (const name of names)
    walker.currentNode.data = walker.currentNode.data.replaceAll(name, name + "_of_a_long_name".repeat(10));
}"""
"""Kafka's names have up to 249 characters without a space."""
WIDE = """() => [...document.querySelectorAll("body *")].filter(one => !one.parentElement.closest(".scroll")
  && one.getBoundingClientRect().right > window.innerWidth).map(one => one.outerHTML.slice(0, 120)).slice(-1)"""


def chromium_program() -> str:
    """The path of the system's Chromium; skips the test if it is missing."""
    program = find_chromium()
    if program is None:
        assert REQUIRED not in os.environ, MISSING
        pytest.skip(MISSING)
    return program


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = chromium_program()
    with sync_playwright() as play:
        browser = launch_chromium(play, program)
        yield browser
        browser.close()


class WatchedPage:
    """A page, with all that its browser complained of, and all that it asked of other sites."""

    def __init__(self, context: BrowserContext, root: str) -> None:
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self._root = root
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._look)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{self.page.url}: {message.text}")

    def _look(self, request: Request) -> None:
        if not request.url.startswith((self._root, "data:")):
            self.elsewhere.append(request.url)

    def open(self, path: str, **query: str) -> Page:
        self.page.goto(f"{self._root}/ui{path}{'?' if query else ''}{urlencode(query)}", wait_until="load")
        return self.page


def paths(scene: Scene) -> list[tuple[str, dict[str, str]]]:
    flow, topic = {"flow": scene.flow}, {"flow": scene.flow, "topic": scene.topic}
    place = {"partition": "0", "place": "offset", "value": "5"}
    return [
        ("/", {}),
        ("/flow", flow),
        ("/topics", flow),
        ("/topic", topic),
        ("/topic/settings", topic),
        ("/topic/confirm", {**topic, "verb": "pause"}),
        ("/groups", flow),
        ("/group", {**flow, "group": scene.group}),
        ("/readiness", flow),
        ("/switchover", flow),
        ("/switchover/confirm", {**flow, "mode": "run", "kind": "planned"}),
        ("/records", {**topic, **place}),
        ("/connectors", {}),
        ("/migration", {}),
    ]


def barriers(page: Page) -> list[str]:
    """The findings of axe: a rule, its help, and the places."""
    found = Axe().run(page).response["violations"]
    return [f"{page.url}: {one['id']}: {one['help']}: {[node['target'] for node in one['nodes']]}" for one in found]


def too_wide(page: Page, name: str) -> list[str]:
    """The page and its last element beyond the right edge of the window; empty if the page fits."""
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return [f"{name} is {wide} pixels too wide: {page.evaluate(WIDE)}"] if wide > 0 else []


def require_good_pages(
    root: str, pages: list[tuple[str, dict[str, str]]], names: list[str], chromium: Browser, theme: Any, width: int
) -> None:
    """Open each page of a console at the address `root`, and require that the page fits the window, also with long
    `names`, that axe finds nothing, and that the browser is content.
    """
    context = chromium.new_context(color_scheme=theme, viewport={"width": width, "height": 900}, locale="en-US")
    watched = WatchedPage(context, root)
    shots = os.environ.get("TWINLOG_SHOTS")
    problems: list[str] = []
    for path, query in pages:
        page = watched.open(path, **query)
        assert page.locator("h1").count() == 1, path
        if path == "/readiness":
            page.locator("#live", has_text="By a rehearsal at").wait_for(timeout=LOOK_S * 1000)
        problems += too_wide(page, f"{path} at {width} pixels")
        page.evaluate(SHIFTS)
        problems += barriers(page)
        if (shift := float(page.evaluate("document.body.dataset.shift"))) >= 0.1:
            problems.append(f"{path} moves what it shows: {shift}")
        if shots:
            name = path.strip("/").replace("/", "-") or "overview"
            page.screenshot(path=str(Path(shots, f"{name}-{theme}-{width}.png")), full_page=True)
        page.evaluate(LENGTHEN, names)
        problems += too_wide(page, f"{path} with long names at {width} pixels")
    context.close()
    assert problems == [], "\n".join(problems)
    assert watched.complaints == []
    assert watched.elsewhere == []


@pytest.mark.parametrize(
    "looks",
    [
        [("light", 1440), ("dark", 390)],
        pytest.param([("dark", 1440), ("light", 390)], marks=pytest.mark.scenario),
    ],
    ids=["desk and phone", "dark desk and light phone"],
)
def test_every_page_in_a_browser(scene: Scene, chromium: Browser, looks: list[tuple[str, int]]) -> None:
    root = f"http://127.0.0.1:{scene.port}"
    for theme, width in looks:
        names = [scene.topic, scene.group, *scene.flow.split("->")]
        require_good_pages(root, paths(scene), names, chromium, theme, width)

    context = chromium.new_context()
    watched = WatchedPage(context, root)
    # Figures follow the flow without a load of the page.
    page = watched.open("/topic", flow=scene.flow, topic=scene.topic)
    page.evaluate("window.same = true")
    produce(scene.left, scene.topic, numbered(5, start=60), partition=1)

    def followed() -> bool:
        return page.locator("td", has_text="65").count() > 0

    wait_for(followed, LOOK_S, "the page shows the new records", every_s=0.5)
    assert page.evaluate("window.same")

    # An action by the keyboard alone: the skip link, then the confirmation of a pause.
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page = watched.open("/topic/confirm", flow=scene.flow, topic=scene.topic, verb="pause")
    page.locator("main button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/topic/outcome*")
    wait_for(lambda: {row["state"] for row in scene.partitions()} == {"paused"}, LOOK_S, "both partitions are paused")
    scene.act("resume")
    wait_for(lambda: {row["state"] for row in scene.partitions()} == {"copying"}, LOOK_S, "both are copied again")

    # The last day comes from the reports of the process that runs the flow, then the last hour again.
    page = watched.open("/flow", flow=scene.flow)
    page.get_by_role("button", name="Last 24 hours").click()
    page.locator("#charts-note", has_text=re.compile(r"^\d+ reports of topic mm2-twinlog-progress")).wait_for(
        timeout=LOOK_S * 1000
    )
    assert page.locator("#charts-title").inner_text() == "Last 24 hours"
    assert page.locator(".chart canvas").count() == page.locator(".chart").count() > 0
    assert too_wide(page, "the last day") == []
    page.get_by_role("button", name="Last 24 hours").click()
    assert page.locator("#charts-title").inner_text() == "The last hour"
    context.close()
    assert watched.complaints == []
