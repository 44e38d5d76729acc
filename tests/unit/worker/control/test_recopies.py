"""What of a partition was copied before it was moved back, and is not copied again."""

from __future__ import annotations

import pytest

from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.worker.control.model import (
    CommandOutcome,
    CommandState,
    PartitionMove,
    PartitionSelector,
    TopicCommand,
    TopicVerb,
)
from twinlog.worker.control.recopies import RecopiedRange, counting_first_copies, recopies

PART = TopicPartition(TopicName("t"), 0)


def outcome(
    verb: TopicVerb,
    before: int,
    after: int,
    first: int | None = None,
    *,
    result: CommandState = CommandState.APPLIED,
    name: str = "c",
) -> CommandOutcome:
    first_target = None if first is None else TargetOffset(first)
    move = PartitionMove(PART, SourceOffset(before), SourceOffset(after), changes=True, first_target=first_target)
    return CommandOutcome(TopicCommand(name, verb, (PartitionSelector("t"),)), result, moves=(move,))


@pytest.mark.parametrize(
    ("outcomes", "found"),
    [
        ([], None),
        (
            [outcome(TopicVerb.RESTART_FROM, 100, 0, 7)],
            RecopiedRange(SourceOffset(0), SourceOffset(100), TargetOffset(7)),
        ),
        ([outcome(TopicVerb.RESTART_FROM, 100, 0, 7, result=CommandState.REFUSED)], None),
        ([outcome(TopicVerb.RESTART_FROM, 100, 0, 7), outcome(TopicVerb.SKIP_TO, 10, 100)], None),
        # The second restart comes before the first has reached its place.
        (
            [outcome(TopicVerb.RESTART_FROM, 100, 5, 12), outcome(TopicVerb.RESTART_FROM, 40, 0, 110)],
            RecopiedRange(SourceOffset(0), SourceOffset(100), TargetOffset(12)),
        ),
        # It had reached it.
        (
            [outcome(TopicVerb.RESTART_FROM, 100, 0, 7), outcome(TopicVerb.RESTART_FROM, 200, 150, 260)],
            RecopiedRange(SourceOffset(150), SourceOffset(200), TargetOffset(260)),
        ),
        ([outcome(TopicVerb.RESTART_FROM, 100, 0, 7, name="now")], None),
    ],
)
def test_the_last_restart_counts(outcomes: list[CommandOutcome], found: RecopiedRange | None) -> None:
    assert recopies(outcomes, "now").get(PART) == found


@pytest.mark.parametrize(
    ("before", "after", "passed", "text"),
    [
        (10, 100, 0, "10 to 99 were copied before the restart-from, and are not copied again"),
        (10, 130, 30, "10 to 99 were copied before the restart-from, and are not copied again"),
        (10, 50, 0, "10 to 49 were copied before the restart-from, and are not copied again"),
        (100, 130, 30, ""),
    ],
)
def test_first_copies_are_not_passed_over(before: int, after: int, passed: int, text: str) -> None:
    recopy = RecopiedRange(SourceOffset(0), SourceOffset(100), TargetOffset(0))
    move = PartitionMove(PART, SourceOffset(before), SourceOffset(after), changes=True, passed=after - before)
    found = counting_first_copies(move, recopy)
    assert (found.passed, found.text) == (passed, text)
