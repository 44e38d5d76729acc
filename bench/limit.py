"""The brokers' own limit: a topic's bytes fetched from the source and appended to the target with no copier between.

Two processes at the same time: one sends fetch requests made beforehand and drops what comes, the other sends produce
requests made beforehand. So nothing is left to do but the brokers' work and moving bytes through sockets. A copier on
the same machine cannot be faster for long.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess

from bench.items import CopyItem
from bench.load import read_batches
from bench.meter import MB
from bench.wire import CLIENT_ID, Connection, EndWatch, fetch_frame, fetched
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.topics import create_topic, delete_topic
from twinlog.batches.prepare import prepare
from twinlog.kafka.producer.appends import Append, CopyRules
from twinlog.kafka.protocol.produce import RawProduce
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import SourceOffset

PARTITION_BYTES = 4 << 20
KEPT_BYTES = 256 << 20
"""Batches kept in memory for appending; a topic that is larger has them appended again and again."""
IN_FLIGHT = {"fetch": 2, "append": 5}
DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two processes: what it moved, and how long that took."""

    records: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LimitFigures:
    """`records_per_s` counts until the slower side was through."""

    records_per_s: float
    mb_per_s: float
    fetch_s: float
    append_s: float


@dataclass(frozen=True, slots=True)
class Job:
    """What a side is given; `ends` are the log ends of the source's topic, `append_to` is the topic on the target."""

    topic: str
    source: str
    target: str
    append_to: str
    ends: dict[int, int]


def measure_limit(
    item: CopyItem, topic: str, source: KafkaCluster, target: KafkaCluster, say: Callable[[str], None]
) -> LimitFigures:
    """Run both sides over a filled topic."""
    append_to = create_topic(target, f"limit.{topic}", item.partitions)
    watch = EndWatch(source.bootstrap, topic, item.partitions)
    job = Job(topic, source.bootstrap, target.bootstrap, append_to, watch.ends())
    watch.close()
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(_process(side, job)) for side in (_fetch_side, _append_side)]
        for side in sides:
            _answer(side, "is prepared")
        os.sync()
        for side in sides:
            side.send("go")
        fetch, append = (_answer(side, "is through") for side in sides)
    watch = EndWatch(target.bootstrap, append_to, item.partitions)
    arrived = watch.total()
    watch.close()
    delete_topic(target, append_to)
    if arrived != append.records:
        raise HarnessError(f"{append_to} took {arrived} of {append.records} records")
    append_s = append.seconds * item.records / append.records
    taken = max(fetch.seconds, append_s)
    figures = LimitFigures(item.records / taken, item.payload_bytes / taken / MB, fetch.seconds, append_s)
    say(
        f"{figures.records_per_s:,.0f} records/s, {figures.mb_per_s:,.1f} MB/s "
        f"(fetch {figures.fetch_s:.2f} s, append {figures.append_s:.2f} s)"
    )
    return figures


# The parent's end.

_Work = Callable[[Job, Pipe], Side]


@contextlib.contextmanager
def _process(work: _Work, job: Job) -> Iterator[Pipe]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process: BaseProcess = context.Process(target=_child, args=(work, job, there), daemon=True)
    process.start()
    there.close()
    try:
        yield here
        process.join(5)
    finally:
        if process.is_alive():
            process.kill()
            process.join()
        here.close()


def _answer(side: Pipe, what: str) -> Side:
    try:
        if not side.poll(DEADLINE_S):
            raise HarnessError(f"the brokers' limit: no word within {DEADLINE_S:g} s that a side {what}")
        answer = side.recv()
    except EOFError:
        raise HarnessError("the brokers' limit: a process ended without an answer") from None
    if isinstance(answer, str):
        raise HarnessError(f"the brokers' limit: {answer}")
    assert isinstance(answer, Side)
    return answer


# The children's end.


def _child(work: _Work, job: Job, parent: Pipe) -> None:
    # Ctrl-C is the parent's to handle; without it the pipe breaks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        parent.send(work(job, parent))
    except EOFError:
        pass
    except Exception as error:
        parent.send(f"{error!r}")


def _ready(parent: Pipe) -> float:
    parent.send(Side(0, 0, 0.0))
    parent.recv()
    return time.monotonic()


def _fetch_side(job: Job, parent: Pipe) -> Side:
    connection = Connection(job.source)
    frames = []
    positions = dict.fromkeys(job.ends, 0)
    while left := {part: at for part, at in positions.items() if at < job.ends[part]}:
        frames.append(fetch_frame(job.topic, left, PARTITION_BYTES))
        connection.send(frames[-1])
        for part, records in fetched(connection.receive()).items():
            for batch in read_batches(records):
                positions[part] = batch.last_offset + 1
    begin = _ready(parent)
    size = 0
    for number, frame in enumerate(frames):
        connection.send(frame)
        if number >= IN_FLIGHT["fetch"] - 1:
            size += len(connection.receive())
    for _ in range(min(len(frames), IN_FLIGHT["fetch"] - 1)):
        size += len(connection.receive())
    return Side(sum(job.ends.values()), size, time.monotonic() - begin)


def _append_side(job: Job, parent: Pipe) -> Side:
    frames = _produce_frames(job, _prepared(job))
    connection = Connection(job.target)
    wanted = sum(job.ends.values())
    begin = _ready(parent)
    records = size = number = waiting = 0
    while records < wanted:
        count, frame = frames[number % len(frames)]
        connection.send(frame)
        number += 1
        records += count
        size += len(frame)
        waiting += 1
        if waiting >= IN_FLIGHT["append"]:
            connection.receive()
            waiting -= 1
    for _ in range(waiting):
        connection.receive()
    return Side(records, size, time.monotonic() - begin)


def _prepared(job: Job) -> dict[int, deque[Append]]:
    """Batches as any copier would append them, up to `KEPT_BYTES`: small ones merged, the others as they are."""
    connection = Connection(job.source)
    rules = CopyRules()
    found: dict[int, deque[Append]] = {part: deque() for part in job.ends}
    positions = dict.fromkeys(job.ends, 0)
    kept = 0
    while kept < KEPT_BYTES and (left := {part: at for part, at in positions.items() if at < job.ends[part]}):
        connection.send(fetch_frame(job.topic, left, PARTITION_BYTES))
        for part, records in fetched(connection.receive()).items():
            prepared = prepare(memoryview(bytearray(records)), SourceOffset(positions[part]), rules)
            positions[part] = prepared.position
            for append in prepared.appends:
                stamp(append.data, -1, -1, -1)
                kept += append.bytes
            found[part].extend(prepared.appends)
    connection.close()
    return found


def _produce_frames(job: Job, batches: dict[int, deque[Append]]) -> list[tuple[int, bytes]]:
    """Produce requests with their record counts: a broker takes one batch per partition and request."""
    frames = []
    while any(batches.values()):
        taken = [(part, queue.popleft()) for part, queue in batches.items() if queue]
        request = RawProduce({job.append_to: [(part, append.data) for part, append in taken]})
        frames.append((sum(append.count for _, append in taken), request.frame(0, CLIENT_ID)))
    return frames
