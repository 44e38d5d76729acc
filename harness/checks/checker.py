"""Load whose every record names itself, and the judgement whether a copy of it is whole.

A record's key names its producer, its value begins with a sequence number and the time it was sent, and a header holds
the CRC of all three, so that a copy can be judged record by record.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from harness.cluster import KafkaCluster
from harness.consume import Record, consume, wait_until_decided
from harness.errors import HarnessError
from harness.produce import Codec, NewRecord
from harness.wait import slowness

CRC_HEADER = "crc"
TICK_S = 0.05
"""At each tick one partition gets its share. A request holds one partition's records here, and requests cost a broker
more than their records do."""
SLOW_TICK_S = 0.1
"""For load that goes on while processes start and end: half the requests, of the brokers' other clients as well."""
FLUSH_S = 90.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Which record it is: the producer's name and the record's number in its partition."""

    producer: str
    sequence: int


def make_record(producer: str, sequence: int, size: int = 100, sent_ms: int | None = None) -> NewRecord:
    """A record with an identity; `size` is that of its value in bytes, at least what the identity needs."""
    sent_ms = int(time.time() * 1000) if sent_ms is None else sent_ms
    key = producer.encode()
    head = b"%d %d " % (sequence, sent_ms)
    value = head + random.Random(sequence).randbytes(max(0, size - len(head)))
    return NewRecord(value, key, ((CRC_HEADER, b"%08x" % _crc(key, value)),), sent_ms)


def identify(record: Record | NewRecord) -> Identity | None:
    """Who a record is; None when by its CRC it was damaged, or when it is none of ours."""
    headers = dict(record.headers)
    if record.key is None or record.value is None or headers.get(CRC_HEADER) is None:
        return None
    if headers[CRC_HEADER] != b"%08x" % _crc(record.key, record.value):
        return None
    return Identity(record.key.decode(), int(record.value.split(b" ", 1)[0]))


def _crc(key: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with a copy, as numbers of records.

    `lost`: on the source and not in the copy. `duplicated`: in the copy more often than on the source. `reordered`:
    after a record that it should precede. `corrupted`: damaged, or other in key, value, headers or timestamp than on
    the source. `unknown`: whole, but the source never had it. `resurrected`: rolled back on the source.
    """

    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    corrupted: int = 0
    unknown: int = 0
    resurrected: int = 0

    @property
    def clean(self) -> bool:
        return self == Verdict()

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(
            self.lost + other.lost,
            self.duplicated + other.duplicated,
            self.reordered + other.reordered,
            self.corrupted + other.corrupted,
            self.unknown + other.unknown,
            self.resurrected + other.resurrected,
        )


def check_partition(
    source: Iterable[Record],
    target: Iterable[Record],
    *,
    aborted: Container[Identity] = (),
    earlier: Container[Identity] = (),
) -> Verdict:
    """Judge one partition, or a part of it; both in offset order.

    `aborted`: rolled back on the source, so that no copy may show them. `earlier`: in the parts before this one.
    """
    contents: dict[Identity, tuple[object, ...]] = {}
    place: dict[Identity, int] = {}
    expected: Counter[Identity] = Counter()
    for index, record in enumerate(source):
        identity = identify(record)
        if identity is None:
            raise HarnessError(f"the source itself holds a record without an identity: {record}")
        expected[identity] += 1
        contents[identity] = record.content
        place.setdefault(identity, index)
    found: Counter[Identity] = Counter()
    corrupted = unknown = reordered = resurrected = again = 0
    furthest = -1
    for record in target:
        identity = identify(record)
        if identity is None:
            corrupted += 1
            continue
        if identity not in expected:
            if identity in aborted:
                resurrected += 1
            elif identity in earlier:
                again += 1
            else:
                unknown += 1
            continue
        found[identity] += 1
        if record.content != contents[identity]:
            corrupted += 1
        if found[identity] == 1:
            if place[identity] < furthest:
                reordered += 1
            furthest = max(furthest, place[identity])
    return Verdict(
        lost=(expected - found).total(),
        duplicated=(found - expected).total() + again,
        reordered=reordered,
        corrupted=corrupted,
        unknown=unknown,
        resurrected=resurrected,
    )


def check(source: Iterable[Record], target: Iterable[Record]) -> dict[int, Verdict]:
    """Judge a topic, partition by partition; records of each in offset order."""
    here: dict[int, list[Record]] = {}
    there: dict[int, list[Record]] = {}
    for kept, records in ((here, source), (there, target)):
        for record in records:
            kept.setdefault(record.partition, []).append(record)
    return {
        partition: check_partition(here.get(partition, []), there.get(partition, []))
        for partition in sorted(here.keys() | there.keys())
    }


