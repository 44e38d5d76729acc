"""The transform of a copier: its import, its start, and the wait for a new engine after the engine was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.copy_state import CopyState
from twinlog.errors import EngineLostError
from twinlog.kafka.net.loop import run_in_thread
from twinlog.kafka.producer.appends import Prepare
from twinlog.kafka.retry import COPIER_STEP
from twinlog.lease.messages import Grant
from twinlog.model.call import TransformCall, TransformImport
from twinlog.model.types import TopicName, TopicPartition
from twinlog.process.log_once import AGAIN_S, LogOnce

if TYPE_CHECKING:
    from twinlog.transforms.loader import TransformLoader


PATIENCE_S = 5.0
"""The copier reports an engine that does not start for this time."""


class CopierTransform:
    """The transform of a flow's records, if the flow has a transform."""

    def __init__(self, context: CopierContext) -> None:
        self._context = context
        self._loop = context.loop
        self._settings = context.settings
        self._transforming: TransformLoader | None = None
        self._loading: TransformImport | None = None
        self._logged = LogOnce(context.loop.clock)

    def load(self) -> None:
        """Import the transform. Raises TransformError if it is missing here."""
        settings = self._settings.transform
        if settings is None:
            return
        # The import of the user's modules may last longer than the copier may be silent.
        self._loading = TransformImport(self._loop.clock.monotonic(), settings.shown)
        try:
            from twinlog.transforms.loader import TransformLoader  # noqa: PLC0415 - who copies unchanged needs no numpy

            self._transforming = TransformLoader(
                self._settings, settings, self._partitions_of, self._loop.clock.monotonic
            )
        finally:
            self._loading = None

    async def start(self) -> None:
        """Start the engine of the transform, for as long as it takes.

        Raises TransformError for an invalid query, and EngineError if Spark is missing for SQL.
        """
        transforming = self._transforming
        while transforming is not None and transforming.trouble is not None:
            try:
                await run_in_thread(self._loop.net, transforming.start)
            except EngineLostError as error:
                if self._context.stopped:
                    return
                if self._logged.is_due("transform", PATIENCE_S):
                    self._context.report_event("waiting", f"nothing is copied yet, and it is tried again: {error}")
                await self._loop.sleep(COPIER_STEP.first_s)

    def close(self) -> None:
        """Stop changing records."""
        if self._transforming is not None:
            self._transforming.close()

    @property
    def call(self) -> TransformCall | TransformImport | None:
        """The current call of the transform, or its import; may be read from any thread."""
        return self._loading if self._transforming is None else self._transforming.call

    def loaded(self) -> TransformLoader:
        """The transform, which must exist."""
        assert self._transforming is not None
        return self._transforming

    def make_preparer(self, grant: Grant) -> Prepare | None:
        """The function that prepares the fetches of a partition, or None if the records stay unchanged."""
        if self._transforming is None or grant.heartbeats:
            return None
        return self._transforming.make_preparer(grant.source, grant.remote)

    async def wait(self, part: CopyState) -> None:
        """The engine was lost: the partition continues with the same records once there is a new engine."""
        transforming = self.loaded()
        reported = part.trouble
        self._report(part.source, reported)
        while not self._context.stopped and not part.left and (trouble := transforming.trouble) is not None:
            # The trouble is set at each turn, because an acknowledged append clears it.
            part.report_trouble(f"transform: {trouble}")
            if part.trouble != reported:
                # The reason has changed: for example, the next JVM fails to start.
                reported = part.trouble
                self._report(part.source, reported)
            await self._loop.sleep(COPIER_STEP.first_s)
        part.resume()

    def _report(self, source: TopicPartition, trouble: str | None) -> None:
        if self._logged.is_new(trouble, AGAIN_S):
            self._context.report_event("transform", f"TW-SQL-01: {source}: {trouble}; no record is skipped for it")

    def _partitions_of(self, topic: TopicName) -> int | None:
        known = self._context.target.topic(topic)
        return known.partitions if known is not None and known.partitions else None
