"""Clients that a test looks at a cluster with, again and again, while it waits for something.

A new client costs a broker ten times as much as the question that it is made for: a connection, what both sides know,
metadata. While nothing happens to the only broker of a cluster, what a client knows of it stays true, so one of each
kind is kept; among several brokers leaders move, and each question has a client of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

ClientConfig = dict[str, str | int | float | bool]
"""Settings of a librdkafka client."""

QUICK_TO_CONNECT: ClientConfig = {"reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 200}
"""A client waits for as long before it connects to a node a second time, as every new one does: first it asks its
bootstrap address, then the node that it has heard of."""

_PERHAPS_NEWER = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""What a client reports of a partition that came, or was recreated, after it asked for metadata."""


class Clients:
    """Of one cluster; `keep`: whether a client may serve more than once. Any thread may use them."""

    def __init__(self, config: Mapping[str, str | int | float | bool], *, keep: bool) -> None:
        self._config: ClientConfig = dict(config)
        self._keep = keep
        self._admin: AdminClient | None = None
        self._consumer: Consumer | None = None

    def admin(self) -> AdminClient:
        """Makes and describes topics, groups, ACLs."""
        # Its truth is that of its length, which counts what it has yet to send.
        admin = AdminClient(self._config) if self._admin is None else self._admin
        if self._keep:
            self._admin = admin
        return admin

    def watermarks(self, where: TopicPartition, timeout_s: float) -> tuple[int, int]:
        """Log start offset and high watermark of a partition. Raises KafkaException."""
        if self._consumer is not None:
            try:
                return self._ask(self._consumer, where, timeout_s)
            except KafkaException as error:
                if error.args[0].code() not in _PERHAPS_NEWER:
                    raise
        consumer = Consumer({**self._config, "group.id": "harness", "enable.auto.commit": False})
        if self._keep:
            self._consumer = consumer
        return self._ask(consumer, where, timeout_s)

    @staticmethod
    def _ask(consumer: Consumer, where: TopicPartition, timeout_s: float) -> tuple[int, int]:
        low, high = consumer.get_watermark_offsets(where, timeout=timeout_s)
        return int(low), int(high)

    def drop(self) -> None:
        """Begin with new ones: something happened to a node, and its leaders count their epochs on."""
        self._admin = self._consumer = None
