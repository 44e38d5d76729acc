"""How many records of a fetch a transform is given at a time, and when the rest is read again."""

from __future__ import annotations

from typing import Any

import pytest

from tests import transforms
from tests.source_log import New, SourceLog
from tests.unit.transforms.preparing import NOW, REMOTE, RULES, SOURCE, numbered, prepared, values
from twinlog.batches.arrow import decode as decoding
from twinlog.batches.prepare import prepare
from twinlog.kafka.producer.appends import CopyRules
from twinlog.settings.transform import TransformSettings
from twinlog.transforms.fetch_transformer import FetchTransformer


def test_a_slow_function_gets_fewer_records_and_the_rest_of_its_fetch_is_read_again() -> None:
    """The copier has to answer its driver in between."""
    now, calls = [0.0], []

    def slow(batch: Any) -> Any:
        calls.append(batch.num_rows)
        now[0] += 0.001 * batch.num_rows
        return batch

    where = FetchTransformer(
        slow, TransformSettings("a:b"), "north->south", SOURCE, REMOTE, lambda _: 1, lambda: now[0]
    )
    log = numbered(5_000, batch=1_000)
    seen: list[bytes | None] = []
    position, times = 0, []
    while position < 5_000:
        before = now[0]
        found = where.prepare(log.fetch(position), position, RULES)
        seen += values(found)
        assert found.position == len(seen)
        position = found.position
        times.append(now[0] - before)
    assert seen == [b"%d" % number for number in range(5_000)]
    assert max(times) < 1.1
    assert calls[:5] == [1, 4, 16, 64, 64]


def test_a_function_that_takes_seconds_for_a_record_is_given_one_at_a_time() -> None:
    now, times = [0.0], []

    def slow(batch: Any) -> Any:
        now[0] += 2.0 * batch.num_rows
        return batch

    where = FetchTransformer(
        slow, TransformSettings("a:b"), "north->south", SOURCE, REMOTE, lambda _: 1, lambda: now[0]
    )
    log, position = numbered(10), 0
    while position < 10:
        before = now[0]
        position = where.prepare(log.fetch(position), position, RULES).position
        times.append(now[0] - before)
    assert times == [2.0] * 10


def test_however_few_records_each_call_gets_batches_are_whole() -> None:
    """A call for each record that fails, and a batch for each of these, would be a request for each of them."""
    found = prepared(transforms.no_sevens, numbered(500), tolerance="all", dead_letter_topic="dead")
    (append,) = found.appends
    assert values(found) == [b"%d" % number for number in range(500) if number % 7]
    assert len(found.failed) == 72
    assert append.next_source_offset == 500


def test_a_quick_function_gets_more_and_more() -> None:
    calls: list[int] = []

    def quick(batch: Any) -> Any:
        calls.append(batch.num_rows)
        return batch

    found = prepared(quick, numbered(30_000, batch=10_000))
    assert calls == [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 8_155]
    assert len(values(found)) == 30_000


def test_what_decompresses_to_much_is_taken_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MOST_BYTES", 10_000)
    log = SourceLog()
    for number in range(20):
        log.batch([New(NOW, b"%d" % number + b"." * 3_000)], codec="zstd")
    seen: list[bytes | None] = []
    position = portions = 0
    while position < 20:
        found = prepared(transforms.identity, log, position)
        seen += values(found)
        position, portions = found.position, portions + 1
    assert seen == [record.value for record in log.visible()]
    assert portions == 5


def test_where_each_record_fails_the_rest_of_the_fetch_is_read_again_after_a_while() -> None:
    """Each failure costs two calls."""
    now = [0.0]

    def fails(batch: Any) -> Any:
        now[0] += 0.001
        return batch.slice(0, 0) if batch.column("offset")[0].as_py() < 100 else 1 / 0

    where = FetchTransformer(
        fails, TransformSettings("a:b", tolerance="all"), "north->south", SOURCE, REMOTE, lambda _: 1, lambda: now[0]
    )
    log = numbered(2_000, batch=1_000)
    position, times, failed, dropped = 0, [], [], 0
    while position < 2_000:
        before = now[0]
        found = where.prepare(log.fetch(position), position, RULES)
        assert found.position > position
        failed += [one.source_offset for one in found.failed]
        dropped, position = dropped + found.dropped, found.position
        times.append(now[0] - before)
    assert max(times) < 0.6
    assert (dropped, failed) == (2_000 - len(failed), list(range(2_000 - len(failed), 2_000)))


def test_what_was_left_out_of_a_fetch_that_is_cut_short_counts_once() -> None:
    """As markers and aborted records are that lie after what there was time for."""
    log = SourceLog()
    for number in range(0, 60, 3):
        log.batch([New(NOW, b"%d" % (number + at)) for at in range(3)], producer_id=number, transactional=True)
        log.end_transaction(number, abort=number % 2 == 1)
    raw = prepare(log.fetch(), 0, CopyRules(read_committed=True), log.aborted())
    now = [0.0]

    def slow_and_odd(batch: Any) -> Any:
        now[0] += 0.06 * batch.num_rows
        return transforms.odd(batch)

    where = FetchTransformer(
        slow_and_odd, TransformSettings("a:b"), "north->south", SOURCE, REMOTE, lambda _: 1, lambda: now[0]
    )
    rules = CopyRules(read_committed=True)
    position = aborted = control = dropped = fetches = 0
    seen: list[bytes | None] = []
    while position < raw.position:
        found = where.prepare(log.fetch(position), position, rules, log.aborted())
        assert found.position > position
        aborted, control, dropped = aborted + found.aborted, control + found.control, dropped + found.dropped
        seen, position, fetches = seen + values(found), found.position, fetches + 1
    assert fetches > 2
    assert (aborted, control) == (raw.aborted, raw.control) == (30, 20)
    assert (len(seen), dropped) == (10, 20)
