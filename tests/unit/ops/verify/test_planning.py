"""What is asked for becomes sections of partitions, divided among tasks; and what nobody can compare is reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.wait import wait_for
from twinlog.errors import OptionError
from twinlog.lease.task_progress import ProgressLine, ProgressServer
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.verify.model import MOST_LEFT, PartitionToVerify, Section, UncomparedRange, Verdict, VerifyRules
from twinlog.ops.verify.planner import VerifyPlan, read_verify_options
from twinlog.settings.flow import ClientSettings, ConsumerSettings

FILE = """\
clusters = a, b
a.bootstrap.servers = a:9092
b.bootstrap.servers = b:9092
a->b.enabled = true
b->a.enabled = true
"""
RULES = VerifyRules(*(2 * (ConsumerSettings(ClientSettings(("a:9092",))),)), "a", "b")


def partition(number: int, size: int) -> PartitionToVerify:
    part = TopicPartition(TopicName("t"), number)
    return PartitionToVerify("a->b", part, part, (Section("exact", 0, size, 0, size),))


def test_partitions_are_dealt_out_evenly_to_few_tasks() -> None:
    parts = tuple(partition(number, 10 + number % 7) for number in range(2_000))
    shares = VerifyPlan(RULES, (*parts, partition(2_000, 9_000))).shares(8)
    assert sorted(one.source.partition for share in shares for one in share.parts) == list(range(2_001))
    sizes = sorted(sum(one.offsets for one in share.parts) for share in shares)
    # The large one has a task for itself.
    assert sizes[-1] == 18_000
    assert sizes[-2] - sizes[0] < 40
    assert len(VerifyPlan(RULES, parts[:3]).shares(8)) == 3
    assert VerifyPlan(RULES, ()).shares(8) == []


def test_options_of_the_format(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    given = {"twinlog.config": str(file), "flow": "b->a", "topics": "x, y.*", "startingTimestamp": "5"}
    asked = read_verify_options(given | {"everyRecord": "TRUE"})
    assert (asked.flow.name, asked.options.topics, asked.options.since_ms) == ("b->a", ("x", "y.*"), 5)
    assert (asked.options.every_record, asked.options.ignore_foreign) == (True, False)
    for wrong, words in (
        ({"flow": "a->c"}, "must be one of the flows that .* has: a->b, b->a"),
        ({"topic": "x"}, "Option 'topic' is unknown"),
        ({"everyRecord": "1"}, "option everyrecord is true or false"),
        ({"endingTimestamp": "soon"}, "option endingtimestamp is a whole number"),
        ({"startingTimestamp": "-2"}, "option startingtimestamp is a whole number, not below 0"),
    ):
        with pytest.raises(OptionError, match=words):
            read_verify_options(given | wrong)
    with pytest.raises(OptionError, match=r"'twinlog\.config' must be specified"):
        read_verify_options({})


def test_ranges_that_were_left_out_are_bounded() -> None:
    verdict = Verdict.of(partition(0, 10))
    verdict.add_uncompared("source", 0, 10, "gone")
    verdict.add_uncompared("source", 10, 20, "gone")
    assert verdict.left == [UncomparedRange("source", 0, 20, "gone")]
    for start in range(30, 100_000, 10):
        verdict.add_uncompared("target", start, start + 1, "gone")
    assert len(verdict.left) <= MOST_LEFT
    assert verdict.left[-1].end == 99_991


def test_tasks_tell_how_far_they_are_and_strangers_do_not() -> None:
    with ProgressServer("127.0.0.1") as server:
        assert server.address is not None
        stranger = ProgressLine(replace(server.address, secret=b"guessed"))
        lines = [ProgressLine(server.address) for _ in range(3)]
        for line in (stranger, *lines):
            line.report(7)
            line.close()
        wait_for(lambda: server.done == 21, 60, "three lines have reported")
    # A driver that is gone keeps no task from its work.
    late = ProgressLine(server.address)
    late.report(1)
    late.close()
    # 192.0.2.1 is for documentation, and of no machine.
    with ProgressServer("192.0.2.1") as server:
        assert server.address is None
