"""Records that a transform changes: decoded by whole fetches, changed, and encoded again or sent to dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinlog.batches.arrow.decode import RowRules, decode
from twinlog.batches.split import split_append
from twinlog.batches.vectors import Flags, Longs
from twinlog.errors import EngineError, RecordTooLargeError, TransformError
from twinlog.kafka.producer.appends import (
    Append,
    CopyRules,
    FailedRecord,
    OversizedRecord,
    PreparedFetch,
    RoutedRows,
)
from twinlog.kafka.record.compression import CODECS, NONE
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.settings.transform import TransformSettings
from twinlog.settings.written import key_of
from twinlog.transforms.contract import FailedRow, Transform, apply, offsets_of
from twinlog.transforms.row_appends import batches_of, partitions_by_key

PREFIX = "__connect.errors."
MOST_SHOWN = 200
"""The bytes of a key or a value that the log shows."""

END = 2**62
MOST_ROWS = 1 << 20
QUICK_S, SLOW_S, LONG_S = 0.05, 0.25, 0.5
"""The limits in seconds of a quick and a slow call of the transform, and of a long fetch.

The copier waits while a transform works. The first call has a single record. After a quick call the next call has four
times as many records, after a slow call fewer. The rest of a long fetch is read again.
"""


def dead_letter(failure: FailedRow, settings: TransformSettings, flow: str, source: TopicPartition) -> Any:
    """The unchanged record for the dead-letter topic; its key chooses its partition there.

    With `dead_letter_headers` it has the context that Connect adds (class DeadLetterQueueReporter), apart from the
    stack trace.
    """
    row = failure.row.to_pylist()[0]
    row["topic"], row["partition"] = settings.dead_letter_topic, None
    if settings.dead_letter_headers:
        context = {
            "topic": source.topic,
            "partition": str(source.partition),
            "offset": str(failure.offset),
            "connector.name": flow,
            "stage": "TRANSFORMATION",
            "class.name": settings.shown,
            "exception.class.name": failure.kind,
            "exception.message": failure.reason,
        }
        added = [{"key": PREFIX + name, "value": text.encode()} for name, text in context.items()]
        row["headers"] = [*(row["headers"] or ()), *added]
    return pa.RecordBatch.from_pylist([row], schema=failure.row.schema)


def shown(row: Any) -> str:
    """Key and value of a record, for the log."""
    key, value = (row.column(name)[0].as_py() for name in ("key", "value"))
    return f"key {_shown(key)}, value {_shown(value)}"


def _shown(cell: bytes | None) -> str:
    if cell is None or len(cell) <= MOST_SHOWN:
        return repr(cell)
    return f"{cell[:MOST_SHOWN]!r} and {len(cell) - MOST_SHOWN} bytes more"


class _StopError(Exception):
    """Stops the copying at a source offset because of `error`; None means a lack of time."""

    def __init__(self, offset: SourceOffset, error: TransformError | RecordTooLargeError | EngineError | None) -> None:
        super().__init__(str(error))
        self.offset = offset
        self.error = error


class FetchTransformer:
    """Prepares the fetches of a partition in the place of `batches.prepare.prepare`.

    `flow` is a name for people. `partitions(topic)` returns how many partitions a topic of the target has, None while
    that is unknown. `now()` is monotonic, in seconds. `check(rows)` raises TransformError for rows that the target
    would refuse.
    """

    def __init__(
        self,
        function: Transform,
        settings: TransformSettings,
        flow: str,
        source: TopicPartition,
        remote: TopicPartition,
        partitions: Callable[[TopicName], int | None],
        now: Callable[[], float],
        check: Callable[[Any], None] = lambda rows: None,
    ) -> None:
        self.now = now
        self.check = check
        self._most_rows = 1
        self.function = function
        self.settings = settings
        self.flow = flow
        self.source = source
        self.remote = remote
        # The scalars have their types from the start: for a plain value Arrow looks each time for modules that may know
        # its type.
        self.here = (pa.scalar(remote.topic, pa.string()), pa.scalar(remote.partition, pa.int32()))
        self._partitions = partitions
        self._known = partitions(remote.topic)

    @property
    def partitions(self) -> int | None:
        """How many partitions the remote topic has, by the last known answer."""
        self._known = self._partitions(self.remote.topic) or self._known
        return self._known

    def prepare(
        self,
        records: memoryview,
        position: SourceOffset,
        rules: CopyRules,
        aborted: Iterable[tuple[int, int]] | None = None,
    ) -> PreparedFetch:
        """As `batches.prepare.prepare`, for the rows that the transform makes of the records.

        Raises TransformError, too, if the transform fails on the first record, and EngineError if its evaluator is
        lost.
        """
        read = RowRules(
            headers=True, read_committed=rules.read_committed, check_crcs=True, up_to_damage=True, bounded=True
        )
        hidden = list(aborted or ())
        # A transform sees the future topic name of the record.
        named = TopicPartition(self.remote.topic, self.source.partition)
        rows = decode(records, named, position, END, read, hidden)
        if (end := _end_of(rows.batches, rules.most_records)) is not None:
            rows = decode(records, named, position, end, read, hidden)
        work = _TransformPreparation(self, rules, max(NONE, rows.codec) if rules.codec is None else CODECS[rules.codec])
        prepared = work.prepared
        prepared.log_failed = self.settings.log_errors
        passed = rows
        try:
            self._change(rows.batches, work)
        except _StopError as stop:
            if stop.error is not None and stop.offset <= offsets_of(rows.batches[0])[0]:
                raise stop.error from None
            # The records from this offset on are read again, and are counted then.
            passed = decode(records, named, position, stop.offset, replace(read, counts_only=True), hidden)
        prepared.position, prepared.leader_epoch = SourceOffset(passed.position), passed.leader_epoch
        prepared.aborted, prepared.control = passed.aborted, passed.control
        given: int = sum(_rows_before(batch, prepared.position) for batch in rows.batches)
        prepared.dropped = given - work.seen
        work.finish()
        return prepared

    def _change(self, batches: list[Any], work: _TransformPreparation) -> None:
        """Take all rows. Raises _StopError after the rows for which the time suffices."""
        for batch in batches:
            stop: _StopError | None = None
            try:
                self._call(batch, work)
            except _StopError as error:
                stop = error
            work.build_appends()
            if stop is not None:
                raise stop

    def _call(self, batch: Any, work: _TransformPreparation) -> None:
        """Have the transform change rows. Raises _StopError after the rows for which the time suffices."""
        at = 0
        while at < batch.num_rows:
            before = self.now()
            some = batch if not at and batch.num_rows <= self._most_rows else batch.slice(at, self._most_rows)
            try:
                work.transform_rows(some)
            except _StopError as stop:
                if isinstance(stop.error, EngineError):
                    # The number of rows may have ended the JVM: the next try has fewer rows.
                    self._most_rows = max(1, some.num_rows // 4)
                    raise
                self._learn(_rows_before(some, stop.offset), self.now() - before)
                raise
            at += some.num_rows
            self._learn(some.num_rows, self.now() - before)

    def _learn(self, rows: int, took_s: float) -> None:
        if took_s > SLOW_S:
            self._most_rows = max(1, int(rows * SLOW_S / took_s))
        elif took_s < QUICK_S and rows == self._most_rows:
            self._most_rows = min(MOST_ROWS, self._most_rows * 4)


class _TransformPreparation:
    """The rows of a fetch between decoding and appends."""

    def __init__(self, transformer: FetchTransformer, rules: CopyRules, codec: int) -> None:
        self.prepared = PreparedFetch(SourceOffset(0))
        self.transformer = transformer
        self.rules = rules
        self.codec = codec
        self.dead: list[Any] = []
        self.made: list[Any] = []
        """The transform's rows for `build_appends`."""
        self.kept = 0
        """The number of records for which the transform returned rows."""
        self.first: SourceOffset | None = None
        self.at = SourceOffset(0)
        """The first source offset of the last rows that the transform got."""
        self.until = transformer.now() + LONG_S

    def transform_rows(self, batch: Any) -> None:
        """Change rows. Raises _StopError."""
        try:
            for made in apply(self.transformer.function, batch, self._fail, self._begin, self.transformer.check):
                if made.num_rows:
                    self.made.append(made)
        except EngineError as error:
            raise _StopError(self.at, error) from None

    @property
    def seen(self) -> int:
        """The number of records that were kept or failed."""
        return self.kept + len(self.prepared.failed)

    def _begin(self, offset: SourceOffset) -> None:
        """Raise _StopError if the time is over before the records from an offset on."""
        self.at = offset
        if self.first is None:
            self.first = offset
        elif offset > self.first and self.transformer.now() > self.until:
            # When every record fails, the function is called twice per record, so the time is limited.
            raise _StopError(offset, None)

    def _fail(self, failure: FailedRow) -> None:
        transformer, settings = self.transformer, self.transformer.settings
        if settings.tolerance == "none":
            way_out = f"correct it, or set {key_of(TransformSettings, 'tolerance')} = all to skip records that fail"
            text = (
                f"the transform {settings.shown} fails on the record at offset {failure.offset} of "
                f"{transformer.source}: {failure.reason}; {way_out}"
            )
            raise _StopError(failure.offset, TransformError(text, message_id=failure.message_id))
        record = shown(failure.row) if settings.log_errors and settings.log_messages else ""
        self.prepared.failed.append(FailedRecord(failure.offset, failure.reason, record))
        if settings.dead_letter_topic:
            self.dead.append(dead_letter(failure, settings, transformer.flow, transformer.source))

    def finish(self) -> None:
        """Route the dead letters, after all rows were taken."""
        if self.dead:
            (rows,) = pa.Table.from_batches(self.dead).combine_chunks().to_batches()
            topic = TopicName(self.transformer.settings.dead_letter_topic)
            self.prepared.routed.append(RoutedRows(topic, rows, self.codec, dead=True))

    def build_appends(self) -> None:
        """Make appends of the transform's rows.

        Raises _StopError.

        A batch has its usual size, however few records each call of the transform had.
        """
        made, self.made = self.made, []
        try:
            for rows in made if len(made) < 2 else pa.Table.from_batches(made).combine_chunks().to_batches():
                self._keep(rows)
        except _StopError as stop:
            # The failures after the stop come again with the next fetch.
            self.dead = [row for row in self.dead if offsets_of(row)[0] < stop.offset]
            self.prepared.failed = [one for one in self.prepared.failed if one.source_offset < stop.offset]
            raise

    def _keep(self, rows: Any) -> None:
        offsets = offsets_of(rows)
        stays = self._stays(rows)
        stop: _StopError | None = None
        try:
            if stays is None:
                self._append(rows, offsets)
            elif stays.any():
                chosen = np.flatnonzero(stays)
                self._append(rows.take(pa.array(chosen)), offsets[chosen])
        except _StopError as error:
            stop = error
        taken = offsets if stop is None else offsets[: np.searchsorted(offsets, stop.offset)]
        self.kept += len(np.unique(taken))
        if stays is not None and not stays.all():
            away = ~stays if stop is None else ~stays & (offsets < stop.offset)
            self._route(rows, np.flatnonzero(away))
        if stop is not None:
            raise stop

    def _stays(self, rows: Any) -> Flags | None:
        """Which rows go to the partition's own remote partition; None for all of them."""
        remote, (topic, number) = self.transformer.remote, self.transformer.here
        here = pc.equal(rows.column("topic"), topic)
        numbers = rows.column("partition")
        if not numbers.null_count:
            here = pc.and_(here, pc.equal(numbers, number))
            return None if pc.all(here).as_py() else _flags(here)
        topical = _flags(here)
        there = np.asarray(_filled(numbers))
        by_key = (there < 0) & topical
        if by_key.any():
            count = self.transformer.partitions
            if not count:
                raise TransformError(f"the number of partitions of {remote.topic} is still unknown")
            chosen = np.flatnonzero(by_key)
            there = there.copy()
            there[chosen] = partitions_by_key(rows.column("key").take(pa.array(chosen)), count, remote.partition)
        stays = topical & (there == remote.partition)
        return None if stays.all() else stays

    def _append(self, rows: Any, offsets: Longs) -> None:
        """Make appends of rows for the own remote partition. Raises _StopError at a record that is too large."""
        rules, prepared = self.rules, self.prepared
        made: list[Append] = []
        try:
            for append in batches_of(rows, offsets, rules, self.codec):
                for part in [append] if append.bytes <= rules.max_batch_bytes else split_append(append, rules):
                    # Under `dead-letter` the target refuses it, and the record is then written to that topic.
                    if part.bytes <= rules.max_batch_bytes or rules.oversized == "dead-letter":
                        made.append(part)
                    elif rules.oversized == "skip":
                        prepared.oversized.append(OversizedRecord(part.first_source_offset, part.bytes))
                    else:
                        raise _StopError(part.first_source_offset, self._too_large(part))
        finally:
            prepared.appends += made
            prepared.spread |= any(append.continues for append in made)
            prepared.count("transformed", len(made))

    def _too_large(self, append: Append) -> RecordTooLargeError:
        limit = self.rules.max_batch_bytes
        return RecordTooLargeError(
            f"the transform's result for the record at source offset {append.first_source_offset} needs a batch of "
            f"{append.bytes} bytes, the remote topic takes {limit}",
            source_offset=append.first_source_offset,
            size=append.bytes,
            limit=limit,
        )

    def _route(self, rows: Any, chosen: Longs) -> None:
        if not len(chosen):
            return
        away = rows.take(pa.array(chosen))
        topics = away.column("topic")
        for topic in pc.unique(topics).to_pylist():
            mine = away.filter(pc.equal(topics, pa.scalar(topic, pa.string())))
            self.prepared.routed.append(RoutedRows(TopicName(topic), mine, self.codec))


def _rows_before(rows: Any, offset: SourceOffset) -> int:
    return int(np.searchsorted(offsets_of(rows), offset))


def _end_of(batches: Iterable[Any], most_records: int | None) -> SourceOffset | None:
    """The offset of the first record after `most_records` records; None for fewer records."""
    if most_records is not None:
        for batch in batches:
            if batch.num_rows > most_records:
                return SourceOffset(int(offsets_of(batch)[most_records]))
            most_records -= batch.num_rows
    return None


def _flags(column: Any) -> Flags:
    return np.asarray(column.cast(pa.uint8())).astype(np.bool_)


def _filled(numbers: Any) -> Any:
    return pc.fill_null(numbers, -1)
