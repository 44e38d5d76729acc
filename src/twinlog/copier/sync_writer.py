"""Writes the offset syncs of a copier. Records are copied on while a cluster refuses syncs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.log_once import LogOnce
from twinlog.mirror.offsets.exact_map import CopiedRun
from twinlog.mirror.offsets.runs import joined
from twinlog.mirror.offsets.syncs import SyncEmitter
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

INTERVAL_S = 0.5
REST_S = 0.0004
"""The rest after a write, for each sync in it: a sync costs about 8 us, so that syncs take 2 % of the CPU at most."""

RETRY_S = (0.5, 10.0)
REFUSED_S = 10.0
LOG_AFTER_S = 10.0
FLUSH_S = 1.0

_FAILING = "syncs cannot be written"


class SyncWriter:
    """Decides which syncs are due and writes them, a single write at a time.

    `client` reaches the cluster that holds the topic. `gather()` makes the copier pass acknowledged runs to `add_runs`.
    `event("syncs", text)` reports an error.
    """

    def __init__(
        self,
        loop: Loop,
        client: ClusterClient,
        settings: FlowSettings,
        gather: Callable[[], None],
        event: Callable[[str, str], None],
    ) -> None:
        self._loop = loop
        self._topic = TopicWriter(
            client,
            TopicName(settings.offset_syncs_topic),
            settings.consumer.client.request_timeout_ms / 1000,
            "writing offset syncs",
        )
        self._emitter = SyncEmitter(settings.offset_lag_max, loop.clock.monotonic)
        self._gather = gather
        self._event = event
        self._held: set[TopicPartition] = set()
        self._stopped = False
        self._busy = False
        self._free = loop.signal()
        self._retry_s = RETRY_S[0]
        self._logged = LogOnce(loop.clock)

    def add_runs(self, partition: TopicPartition, runs: Sequence[CopiedRun]) -> None:
        """Runs of acknowledged records, in their order."""
        self._held.add(partition)
        for spans, base in joined(runs):
            self._emitter.acknowledged(partition, spans, base)

    async def run(self) -> None:
        """Write the due syncs every half second, until `stop`."""
        pause_s = INTERVAL_S
        while not self._stopped:
            await self._loop.sleep(pause_s)
            self._gather()
            pause_s = await self._write()

    def stop(self) -> None:
        self._stopped = True

    async def flush(self, partitions: Iterable[TopicPartition]) -> None:
        """Write the waiting syncs of released partitions; gives up after `FLUSH_S` seconds."""
        for partition in partitions:
            self._emitter.release_partition(partition)
            self._held.discard(partition)
        done = self._loop.signal()
        self._loop.spawn(self._write).add_both(lambda _: done.set())
        await done.wait(FLUSH_S)

    async def _write(self) -> float:
        """Write the due syncs; returns the seconds to rest before the next write."""
        deadline = self._loop.clock.monotonic() + FLUSH_S
        while self._busy:
            await self._free.wait(0.05)
            if self._loop.clock.monotonic() > deadline:
                return INTERVAL_S
        syncs = self._emitter.take_syncs()
        if not syncs:
            return INTERVAL_S
        self._busy = True
        try:
            await self._topic.append([(sync.key, sync.value) for sync in syncs])
        except ClusterError as error:
            # A partition released meanwhile has another writer, and an older sync after a newer sync does harm.
            left = [sync for sync in syncs[self._topic.appended :] if sync.source in self._held]
            if self._topic.in_doubt:
                self._emitter.unanswered(left)
            else:
                self._emitter.not_stored(left)
            return self._failed(error)
        finally:
            self._busy = False
            self._free.set()
        self._logged.end_condition(_FAILING)
        self._retry_s = RETRY_S[0]
        return max(INTERVAL_S, REST_S * len(syncs))

    def _failed(self, error: ClusterError) -> float:
        refused = isinstance(error, RefusedError)
        if not self._stopped and self._logged.is_due(_FAILING, 0.0 if refused else LOG_AFTER_S):
            self._event("syncs", f"offset syncs cannot be written, trying again: {error}")
        if refused:
            return REFUSED_S
        pause_s, self._retry_s = self._retry_s, min(2 * self._retry_s, RETRY_S[1])
        return pause_s
