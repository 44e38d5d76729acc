"""Writes the demo's records with librdkafka: first as fast as it goes, later at a steady rate."""

from __future__ import annotations

import itertools
import threading
import time

from confluent_kafka import KafkaError, Message, Producer

from demo.records import ORDER, TOPICS
from harness.cluster import KafkaCluster
from harness.errors import HarnessError

FLUSH_S = 30.0
TICK_S = 0.02


class Load:
    """A thread that writes `backlog` records at once, and `rate` records per second from `go_on` until `finish`."""

    def __init__(self, cluster: KafkaCluster, user: str, *, backlog: int, rate: int) -> None:
        self._backlog = backlog
        self._rate = rate
        self._errors: list[str] = []
        self._given = 0
        self._written = 0
        self._going_on = threading.Event()
        self._ending = threading.Event()
        self._producers = {
            topic.name: Producer(
                {
                    **cluster.client_config(user),
                    "compression.type": topic.codec,
                    "enable.idempotence": True,
                    "linger.ms": 5,
                    "queue.buffering.max.messages": 20_000,
                    "delivery.report.only.error": True,
                    "on_delivery": self._refused,
                }
            )
            for topic in TOPICS
        }
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def written(self) -> int:
        """Records that the cluster has acknowledged; the number never falls."""
        # The thread writes between the two counts, so that their difference may be too small.
        self._written = max(self._written, self._given - sum(map(len, self._producers.values())))
        return self._written

    def go_on(self) -> None:
        """Begin with the steady rate."""
        self._going_on.set()

    def finish(self) -> int:
        """Stop writing and return how many records were acknowledged. Raises HarnessError when one was refused."""
        self._ending.set()
        self._going_on.set()
        self._thread.join(FLUSH_S)
        left = sum(producer.flush(FLUSH_S) for producer in self._producers.values())
        if left or self._errors:
            raise HarnessError(
                f"kafka-1 did not take {left + len(self._errors)} records of the load: {self._errors[:3]}"
            )
        return self._given

    def abandon(self) -> None:
        """Stop writing, whatever became of what was written. Nothing happens after `finish`."""
        self._ending.set()
        self._going_on.set()
        self._thread.join(FLUSH_S)

    def _run(self) -> None:
        numbers = itertools.count()
        for number in itertools.islice(numbers, self._backlog):
            if self._ending.is_set():
                return
            self._write(number)
        while not self._going_on.wait(TICK_S):
            self._poll()
        began, before = time.monotonic(), self._given
        while not self._ending.wait(TICK_S):
            due = before + int((time.monotonic() - began) * self._rate) - self._given
            for number in itertools.islice(numbers, max(0, due)):
                self._write(number)
            self._poll()

    def _poll(self) -> None:
        # Without it a producer never counts a record as acknowledged.
        for producer in self._producers.values():
            producer.poll(0)

    def _write(self, number: int) -> None:
        topic = ORDER[number % len(ORDER)]
        record = topic.record(number)
        producer = self._producers[topic.name]
        while not self._ending.is_set():
            try:
                producer.produce(
                    topic.name,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    timestamp=record.timestamp or 0,
                )
            except BufferError:
                producer.poll(0.1)
            else:
                self._given += 1
                return

    def _refused(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(f"{message.topic()}: {error}")
