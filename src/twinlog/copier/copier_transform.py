"""The transform of one copier: imported, started, and waited for when what evaluates it is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twinlog.copier.beginning import PATIENCE_S
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.errors import EngineLostError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop, run_in_thread
from twinlog.kafka.producer.appends import Prepare
from twinlog.lease.grant import Grant
from twinlog.log_once import AGAIN_S, LogOnce
from twinlog.model.call import TransformCall, TransformImport
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

if TYPE_CHECKING:
    from twinlog.transforms.copying import TransformLoader

RETRY_S = 0.2


class CopierTransform:
    """What changes a flow's records, if anything does.

    `event(kind, text)` is called with what operators should see, and `stopped()` is True once the copier ends.
    """

    def __init__(
        self,
        loop: Loop,
        target: ClusterClient,
        settings: FlowSettings,
        *,
        event: Callable[[str, str], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._target = target
        self._event = event
        self._stopped = stopped
        self._transforming: TransformLoader | None = None
        self._loading: TransformImport | None = None
        self._logged = LogOnce(loop.clock)

    def load(self) -> None:
        """Import it. Raises TransformError where it is not found here."""
        settings = self._settings.transform
        if settings is None:
            return
        # The user's modules may take longer than silence may last.
        self._loading = TransformImport(self._loop.clock.monotonic(), settings.shown)
        try:
            from twinlog.transforms.copying import TransformLoader  # noqa: PLC0415 - who copies unchanged needs no numpy

            self._transforming = TransformLoader(
                self._settings, settings, self._partitions_of, self._loop.clock.monotonic
            )
        finally:
            self._loading = None

    async def start(self) -> None:
        """Start what evaluates it, for as long as it takes. Raises TransformError for a query that is none, and
        EngineError where SQL finds no Spark."""
        transforming = self._transforming
        while transforming is not None and transforming.trouble is not None:
            try:
                await run_in_thread(self._loop.net, transforming.start)
            except EngineLostError as error:
                if self._stopped():
                    return
                if self._logged.is_due("transform", PATIENCE_S):
                    self._event("waiting", f"nothing is copied yet, and it is tried again: {error}")
                await self._loop.sleep(RETRY_S)

    def close(self) -> None:
        """Change no more records."""
        if self._transforming is not None:
            self._transforming.close()

    @property
    def call(self) -> TransformCall | TransformImport | None:
        """What it works on, or its import; may be read from any thread."""
        return self._loading if self._transforming is None else self._transforming.call

    def loaded(self) -> TransformLoader:
        """The transform; there must be one."""
        assert self._transforming is not None
        return self._transforming

    def make_preparer(self, grant: Grant) -> Prepare | None:
        """What prepares the fetches of a partition; None where its records stay as they are."""
        if self._transforming is None or grant.heartbeats:
            return None
        return self._transforming.make_preparer(grant.source, grant.remote)

    async def wait(self, part: PartitionCopy) -> None:
        """What evaluates it was lost: a partition goes on with the same records once there is another one."""
        transforming = self.loaded()
        reported = part.trouble
        self._report(part.source, reported)
        while not self._stopped() and not part.left and (trouble := transforming.trouble) is not None:
            # Set at each turn: an acknowledged append clears it.
            part.report_trouble(f"transform: {trouble}")
            if part.trouble != reported:
                # The reason has changed: the next JVM does not start.
                reported = part.trouble
                self._report(part.source, reported)
            await self._loop.sleep(RETRY_S)
        part.resume()

    def _report(self, source: TopicPartition, trouble: str | None) -> None:
        if self._logged.is_new(trouble, AGAIN_S):
            self._event("transform", f"{source}: {trouble}; no record is skipped for it")

    def _partitions_of(self, topic: TopicName) -> int | None:
        known = self._target.topic(topic)
        return known.partitions if known is not None and known.partitions else None
