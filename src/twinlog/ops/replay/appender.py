"""Appends the batches of a partition in order, as an idempotent producer, to a log with this single writer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinlog.errors import ClusterError, CopyError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.sequence_numbers import sequence_after
from twinlog.kafka.record.stamp import stamp
from twinlog.kafka.retry import Backoff, RetryPolicy, retry
from twinlog.model.types import TopicPartition
from twinlog.settings.flow import ProducerSettings

IN_FLIGHT = 5
"""So many batches of a producer a broker remembers (KIP-98)."""

_NO_ANSWER = -1


@dataclass(slots=True)
class _Waiting:
    """An append with its first sequence number, and the offset that it has to get."""

    append: Append
    sequence: int
    offset: int


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
        self._loop = client.loop
        self._into = into
        self._next_offset = next_offset
        self._settings = settings
        self._patience_s = patience_s
        self._producer: tuple[int, int] | None = None
        self._sequence = 0
        self._stale = True

    async def append(self, appends: Sequence[Append]) -> None:
        """Append them all; each is acknowledged by all in-sync replicas when this returns.

        Raises ClusterError when the target refuses all batches for `patience_s`, CopyError if it has other records.
        """
        if self._producer is None and appends:
            # A cluster that has just started refuses to hand out producer ids for a while.
            policy = RetryPolicy.of(self._client.settings, self._patience_s, warns=True)
            self._producer = await retry(self._loop, policy, self._client.init_producer)
        for start in range(0, len(appends), IN_FLIGHT):
            await self._window([self._next(one) for one in appends[start : start + IN_FLIGHT]])

    def _next(self, append: Append) -> _Waiting:
        assert self._producer is not None
        waiting = _Waiting(append, self._sequence, self._next_offset)
        stamp(append.data, *self._producer, self._sequence)
        self._sequence = sequence_after(self._sequence, append.count)
        self._next_offset += append.count
        return waiting

    async def _window(self, waiting: list[_Waiting]) -> None:
        backoff = Backoff.of(self._settings.client)
        give_up_at = self._loop.clock.monotonic() + self._patience_s
        while waiting:
            node = await self._leader()
            trouble = "no broker leads it"
            if node is not None:
                await self._client.unthrottled(node)
                answers = await self._loop.gather([self._loop.spawn(self._send, node, one) for one in waiting])
                left: list[_Waiting] = []
                for one, (code, offset, text) in zip(waiting, answers, strict=True):
                    if self._took(one, code, offset, text, first=not left):
                        continue
                    trouble = text if not left else trouble
                    left.append(one)
                if not left:
                    return
                if len(left) < len(waiting):
                    give_up_at = self._loop.clock.monotonic() + self._patience_s
                waiting = left
            self._stale = True
            if self._loop.clock.monotonic() > give_up_at:
                raise ClusterError(
                    f"cluster {self._client.alias}: {self._into} has taken nothing for {self._patience_s:g} s: "
                    f"{trouble}; the same command goes on after what it took"
                )
            await self._loop.sleep(backoff.count_failure())

    def _took(self, one: _Waiting, code: int, offset: int, text: str, *, first: bool) -> bool:
        """Whether the log has an append; False when the append must be sent again. Raises an error for a lasting
        refusal."""
        alias, into = self._client.alias, self._into
        if code == Code.DUPLICATE_SEQUENCE_NUMBER or (code == Code.NONE and offset in (one.offset, -1)):
            return True
        if code == Code.NONE:
            raise CopyError(
                f"cluster {alias}: {into} got records of somebody else from offset {one.offset} on while it was "
                "written; delete the topic and replay again, or give another one (--into)"
            )
        if error_codes.refused(code):
            raise self._client.lacks("WRITE", f"topic {into.topic}", "appending to it")
        if code in error_codes.TOO_LARGE:
            raise CopyError(
                f"cluster {alias}: {into} takes no batch of {one.append.bytes} bytes; raise its max.message.bytes"
            )
        if code == _NO_ANSWER or code in error_codes.RETRIABLE or (code in error_codes.PRODUCER_LOST and not first):
            return False
        if code in error_codes.PRODUCER_LOST:
            raise ClusterError(
                f"cluster {alias}: {into} has lost track of what was appended ({text}); the same command goes on "
                "after what is there"
            )
        raise ClusterError(f"cluster {alias}: {into} refuses a batch: {text}")

    async def _leader(self) -> int | None:
        if self._stale:
            try:
                await self._client.refresh([self._into.topic])
            except RefusedError:
                raise
            except ClusterError:
                return None
            self._stale = False
        leader = self._client.leader(self._into)
        return None if leader is None else leader.node

    async def _send(self, node: int, one: _Waiting) -> tuple[int, int, str]:
        topic, number = self._into
        timeout_s = self._settings.client.request_timeout_ms / 1000
        try:
            answers = await self._client.append(node, {topic: [(number, one.append.data)]}, timeout_s)
        except RefusedError:
            raise
        except ClusterError as error:
            return _NO_ANSWER, -1, str(error)
        answer = answers.get((topic, number))
        if answer is None:
            return _NO_ANSWER, -1, "the broker's answer does not name the partition"
        return answer.code, answer.base_offset, error_codes.explain(answer.code) if answer.code else ""
