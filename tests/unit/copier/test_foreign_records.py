"""What somebody else writes to a remote topic is logged at once, and then once a minute."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twinlog.copier.partition.copied_records import SUM_S, ForeignOffsets
from twinlog.lease.messages import Grant
from twinlog.model.types import TargetOffset, TopicName, TopicPartition

ONE, OTHER = (TopicPartition(TopicName("north.t"), number) for number in range(2))
ROUTED = TopicPartition(TopicName("routed"), 0)


class Reported:
    """Counts foreign offsets on a clock of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.texts: list[str] = []
        context: Any = SimpleNamespace(
            loop=SimpleNamespace(clock=SimpleNamespace(monotonic=lambda: self.now)),
            report_event=lambda kind, text: self.texts.append(f"{kind}: {text}"),
        )
        self.routed = {ROUTED.topic}
        self.offsets = ForeignOffsets(context, self.routed)

    def note_offsets(self, remote: TopicPartition, first: int, end: int, *, heartbeats: bool = False) -> None:
        grant = Grant(remote, remote, None, 1 << 20, None, heartbeats=heartbeats)
        self.offsets.note_offsets(grant, TargetOffset(first), TargetOffset(end))


def test_the_first_foreign_record_is_reported_at_once_and_the_rest_is_summed() -> None:
    reported = Reported()
    for number in range(1000):
        reported.note_offsets(ONE, 10 * number, 10 * number + 3)
    assert reported.texts == [
        "foreign: north.t-0: 3 target offsets from 0 on are not ours; somebody else writes to this remote topic"
    ]
    reported.now += SUM_S
    reported.offsets.report_sum()
    reported.offsets.report_sum()
    assert reported.texts[1:] == [
        (
            "foreign: north.t-0: 2,997 target offsets in 999 places from 10 to 9992 are not ours; somebody else writes "
            "to this remote topic"
        )
    ]


def test_a_sum_of_several_partitions_is_one_line() -> None:
    reported = Reported()
    reported.note_offsets(ONE, 0, 1)
    reported.note_offsets(OTHER, 5, 9)
    reported.note_offsets(ONE, 3, 4)
    reported.offsets.report()
    assert reported.texts[1:] == [
        (
            "foreign: 5 target offsets in 2 partitions are not ours; somebody else writes to these remote topics: "
            "north.t-1: 4 target offsets from 5 on; north.t-0: 1 target offset from 3 on"
        )
    ]
    reported.now += SUM_S
    reported.offsets.report_sum()
    assert len(reported.texts) == 2


def test_records_of_other_copiers_in_routed_topics_and_heartbeats_are_left_out() -> None:
    reported = Reported()
    reported.note_offsets(ROUTED, 0, 3)
    reported.note_offsets(ONE, 0, 3, heartbeats=True)
    assert reported.texts == []
