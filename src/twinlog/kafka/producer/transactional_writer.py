"""Appends twinlog's records to a partition, each time in a transaction of a writer: a second writer fences the first.

The last writer to begin is the writer. The brokers refuse the later requests of earlier writers, however late these
arrive. Readers of committed records never see records of refused requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.claimed_topic import ClaimedTopic
from twinlog.kafka.producer.topic_writer import OwnRecord, TopicWriter
from twinlog.kafka.record.compression import GZIP
from twinlog.kafka.retry import RetryPolicy, retry
from twinlog.model.types import TopicName

TIMEOUT_MS = 10_000
"""The transaction of a dead writer is aborted after this time in ms, or as soon as another writer begins."""

TRY_FOR_S = 60.0


class TransactionalWriter:
    """The writer under a transactional id; `begin` comes first. At most a single append runs at a time.

    Every call tries again for a minute, and then raises ClusterError. Every call raises RefusedError if the principal
    lacks WRITE on the topic or on the transactional id, and FencedError once another writer has begun.
    """

    def __init__(self, client: ClusterClient, topic: TopicName, transactional_id: str) -> None:
        self._client = client
        self._policy = RetryPolicy.of(client.settings, TRY_FOR_S, warns=True)
        timeout_s = client.settings.request_timeout_ms / 1000
        writer = TopicWriter(client, topic, timeout_s, "writing the journal")
        self._topic = ClaimedTopic(writer, client, transactional_id, timeout_s, transaction_ms=TIMEOUT_MS, codec=GZIP)

    async def begin(self) -> None:
        """Become the writer."""
        await retry(self._client.loop, self._policy, self._topic.claim_topic)

    async def append(self, records: Sequence[OwnRecord]) -> None:
        """Append all records or none; returns once the transaction is committed."""
        await retry(self._client.loop, self._policy, partial(self._append, records))

    async def _append(self, records: Sequence[OwnRecord]) -> None:
        if not self._topic.claimed:
            # The outcome of the last transaction is unknown.
            await self._topic.claim_again()
        await self._topic.append(records)
