"""Checks which qualities of records a system keeps: it copies a small topic, and each record is compared."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from bench.copies.copying import FIRST_RECORD_S, Kept
from bench.stage.wire import EndWatch
from bench.systems import Setup, System
from harness.cluster import KafkaCluster
from harness.consume import Record, consume
from harness.produce import NewRecord, produce
from harness.topics import create_topic, delete_topics_of_users

TOPIC = "checked"
PARTITIONS = 4
RECORDS = 2_000
"""In each partition."""
FIRST_MS = 1_600_000_000_000
QUIET_S = 3.0
"""No record has arrived for so long: the copy has all that it will get, if it has less or more than the source."""
LOOK_EVERY_S = 0.1


def fill_checked(source: KafkaCluster) -> None:
    """Write the topic: keys and headers on two thirds of the records, two empty values in ten, timestamps of 2020."""
    create_topic(source, TOPIC, PARTITIONS)
    for partition in range(PARTITIONS):
        produce(source, TOPIC, (_record(partition, number) for number in range(RECORDS)), partition=partition)


def _record(partition: int, number: int) -> NewRecord:
    name = b"%d-%d" % (partition, number)
    return NewRecord(
        value=None if number % 10 == 0 else b"" if number % 10 == 1 else name,
        key=name if number % 10 < 2 or number % 3 else None,
        headers=(("number", name), ("again", b"1"), ("again", b"2"), ("empty", b""), ("none", None))
        if number % 3
        else (),
        timestamp=FIRST_MS + number * 10,
    )


def check_system(setup: Setup, source: KafkaCluster, target: KafkaCluster, work: Path) -> Kept:
    """Let a system copy the topic, and clear the target. Raises HarnessError if the system copies no record."""
    if not setup.makes_topics:
        create_topic(target, setup.remote, PARTITIONS)
    watch = EndWatch(target.bootstrap, setup.remote, PARTITIONS)
    try:
        with System(setup, source, target, work, memory=False) as system:
            seen, moved = 0, time.monotonic()
            while seen != PARTITIONS * RECORDS:
                time.sleep(LOOK_EVERY_S)
                system.require_alive()
                before, seen = seen, watch.total()
                now = time.monotonic()
                moved = now if seen != before else moved
                if not seen and now - system.started > FIRST_RECORD_S:
                    raise system.failed(f"no record of {setup.remote} came within {FIRST_RECORD_S:g} s")
                if seen and now - moved > QUIET_S:
                    break
    finally:
        watch.close()
    kept = judge(consume(source, TOPIC), consume(target, setup.remote))
    delete_topics_of_users(target)
    return kept


def judge(source: Iterable[Record], copy: Iterable[Record]) -> Kept:
    """Compare two topics that were read by partition and then by offset; each record of the source is unique."""
    here = {_identity(record): record for record in source}
    found: Counter[bytes] = Counter()
    moved = late = unlike = undated = headless = False
    places: dict[int, dict[int, int]] = defaultdict(dict)
    for record in copy:
        identity = _identity(record)
        found[identity] += 1
        original = here.get(identity)
        if original is None:
            continue
        unlike |= (record.key, record.value) != (original.key, original.value)
        undated |= (record.timestamp, record.timestamp_type) != (original.timestamp, original.timestamp_type)
        headless |= record.headers != original.headers
        moved |= record.partition != original.partition
        # By partition of the source: the offset of its last record in each partition of the copy.
        offsets = places[original.partition]
        late |= offsets.get(record.partition, -1) >= original.offset
        offsets[record.partition] = original.offset
    return Kept(
        complete=not unlike and found == Counter(here.keys()),
        order=not late and all(len(offsets) == 1 for offsets in places.values()),
        partition=not moved,
        timestamps=not undated,
        headers=not headless,
    )


def _identity(record: Record) -> bytes:
    return record.value or record.key or b""
