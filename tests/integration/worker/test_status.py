"""What is shown of a flow while clusters are killed, hang, and come back: nothing that is not known."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from harness.checks.checker import SLOW_TICK_S, Load
from harness.cluster import KafkaCluster, side_by_side
from harness.consume import consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.copying import flow_settings
from tests.integration.without_spark import FlowWithoutSpark
from twinlog.cli import live
from twinlog.copier import reporter as reporter_module
from twinlog.lease.progress import Report
from twinlog.model.topic_names import progress_topic
from twinlog.model.types import Alias
from twinlog.worker.status import flow_status as flow_status_module
from twinlog.worker.status.report import DriverReport, decode_report

PARTITIONS = 4
OLD_S = 4.0
NOTICED_S = 60.0
HEALED_S = 60.0


@pytest.fixture
def pair() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Two clusters of one broker, to be killed and stopped."""
    source, target = KafkaCluster("source", heap="256m"), KafkaCluster("target", heap="256m")
    with side_by_side(source, target) as both:
        yield both


class Watcher:
    """Reads the line of a flow many times a second."""

    def __init__(self, flow: FlowWithoutSpark) -> None:
        self.lines: list[str] = []
        self._flow = flow.runner
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def look(self) -> str:
        flow: Any = self._flow
        return live._line(flow)

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            self.lines.append(self.look())

    def wait_for(self, pattern: str, deadline_s: float) -> int:
        """Wait for a line from now on; returns its number."""
        seen = len(self.lines)

        def found() -> int | None:
            return next((n for n in range(seen, len(self.lines)) if re.search(pattern, self.lines[n])), None)

        try:
            return wait_for(lambda: None if found() is None else (found() or 0) + 1, deadline_s, pattern) - 1
        except TimeoutError as late:
            raise AssertionError(f"{late}\n" + "\n".join(self.lines[-100:])) from late

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


@contextmanager
def watched(flow: FlowWithoutSpark) -> Iterator[Watcher]:
    flow.runner.absent = False  # type: ignore[attr-defined]
    watcher = Watcher(flow)
    try:
        yield watcher
    finally:
        watcher.stop()


def copied(line: str) -> int:
    found = re.search(r"([\d,]+) records? copied", line)
    assert found is not None, line
    return int(found[1].replace(",", ""))


