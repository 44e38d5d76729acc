"""Transactions on the source, some committed and some rolled back, from a thread of its own."""

from __future__ import annotations

import random

from confluent_kafka import KafkaException, Producer

from harness.checks.checker import LoadThread, make_record
from harness.cluster import KafkaCluster
from harness.errors import HarnessError

LARGEST = 30
"""Records of a transaction in each partition, at most."""
ABORTED = 0.4
"""Share of the transactions that are rolled back."""
DEADLINE_S = 60.0


class TransactionLoad(LoadThread):
    """Begins with `start`; `stop` ends the last transaction and waits until the cluster has it.

    A transaction that the cluster itself gives up is rolled back as well. Sequence numbers are never used twice, so
    that records of different fate are never taken for each other.
    """

    def __init__(self, cluster: KafkaCluster, topic: str, partitions: int, name: str, seed: int) -> None:
        super().__init__(f"transactions {topic}")
        self._topic = topic
        self._partitions = partitions
        self._name = name
        self._chance = random.Random(seed)
        self._settings = {
            **cluster.client_config(),
            "transactional.id": f"faults-{topic}",
            "transaction.timeout.ms": 20_000,
            "linger.ms": 2,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
        }
        self._sequence = 0
        self._error: Exception | None = None

    def stop(self) -> None:
        """Raises HarnessError when transactions could not go on."""
        self._stopping.set()
        self._thread.join()
        if self._error is not None:
            raise HarnessError(f"transactions on {self._topic}: {self._error}")

    def _run(self) -> None:
        producer: Producer | None = None
        while not self._stopping.is_set():
            try:
                if producer is None:
                    producer = Producer(self._settings)
                    producer.init_transactions(DEADLINE_S)
                self._transaction(producer)
            except KafkaException as error:
                reason = error.args[0]
                if producer is not None and reason.txn_requires_abort():
                    producer = self._given_up(producer)
                elif reason.retriable() or reason.fatal():
                    # A new producer of the same name rolls back what the old one left open.
                    producer = None
                else:
                    self._error = error
                    return

    def _transaction(self, producer: Producer) -> None:
        producer.begin_transaction()
        for _ in range(self._chance.randint(1, LARGEST)):
            for partition in range(self._partitions):
                record = make_record(f"{self._name}-{partition}", self._sequence)
                producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    partition,
                    timestamp=record.timestamp or 0,
                    headers=list(record.headers),
                )
            self._sequence += 1
        # Records that are only in the producer's memory would leave no trace when they are rolled back.
        producer.flush(DEADLINE_S)
        self._stopping.wait(self._chance.uniform(0, 0.1))
        abort = self._chance.random() < ABORTED
        end = producer.abort_transaction if abort else producer.commit_transaction
        while True:
            try:
                end(DEADLINE_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return

    @staticmethod
    def _given_up(producer: Producer) -> Producer | None:
        try:
            producer.abort_transaction(DEADLINE_S)
        except KafkaException:
            return None
        return producer
