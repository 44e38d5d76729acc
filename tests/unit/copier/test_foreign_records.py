"""What somebody else writes to a remote topic is logged at once, and then once a minute."""

from __future__ import annotations

from twinlog.copier.foreign_records import SUM_S, ForeignOffsets
from twinlog.model.types import TopicName, TopicPartition

ONE, OTHER = (TopicPartition(TopicName("north.t"), number) for number in range(2))


class Reported:
    """Counts foreign offsets on a clock of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.texts: list[str] = []
        self.offsets = ForeignOffsets(lambda kind, text: self.texts.append(f"{kind}: {text}"), lambda: self.now)


def test_the_first_foreign_record_is_reported_at_once_and_the_rest_is_summed() -> None:
    reported = Reported()
    for number in range(1000):
        reported.offsets.seen(ONE, 10 * number, 10 * number + 3)
    assert reported.texts == [
        "foreign: north.t-0: 3 target offsets from 0 on are not ours; somebody else writes to this remote topic"
    ]
    reported.now += SUM_S
    reported.offsets.report_sum()
    reported.offsets.report_sum()
    assert reported.texts[1:] == [
        (
            "foreign: north.t-0: 2997 target offsets in 999 places from 10 to 9992 are not ours; somebody else writes "
            "to this remote topic"
        )
    ]


def test_a_sum_of_several_partitions_is_one_line() -> None:
    reported = Reported()
    reported.offsets.seen(ONE, 0, 1)
    reported.offsets.seen(OTHER, 5, 9)
    reported.offsets.seen(ONE, 3, 4)
    reported.offsets.report()
    assert reported.texts[1:] == [
        (
            "foreign: 5 target offsets in 2 partitions are not ours; somebody else writes to these remote topics: "
            "north.t-1: 4 target offsets from 5 on; north.t-0: 1 target offsets from 3 on"
        )
    ]
    reported.now += SUM_S
    reported.offsets.report_sum()
    assert len(reported.texts) == 2
