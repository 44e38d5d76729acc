"""The brokers' own limit: a topic's bytes fetched from the source and appended to the target with no copier between.

Two processes at the same time: one sends fetch requests made beforehand and drops what comes, the other sends produce
requests made beforehand. So nothing is left to do but the brokers' work and moving bytes through sockets. A copier on
the same machine cannot be faster for long.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess

from bench.items.kinds import CopyItem
from bench.stage.load import read_batches
from bench.stage.meter import MB
from bench.stage.wire import CLIENT_ID, Connection, EndWatch, fetch_frame, fetched, leaders
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
    """What a side is given; `ends` are the log ends of the source's topic, `append_to` is the topic on the target.

    `source` and `target` are the addresses of the partitions' leaders.
    """

    topic: str
    source: dict[int, str]
    target: dict[int, str]
    append_to: str
    ends: dict[int, int]


def measure_limit(
    item: CopyItem, topic: str, source: KafkaCluster, target: KafkaCluster, say: Callable[[str], None]
) -> LimitFigures:
    """Run both sides over a filled topic."""
    append_to = create_topic(target, f"limit.{topic}", item.partitions)
    watch = EndWatch(source.bootstrap, topic, item.partitions)
    job = Job(topic, leaders(source, topic), leaders(target, append_to), append_to, watch.ends())
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


class _Brokers:
    """Connections to several brokers, each with so many requests on their way at most."""

    def __init__(self, addresses: Iterable[str], in_flight: int) -> None:
        self._connections = {address: Connection(address) for address in set(addresses)}
        self._in_flight = in_flight * len(self._connections)
        self._waiting: deque[Connection] = deque()

    def send(self, address: str, frame: bytes) -> int:
        """Send a request, once there is room for it; returns the bytes of the answer that made the room."""
        self._connections[address].send(frame)
        self._waiting.append(self._connections[address])
        return len(self._waiting.popleft().receive()) if len(self._waiting) >= self._in_flight else 0

    def finish(self) -> int:
        """Receive the answers to all requests; returns their bytes."""
        size = sum(len(connection.receive()) for connection in self._waiting)
        self._waiting.clear()
        return size

    def ask(self, address: str, frame: bytes) -> memoryview:
        """Send a request and receive its answer, while no other request is on its way."""
        self._connections[address].send(frame)
        return self._connections[address].receive()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def _led(leaders: dict[int, str], positions: dict[int, int]) -> Iterator[tuple[str, dict[int, int]]]:
    """The partitions of each broker among those with a position."""
    for address in sorted(set(leaders.values())):
        if found := {part: at for part, at in positions.items() if leaders[part] == address}:
            yield address, found


def _fetch_side(job: Job, parent: Pipe) -> Side:
    brokers = _Brokers(job.source.values(), IN_FLIGHT["fetch"])
    frames = []
    positions = dict.fromkeys(job.ends, 0)
    while left := {part: at for part, at in positions.items() if at < job.ends[part]}:
        for address, some in _led(job.source, left):
            frames.append((address, fetch_frame(job.topic, some, PARTITION_BYTES)))
            for part, records in fetched(brokers.ask(*frames[-1])).items():
                for batch in read_batches(records):
                    positions[part] = batch.last_offset + 1
    begin = _ready(parent)
    size = sum(brokers.send(*frame) for frame in frames) + brokers.finish()
    return Side(sum(job.ends.values()), size, time.monotonic() - begin)


def _append_side(job: Job, parent: Pipe) -> Side:
    frames = _produce_frames(job, _prepared(job))
    brokers = _Brokers(job.target.values(), IN_FLIGHT["append"])
    wanted = sum(job.ends.values())
    begin = _ready(parent)
    records = size = 0
    for count, address, frame in itertools.cycle(frames):
        brokers.send(address, frame)
        records += count
        size += len(frame)
        if records >= wanted:
            break
    brokers.finish()
    return Side(records, size, time.monotonic() - begin)


def _prepared(job: Job) -> dict[int, deque[Append]]:
    """Batches as any copier would append them, up to `KEPT_BYTES`: small ones merged, the others as they are."""
    brokers = _Brokers(job.source.values(), 1)
    rules = CopyRules()
    found: dict[int, deque[Append]] = {part: deque() for part in job.ends}
    positions = dict.fromkeys(job.ends, 0)
    kept = 0
    while kept < KEPT_BYTES and (left := {part: at for part, at in positions.items() if at < job.ends[part]}):
        for address, some in _led(job.source, left):
            for part, records in fetched(brokers.ask(address, fetch_frame(job.topic, some, PARTITION_BYTES))).items():
                prepared = prepare(memoryview(bytearray(records)), SourceOffset(positions[part]), rules)
                positions[part] = prepared.position
                for append in prepared.appends:
                    stamp(append.data, -1, -1, -1)
                    kept += append.bytes
                found[part].extend(prepared.appends)
    brokers.close()
    return found


def _produce_frames(job: Job, batches: dict[int, deque[Append]]) -> list[tuple[int, str, bytes]]:
    """Produce requests with their record counts and brokers: a broker takes one batch per partition and request."""
    frames = []
    while any(batches.values()):
        for address, parts in _led(job.target, {part: 0 for part, queue in batches.items() if queue}):
            taken = [(part, batches[part].popleft()) for part in parts]
            request = RawProduce({job.append_to: [(part, append.data) for part, append in taken]})
            frames.append((sum(append.count for _, append in taken), address, request.frame(0, CLIENT_ID)))
    return frames
