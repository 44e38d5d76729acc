"""A newcomer moves 50 topics, 20 groups and ACLs between two live clusters, in a browser, from two addresses."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from harness.acls import Acl, acls, create_acls
from harness.checks.checker import Load
from harness.cluster import KafkaCluster, side_by_side
from harness.consume import consume
from harness.groups import commit_offsets, group_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.web.browser import launch_chromium
from tests.integration.ui.newcomer import Newcomer
from tests.integration.ui.test_browser import chromium_program

pytestmark = pytest.mark.scenario

log = logging.getLogger(__name__)

TOPICS, GROUPS, RECORDS = 50, 20, 20
MOST_CLICKS, MOST_S = 12, 15 * 60.0
READY_MS = 300_000


class Clicks:
    """Clicks on links and buttons, counted; ticks and typed text are no clicks."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.count = 0

    def link(self, name: str) -> None:
        self.count += 1
        self.page.get_by_role("link", name=re.compile(name)).first.click()

    def button(self, name: str) -> None:
        self.count += 1
        self.page.get_by_role("button", name=re.compile(name)).first.click()


@pytest.fixture
def guarded() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    source, target = (KafkaCluster(f"newcomer-{side}", heap="384m", acls=True) for side in ("source", "target"))
    with side_by_side(source, target) as both:
        yield both


def test_a_newcomer_moves_a_cluster(guarded: tuple[KafkaCluster, KafkaCluster], tmp_path: Path) -> None:
    left, right = guarded
    names = [create_topic(left, f"orders.{number:02}", 2) for number in range(TOPICS)]
    for name in names:
        produce(left, name, numbered(RECORDS), partition=0)
    groups = [f"reader-{number:02}" for number in range(GROUPS)]
    committed = {group: {(names[number], 0): number} for number, group in enumerate(groups)}
    commit_offsets(left, committed)
    rights = {Acl(name, "User:shop", "READ") for name in names}
    create_acls(left, [*rights, Acl(names[0], "User:connect", "WRITE")])
    program = chromium_program()
    newcomer = Newcomer(tmp_path)
    began = time.monotonic()
    try:
        newcomer.start()
        with sync_playwright() as play:
            # A super user would pass the fence.
            load = Load(left, names[0], 2, rate=200, user="connect").start()
            browser = launch_chromium(play, program)
            page = browser.new_page()
            clicks = Clicks(page)
            page.goto(f"http://127.0.0.1:{newcomer.port}/ui/")
            clicks.link("migrate from one cluster")
            page.fill("#source_servers", left.bootstrap)
            page.fill("#target_servers", right.bootstrap)
            clicks.button("Look at both clusters")
            assert page.locator("input[name=topic]").count() == TOPICS
            assert page.locator("input[name=group]").count() == GROUPS
            page.check("#acls")
            clicks.button("^Plan$")
            assert page.get_by_text("No obstacle was found.").count() == 1, page.locator("main").inner_text()
            clicks.button("and run it now")
            page.locator("section", has_text="begin now?").get_by_text("yes", exact=True).wait_for(timeout=READY_MS)
            clicks.link("^Switchover of")
            clicks.link("^Switch over$")
            page.fill("#typed", "target")
            clicks.button("^Switch over$")
            page.get_by_text("the proof of each partition").wait_for(timeout=READY_MS)
            page.locator("dd", has_text=re.compile("^done$")).wait_for(timeout=READY_MS)
            # The fence has refused its records.
            load.abandon()
            browser.close()
        took_s = time.monotonic() - began
        report = newcomer.visitor.json("/switchover", flow="source->target")["report"]
        waited_s = report["seconds_without_producers"]
        steps = {one["step"]: one["seconds"] for one in report["steps"]}
        log.warning("%d clicks, %.0f s, producers waited %s s: %s", clicks.count, took_s, waited_s, steps)
        assert report["state"] == "done"
        assert (report["skipped"], report["repeated"], report["unknown_groups"]) == (0, 0, 0)
        assert waited_s < 1.0
        assert clicks.count <= MOST_CLICKS
        assert took_s <= MOST_S
        for name in names[1:]:
            assert len(consume(right, name)) == RECORDS
        assert [one.value for one in consume(right, names[0])] == [one.value for one in consume(left, names[0])]
        there = group_offsets(right, groups)
        assert {group: {place: one.offset for place, one in there[group].items()} for group in groups} == committed
        assert rights <= acls(right)
        assert newcomer.console.terminate(60)
    finally:
        newcomer.close()