@pytest.mark.scenario
def test_every_line_is_true_while_clusters_die_and_hang(
    pair: tuple[KafkaCluster, KafkaCluster],
    new_name: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for module in (flow_status_module, reporter_module):
        monkeypatch.setattr(module, "OLD_S", OLD_S)
    source, target = pair
    topic = create_topic(source, new_name("t"), PARTITIONS)
    settings = flow_settings(
        source,
        target,
        topics=(topic,),
        refresh_topics_interval_s=0.5,
        sync_topic_configs_interval_s=0.5,
        sync_group_offsets_interval_s=0.5,
    )
    outages: list[tuple[str, int, int]] = []

    def outage(side: str, fail: Callable[[], None], heal: Callable[[], None], until: str) -> None:
        """Have a cluster fail until a line shows it, and wait until all is well again."""
        watcher.wait_for(r"running.* lag \d+ \(\d s ago\), ETA \w+$", HEALED_S)
        fail()
        begun = watcher.wait_for(
            rf"waiting: TW-WAIT-01: {side} cluster unreachable since \d\d:\d\d:\d\d, nothing is copied", NOTICED_S
        )
        watcher.wait_for(until, NOTICED_S)
        outages.append((side, begun, len(watcher.lines)))
        heal()
        watcher.wait_for(r"running.* lag \d{1,5} \([01] s ago\), ETA", HEALED_S)

    with caplog.at_level(logging.INFO, "twinlog"), FlowWithoutSpark(settings) as flow, watched(flow) as watcher:
        assert watcher.lines == [] or "starting" in watcher.lines[0]
        with Load(source, topic, PARTITIONS, rate=500, tick_s=SLOW_TICK_S):
            # The source answers all the time how much waits.
            outage("target", target.kill, lambda: target.restart(wait=False), r"lag \d{4,} \([01] s ago\)$")
            outage("target", target.suspend, target.resume, r"lag \d{4,} \([01] s ago\)$")
        outage("source", source.suspend, source.resume, "lag unknown$")
        outage("source", source.kill, lambda: source.restart(wait=False), "lag unknown$")
        watcher.wait_for(r"running.* lag 0 \(\d s ago\)", HEALED_S)

    for side, begun, over in outages:
        for line in watcher.lines[begun:over]:
            assert f"waiting: TW-WAIT-01: {side} cluster unreachable" in line
    for line in watcher.lines:
        assert re.search(r" lag (unknown|\d+ \(\d+ s ago.*\))", line), line
        assert "running, 0 partitions" not in line
        if "lag unknown" in line:
            assert "ETA now" not in line
    counts = [copied(line) for line in watcher.lines]
    assert counts == sorted(counts)
    assert counts[-1] == sum(offsets(source, topic, number)[1] for number in range(PARTITIONS))
    ours = [record for record in caplog.records if record.name.startswith("twinlog.worker")]
    warnings = [record.getMessage() for record in ours if record.levelno >= logging.WARNING]
    outages_logged = [text for text in warnings if "waiting: cluster " in text]
    assert len(outages_logged) == len(outages), warnings
    assert len([record for record in ours if "answers again after" in record.getMessage()]) == len(outages)
    # No line asks to switch something off because a cluster is down, nor hears of one outage from every job.
    assert [text for text in warnings if "enabled = false" in text] == []
    assert len(warnings) - len(outages_logged) <= len(outages), warnings


def test_heartbeats_are_copied_and_not_counted(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, new_name: Callable[[str], str]
) -> None:
    if "heartbeats" not in topics(source_cluster):
        create_topic(source_cluster, "heartbeats")
    produce(source_cluster, "heartbeats", [NewRecord(b"alive", key=b"a->b")] * 10)
    settings = flow_settings(source_cluster, target_cluster, topics=(new_name("none"),))
    with FlowWithoutSpark(settings) as flow, watched(flow) as watcher:
        end = offsets(source_cluster, "heartbeats", 0)[1]
        seen = flow.runner.flow_status.partitions
        wait_for(lambda: any(one.source_offset >= end for one in seen().values()), 60, "heartbeats are reported")
        assert watcher.look() == ("north->south: idle: no topic of north is mirrored, 0 partitions, 0 records copied")


def test_reports_of_all_partitions_fit_a_progress_topic_of_small_records(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    new_name: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Alias(new_name("tiny"))
    progress = create_topic(target_cluster, progress_topic(here), config={"max.message.bytes": "900"})
    topic = create_topic(source_cluster, new_name("t"), 40)
    for number in range(40):
        produce(source_cluster, topic, numbered(number + 1), partition=number)
    settings = replace(flow_settings(source_cluster, target_cluster, topics=(topic,)), source=here)

    drivers: list[DriverReport] = []

    def counted() -> dict[int, int]:
        """Records of each partition by all that was reported."""
        drivers.clear()
        counts: Counter[int] = Counter()
        for one in consume(target_cluster, progress):
            report = Report.decode(one.value or b"")
            if report is None:
                driver = decode_report(one.value)
                assert driver is not None
                drivers.append(driver)
                continue
            for part in report.partitions:
                if part.topic == topic:
                    counts[part.partition] += part.counters.records
        return counts

    everything = {number: number + 1 for number in range(40)}
    monkeypatch.setattr(reporter_module, "OLD_S", OLD_S)

    def idle() -> bool:
        """Whether no partition had any news for a while."""
        copier_thread = flow.workers[0].copier_thread
        assert copier_thread is not None
        parts = copier_thread._copier.partitions.values()
        return all(time.monotonic() - (part.read.answered_at or 0.0) > OLD_S for part in parts)

    with FlowWithoutSpark(settings) as flow:
        wait_for(lambda: counted() == everything, 60, "each partition was reported once")
        assert flow.runner.flow_status.summary().records == sum(everything.values())
        wait_for(idle, 60, "all is quiet")
    # That there is nothing left to copy is known to the end.
    seen = flow.runner.flow_status.summary()
    assert (seen.lag, seen.unknown) == (0, 0)
    # The process itself leaves out topics where the record would be too large.
    counted()
    assert [(one.flow, len(one.topics) + one.more_topics) for one in drivers[-1:]] == [(settings.name, 1)]
