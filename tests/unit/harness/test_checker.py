"""The judge of all fault tests: it finds each kind of damage, and nothing in a true copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.checks.checker import Identity, Verdict, check, check_partition, identify, make_record
from harness.consume import Record
from harness.errors import HarnessError


def stored(sequence: int, offset: int, partition: int = 0, producer: str = "a") -> Record:
    new = make_record(producer, sequence, 60, sent_ms=1_700_000_000_000 + sequence)
    return Record("t", partition, offset, new.key, new.value, new.headers, new.timestamp or 0, "create")


SOURCE = [stored(number, 10 + number) for number in range(20)]
COPY = [stored(number, number) for number in range(20)]


def test_a_true_copy_is_clean() -> None:
    assert check_partition(SOURCE, COPY) == Verdict()
    assert check_partition(SOURCE, COPY).clean


def test_lost_records_are_counted() -> None:
    assert check_partition(SOURCE, COPY[:3] + COPY[5:19]) == Verdict(lost=3)
    assert check_partition(SOURCE, []) == Verdict(lost=20)


def test_a_record_that_came_twice_is_found_wherever_it_stands() -> None:
    assert check_partition(SOURCE, [*COPY[:5], COPY[4], *COPY[5:]]) == Verdict(duplicated=1)
    assert check_partition(SOURCE, COPY + COPY[2:6]) == Verdict(duplicated=4)
    assert check_partition(SOURCE, COPY * 3) == Verdict(duplicated=40)


def test_what_the_source_has_twice_may_be_there_twice() -> None:
    source = [*SOURCE, SOURCE[0]]
    assert check_partition(source, [*COPY, COPY[0]]).clean
    assert check_partition(source, COPY) == Verdict(lost=1)


def test_another_order_is_found() -> None:
    swapped = [*COPY[:4], COPY[5], COPY[4], *COPY[6:]]
    assert check_partition(SOURCE, swapped) == Verdict(reordered=1)
    assert check_partition(SOURCE, [*COPY[10:], *COPY[:10]]) == Verdict(reordered=10)


def test_a_lost_one_that_comes_later_counts_as_reordered_not_as_lost() -> None:
    assert check_partition(SOURCE, [*COPY[1:], COPY[0]]) == Verdict(reordered=1)


@pytest.mark.parametrize(
    "damage",
    [
        {"timestamp": 5},
        {"timestamp_type": "append"},
        {"headers": (*COPY[7].headers, ("more", b""))},
    ],
)
def test_other_metadata_is_corruption(damage: dict[str, object]) -> None:
    target = [*COPY[:7], replace(COPY[7], **damage), *COPY[8:]]  # type: ignore[arg-type]
    assert check_partition(SOURCE, target) == Verdict(corrupted=1)


@pytest.mark.parametrize("damage", [{"value": b"7 1 x"}, {"key": b"b"}, {"headers": ()}, {"value": None}])
def test_a_damaged_record_is_corrupt_and_lost(damage: dict[str, object]) -> None:
    target = [*COPY[:7], replace(COPY[7], **damage), *COPY[8:]]  # type: ignore[arg-type]
    assert check_partition(SOURCE, target) == Verdict(corrupted=1, lost=1)


def test_a_record_the_source_never_had_is_reported() -> None:
    assert check_partition(SOURCE, [*COPY, stored(99, 20)]) == Verdict(unknown=1)
    assert check_partition(SOURCE, [*COPY, stored(3, 20, producer="b")]) == Verdict(unknown=1)


def test_partitions_are_judged_each_for_itself() -> None:
    source = SOURCE + [stored(number, number, 1) for number in range(5)] + [stored(0, 0, 2)]
    target = COPY + [stored(number, number, 1) for number in range(4)] + [stored(0, 0, 3)]
    assert check(source, target) == {0: Verdict(), 1: Verdict(lost=1), 2: Verdict(lost=1), 3: Verdict(unknown=1)}


def test_a_source_that_cannot_be_judged_is_an_error() -> None:
    with pytest.raises(HarnessError, match="without an identity"):
        check_partition([replace(SOURCE[0], value=b"?")], COPY)


def test_a_copy_of_rolled_back_records_is_reported() -> None:
    aborted = {Identity("a", number) for number in (3, 4)}
    assert check_partition(SOURCE[5:], COPY[3:], aborted=aborted) == Verdict(resurrected=2)
    assert check_partition(SOURCE[5:], COPY[5:], aborted=aborted).clean


def test_a_record_of_an_earlier_part_came_twice() -> None:
    earlier = {Identity("a", number) for number in range(5)}
    assert check_partition(SOURCE[5:], COPY[4:], earlier=earlier) == Verdict(duplicated=1)


def test_verdicts_add_up() -> None:
    assert Verdict(1, 2, 3, 4, 5, 6) + Verdict(1, 1, 1, 1, 1, 1) == Verdict(2, 3, 4, 5, 6, 7)


def test_a_record_knows_who_it_is() -> None:
    record = make_record("p", 12, 40)
    assert record.value is not None
    assert len(record.value) == 40
    identity = identify(record)
    assert identity is not None
    assert (identity.producer, identity.sequence) == ("p", 12)
