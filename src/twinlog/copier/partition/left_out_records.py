"""Left-out records of a partition: by a policy, or because a transform fails on them or drops them."""

from __future__ import annotations

from collections.abc import Callable

from twinlog.copier.partition.counters import CopierCounters
from twinlog.kafka.producer.appends import FailedRecord, PreparedFetch
from twinlog.model.types import TopicPartition
from twinlog.settings.failed_records import FailedRecordSettings
from twinlog.settings.written import key_of

LOG_KEY = key_of(FailedRecordSettings, "log_errors")

NAMED = 3
"""How many records an event about failures of a transform names."""

NAMED_ALONE = 10
"""How many left-out records have an event each; later records are only counted."""


class LeftOutRecords:
    """Counts the dropped, failed, routed and left-out records of partition `source`, and reports them.

    The first records are reported to `event(kind, text)`; with `errors.log.enable` = true (`log_all`) all records are.
    """

    def __init__(
        self, source: TopicPartition, event: Callable[[str, str], None], tally: CopierCounters, *, log_all: bool = False
    ) -> None:
        self._source = source
        self._event = event
        self._tally = tally
        self._log_all = log_all
        self._reported = False
        self._by_policy = 0

    def leave_out(self, kind: str, text: str) -> None:
        """A policy leaves a record out; `kind` is the kind of the event, `text` names the record and the reason."""
        self._tally.left_out += 1
        self._by_policy += 1
        if self._log_all or self._by_policy <= NAMED_ALONE:
            self._event(kind, text)
        elif self._by_policy == NAMED_ALONE + 1:
            self._event(kind, f"{text}; further records of this partition are counted, and logged if {LOG_KEY} is true")

    def count_fetch(self, prepared: PreparedFetch) -> None:
        """Count and report the results of a fetch."""
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
