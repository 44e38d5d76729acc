"""How partitions are assigned to tasks: evenly, with few moves, and without taking long."""

from __future__ import annotations

import random
from collections.abc import Mapping

from twinlog.lease.ledger import Assignment
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.placement.tasks import TOLERANCE, assign_partitions

MB = 1e6


def part(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(TopicName(topic), number)


def parts(count: int) -> list[TopicPartition]:
    return [part(number) for number in range(count)]


def loads(assignment: Assignment, weights: Mapping[TopicPartition, float]) -> list[float]:
    return [sum(weights.get(one, 0.0) for one in share) for share in assignment]


def moves(before: Assignment, after: Assignment) -> int:
    return sum(len(share - old) for share, old in zip(after, before, strict=True))


def test_every_partition_is_in_one_slot() -> None:
    assert assign_partitions([], 3) == ()
    assert assign_partitions(parts(1), 3) == (frozenset(parts(1)),)
    for tasks in (1, 2, 3, 7):
        assignment = assign_partitions(parts(20), tasks)
        assert sorted(one for share in assignment for one in share) == parts(20)
        assert {len(share) for share in assignment} <= {20 // tasks, 20 // tasks + 1}


def test_what_is_new_goes_where_there_is_room_and_nothing_else_moves() -> None:
    weights = {part(0): 50 * MB, part(1): 10 * MB, part(2): 10 * MB, part(3): 1 * MB}
    before = (frozenset({part(0), part(1)}), frozenset({part(2), part(3)}))
    after = assign_partitions(parts(6), 2, weights=weights, before=before)
    assert after == (before[0], before[1] | {part(4), part(5)})
    after = assign_partitions(parts(3), 2, weights=weights, before=before)
    assert after == (before[0], frozenset({part(2)}))


def test_many_quiet_partitions_do_not_end_up_with_one_task() -> None:
    weights = {part(0): 50 * MB, part(1): 49 * MB}
    before = (frozenset({part(0)}), frozenset({part(1)}))
    assignment = assign_partitions(parts(1002), 2, weights=weights, before=before)
    assert min(map(len, assignment)) > 400


def test_a_load_that_shifted_moves_as_little_as_possible() -> None:
    before = (frozenset(parts(4)), frozenset(part(number) for number in range(4, 8)))
    weights = {part(0): 30 * MB, part(1): 20 * MB, part(2): 10 * MB, part(3): 1 * MB}
    assert assign_partitions(parts(8), 2, weights=weights, before=before) == before, "not asked for"
    after = assign_partitions(parts(8), 2, weights=weights, before=before, level=True)
    assert moves(before, after) == 1
    assert part(0) in after[1]
    assert max(loads(after, weights)) < TOLERANCE * 61 * MB / 2
    assert assign_partitions(parts(8), 2, weights=weights, before=after, level=True) == after


def test_a_partition_that_is_too_heavy_for_any_task_keeps_its_quiet_neighbours() -> None:
    before = (frozenset(parts(500)), frozenset(part(number) for number in range(500, 1000)))
    weights = {part(0): 100 * MB, part(1): 10 * MB, **dict.fromkeys(before[1], 1000.0)}
    after = assign_partitions(parts(1000), 2, weights=weights, before=before, level=True)
    assert moves(before, after) == 1
    assert part(1) in after[1]


def test_a_new_task_takes_its_share() -> None:
    weights = {part(0): 40 * MB, part(1): 30 * MB, part(2): 20 * MB, part(3): 10 * MB}
    before = (frozenset(parts(4)),)
    after = assign_partitions(parts(4), 2, weights=weights, before=before)
    assert max(loads(after, weights)) <= 60 * MB
    quiet = assign_partitions(parts(100), 4, before=(frozenset(parts(100)),))
    assert max(map(len, quiet)) <= TOLERANCE * 25


def test_a_task_that_is_gone_leaves_its_partitions_to_the_others() -> None:
    before = assign_partitions(parts(30), 3)
    after = assign_partitions(parts(30), 2, before=before)
    assert [share - old for share, old in zip(before, after, strict=False)] == [frozenset(), frozenset()]
    assert {len(share) for share in after} == {15}


def test_any_shift_ends_level_or_cannot_be_helped() -> None:
    chance = random.Random(8)
    for _ in range(200):
        count, tasks = chance.randint(1, 60), chance.randint(1, 6)
        everything = parts(count)
        weights = {one: chance.expovariate(1.0) ** 2 * MB for one in everything if chance.random() < 0.7}
        cut = [chance.randrange(min(tasks, count)) for _ in everything]
        before = tuple(
            frozenset(one for one, share in zip(everything, cut, strict=True) if share == n) for n in range(tasks)
        )
        after = assign_partitions(everything, tasks, weights=weights, before=before, level=True)
        assert sorted(one for share in after for one in share) == everything
        carried = loads(after, weights)
        mean = sum(carried) / min(tasks, count)
        heaviest = max(zip(carried, after, strict=True), key=lambda entry: entry[0])
        alone = max(weights.get(one, 0.0) for one in heaviest[1])
        assert heaviest[0] <= 1.6 * mean + 1 or alone >= 0.4 * heaviest[0]


def test_ten_thousand_partitions_are_dealt_in_moments() -> None:
    """A pairwise comparison of partitions would take minutes."""
    everything = [part(number, f"t{topic}") for topic in range(500) for number in range(20)]
    assignment = assign_partitions(everything, 100)
    chance = random.Random(8)
    weights = {one: chance.expovariate(1.0) for one in everything}
    assign_partitions(everything, 100, weights=weights, before=assignment, level=True)
    assignment = assign_partitions(everything, 1)
    assert len(assign_partitions(everything, 2, before=assignment)) == 2
