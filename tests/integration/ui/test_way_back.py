"""A switchover from its page in Chromium: stopped and undone, done, and the whole way back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from harness.checks.checker import SLOW_TICK_S, Load
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.groups import commit_offsets, group_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets
from harness.wait import wait_for
from harness.web.browser import launch_chromium
from tests.integration.mirror_process import GROUPS_EVERY_SECOND, flow_properties
from tests.integration.ui.scene import ShownRun
from tests.integration.ui.test_browser import WatchedPage, barriers, chromium_program

pytestmark = pytest.mark.scenario

START_S, STEP_S = 180.0, 240.0
PARTITIONS, RECORDS, COMMITTED = 2, 40, 25


class BothDirections(ShownRun):
    """A process that runs a flow and the flow back, with prefixed names, and a console beside it."""

    def __init__(self, clusters: tuple[KafkaCluster, KafkaCluster], home: Path, names: Callable[[str], str]) -> None:
        self.left, self.right = clusters
        self.here, self.there = names("here"), names("there")
        self.topic, self.group = create_topic(self.left, names("t"), PARTITIONS), names("g")
        self.forth, self.back = f"{self.here}->{self.there}", f"{self.there}->{self.here}"
        settings = {
            "topics": self.topic,
            "groups": self.group,
            "emit.heartbeats.enabled": "false",
            **GROUPS_EVERY_SECOND,
        }
        lines = flow_properties(self.forth, self.left, self.right, settings)
        way_back = flow_properties(self.back, self.right, self.left, settings).splitlines(keepends=True)
        lines += "".join(line for line in way_back if ".bootstrap.servers" not in line)
        super().__init__(home, f"{self.here}, {self.there}", lines)

    def wait_for_flows(self) -> None:
        for flow in (self.forth, self.back):
            self.run.wait_for_line(rf"{re.escape(flow)}: ")

    def shown(self, flow: str) -> Any:
        return self.visitor.json("/switchover", flow=flow)

    def offset(self, cluster: KafkaCluster, topic: str, partition: int) -> int | None:
        found = group_offsets(cluster, [self.group])[self.group].get((topic, partition))
        return None if found is None else found.offset


@pytest.fixture
def both(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, new_name: Callable[[str], str]
) -> Iterator[BothDirections]:
    with BothDirections(clusters, tmp_path, new_name) as found:
        yield found


def confirm(page: Page, link: str, typed: str) -> None:
    """Choose an action on the page of a switchover, and confirm it; producers are stopped by the test itself."""
    page.get_by_role("link", name=link, exact=True).click()
    if page.locator("#fence").count():
        page.select_option("#fence", "none")
    page.fill("#typed", typed)
    page.locator("main form button").click()
    page.wait_for_url("**/ui/switchover?flow=*")


def wait_state(page: Page, state: str) -> None:
    """Wait until the report on the page has a state; the page follows the journal by itself."""
    page.locator("dd", has_text=re.compile(f"^{state}$")).wait_for(timeout=STEP_S * 1000)


def test_a_switchover_is_undone_then_done_and_goes_the_whole_way_back(both: BothDirections) -> None:
    left, right, topic = both.left, both.right, both.topic
    commit_offsets(left, {both.group: {(topic, 0): 10}})
    program = chromium_program()
    load = Load(left, topic, PARTITIONS, rate=50, tick_s=SLOW_TICK_S).start()
    with sync_playwright() as play:
        browser = launch_chromium(play, program)
        try:
            wait_for(
                lambda: both.shown(both.forth)["stands"] == "no switchover has begun", START_S, "the journal is read"
            )
            context = browser.new_context()
            watched = WatchedPage(context, f"http://127.0.0.1:{both.port}")

            # Producers write without end, so the switchover waits for them, until a user undoes it.
            page = watched.open("/switchover", flow=both.forth)
            confirm(page, "Switch over", both.there)
            page.get_by_text("producers still write to").wait_for(timeout=STEP_S * 1000)
            assert barriers(page) == []
            confirm(page, "Stop and undo", both.there)
            wait_state(page, "aborted")
            assert both.shown(both.forth)["conducted"]["trouble"] is None
            before = load.total
            wait_for(lambda: load.total > before + 50, STEP_S, "producers write on")
            written = load.stop()

            # The same page leads to the end once producers are stopped.
            confirm(page, "Switch over", both.there)
            wait_state(page, "done")
            report = both.shown(both.forth)["report"]
            assert (report["kind"], report["skipped"], report["repeated"]) == ("planned", 0, 0)
            assert len(consume(right, f"{both.here}.{topic}")) == written
            assert both.offset(right, f"{both.here}.{topic}", 0) == 10

            # Producers and consumers are on the target, and return.
            produce(right, topic, numbered(RECORDS), partition=0)
            commit_offsets(right, {both.group: {(topic, 0): COMMITTED, (f"{both.here}.{topic}", 0): 12}})
            page = watched.open("/switchover", flow=both.back)
            confirm(page, "Switch back", both.here)
            wait_state(page, "done")
            report = both.shown(both.back)["report"]
            assert (report["kind"], report["skipped"], report["repeated"]) == ("back", 0, 0)
            assert barriers(page) == []
            assert [one.value for one in consume(left, f"{both.there}.{topic}", partitions=[0])] == [
                one.value for one in consume(right, topic, partitions=[0])
            ]
            assert both.offset(left, f"{both.there}.{topic}", 0) == COMMITTED
            assert both.offset(left, topic, 0) == 12
            ends = [offsets(left, topic, number)[1] for number in range(PARTITIONS)]
            assert sum(ends) == written, "no record of the source came back to it"
            assert watched.complaints == []
            assert watched.elsewhere == []
        finally:
            load.abandon()
            browser.close()
    assert both.console.terminate(60)
    log = both.console.log.read_text(encoding="utf-8")
    assert "Traceback" not in log
    for action in ('action="run switchover"', 'action="abort switchover"'):
        assert action in log
