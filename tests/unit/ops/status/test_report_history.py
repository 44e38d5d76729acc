"""Older reports of a flow: samples of the progress topic, the newest first, within limits of records and bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from harness.virtual.clock import WALL_BEGIN
from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.log import VirtualLog
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import FETCH
from tests.unit.lease.test_messages import REPORT as OF_COPIER
from tests.unit.worker.test_driver_report import FULL, SETTINGS
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import own_batch, record_body
from twinlog.ops.status import report_history
from twinlog.ops.status.report_history import DAY_MS, SAMPLES, ReportHistoryReader
from twinlog.settings.client import ClientSettings
from twinlog.worker.status.report import DriverReport, encode_report

TOPIC = "mm2-twinlog-progress.a.internal"
NOW_MS = int(WALL_BEGIN * 1000)


@dataclass
class ProgressTopic:
    """A target, its progress topic, and a reader of it."""

    cluster: VirtualCluster
    reader: ReportHistoryReader

    def create(self) -> VirtualLog:
        return self.cluster.create(TOPIC)[0]

    def write(self, log: VirtualLog, report: DriverReport, *, key: bytes = b"driver a->b") -> None:
        log.append(bytes(own_batch([(report.at_ms, record_body(key, encode_report(report, 10**6)))])))

    def write_copier(self, log: VirtualLog, at_ms: int) -> None:
        log.append(bytes(own_batch([(at_ms, record_body(b"copier-1", OF_COPIER.encode()))])))


@pytest.fixture
def progress() -> Iterator[ProgressTopic]:
    with virtual_loop(1) as loop:
        target = VirtualCluster(loop, "b")

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        admin = replace(SETTINGS.target_admin, client=ClientSettings(target.bootstrap))
        with ReportHistoryReader(replace(SETTINGS, target_admin=admin), connect=connect) as reader:
            yield ProgressTopic(target, reader)


def at(seconds: float, **changes: object) -> DriverReport:
    """A report of so many seconds ago."""
    return replace(FULL, at_ms=NOW_MS - int(seconds * 1000), **changes)  # type: ignore[arg-type]


def test_reports_of_the_last_day_are_read_in_order_without_their_lists(progress: ProgressTopic) -> None:
    log = progress.create()
    progress.write(log, at(DAY_MS / 1000 + 60, records=1))
    for number in range(5):
        progress.write_copier(log, NOW_MS - 1000 * (50 - 10 * number))
        progress.write(log, at(50 - 10 * number, records=10 * number))
    found = progress.reader.read()
    assert [one.records for one in found.reports] == [0, 10, 20, 30, 40]
    assert {(one.topics, one.tasks) for one in found.reports} == {((), ())}
    assert (found.topic, found.cut) == (TOPIC, False)


def test_a_long_topic_is_sampled_over_its_whole_length(progress: ProgressTopic) -> None:
    log = progress.create()
    many = 5 * SAMPLES
    for number in range(many):
        progress.write(log, at(2 * (many - number), records=number, topics=(), tasks=()))
    found = [one.records for one in progress.reader.read().reports]
    assert len(found) == SAMPLES
    assert found == list(range(0, many, 5))


def test_reports_of_other_flows_and_of_other_groups_are_left_out(progress: ProgressTopic) -> None:
    log = progress.create()
    progress.write(log, at(9, flow="x->b"))
    progress.write(log, at(8), key=b"copier-1")
    progress.write(log, at(7, group="another"))
    progress.write(log, at(6, records=6, group=SETTINGS.group_id))
    log.write(b"no report", at_ms=NOW_MS - 5000)
    assert [one.records for one in progress.reader.read().reports] == [6]


def test_without_the_topic_or_without_reports_there_is_no_history(progress: ProgressTopic) -> None:
    assert progress.reader.read().reports == ()
    log = progress.create()
    assert progress.reader.read().reports == ()
    progress.write(log, at(2 * DAY_MS / 1000))
    assert progress.reader.read().reports == ()


def test_a_reading_ends_at_its_limit_of_bytes_and_keeps_the_newest_reports(
    progress: ProgressTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = progress.create()
    for number in range(100):
        progress.write(log, at(200 - 2 * number, records=number))
    size = sum(len(data) for _, data in log.batches) // 100
    monkeypatch.setattr(report_history, "ANSWER_BYTES", 1)
    monkeypatch.setattr(report_history, "MOST_BYTES", 10 * size)
    found = progress.reader.read()
    assert found.cut
    assert [one.records for one in found.reports] == list(range(100 - len(found.reports), 100))
    assert 9 <= len(found.reports) <= 12
    assert found.bytes < 13 * size


def test_between_many_reports_of_copiers_a_bounded_number_of_answers_is_read(
    progress: ProgressTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = progress.create()
    for _ in range(20):
        progress.write_copier(log, NOW_MS - 5000)
    progress.write(log, at(4, records=7))
    monkeypatch.setattr(report_history, "ANSWER_BYTES", 1)
    monkeypatch.setattr(report_history, "SAMPLES", 1)
    progress.cluster.asked.clear()
    assert progress.reader.read().reports == ()
    assert progress.cluster.asked[FETCH] == report_history.MOST_ANSWERS
    monkeypatch.setattr(report_history, "MOST_ANSWERS", 21)
    assert [one.records for one in progress.reader.read().reports] == [7]


def test_a_missing_right_and_a_silent_broker_are_errors(progress: ProgressTopic) -> None:
    log = progress.create()
    progress.write(log, at(4))
    progress.cluster.fault(FETCH, Fault(Code.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(RefusedError, match="READ on topic"):
        progress.reader.read()
    progress.cluster.fault(FETCH, Fault(Code.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(ClusterError, match="is unreadable"):
        progress.reader.read()
    # Retention has deleted the reports since the reading began.
    progress.cluster.fault(FETCH, Fault(Code.OFFSET_OUT_OF_RANGE))
    assert progress.reader.read().reports == ()
    assert len(progress.reader.read().reports) == 1
