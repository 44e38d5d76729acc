"""Real consumer groups: members that read, commit and go, with either group protocol."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from harness.clients import ClientConfig
from harness.cluster import KafkaCluster
from harness.wait import wait_for

Protocol = Literal["classic", "consumer"]
PROTOCOLS: tuple[Protocol, ...] = ("classic", "consumer")
DEADLINE_S = 60.0


class Count:
    """How many committed records a topic has, which may not exist yet; reads each once."""

    def __init__(self, cluster: KafkaCluster, topic: str, partitions: int) -> None:
        self._count = 0
        self._consumer = Consumer(
            {
                **cluster.client_config(),
                "group.id": "count",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def __call__(self) -> int:
        most = 10_000
        while True:
            messages = self._consumer.consume(most, 0.2)
            self._count += sum(message.error() is None for message in messages)
            if len(messages) < most:
                return self._count


class Member:
    """One member of a group; it commits only when asked. Use as a context manager, which leaves the group."""

    def __init__(self, cluster: KafkaCluster, group: str, topics: Sequence[str], protocol: Protocol) -> None:
        settings: ClientConfig = {
            **cluster.client_config(),
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": 500,
            "enable.partition.eof": True,
            # It stays a member while a test does other things, however slow the machine is.
            "max.poll.interval.ms": 3_600_000,
        }
        if protocol == "classic":
            settings["session.timeout.ms"] = 60_000
        self._consumer = Consumer(settings)
        self._consumer.subscribe(list(topics))
        self._at_end: set[tuple[str | None, int | None]] = set()
        """The partitions that have nothing more."""

    def __enter__(self) -> Member:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def read(self, count: int) -> list[bytes]:
        """The values of the next `count` records."""
        found: list[bytes] = []

        def read() -> bool:
            while len(found) < count and (value := self._poll(0.2)) is not None:
                found.append(value)
            return len(found) >= count

        wait_for(read, DEADLINE_S, f"{count} records are read")
        return found

    def read_on(self) -> list[bytes]:
        """The values of all further records, up to the end of each partition; it must be assigned already."""
        found: list[bytes] = []

        def read() -> bool:
            while (value := self._poll(0.2)) is not None:
                found.append(value)
            return {(where.topic, where.partition) for where in self._consumer.assignment()} <= self._at_end

        wait_for(read, DEADLINE_S, "all partitions are read to their ends")
        return found

    def _poll(self, timeout_s: float) -> bytes | None:
        """The value of the next record; None when none comes for so long. Notes the partitions that have ended."""
        while (message := self._consumer.poll(timeout_s)) is not None:
            error, where = message.error(), (message.topic(), message.partition())
            if error is None:
                self._at_end.discard(where)
                return message.value() or b""
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            self._at_end.add(where)
        return None

    def join(self) -> None:
        """Wait until it has partitions."""

        def assigned() -> bool:
            with suppress(KafkaException):
                if self._poll(0.1) is not None:
                    raise AssertionError("it read a record while it joined: nothing may be left in its topics")
            return bool(self._consumer.assignment())

        wait_for(assigned, DEADLINE_S, "partitions are assigned")

    def commit(self) -> float:
        """Commit what was read; the time of it."""
        self._consumer.commit(asynchronous=False)
        return time.monotonic()

    def beat(self) -> None:
        """Serve the group's protocol; a member that does nothing is thrown out."""
        with suppress(KafkaException):
            self._poll(0)
