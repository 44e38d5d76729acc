"""Puts records on a cluster with librdkafka, so that what twinlog copies was not written by twinlog."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from confluent_kafka import KafkaError, Message, Producer

from harness.clients import ClientConfig
from harness.cluster import KafkaCluster
from harness.errors import HarnessError

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to write. `timestamp` is in ms since 1970, None for now; `headers` may repeat a name."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


def numbered(count: int, *, start: int = 0, size: int = 0, keys: int = 0, headers: bool = False) -> list[NewRecord]:
    """Records whose value is their number, filled up to `size` bytes; key `key-<n mod keys>` when `keys` is given."""
    return [
        NewRecord(
            value=b"%d" % number + b"." * (size - len(b"%d" % number)),
            key=b"key-%d" % (number % keys) if keys else None,
            headers=(("number", b"%d" % number), ("empty", b""), ("none", None)) if headers else (),
        )
        for number in range(start, start + count)
    ]


def produce(
    cluster: KafkaCluster,
    topic: str,
    records: Iterable[NewRecord],
    *,
    partition: int = 0,
    codec: Codec = "none",
    per_batch: int | None = None,
    idempotent: bool = False,
    transactional_id: str | None = None,
    abort: bool = False,
    user: str | None = None,
    settings: ClientConfig | None = None,
) -> list[int]:
    """Write records to one partition, acks=all, and return their offsets in the order given.

    `codec`: librdkafka leaves a batch uncompressed that compression would make larger, such as one of tiny records.
    `per_batch`: exactly this many records in each record batch (the last may have fewer). `transactional_id`: all in
    one transaction, rolled back when `abort`. `settings`: librdkafka settings that win. Raises HarnessError when a
    record is refused or not acknowledged within a minute.
    """
    config: ClientConfig = {**cluster.client_config(user), "acks": "all", "compression.type": codec}
    config |= {"linger.ms": 5, "enable.idempotence": idempotent or transactional_id is not None}
    config |= {"message.max.bytes": 100_000_000}
    if per_batch is not None:
        # Nothing leaves before the batch is full or `flush` asks.
        config |= {"batch.num.messages": per_batch, "linger.ms": 60_000, "batch.size": 100_000_000}
    if transactional_id is not None:
        config["transactional.id"] = transactional_id
    producer = Producer({**config, **(settings or {})})
    offsets: dict[int, int] = {}
    errors: list[str] = []

    def noted(number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(f"record {number}: {error}")
        else:
            offsets[number] = int(message.offset() or 0)

    if per_batch is not None:
        # Records that come before the topic is known go into batches of their own.
        producer.list_topics(topic, DEADLINE_S)
    if transactional_id is not None:
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
    count = 0
    for count, record in enumerate(records, start=1):
        _enqueue(producer, topic, partition, record, partial(noted, count - 1))
        if per_batch is not None and count % per_batch == 0:
            producer.flush(DEADLINE_S)
    producer.flush(DEADLINE_S)
    if transactional_id is not None:
        if abort:
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    if errors or len(offsets) != count:
        raise HarnessError(f"{topic}-{partition}: {count - len(offsets)} of {count} not written; {errors[:3]}")
    return [offsets[number] for number in range(count)]


def _enqueue(
    producer: Producer,
    topic: str,
    partition: int,
    record: NewRecord,
    noted: Callable[[KafkaError | None, Message], None],
) -> None:
    while True:
        try:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                on_delivery=noted,
                timestamp=record.timestamp or 0,
                headers=list(record.headers),
            )
        except BufferError:
            producer.poll(0.5)
        else:
            producer.poll(0)
            return
