"""Appends the batches of a partition in order, as an idempotent producer, to a log with this single writer."""

from __future__ import annotations

from collections.abc import Sequence

from twinlog.errors import ClusterError, CopyError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.append_queue import MAX_WINDOW, AppendQueue
from twinlog.kafka.producer.appender import TargetAppender
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import (
    NO_ANSWER,
    NOWHERE,
    Remedy,
    SentAppend,
    decide,
    explain_refusal,
)
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.kafka.retry import RetryPolicy, retry
from twinlog.model.types import TargetOffset, TopicPartition
from twinlog.settings.client import ProducerSettings

MOST_BYTES = 32 << 20
"""The bytes in flight above which a broker has a single request at a time."""

WATCH_S = 0.5

_NO_TROUBLE = "the answer is due"


class PartitionAppender:
    """Appends to `into` from offset `next_offset` on; another writer there is noticed with the next response."""

    def __init__(
        self,
        client: ClusterClient,
        into: TopicPartition,
        next_offset: int,
        settings: ProducerSettings,
        patience_s: float,
    ) -> None:
        self._client = client
        self._into = into
        self._next_offset = next_offset
        self._settings = settings
        self._patience_s = patience_s
        self._now = client.loop.clock.monotonic
        self._changed = client.loop.signal()
        self._queue: AppendQueue | None = None
        self._error: TwinlogError | None = None
        self._trouble = _NO_TROUBLE
        self._appender = TargetAppender(
            client.loop,
            client,
            max_in_flight=MAX_WINDOW,
            max_request_bytes=MOST_BYTES,
            max_in_flight_bytes=MOST_BYTES,
            request_timeout_s=settings.client.request_timeout_ms / 1000,
            allowed=lambda: True,
            lost=self._fail,
        )

    async def append(self, appends: Sequence[Append]) -> None:
        """Append them all; each is acknowledged by all in-sync replicas when this returns.

        Raises ClusterError when the target refuses batches for `patience_s`, CopyError if it has other records.
        """
        if not appends:
            return
        if self._queue is None:
            # A cluster that has just started refuses to hand out producer ids for a while.
            policy = RetryPolicy.of(self._client.settings, self._patience_s, warns=True)
            identity = ProducerIdentity(*await retry(self._client.loop, policy, self._client.init_producer))
            self._queue = AppendQueue(self._into, identity, self._acknowledged, self._refused, now=self._now)
            self._appender.start(lambda: {self._into.topic})
        queue = self._queue
        queue.put(list(appends))
        self._appender.offer_queue(queue)
        while self._error is None and not queue.idle:
            await self._changed.wait(WATCH_S)
            if queue.overdue(self._now(), self._patience_s):
                trouble = "it lacks a leader" if self._client.leader(self._into) is None else self._trouble
                self._fail(
                    ClusterError(
                        f"cluster {self._client.alias}: {self._into} has refused records for {self._patience_s:g} s: "
                        f"{trouble}; the same command continues after the last record there"
                    )
                )
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        """Stop sending."""
        self._appender.stop()
        if self._queue is not None:
            self._queue.end()

    def _acknowledged(self, append: Append, base_offset: TargetOffset) -> None:
        self._trouble = _NO_TROUBLE
        expected, self._next_offset = self._next_offset, self._next_offset + append.count
        if base_offset not in (expected, NOWHERE):
            self._fail(
                CopyError(
                    f"cluster {self._client.alias}: {self._into} got records of another producer from offset "
                    f"{expected} on while it was written; delete the topic and replay again, or give another topic "
                    "(--into)"
                )
            )
        self._changed.set()

    def _refused(self, sent: SentAppend) -> None:
        assert self._queue is not None
        decision = decide(sent, self._settings.client, transactional=False)
        cluster, into = f"cluster {self._client.alias}", self._into
        self._trouble = decision.reason if sent.code == NO_ANSWER else explain_refusal(sent)
        match decision.remedy:
            case Remedy.RETRY:
                self._queue.retry_failed(self._now() + decision.pause_s)
                self._appender.refresh()
                self._appender.offer_queue(self._queue)
            case Remedy.ACCEPT:
                self._queue.accept_first(NOWHERE)
                self._appender.offer_queue(self._queue)
            case Remedy.AUTHORIZE:
                self._fail(self._client.lacks("WRITE", f"topic {into.topic}", "appending to it"))
            case Remedy.SPLIT:
                self._fail(
                    CopyError(
                        f"{cluster}: {into} refuses a batch of {sent.append.bytes} bytes; raise its max.message.bytes"
                    )
                )
            case Remedy.RESOLVE | Remedy.FENCE:
                self._fail(
                    ClusterError(
                        f"{cluster}: {into} has lost track of its appends ({self._trouble}); the same command "
                        "continues after the last record there"
                    )
                )
            case _:
                self._fail(ClusterError(f"{cluster}: {into} refuses a batch: {self._trouble}"))

    def _fail(self, error: TwinlogError) -> None:
        self._error = self._error or error
        self._changed.set()
