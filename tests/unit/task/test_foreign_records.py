"""What somebody else writes to a remote topic is said at once, and then once a minute."""

from __future__ import annotations

from twinlog.model.types import TopicName, TopicPartition
from twinlog.task.foreign_records import SUM_S, ForeignOffsets

ONE, OTHER = (TopicPartition(TopicName("north.t"), number) for number in range(2))


class Said:
    """Counts foreign offsets on a clock of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.texts: list[str] = []
        self.offsets = ForeignOffsets(lambda kind, text: self.texts.append(f"{kind}: {text}"), lambda: self.now)


def test_the_first_foreign_record_is_reported_at_once_and_the_rest_is_summed() -> None:
    said = Said()
    for number in range(1000):
        said.offsets.seen(ONE, 10 * number, 10 * number + 3)
    assert said.texts == [
        "foreign: north.t-0: 3 target offsets from 0 on are not ours; somebody else writes to this remote topic"
    ]
    said.now += SUM_S
    said.offsets.turn()
    said.offsets.turn()
    assert said.texts[1:] == [
        (
            "foreign: north.t-0: 2997 target offsets in 999 places from 10 to 9992 are not ours; somebody else writes "
            "to this remote topic"
        )
    ]


def test_a_sum_of_several_partitions_is_one_line() -> None:
    said = Said()
    said.offsets.seen(ONE, 0, 1)
    said.offsets.seen(OTHER, 5, 9)
    said.offsets.seen(ONE, 3, 4)
    said.offsets.report()
    assert said.texts[1:] == [
        (
            "foreign: 5 target offsets in 2 partitions are not ours; somebody else writes to these remote topics: "
            "north.t-1: 4 target offsets from 5 on; north.t-0: 1 target offsets from 3 on"
        )
    ]
    said.now += SUM_S
    said.offsets.turn()
    assert len(said.texts) == 2
