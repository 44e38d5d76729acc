"""Over a quota a broker answers a fetch without naming a partition: that is no end of a log, and no lost record."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.copier.start.test_start_position import Cluster
from twinlog.copier.start import log_reader as chunks
from twinlog.copier.start.first_look import LogBounds
from twinlog.copier.start.lost_records import _record
from twinlog.copier.start.resume_after_crash import resume_after_log_end
from twinlog.errors import ClusterError
from twinlog.kafka.fetch_session import Fetched
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.protocol.fetch import FetchPosition, PartitionResponse
from twinlog.kafka.record.builder import own_batch, record_body
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicName, TopicPartition

SOURCE, REMOTE = (TopicPartition(TopicName(name), 0) for name in ("t", "north.t"))
RECORDS, IN_BATCH, AT_ONCE = 60, 10, 2


def batch(base: int) -> bytes:
    made = own_batch((1_700_000_000_000 + at, record_body(None, b"%d" % at)) for at in range(base, base + IN_BATCH))
    return struct.pack(">q", base) + bytes(made[8:])


class Broker:
    """A log of records that are the same on both clusters; answers with these numbers name no partition."""

    def __init__(self, silent: Any = ()) -> None:
        self.silent = silent
        self.asked = 0
        self.returned = 0

    def session(self, *_: Any, **__: Any) -> Broker:
        return self

    async def fetch(self, wanted: Mapping[TopicPartition, FetchPosition], *, max_bytes: int, **_: Any) -> list[Fetched]:
        self.asked += 1
        if self.asked in self.silent:
            return []
        ((partition, at),) = wanted.items()
        first = at.offset // IN_BATCH * IN_BATCH
        most = AT_ONCE * IN_BATCH if max_bytes > len(batch(first)) else IN_BATCH
        found = b"".join(batch(base) for base in range(first, min(first + most, RECORDS), IN_BATCH))
        self.returned += len(found)
        return [Fetched(partition, PartitionResponse(0, 0, RECORDS, RECORDS, 0, (), memoryview(found)))]


@pytest.mark.parametrize("silent", [(), (1,), (2,), (1, 2, 4, 5), (3,)])
def test_after_a_crash_nothing_is_taken_for_not_arrived(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, silent: tuple[int, ...]
) -> None:
    monkeypatch.setattr(chunks, "FetchSession", Broker(silent).session)
    monkeypatch.setattr(chunks, "ASK_AGAIN_S", 0.0)
    events: list[tuple[str, str]] = []
    rules = replace(CopyRules(), max_batch_bytes=1 << 20)
    cluster: Any = Cluster(loop)
    logs = LogBounds(0, 0, RECORDS)
    grant, at = Grant(SOURCE, REMOTE, None, 1 << 20, Position(0, 0)), Position(0, 0)

    async def resumed() -> Position:
        found = await resume_after_log_end(
            cluster, cluster, grant, at, logs, rules, lambda kind, text: events.append((kind, text))
        )
        return found.position

    found = loop.run(resumed)
    assert (found.next_source, found.next_target, events) == (RECORDS, RECORDS, [])


def test_a_record_without_an_answer_is_not_missing(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "FetchSession", Broker((1, 2)).session)
    monkeypatch.setattr(chunks, "ASK_AGAIN_S", 0.0)
    cluster: Any = Cluster(loop)
    found = loop.run(_record, cluster, SOURCE, 15)
    assert found is not None
    assert found.body.endswith(b"15\x00")


def test_one_record_takes_no_more_than_its_batch(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of partitions, of which the source may have far more after it, one each is compared."""
    broker = Broker()
    monkeypatch.setattr(chunks, "FetchSession", broker.session)
    cluster: Any = Cluster(loop)
    assert loop.run(_record, cluster, SOURCE, 15) is not None
    assert broker.returned == len(batch(10))


def test_a_silent_broker_is_given_up(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "FetchSession", Broker(range(1, 1_000_000)).session)
    monkeypatch.setattr(chunks, "ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(chunks, "SILENT_S", 0.05)
    cluster: Any = Cluster(loop)
    cluster.alias = "north"
    with pytest.raises(ClusterError, match=r"t-0 could not be read for .*, as when a quota throttles it"):
        loop.run(_record, cluster, SOURCE, 15)
