"""Where thousands of small batches are merged all at once."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from tests.source_log import New, SourceLog
from tests.unit.batches.batches import all_records
from twinlog.batches.array_merging import FROM, IMPORT_FROM, ManySmallBatches
from twinlog.batches.prepare import prepare
from twinlog.errors import CorruptBatchError
from twinlog.kafka.producer.appends import CopyRules


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many batches each look at many of them took."""
    looks: list[int] = []
    blocks = ManySmallBatches.blocks

    def counted(self: ManySmallBatches, *given: object, **named: object) -> object:
        found = blocks(self, *given, **named)
        looks.append(sum(block.batches for block in found))
        return found

    monkeypatch.setattr(ManySmallBatches, "blocks", counted)
    return looks


def singles(count: int, *, size: int = 20) -> SourceLog:
    log = SourceLog(5)
    for number in range(count):
        log.batch([New(1_000 + number, bytes([number & 255]) * size, b"key")], leader_epoch=4)
    return log


def test_thousands_are_taken_at_once_and_become_as_many_batches_as_one_by_one(taken: list[int]) -> None:
    log = singles(5_000, size=200)
    prepared = prepare(log.fetch(), 5, CopyRules())
    assert sum(taken) > 4_500
    assert len(prepared.appends) == 3
    assert prepared.appends[0].spans == ((5, prepared.appends[0].count),)
    assert (prepared.position, prepared.leader_epoch, prepared.roads) == (5_005, 4, {"merged": 3})
    assert all_records(prepared) == log.visible()


def test_few_need_no_numpy_and_many_do() -> None:
    program = f"""
import sys
from tests.unit.batches.test_many import singles
from twinlog.kafka.producer.appends import CopyRules
from twinlog.batches.prepare import prepare
import twinlog.copier.copier, twinlog.spark.task
few, many = singles({IMPORT_FROM - 1}), singles({IMPORT_FROM + 1})
prepare(few.fetch(), 5, CopyRules())
assert "numpy" not in sys.modules
prepare(many.fetch(), 5, CopyRules(merge_below=0))
assert "numpy" not in sys.modules
prepare(many.fetch(), 5, CopyRules())
assert "numpy" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_a_damaged_one_among_many_ends_the_copy_right_before_it(taken: list[int]) -> None:
    log = singles(4_000)
    fetched = log.fetch()
    fetched[log.starts[3_210] + 70] ^= 4
    prepared = prepare(fetched, 5, CopyRules())
    assert prepared.position == 3_215
    assert sum(append.count for append in prepared.appends) == 3_210
    with pytest.raises(CorruptBatchError, match="3215"):
        prepare(fetched[log.starts[3_210] :], 3_215, CopyRules())


def test_two_with_the_same_damage_do_not_make_each_other_good() -> None:
    log = singles(2_000)
    fetched = log.fetch()
    for number in (700, 702):
        fetched[log.starts[number] + 70] ^= 4
    assert prepare(fetched, 5, CopyRules()).position == 705


def test_large_batches_in_between_are_passed_on(taken: list[int]) -> None:
    log = SourceLog()
    for _ in range(3):
        for number in range(1_200):
            log.batch([New(number, b"x" * 50)])
        log.batch([New(7, b"x" * 20_000)])
    prepared = prepare(log.fetch(), 0, CopyRules())
    assert [append.count for append in prepared.appends] == [1_200, 1] * 3
    assert sum(taken) > 2_000
    assert all_records(prepared) == log.visible()


@pytest.mark.parametrize("each", [63, 64, 65, 70])
def test_batches_of_more_records_than_have_numbers_of_one_byte_are_merged_one_by_one(
    taken: list[int], each: int
) -> None:
    """On the way to a distant target any number of records is merged."""
    # Now few are many.
    importlib.import_module("twinlog.batches.join")
    log = SourceLog(5)
    for number in range(FROM + 20):
        log.batch([New(1_000 + number, b"abc", b"k")] * each)
    prepared = prepare(log.fetch(), 5, CopyRules().merging_all())
    assert bool(sum(taken)) == (each <= 64)
    assert all_records(prepared) == log.visible()