def require_clean(source: KafkaCluster, topic: str, target: KafkaCluster, remote: str) -> int:
    """Read both topics whole and judge; returns how many records there are. Raises AssertionError with the verdicts.

    A transaction that stays open on the target is judged as it is, after half a minute.
    """
    with contextlib.suppress(TimeoutError):
        wait_until_decided(target, remote)
    here = consume(source, topic)
    verdicts = check(here, consume(target, remote))
    wrong = {partition: verdict for partition, verdict in verdicts.items() if not verdict.clean}
    if wrong or not here:
        raise AssertionError(f"{remote} is no true copy of {topic} ({len(here)} records): {wrong}")
    return len(here)


class LoadThread(ABC):
    """Writes records from a thread of its own during a block; the end of the block waits until the cluster has them."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    @abstractmethod
    def stop(self) -> object:
        """End the load and wait until the cluster has all records; raises HarnessError."""

    @abstractmethod
    def _run(self) -> None:
        """Write records until `_stopping` is set."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self._stopping.set()


class Load(LoadThread):
    """Steady load on every partition of a topic, from a thread of its own; use as a context manager.

    `rate` is in records per second over all partitions; every `tick_s` seconds one of them gets its share. The producer
    is idempotent: what stands twice in the copy was not put there by it.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        partitions: int,
        *,
        rate: int = 3000,
        size: int = 100,
        codec: Codec = "none",
        name: str = "load",
        tick_s: float = TICK_S,
        user: str | None = None,
        client_id: str = "load",
    ) -> None:
        super().__init__(f"load {topic}")
        self.topic = topic
        self.sent = [0] * partitions
        self._name = name
        self._rate = rate
        self._size = size
        self._tick_s = tick_s
        self._errors: list[str] = []
        self._producer = Producer(
            {
                **cluster.client_config(user),
                "client.id": client_id,
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": codec,
                "linger.ms": 5,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.interval.ms": 2000,
            }
        )

    @property
    def total(self) -> int:
        """Records handed to the producer so far."""
        return sum(self.sent)

    @property
    def errors(self) -> list[str]:
        """Why records were not written."""
        return list(self._errors)

    def stop(self) -> int:
        """End the load and wait until the cluster has all of it; returns the number of records."""
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_S)
        if left or self._errors:
            raise HarnessError(f"load on {self.topic}: {left} records not written; {self._errors[:3]}")
        return self.total

    def abandon(self) -> None:
        """End the load without waiting for a cluster that is gone."""
        self._stopping.set()
        self._thread.join()
        self._producer.purge()

    def _run(self) -> None:
        began = time.monotonic()
        number = tick = 0
        while not self._stopping.wait(self._tick_s):
            due = int((time.monotonic() - began) * self._rate)
            partition = tick % len(self.sent)
            while number < due and not self._stopping.is_set():
                self._send(partition)
                number += 1
            tick += 1
            self._producer.poll(0)

    def _send(self, partition: int) -> None:
        record = make_record(f"{self._name}-{partition}", self.sent[partition], self._size)
        while not self._stopping.is_set():
            try:
                self._producer.produce(
                    self.topic,
                    record.value,
                    record.key,
                    partition,
                    on_delivery=self._noted,
                    timestamp=record.timestamp or 0,
                    headers=list(record.headers),
                )
            except BufferError:
                self._producer.poll(0.05)
            except KafkaException as error:
                # The producer refuses itself what its cluster has refused.
                self._errors.append(str(error))
                self._stopping.set()
            else:
                self.sent[partition] += 1
                return

    def _noted(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(str(error))


class Arrivals:
    """Notes when records arrive on a topic, from the end that it has now; use as a context manager."""

    def __init__(self, cluster: KafkaCluster, topic: str, partitions: int) -> None:
        self.count = 0
        self.longest_pause_s = 0.0
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                **cluster.client_config(),
                "group.id": "harness",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        places = [TopicPartition(topic, number) for number in range(partitions)]
        for place in places:
            place.offset = self._consumer.get_watermark_offsets(place, timeout=30)[1]
        self._consumer.assign(places)
        self._thread = threading.Thread(target=self._run, name=f"arrivals {topic}", daemon=True)

    def __enter__(self) -> Arrivals:
        self._thread.start()
        if not self._ready.wait(30 * slowness()):
            raise HarnessError("nothing arrives")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stopping.is_set():
            records = [one for one in self._consumer.consume(10_000, 0.02) if one.error() is None]
            if not records and not self.count:
                continue
            now = time.monotonic()
            if self.count:
                self.longest_pause_s = max(self.longest_pause_s, now - last)
            if records:
                self.count += len(records)
                last = now
                self._ready.set()
