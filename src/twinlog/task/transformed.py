"""What a transform did to the records of a partition, as operators see it."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.model.types import TopicPartition
from twinlog.task.tally import Tally
from twinlog.write.appends import FailedRecord, Prepared

NAMED = 3
"""Records that one event about failures of a transform names."""


class Transformed:
    """Counts what was dropped, failed and routed of partition `source`, and reports failures to `event(kind, text)`:
    the first ones, or all of them where `errors.log.enable` is true."""

    def __init__(self, source: TopicPartition, event: Callable[[str, str], None], tally: Tally) -> None:
        self._source = source
        self._event = event
        self._tally = tally
        self._reported = False

    def take(self, prepared: Prepared) -> None:
        """Count and report what became of one fetch."""
        if prepared.failed and (prepared.log_failed or not self._reported):
            self._report(prepared.failed, all_of_them=prepared.log_failed)
        if prepared.dropped or prepared.failed or prepared.routed:
            routed = sum(routed.rows.num_rows for routed in prepared.routed)
            self._tally.transformed(prepared.dropped, len(prepared.failed), routed)

    def _report(self, failed: list[FailedRecord], *, all_of_them: bool) -> None:
        self._reported = True
        named = [
            f"the record at offset {one.source_offset}: {one.reason}{f' ({one.shown})' if one.shown else ''}"
            for one in (failed if all_of_them else failed[:NAMED])
        ]
        if not all_of_them:
            more = f"; and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
            named = [
                f"{'; '.join(named)}{more}; further ones are skipped and not logged, unless errors.log.enable is true"
            ]
        for text in named:
            self._event("transform", f"{self._source}: the transform failed on {text}")
