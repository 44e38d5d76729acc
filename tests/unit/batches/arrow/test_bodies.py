"""Records are decoded to be compared: the same as consumers see, out of every format."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given

from tests.any_log import logs
from tests.source_log import New, SourceLog
from twinlog.batches.arrow import bodies as module
from twinlog.batches.arrow.bodies import (
    Bodies,
    decode_bodies,
    equal_records,
    first_difference,
    gathered,
    join,
    match_offsets,
    spans,
)
from twinlog.batches.arrow.placed import place_plain, places_of
from twinlog.batches.vectors import Longs
from twinlog.kafka.record.batch import Batch, scan
from twinlog.kafka.record.records import Record, decode_body, records_block

NOW = 1_700_000_000_000


def made(chance: random.Random, count: int) -> list[New]:
    return [
        New(
            NOW + number,
            chance.choice([None, b"", chance.randbytes(chance.choice([3, 70, 9_000]))]),
            chance.choice([None, b"k"]),
            chance.choice([(), (("h", None), ("i", b"x"))]),
        )
        for number in range(count)
    ]


def of(log: SourceLog, batches: Sequence[Batch] | None = None, start: int = 0, end: int = 2**60) -> Bodies:
    data = log.fetch()
    return decode_bodies(data, scan(data) if batches is None else batches, start, end)[0]


def records(found: Bodies) -> list[Record]:
    return [
        decode_body(int(found.offsets[place]), int(found.timestamps[place]), found.body(place))
        for place in range(len(found))
    ]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_expected_places_change_nothing(codec: str, chance: random.Random) -> None:
    """Right or wrong, whether they are of the same number of bytes or not."""
    log = SourceLog(7)
    log.batch(made(chance, 400), codec=codec)
    data = log.fetch()
    (batch,) = scan(data)
    found = of(log)

    def placed(some: Bodies) -> Longs:
        return places_of(some.timestamps, some.lengths, batch.base_timestamp)

    places = placed(found)
    assert int(places[-1]) == len(records_block(data, batch))
    swapped = places.copy()
    swapped[5] += 1
    for expected in (places, swapped, places[:-1], places + 1, placed(found.part(0, 9))):
        again, used = decode_bodies(data, [batch], 0, 2**60, expected)
        assert (records(again), used) == (log.visible(), 1)


def plain(log: SourceLog, *ranges: tuple[int, int], transactions: bool = True) -> Bodies | None:
    found = place_plain(log.fetch(), ranges, transactions=transactions)
    return None if found is None else gathered(found)


@given(logs())
def test_of_any_log_at_once_or_batch_by_batch(log: SourceLog) -> None:
    found = plain(log, (0, 2**60))
    if found is not None:
        batches = [batch for batch in scan(log.fetch()) if not batch.is_control and batch.record_count]
        assert records(found) == records(of(log, batches))


def test_plain_batches_at_once(chance: random.Random) -> None:
    log = SourceLog(7)
    for count in (9, 3, 1, 1, 200, 1):
        log.batch(made(chance, count))
        log.batch(made(chance, 2), deltas=[1, 4], last_delta=8, append_time=NOW + 77)
        log.gap(3)
    found = plain(log, (0, 2**60))
    assert found is not None
    assert records(found) == log.visible()
    # Only the batches of the ranges.
    some = plain(log, (20, 21), (60, 61))
    assert some is not None
    assert 2 <= len(some) < 40
    assert {20, 60} & {one.offset for one in log.visible()} <= {one.offset for one in records(some)}
    singles = SourceLog(0)
    for _ in range(50):
        singles.batch(made(chance, 1))
    found = plain(singles, (10, 20))
    assert found is not None
    assert records(found) == singles.visible()[10:20]
    assert plain(singles, (70, 80)) is None
    singles.batch(made(chance, 2), codec="lz4")
    assert plain(singles, (0, 50)) is not None
    assert plain(singles, (0, 52)) is None


@pytest.mark.parametrize("codec", ["none", "lz4", "gzip"])
def test_of_format_2(codec: str, chance: random.Random) -> None:
    log = SourceLog(7)
    for _ in range(5):
        log.batch(made(chance, 9), codec=codec)
        log.batch(made(chance, 3), codec=codec, deltas=[1, 4, 5], last_delta=8)
        log.batch(made(chance, 2), codec=codec, append_time=NOW + 77)
        log.gap(3)
    found = of(log)
    assert records(found) == log.visible()
    assert found.timed.tolist().count(False) == 10
    inside = of(log, start=20, end=60)
    assert records(inside) == [one for one in log.visible() if 20 <= one.offset < 60]
    # Cells are the same out of whole fetches, parts and pieces.
    pieces = [found.part(0, 5), found.part(5, 5), found.part(5, len(found))]
    assert join(pieces).content() == found.content()
    assert equal_records(join(pieces), found).all()


def test_of_old_formats(chance: random.Random) -> None:
    log = SourceLog()
    plain = [one._replace(headers=()) for one in made(chance, 4)]
    log.message(0, plain[0])
    log.wrapper(0, plain, "gzip")
    log.message(1, plain[1], append_time=True)
    log.wrapper(1, plain, "lz4", deltas=[0, 2, 3, 7])
    log.batch(plain)
    assert records(of(log)) == log.visible()


def test_no_more_is_decompressed_at_once_than_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SourceLog()
    for number in range(6):
        log.batch([New(NOW, bytes(5_000)), New(NOW + number)], codec="zstd")
    data = log.fetch()
    monkeypatch.setattr(module, "MOST_BYTES", 12_000)
    found, used = decode_bodies(data, scan(data), 0, 100)
    assert (used, found.offsets.tolist()) == (3, list(range(6)))


def test_what_both_sides_have() -> None:
    one, other = SourceLog(), SourceLog(100)
    one.batch([New(NOW + number, b"%d" % number) for number in range(10)])
    other.batch([New(NOW + number, b"%d" % number) for number in (0, 1, 2, 3, 5, 6)], deltas=[0, 1, 2, 3, 5, 6])
    ours, theirs = of(one), of(other)
    assert first_difference(ours, theirs) == 4
    matched = match_offsets(ours, theirs, 100)
    assert ours.offsets[matched.source_only].tolist() == [4, 7, 8, 9]
    assert equal_records(ours.chosen(matched.source), theirs).all()
    assert spans(ours.offsets[matched.source_only]) == [(4, 5), (7, 10)]
    assert spans(ours.offsets[matched.target_only]) == []
