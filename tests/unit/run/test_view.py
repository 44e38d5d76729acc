from __future__ import annotations

from twinlog.metrics.progress import PartitionProgress, Report
from twinlog.run.view import FlowView
from twinlog.types import TopicName, TopicPartition

ORDERS, OLD = TopicPartition(TopicName("orders"), 0), TopicPartition(TopicName("old"), 0)


def report(*partitions: TopicPartition) -> Report:
    parts = tuple(PartitionProgress(part.topic, part.partition, 5, 5, 7, records=5, bytes=50) for part in partitions)
    return Report("a->b", "copier", 1, 0, 1.0, 0.1, parts)


def test_reports_add_up() -> None:
    view = FlowView()
    view.take(report(ORDERS))
    view.take(report(ORDERS, OLD))
    summary = view.summary()
    assert (summary.partitions, summary.records, summary.bytes, summary.lag) == (2, 15, 150, 4)


def test_a_late_report_does_not_bring_back_what_is_no_longer_copied() -> None:
    view = FlowView()
    view.take(report(ORDERS, OLD))
    view.plan({ORDERS})
    view.take(report(ORDERS, OLD))
    assert set(view.partitions()) == {ORDERS}
    assert view.summary().records == 15
    assert view.reached({ORDERS: 5})
    assert not view.reached({ORDERS: 5, OLD: 5})
