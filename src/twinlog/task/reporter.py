"""Says once a second what a copier did, into the progress topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka import faults
from twinlog.metrics.progress import PartitionProgress, Report, progress_topic
from twinlog.task.account import Account
from twinlog.task.copier import Copier
from twinlog.task.partition import PartitionCopy
from twinlog.types import TopicName, TopicPartition
from twinlog.write.keyed import own_batch, record_body

INTERVAL_S = 1.0
POLL_S = 0.05
FULL_EVERY = 10
"""Every so many reports name all partitions; the others only those that moved or are in trouble."""

MAX_PARTITIONS = 2_000
"""Per record, so that a report stays below the default `max.message.bytes`."""


class Reporter:
    """Reports for one copier; `lease` is the number of the lease that it works under.

    `refused(error)` hears of a missing permission, once: without reports nobody knows what is copied.
    """

    def __init__(self, copier: Copier, name: str, refused: Callable[[RefusedError], None] = lambda error: None) -> None:
        self.lease = 0
        self.records = 0
        self.bytes = 0
        self._asked = (0, 0)
        self._copier = copier
        self._name = name
        self._refused = refused
        self._said = False
        self._moved = False
        self._topic = TopicName(progress_topic(copier.settings.source))
        self._events: list[tuple[str, str]] = []
        self._last: dict[TopicPartition, tuple[int, int, str | None]] = {}
        self._at = time.monotonic()
        self._cpu = time.thread_time()
        self._count = 0

    @property
    def partitions(self) -> int:
        """How many partitions are copied now."""
        return len(self._copier.partitions)

    def more(self) -> tuple[int, int]:
        """Records and bytes copied since this was asked last."""
        now, before = (self.records, self.bytes), self._asked
        self._asked = now
        return now[0] - before[0], now[1] - before[1]

    def event(self, kind: str, text: str) -> None:
        """Something an operator should see, said with the next report."""
        self._events.append((kind, text))

    async def run(self) -> None:
        """Report every second, and at once when the last partition has caught up."""
        behind = True
        while not self._copier.stopped:
            await self._copier.loop.sleep(POLL_S)
            parts = self._copier.partitions.values()
            was_behind, behind = behind, any(part.lag for part in parts)
            if time.monotonic() - self._at >= INTERVAL_S or (was_behind and not behind):
                await self.publish()

    async def publish(self) -> None:
        """Send one report now. What does not arrive is said by the next one."""
        report = self._report()
        if not report.partitions and not report.events:
            return
        try:
            arrived = await self._send(report)
        except TwinlogError:
            arrived = False
        if not arrived:
            self._take_back(report)

    async def _send(self, report: Report) -> bool:
        """Append a report; False when the target did not take it. Raises ClusterError."""
        target = self._copier.target
        topic = None if self._moved else target.topic(self._topic)
        if topic is None or topic.error or 0 not in topic.leaders:
            topic = (await target.refresh([self._topic])).get(self._topic)
        if topic is None or 0 not in topic.leaders:
            return False
        # Until an answer says otherwise.
        self._moved = True
        for start in range(0, max(1, len(report.partitions)), MAX_PARTITIONS):
            piece = replace(
                report,
                partitions=report.partitions[start : start + MAX_PARTITIONS],
                events=report.events if not start else (),
            )
            batch = own_batch([(report.at_ms, record_body(self._name.encode(), piece.encode()))])
            answers = await target.produce(topic.leaders[0].node, {self._topic: [(0, batch)]}, 5.0)
            codes = [code for code, _ in answers.values() if code]
            if not self._said and any(map(faults.refused, codes)):
                self._said = True
                self._refused(target.lacks("WRITE", f"topic {self._topic}", "saying what is copied"))
            if codes:
                return False
        self._moved = False
        return True

    def _take_back(self, report: Report) -> None:
        """The next report says everything that this one was to say."""
        self._events[:0] = report.events
        self._count = 0
        for lost in report.partitions:
            self.records -= lost.records
            self.bytes -= lost.bytes
            part = self._copier.partitions.get(TopicPartition(TopicName(lost.topic), lost.partition))
            if part is not None:
                part.account.records += lost.records
                part.account.bytes += lost.bytes
                part.account.latency_ms = max(part.account.latency_ms, lost.latency_ms)

    def _report(self) -> Report:
        now, cpu = time.monotonic(), time.thread_time()
        seconds = max(now - self._at, 1e-9)
        full = self._count % FULL_EVERY == 0
        self._count += 1
        parts = []
        for part in self._copier.partitions.values():
            state = (part.settled.next_source, part.end, self._copier.trouble(part))
            if full or self._last.get(part.source) != state:
                parts.append(self._progress(part))
                self._last[part.source] = state
        report = Report(
            flow=self._copier.settings.name,
            copier=self._name,
            lease=self.lease,
            at_ms=int(time.time() * 1000),
            seconds=seconds,
            busy=min(1.0, (cpu - self._cpu) / seconds),
            partitions=tuple(parts),
            events=tuple(self._events),
        )
        self._events.clear()
        self._at, self._cpu = now, cpu
        return report

    def _progress(self, part: PartitionCopy) -> PartitionProgress:
        account, part.account = part.account, Account()
        self.records += account.records
        self.bytes += account.bytes
        return PartitionProgress(
            topic=part.source.topic,
            partition=part.source.partition,
            source_offset=part.settled.next_source,
            target_offset=part.settled.next_target or 0,
            end=part.end,
            records=account.records,
            bytes=account.bytes,
            latency_ms=account.latency_ms,
            trouble=self._copier.trouble(part),
        )
