"""Real consumer groups: members that read, commit and go, with either group protocol."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Literal

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

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
            # It stays a member while a test does other things, however slow the machine is.
            "max.poll.interval.ms": 3_600_000,
        }
        if protocol == "classic":
            settings["session.timeout.ms"] = 60_000
        self._consumer = Consumer(settings)
        self._consumer.subscribe(list(topics))

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
            while len(found) < count and (value := _value(self._consumer.poll(0.2))) is not None:
                found.append(value)
            return len(found) >= count

        wait_for(read, DEADLINE_S, f"{count} records are read")
        return found

    def read_on(self, quiet_s: float = 1.5) -> list[bytes]:
        """The values of all further records, until none came for `quiet_s` seconds; it must be assigned already."""
        found: list[bytes] = []
        last = time.monotonic()
        while time.monotonic() - last < quiet_s:
            value = _value(self._consumer.poll(0.2))
            if value is not None:
                found.append(value)
                last = time.monotonic()
        return found

    def join(self) -> None:
        """Wait until it has partitions."""

        def assigned() -> bool:
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                raise AssertionError("it read a record while it joined: nothing may be left in its topics")
            return bool(self._consumer.assignment())

        wait_for(assigned, DEADLINE_S, "partitions are assigned")

    def commit(self) -> float:
        """Commit what was read; the time of it."""
        self._consumer.commit(asynchronous=False)
        return time.monotonic()

    def beat(self) -> None:
        """Serve the group's protocol; a member that does nothing is thrown out."""
        self._consumer.poll(0)


def _value(message: Message | None) -> bytes | None:
    if message is None:
        return None
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    return message.value() or b""
