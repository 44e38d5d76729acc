"""The clusters, settings and counters that all parts of a copier share, and the reports of a copier to its owner."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import told, with_event_id, with_id
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop, Signal
from twinlog.kafka.retry import COPIER_STEP, retry
from twinlog.lease.progress import CopierCounters
from twinlog.model.held import HeldPartition
from twinlog.model.types import TopicPartition
from twinlog.settings.flow import FlowSettings

T = TypeVar("T")

log = logging.getLogger(__name__)


class CopierListener:
    """The receiver of a copier's reports; this receiver writes them to the log of its process."""

    def report_failure(self, partition: TopicPartition | None, error: TwinlogError) -> None:
        """An error stops the flow; `partition` is None if the error concerns the whole copier."""
        log.error("%s", with_id(f"{partition or 'copier'}: {told(error, 'TW-FLOW-01')}", "TW-FLOW-01"))

    def report_event(self, kind: str, text: str) -> None:
        """An event for operators; `kind` groups events of the same origin."""
        log.warning("%s", with_event_id(kind, text))

    def report_held(self, held: HeldPartition) -> None:
        """The copier holds a partition: it copies the partition no further until the driver takes it back."""
        log.error("%s: %s is held: %s", held.message_id, held.source, held.text)


class CopierContext:
    """The shared part of a copier; all methods run on the loop's thread.

    `stopped` is True once the copier ends. `moved` is set when the target acknowledged appends, or when a position
    moved over skipped records.
    """

    def __init__(
        self, loop: Loop, settings: FlowSettings, source: ClusterClient, target: ClusterClient, listener: CopierListener
    ) -> None:
        self.loop = loop
        self.settings = settings
        self.source = source
        self.target = target
        self.listener = listener
        self.tally = CopierCounters()
        self.stopped = False
        self.moved = loop.signal()
        self._signals: list[Signal] = [self.moved]

    def stop(self) -> None:
        """The copier ends: all its loops end at their next turn."""
        self.stopped = True

    def signal_progress_to(self, signal: Signal) -> None:
        """Have `notify_progress` set a further signal."""
        self._signals.append(signal)

    def notify_progress(self) -> None:
        """The target acknowledged appends, or a position moved over skipped records."""
        for signal in self._signals:
            signal.set()

    async def retry(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Repeat `step` until it works; raises a refusal at once, and the last fault once the copier is stopped."""
        return await retry(self.loop, COPIER_STEP, step, stopped=lambda: self.stopped)

    def report_event(self, kind: str, text: str) -> None:
        """Report an event for operators."""
        self.listener.report_event(kind, text)

    def report_lost(self, error: TwinlogError) -> None:
        """An error stops the flow, unless the copier ends anyway."""
        if not self.stopped:
            self.listener.report_failure(None, error)
