"""What is paused is in no sum of a flow, is not waited for, and is shown apart from the rest."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from tests.unit.worker.status.test_flow_status import OLD, ORDERS, progress, report
from twinlog.clock import SYSTEM
from twinlog.settings.flow import AdminSettings, ClientSettings, ConsumerSettings, FlowSettings, ProducerSettings
from twinlog.worker.status.families import FlowMetricFacts, flow_families, seconds_to_safe_failover
from twinlog.worker.status.flow_reporter import MOST_LEFT_OUT, MOST_TEXT, FlowReporter
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.held_and_paused import PausedPartitions, PausedTopic
from twinlog.worker.status.report import DriverReport, decode_report, encode_report

OTHER = ORDERS._replace(partition=1)
CLIENT = ClientSettings(("host:1",))
SETTINGS = FlowSettings(
    source="a",
    target="b",
    consumer=ConsumerSettings(CLIENT),
    producer=ProducerSettings(CLIENT),
    source_admin=AdminSettings(CLIENT),
    target_admin=AdminSettings(CLIENT),
)


def flow(*paused: tuple[str, int], lags: bool = True) -> FlowStatus:
    """A flow of two topics, of which some is paused with three offsets to copy each."""
    status = FlowStatus()
    parts = {ORDERS._replace(topic=topic, partition=number) for topic, number in paused}
    status.paused.set_partitions(parts)
    status.paused.set_lags(dict.fromkeys(parts, 3) if lags else {})
    status.plan({ORDERS, OTHER, OLD} - parts)
    status.add_report(report(*(progress(part) for part in sorted({ORDERS, OTHER, OLD} - parts))))
    return status


def made(status: FlowStatus) -> DriverReport:
    found = FlowReporter(SETTINGS, SYSTEM).report("running", None, status)
    again = decode_report(encode_report(found, 1_000_000))
    assert again == found
    return found


def test_a_paused_partition_counts_apart() -> None:
    found = made(flow(("orders", 1), ("old", 0)))
    assert (found.lag, found.unknown, found.paused, found.paused_lag) == (2, 0, 2, 6)
    topics = {one.topic: (one.partitions, one.lag, one.paused, one.paused_lag) for one in found.topics}
    assert topics == {"orders": (1, 2, 1, 3), "old": (0, 0, 1, 3)}


def test_a_lag_that_is_not_known_is_unknown_and_none_is_zero() -> None:
    assert made(flow(("old", 0), lags=False)).paused_lag is None
    assert (made(flow()).paused, made(flow()).paused_lag) == (0, 0)


def test_what_is_paused_is_not_waited_for_and_is_again_once_it_is_resumed() -> None:
    status = flow(("old", 0))
    status.wait_for({ORDERS: 5, OLD: 9})
    assert status.reached
    assert status.doubtful_ends() == {}
    status.paused.set_partitions(set())
    status.plan({ORDERS, OTHER, OLD})
    assert not status.reached
    status.add_report(report(progress(OLD, 9)))
    assert status.reached


def test_a_target_that_lacks_what_is_paused_is_not_safe() -> None:
    at_rest = replace(made(flow()), lag=0, lag_age_s=0.0, groups=None)
    assert seconds_to_safe_failover(at_rest) == 0.0
    assert seconds_to_safe_failover(replace(at_rest, paused=1, paused_lag=3)) == inf
    assert seconds_to_safe_failover(replace(at_rest, paused=1, paused_lag=None)) == inf
    assert seconds_to_safe_failover(replace(at_rest, paused=1, paused_lag=0)) == 0.0


@pytest.mark.parametrize(("lags", "value"), [(True, 3.0), (False, None)])
def test_metrics_have_it(lags: bool, value: float | None) -> None:
    facts = FlowMetricFacts("a->b", leads=True, report=made(flow(("old", 0), lags=lags)))
    found = {family.name: family.samples for family in flow_families([facts])}
    assert [one.value for one in found["twinlog_paused_partitions"]] == [1.0]
    (lag,) = found["twinlog_paused_lag_records"]
    assert lag.value == value if value is not None else lag.value != lag.value


def test_topics_that_are_not_copied_are_reported_as_far_as_there_is_room() -> None:
    left_out = {f"t{number:03}": "x" * 500 for number in range(100)}
    found = FlowReporter(SETTINGS, SYSTEM).report("running", None, flow(), left_out=left_out, missing=left_out)
    for first in (found.left_out, found.missing_topics):
        assert [topic for topic, _ in first] == sorted(left_out)[:MOST_LEFT_OUT]
        assert {len(text) for _, text in first} == {MOST_TEXT}
    assert found.missing == 100
    assert decode_report(encode_report(found, 1_000_000)) == found


def test_what_is_paused_is_named_in_a_sentence() -> None:
    paused = PausedPartitions()
    assert (str(paused), paused.all, len(paused)) == ("", None, 0)
    paused.set_partitions({OLD, ORDERS})
    assert str(paused) == ", without 2 paused partitions: old-0, orders-0"
    assert paused.all == "all 2 partitions that are mirrored are paused"
    paused.set_lags({OLD: 4})
    assert paused.topics() == [PausedTopic("old", 1, 4), PausedTopic("orders", 1, None)]
    # What stays paused keeps its lag.
    paused.set_partitions({OLD})
    assert paused.topics() == [PausedTopic("old", 1, 4)]
    assert paused.partitions == [OLD]
