"""Hypothesis strategies for logs of every shape a source can have, and for rules to copy them by."""

from __future__ import annotations

import hypothesis.strategies as st

from tests.source_log import New, SourceLog
from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.record.compression import CODECS

PRODUCERS = (4_000, 4_001)
NOW = 1_700_000_000_000

times = st.one_of(
    st.integers(NOW, NOW + 50),
    st.integers(NOW - 10**6, NOW + 10**6),
    st.integers(-1, 2**45),
)
names = st.text(max_size=5)
blobs = st.one_of(st.none(), st.binary(max_size=40))
values = st.one_of(
    blobs,
    # Around the sizes where a length takes one byte more, and one that fills a small batch quickly.
    st.builds(
        lambda seed, size: seed * size, st.binary(min_size=1, max_size=3), st.sampled_from([30, 58, 64, 90, 1_100])
    ),
)
records = st.builds(New, times, values, blobs, st.lists(st.tuples(names, blobs), max_size=2).map(tuple))
codecs = st.sampled_from(list(CODECS))


@st.composite
def offset_deltas(draw: st.DrawFn, count: int) -> tuple[list[int], int]:
    """What compaction leaves of a batch: rising deltas, and the batch's own last one."""
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 3, 70, 9_000]), min_size=count, max_size=count))
    deltas: list[int] = []
    at = draw(st.sampled_from([-1, -1, 0, 5]))
    for step in steps:
        at += step
        deltas.append(at)
    return deltas, at + draw(st.sampled_from([0, 0, 1, 100]))


@st.composite
def logs(draw: st.DrawFn) -> SourceLog:
    log = SourceLog(draw(st.sampled_from([0, 1, 77, 2**40])))
    kinds = ["single", "single", "row", "row", "row", "batch", "holes", "time", "horizon", "gap"]
    kinds += ["transaction", "transaction", "end", "empty", "v0", "v1", "wrapper"]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=14)):
        _add(draw, log, kind)
    for producer_id in PRODUCERS:
        if producer_id in log.open_transactions:
            log.end_transaction(producer_id, abort=draw(st.booleans()))
    return log


def _add(draw: st.DrawFn, log: SourceLog, kind: str) -> None:
    some = draw(st.lists(records, min_size=1, max_size=6))
    codec = draw(codecs)
    producer_id = draw(st.sampled_from(PRODUCERS))
    if kind == "single":
        log.batch(some[:1], leader_epoch=draw(st.integers(-1, 3)), producer_id=draw(st.sampled_from([-1, 7])))
    elif kind == "row":
        for shape in draw(st.lists(st.sampled_from(["plain"] * 4 + ["transaction", "holes", "time"]), max_size=8)):
            few = draw(st.lists(records, min_size=1, max_size=3))
            log.batch(
                few,
                codec=codec,
                deltas=[2 * number for number in range(len(few))] if shape == "holes" else None,
                append_time=NOW if shape == "time" else None,
                producer_id=producer_id if shape == "transaction" else -1,
                transactional=shape == "transaction",
                leader_epoch=draw(st.integers(-1, 3)),
            )
    elif kind == "batch":
        log.batch(some * draw(st.sampled_from([1, 1, 15])), codec=codec)
    elif kind == "holes":
        deltas, last = draw(offset_deltas(len(some)))
        log.batch(some, codec=codec, deltas=deltas, last_delta=last)
    elif kind == "time":
        log.batch(some, codec=codec, append_time=draw(times))
    elif kind == "horizon":
        log.batch(some, codec=codec, delete_horizon=draw(times))
    elif kind == "gap":
        log.gap(draw(st.integers(1, 300)))
    elif kind == "transaction":
        deltas, last = draw(st.one_of(st.just((list(range(len(some))), len(some) - 1)), offset_deltas(len(some))))
        log.batch(some, codec=codec, producer_id=producer_id, transactional=True, deltas=deltas, last_delta=last)
    elif kind == "end":
        log.end_transaction(producer_id, abort=draw(st.booleans()), append_time=draw(st.sampled_from([None, NOW])))
    elif kind == "empty":
        log.batch([], last_delta=draw(st.integers(0, 9)), producer_id=producer_id)
    elif kind in ("v0", "v1"):
        log.message(int(kind[1]), some[0]._replace(headers=()), append_time=kind == "v1" and draw(st.booleans()))
    else:
        magic = draw(st.sampled_from([0, 1]))
        log.wrapper(
            magic,
            [record._replace(headers=()) for record in some],
            draw(st.sampled_from(["gzip", "snappy", "lz4"])),
            deltas=draw(offset_deltas(len(some)))[0],
            append_time=draw(st.sampled_from([None, NOW])) if magic else None,
        )


rules = st.builds(
    CopyRules,
    max_batch_bytes=st.sampled_from([1_048_588, 1_048_588, 9_000]),
    read_committed=st.booleans(),
    codec=st.one_of(st.none(), st.none(), codecs),
    merge_batch_bytes=st.sampled_from([524_288, 524_288, 700]),
    merge_below=st.sampled_from([16_384, 16_384, 150, 0]),
    merge_records=st.sampled_from([64, 2, 1 << 30]),
    join_records=st.sampled_from([0, 0, 3, 1 << 30]),
    check_crcs=st.booleans(),
)
