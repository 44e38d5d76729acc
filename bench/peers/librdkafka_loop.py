"""A loop on librdkafka that copies one topic: `python -m bench.peers.librdkafka_loop SOURCE TARGET TOPIC REMOTE GROUP
CODEC`.

Each record keeps its partition, key, value, headers and timestamp. Offsets are committed once a second, after a flush
of the producer, and at SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

AT_ONCE = 10_000
COMMIT_EVERY_S = 1.0


def consumer_settings(brokers: str, group: str) -> dict[str, str | int | float | bool]:
    """Large fetches, and a queue that holds several of them.

    librdkafka asks a partition for no more while its queue is full, and by default looks again after a second.
    """
    return {
        "bootstrap.servers": brokers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.message.max.bytes": 4 << 20,
        "queued.max.messages.kbytes": 65_536,
        "queued.min.messages": 1_000_000,
        "fetch.queue.backoff.ms": 10,
    }


def producer_settings(brokers: str, codec: str) -> dict[str, str | int | float | bool]:
    """Idempotent, with batches of up to 1 MB."""
    return {
        "bootstrap.servers": brokers,
        "enable.idempotence": True,
        "compression.type": codec,
        "linger.ms": 5,
        "batch.size": 1_000_000,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 65_536,
        "delivery.report.only.error": True,
    }


def main() -> None:
    source, target, topic, remote, group, codec = sys.argv[1:]
    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    consumer = Consumer(consumer_settings(source, group))
    producer = Producer({**producer_settings(target, codec), "on_delivery": _refused})
    consumer.subscribe([topic])
    copied = False
    due = time.monotonic() + COMMIT_EVERY_S
    while not ended:
        for message in consumer.consume(AT_ONCE, 0.05):
            error = message.error()
            if error is None:
                _produce(producer, remote, message)
                copied = True
            elif not error.retriable():
                raise KafkaException(error)
        producer.poll(0)
        if copied and time.monotonic() > due:
            _commit(producer, consumer)
            copied = False
            due = time.monotonic() + COMMIT_EVERY_S
    if copied:
        _commit(producer, consumer)
    consumer.close()


def _produce(producer: Producer, remote: str, message: Message) -> None:
    value, key, headers = message.value(), message.key(), message.headers()
    partition, stamp = message.partition() or 0, message.timestamp()[1]
    while True:
        try:
            if headers is None:
                producer.produce(remote, value, key, partition, timestamp=stamp)
            else:
                producer.produce(remote, value, key, partition, timestamp=stamp, headers=headers)
        except BufferError:
            producer.poll(0.01)
        else:
            return


def _commit(producer: Producer, consumer: Consumer) -> None:
    if producer.flush(60):
        raise TimeoutError("the target has not acknowledged all records within a minute")
    consumer.commit(asynchronous=False)


def _refused(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        raise KafkaException(error)


if __name__ == "__main__":
    main()
