"""However many small batches there are, all at once they become what they become one by one, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.any_log import NOW, PRODUCERS, blobs, codecs, logs, records, rules
from tests.source_log import New, SourceLog, read_back
from twinlog.batches import array_merging
from twinlog.batches.prepare import prepare
from twinlog.errors import TwinlogError
from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.record.stamp import stamp

NEVER = 1 << 60

plain = st.builds(New, st.integers(NOW, NOW + 300), blobs, blobs, st.just(()))


@st.composite
def long_logs(draw: st.DrawFn) -> SourceLog:
    """Rows of small batches, with all that may stand between them."""
    log = SourceLog(draw(st.sampled_from([0, 77, 2**31 - 3, 2**40])))
    for _ in range(draw(st.integers(1, 6))):
        codec = draw(st.one_of(st.just("none"), st.just("none"), codecs))
        epoch = draw(st.sampled_from([0, 2, 258]))
        most = draw(st.sampled_from([1, 1, 4]))
        some = draw(st.lists(st.one_of(plain, plain, records), min_size=most, max_size=12))
        for number in range(draw(st.integers(1, 60))):
            begin = number * most % len(some)
            kind = draw(
                st.sampled_from(["plain"] * 30 + ["gap", "transaction", "time", "holes", "large", "epoch", "full"])
            )
            few = some[begin : begin + draw(st.integers(1, most))]
            if kind == "gap":
                log.gap(draw(st.integers(1, 300)))
            epoch += kind == "epoch"
            if kind == "full":
                few = (some * 70)[: draw(st.sampled_from([63, 64, 65, 70]))]
            log.batch(
                few if kind != "large" else [New(NOW, b"x" * draw(st.sampled_from([7_900, 9_000])))],
                codec=codec,
                leader_epoch=epoch,
                deltas=[3 * place for place in range(1, len(few) + 1)] if kind == "holes" else None,
                append_time=NOW if kind == "time" else None,
                producer_id=PRODUCERS[0] if kind == "transaction" else draw(st.sampled_from([-1, -1, 9])),
                transactional=kind == "transaction",
            )
    if PRODUCERS[0] in log.open_transactions:
        log.end_transaction(PRODUCERS[0], abort=draw(st.booleans()))
    return log


def outcome(log: memoryview, position: int, rules: CopyRules, aborted: list[tuple[int, int]]) -> Any:
    """All that comes of a fetch, for comparison."""
    try:
        prepared = prepare(log, position, rules, aborted)
    except TwinlogError as error:
        return type(error), str(error)
    appends = [
        (
            bytes(append.data),
            append.count,
            append.first_source_offset,
            append.next_source_offset,
            append.max_timestamp,
            append.spans,
        )
        for append in prepared.appends
    ]
    return (
        appends,
        prepared.position,
        prepared.leader_epoch,
        prepared.aborted,
        prepared.control,
        prepared.oversized,
        prepared.roads,
    )


def both(fetched: memoryview, position: int, rules: CopyRules, aborted: list[tuple[int, int]]) -> tuple[Any, Any]:
    """The outcome one by one and all at once; neighbours that are joined have laws of their own."""
    rules = replace(rules, join_records=0)
    with pytest.MonkeyPatch.context() as patch:
        for least in (NEVER, 2):
            patch.setattr(array_merging, "IMPORT_FROM", least)
            patch.setattr(array_merging, "FROM", least)
            if least == NEVER:
                one_by_one = outcome(fetched, position, rules, aborted)
        # Small ones, so that a log has several.
        patch.setattr(array_merging, "LARGEST_SECTION", 4_096)
        patch.setattr(array_merging, "SMALLEST_SECTION", 1_024)
        patch.setattr(array_merging, "PAUSE", 512)
        return one_by_one, outcome(fetched, position, rules, aborted)


anything = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@anything
@given(log=st.one_of(long_logs(), long_logs(), logs()), rules=rules, data=st.data())
def test_all_at_once_is_what_one_by_one_is(log: SourceLog, rules: CopyRules, data: Any) -> None:
    position = data.draw(st.one_of(st.just(0), st.integers(0, log.next_offset)))
    fetched = log.fetch(position)
    fetched = fetched[: data.draw(st.one_of(st.just(len(fetched)), st.integers(0, len(fetched))))]
    one_by_one, at_once = both(fetched, position, rules, log.aborted(position))
    assert at_once == one_by_one


@settings(anything, max_examples=30)
@given(log=long_logs(), rules=rules, data=st.data())
def test_damage_is_found_either_way(log: SourceLog, rules: CopyRules, data: Any) -> None:
    fetched = log.fetch()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(fetched) - 1))
        fetched[at] ^= 1 << data.draw(st.integers(0, 7))
    one_by_one, at_once = both(fetched, 0, rules, log.aborted())
    assert at_once == one_by_one


@settings(anything, max_examples=30)
@given(log=st.one_of(long_logs(), logs()), rules=rules, data=st.data())
def test_damage_is_found_where_neighbours_are_joined(log: SourceLog, rules: CopyRules, data: Any) -> None:
    """Joined or not, the same records are copied, up to the same damage."""
    fetched = log.fetch()
    for _ in range(data.draw(st.integers(0, 3)) if len(fetched) else 0):
        at = data.draw(st.integers(0, len(fetched) - 1))
        fetched[at] ^= 1 << data.draw(st.integers(0, 7))

    def copied(join_records: int) -> Any:
        found = outcome(fetched, 0, replace(rules, join_records=join_records, check_crcs=True), log.aborted())
        if isinstance(found[0], type):
            return found
        records = []
        for batch, count, _, _, _, spans in found[0]:
            stamped = bytearray(batch)
            stamp(stamped, 9, 3, 0)
            offsets = [first + index for first, many in spans for index in range(many)]
            assert len(offsets) == count
            inside = read_back(stamped)[1]
            records += [record._replace(offset=offset) for record, offset in zip(inside, offsets, strict=True)]
        return records, *found[1:-1]

    assert copied(1 << 30) == copied(0)


@anything
@example(values=[b"\2" * 40] * 80, size=0)
@given(values=st.lists(st.binary(max_size=60), min_size=30, max_size=80), size=st.integers(0, 3))
def test_records_that_look_like_batches_are_records(values: list[bytes], size: int) -> None:
    """A batch in a value, whole or cut off, is found where a batch could begin, and is none."""
    inner = SourceLog(5)
    inner.batch([New(NOW, b"inside")])
    log = SourceLog(5)
    for number, value in enumerate(values):
        log.batch([New(NOW, value + bytes(inner.data) * size if number % 3 else value)])
    one_by_one, at_once = both(log.fetch(), 0, CopyRules(), [])
    assert at_once == one_by_one
