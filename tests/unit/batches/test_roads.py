"""Each batch that is made is counted by how: as it is, or on which slow road."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.source_log import New, SourceLog
from tests.unit.batches.batches import BIG, ONE_BY_ONE, rows
from twinlog.batches.prepare import prepare
from twinlog.kafka.producer.appends import CopyRules, Road


def holes(log: SourceLog) -> None:
    log.batch([New(5, b"a"), New(9, b"c")], deltas=[1, 700], last_delta=800)


def appended(log: SourceLog) -> None:
    log.batch([New(5, b"a")], append_time=1_234)


def split(log: SourceLog) -> None:
    log.batch([New(1, BIG), New(2, BIG)])


LOGS: list[tuple[Road, Callable[[SourceLog], None], int, CopyRules]] = [
    ("as it is", lambda log: rows(log, 3), 10, ONE_BY_ONE),
    ("merged", lambda log: rows(log, 3), 10, CopyRules()),
    ("recompressed", lambda log: rows(log, 3), 10, CopyRules(merge_below=0, codec="gzip")),
    ("split", split, 10, CopyRules(max_batch_bytes=25_000)),
    ("holes", holes, 10, CopyRules()),
    ("position", lambda log: rows(log, 1, each=5), 12, CopyRules()),
    ("log append time", appended, 10, CopyRules()),
    ("old format", lambda log: log.message(1, New(5, b"a", b"k")), 10, CopyRules()),
]


@pytest.mark.parametrize(("road", "fill", "position", "rules"), LOGS)
def test_each_road_is_counted(road: Road, fill: Callable[[SourceLog], None], position: int, rules: CopyRules) -> None:
    log = SourceLog(10)
    fill(log)
    prepared = prepare(log.fetch(), position, rules)
    assert prepared.appends
    assert prepared.roads == {road: len(prepared.appends)}
