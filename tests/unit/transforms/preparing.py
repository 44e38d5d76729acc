"""Fetches as a transform gets them, and what it made of them."""

from __future__ import annotations

from typing import Any

from tests.source_log import New, SourceLog
from twinlog.kafka.producer.appends import ADDED, Append, CopyRules, PreparedFetch
from twinlog.kafka.record.batch import read_batch
from twinlog.kafka.record.records import Record, decode_records
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.transform import TransformSettings
from twinlog.transforms.contract import Transform
from twinlog.transforms.fetch_transformer import FetchTransformer

NOW = 1_700_000_000_000

SOURCE, REMOTE = TopicPartition(TopicName("shop"), 1), TopicPartition(TopicName("north.shop"), 1)

RULES = CopyRules()


def transformer(function: Transform, partitions: int = 3, **settings: Any) -> FetchTransformer:
    return FetchTransformer(
        function,
        TransformSettings("module:function", **settings),
        "north->south",
        SOURCE,
        REMOTE,
        lambda _: partitions,
        lambda: 0.0,
    )


def numbered(count: int, *, codec: str = "none", batch: int = 5, first: int = 0) -> SourceLog:
    log = SourceLog()
    for at in range(first, first + count, batch):
        log.batch([New(NOW + n, b"%d" % n, b"k%d" % n) for n in range(at, min(at + batch, first + count))], codec=codec)
    return log


def prepared(
    function: Transform, log: SourceLog, position: int = 0, rules: CopyRules = RULES, **how: Any
) -> PreparedFetch:
    return transformer(function, **how).prepare(log.fetch(), position, rules)


def of(append: Append) -> list[Record]:
    view = memoryview(append.data)
    batch = read_batch(view, 0)
    assert batch is not None
    return list(decode_records(view, batch))


def values(found: PreparedFetch) -> list[bytes | None]:
    return [record.value for append in found.appends for record in of(append)]


def sources(found: PreparedFetch) -> list[int]:
    """The source offset of each record, -1 for an added one."""
    return [
        -1 if first == ADDED else first + at for append in found.appends for first, n in append.spans for at in range(n)
    ]
