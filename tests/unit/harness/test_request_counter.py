"""What counts as asking without pause, sample by sample."""

from __future__ import annotations

import io

from harness.checks.requests import AskingLoop, find_loops
from harness.traffic.request_counter import Sample, read_samples


def _samples(*counts: dict[str, int], data: int = 0) -> list[Sample]:
    return [Sample(100 + 0.5 * number, 0.5, data, requests) for number, requests in enumerate(counts)]


def test_a_line_that_is_still_being_written_is_read_the_next_time() -> None:
    lines = io.StringIO("1000 500 Bytes=7 Metadata=2\n1500 501 Meta")
    assert list(read_samples(lines)) == [Sample(1.0, 0.5, 7, {"Metadata": 2})]
    assert list(read_samples(lines)) == []
    place = lines.tell()
    lines.seek(0, io.SEEK_END)
    lines.write("data=1\n")
    lines.seek(place)
    assert list(read_samples(lines)) == [Sample(1.5, 0.501, 0, {"Metadata": 1})]


def test_some_seconds_of_more_than_fifty_a_second_are_a_loop() -> None:
    assert find_loops("b", _samples(*[{"FetchConsumer": 26}] * 4)) == [AskingLoop("b", "FetchConsumer", 2.0, 104)]
    assert find_loops("b", _samples(*[{"FetchConsumer": 25}] * 9)) == []
    assert find_loops("b", _samples(*[{"FetchConsumer": 900}] * 3)) == []
    # A test that waits for something asks for metadata, often at first.
    assert find_loops("b", _samples(*[{"Metadata": 26}] * 10)) == [AskingLoop("b", "Metadata", 5.0, 260)]
    assert find_loops("b", _samples(*[{"Metadata": 26}] * 9)) == []


def test_a_pause_ends_a_stretch() -> None:
    busy = {"Produce": 100}
    assert find_loops("b", _samples(busy, busy, busy, {}, busy, busy, busy)) == []
    assert find_loops("b", _samples(*[busy] * 4, {}, busy)) == [AskingLoop("b", "Produce", 2.0, 400)]


def test_requests_for_records_may_be_many_while_records_move() -> None:
    fetches = [{"FetchConsumer": 500}] * 4
    assert find_loops("b", _samples(*fetches, data=10_000)) == []
    # The heartbeats of a flow, and whatever else trickles, are no reason for as many fetches.
    assert find_loops("b", _samples(*fetches, data=1_000)) == [AskingLoop("b", "FetchConsumer", 2.0, 2000)]
    assert find_loops("b", _samples(*[{"Metadata": 500}] * 10, data=10_000_000)) != []


def test_what_brokers_ask_each_other_is_left_out() -> None:
    assert find_loops("b", _samples(*[{"FetchFollower": 500}] * 4)) == []


def test_looks_at_a_log_that_gets_markers_are_no_loop() -> None:
    looks = {"ListOffsets": 100}
    assert find_loops("b", _samples(*[{**looks, "WriteTxnMarkers": 25}] * 12)) == []
    assert find_loops("b", _samples(*[{**looks, "WriteTxnMarkers": 24}] * 12)) != []
    assert find_loops("b", _samples(*[looks] * 12)) != []
