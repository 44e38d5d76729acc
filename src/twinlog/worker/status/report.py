"""The report of a flow to other programs, by the process that runs the flow: a record every two seconds.

The report goes to the progress topic on the target, beside the reports of copiers. Copiers know only partitions; the
driver adds state, last error and groups. A reader needs only the last report, for any number of partitions.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any

from twinlog.errors import MessageError, NotAppendedError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.producer.produce_errors import Remedy, remedy_for
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.compression import LZ4
from twinlog.kafka.retry import GrowingRest
from twinlog.lease.codec import ReportCodec
from twinlog.model.compact_json import ascii_json
from twinlog.model.held import HeldPartition
from twinlog.model.topic_names import progress_topic
from twinlog.model.types import TopicName
from twinlog.process.flow_levels import FlowLogLevel
from twinlog.process.log_once import LogOnce
from twinlog.settings.flow import FlowSettings

EVERY_S = 2.0
MOST_HELD = 100
MOST_TASKS = 100
KIND = "driver"
"""The value of the field `kind`; only reports of the driver have this field."""

DRIVER_KEY = b"driver "
"""The begin of the keys of the driver's reports, before the name of the flow and the group of its processes: a reader
by key sees the last report of each group. Copiers' reports have other keys."""

log = logging.getLogger(__name__)
MOST_BYTES = 500_000
"""The largest size of a record; the default limit of brokers is 1 MB."""

TIMEOUT_S = 5.0

MISSING_S = 10.0
"""The longest wait for a progress topic that is missing: only a flow that copies creates it."""


class FlowState(Enum):
    """The state of a flow, in a word."""

    STARTING = "starting"
    RUNNING = "running"
    DONE = "caught up"
    HELD = "caught up, but for held partitions"
    """All records were copied, except in held partitions."""
    NOTHING = "nothing to copy"
    """All topics were left out, so the run had nothing to copy."""
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """A source topic: `lag` in source offsets over partitions with a known lag; `unknown` counts the other partitions.

    `lag_bytes` is the lag by the mean size of the records that were copied since the process began, None before the
    first record. `oldest_ms` is the time at which the oldest waiting record was written (Unix time): its own timestamp
    if it was read, else the last time at which the partition had lag 0. It is None if the lag is 0, or if both times
    are unknown, as for `undated` partitions. `records` and `bytes` count the copied records since the process began,
    rates are per second. `held` of the partitions are held (`model.held`). `paused` more partitions are paused, and
    count only here: `paused_lag` source offsets wait there, None while unknown.
    """

    topic: str
    partitions: int = 0
    lag: int = 0
    unknown: int = 0
    lag_bytes: int | None = None
    oldest_ms: int | None = None
    undated: int = 0
    records: int = 0
    bytes: int = 0
    record_rate: float = 0.0
    byte_rate: float = 0.0
    trouble: str | None = None
    held: int = 0
    paused: int = 0
    paused_lag: int | None = None


@dataclass(frozen=True, slots=True)
class GroupsProgress:
    """The progress with consumer groups: `followed` groups have a position in a mirrored topic; None before the first
    look.

    `inexact` of them have an offset that has lacked an exact translation for long, and `ahead` of them an offset on the
    target after its translation. `before_start` groups have a position before the first record of the target, also in a
    copy from the target that only a switchover commits; None is unknown. The three leave out groups that have moved,
    and `before_start` leaves out groups that begin by `auto.offset.reset` on both clusters alike. The times are of the
    last complete turn (Unix ms), None before. `syncs` and `checkpoints` say whether the flow has these turns at all,
    and the fields in seconds have their intervals.
    """

    followed: int | None = None
    inexact: int = 0
    checkpoints: bool = True
    checkpoints_ms: int | None = None
    syncs: bool = False
    sync_ms: int | None = None
    trouble: str | None = None
    checkpoints_every_s: float = 0.0
    sync_every_s: float = 0.0
    ahead: int = 0
    before_start: int | None = 0


@dataclass(frozen=True, slots=True)
class ProofProgress:
    """The proof of equality: `partitions` are proven, each at most `lag_s` seconds behind its acknowledged appends.

    `records` in batches of `bytes` were found equal, `unproved` records are out of the proof, and `differences` were
    found, all since this process runs the flow.
    """

    partitions: int
    lag_s: float
    records: int = 0
    bytes: int = 0
    unproved: int = 0
    differences: int = 0


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """A copier of the flow, the host of its process, and the number of its partitions.

    `task` is the number of its Spark task, None of a copier of the bridge. `executor` is Spark's id of the executor,
    `driver` with a local Spark, None if unknown.
    """

    copier: str
    host: str
    partitions: int
    task: int | None = None
    executor: str | None = None


@dataclass(frozen=True, slots=True)
class LogLevelProgress:
    """The last request for a level of the flow's log, by its id: lines from `level` on, until `until_ms` (Unix)."""

    request: str
    level: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class DriverReport:
    """A flow at a moment (`at_ms`, Unix time) as `process`, `host-pid`, knows it, which has run it since `since_ms`.

    `state` and `detail` are as in the live table. Sums are over all topics. `topics` begins with topics that have a lag
    or trouble; `more_topics` topics are omitted for lack of room. `lag` is -1 while it is unknown for all partitions,
    and at most `lag_age_s` seconds old. `eta_s` is None while the lag grows, or is unknown for a partition.
    `last_error` was at `last_error_ms`, and is over since `last_error_over_ms`, None for an error that lasts and for an
    event.
    `records` and `bytes` are counted since `counts_since_ms`, also if another process ran the flow in between. A
    transform has `dropped` records and was skipped for the `failed` records, since this process runs the flow. `held`
    counts the held partitions, `held_by_reason` the partitions for each reason; `held_partitions` are the first of them
    by name, `MOST_HELD` at most. `paused` partitions are excluded from all other sums. `missing` topics lack a remote
    topic, or some of its partitions, and are excluded from all other sums; `missing_topics` are the first of them.
    `left_out` has the first topics that the flow leaves to other flows. Both have a reason for each topic. `bridged` is
    true while the bridge copies in place of Spark's tasks. `group` is the group of the flow's processes. `tasks` are
    the first copiers by name, `MOST_TASKS` at most. `proof` is None for a flow without a proof.
    """

    flow: str
    process: str
    at_ms: int
    since_ms: int
    state: str
    detail: str | None = None
    partitions: int = 0
    copiers: int = 0
    records: int = 0
    bytes: int = 0
    record_rate: float = 0.0
    byte_rate: float = 0.0
    lag: int = -1
    lag_age_s: float = 0.0
    unknown: int = 0
    lag_bytes: int | None = None
    oldest_ms: int | None = None
    undated: int = 0
    latency_ms: int = -1
    eta_s: float | None = None
    last_error: str | None = None
    last_error_ms: int | None = None
    last_error_over_ms: int | None = None
    groups: GroupsProgress | None = None
    topics: tuple[TopicProgress, ...] = field(default=())
    more_topics: int = 0
    counts_since_ms: int | None = None
    dropped: int = 0
    failed: int = 0
    held: int = 0
    held_by_reason: tuple[tuple[str, int], ...] = ()
    held_partitions: tuple[HeldPartition, ...] = ()
    paused: int = 0
    paused_lag: int | None = None
    left_out: tuple[tuple[str, str], ...] = field(default=())
    missing: int = 0
    missing_topics: tuple[tuple[str, str], ...] = field(default=())
    bridged: bool = False
    group: str = ""
    tasks: tuple[TaskPlace, ...] = field(default=())
    log_level: LogLevelProgress | None = None
    proof: ProofProgress | None = None

    @property
    def copied_until_ms(self) -> int | None:
        """A moment before which every record was written that is copied: Unix ms, None if it is unknown for a
        partition."""
        if self.unknown or self.lag < 0:
            return None
        if self.lag:
            return None if self.undated else self.oldest_ms
        return self.at_ms - int(self.lag_age_s * 1000)

    @property
    def other_log_level(self) -> LogLevelProgress | None:
        """The level of the flow's log while it differs from the level of its process."""
        asked = self.log_level
        return None if asked is None or asked.level == FlowLogLevel.DEFAULT or asked.until_ms <= self.at_ms else asked


_REPORT, _TOPIC = ReportCodec(DriverReport), ReportCodec(TopicProgress)


def encode_report(report: DriverReport, most_bytes: int) -> bytes:
    """A report as the value of a record: a JSON object.

    It omits topics to keep within `most_bytes`; without topics it may be larger.
    """
    rest = replace(report, topics=(), more_topics=report.more_topics + len(report.topics))
    room = most_bytes - len(ascii_json(_named(rest)))
    kept: list[TopicProgress] = []
    for topic in report.topics:
        room -= len(ascii_json(_TOPIC.encode(topic))) + 1
        if room < 0:
            break
        kept.append(topic)
    more = report.more_topics + len(report.topics) - len(kept)
    return ascii_json(_named(replace(report, topics=tuple(kept), more_topics=more)))


def _named(report: DriverReport) -> dict[str, Any]:
    return {"kind": KIND, **_REPORT.encode(report)}


def report_key(report: DriverReport) -> bytes:
    """The key of a report, which later reports of the same flow and group have, too."""
    return DRIVER_KEY + f"{report.flow} {report.group}".rstrip().encode()


def decode_report(value: bytes | None) -> DriverReport | None:
    """A report from a record's value, perhaps of a newer version; None for another value."""
    try:
        found = json.loads(value or b"")
        if not isinstance(found, dict) or found.get("kind") != KIND:
            return None
        report: DriverReport = _REPORT.decode(found)
    except (ValueError, MessageError):
        return None
    return report


def by_need(topics: Sequence[TopicProgress]) -> tuple[TopicProgress, ...]:
    """Topics in trouble first, then paused topics, then the topics with the largest lags."""
    return tuple(
        sorted(topics, key=lambda one: (one.trouble is None, not one.unknown, not one.paused, -one.lag, one.topic))
    )


class Publisher:
    """Appends reports to the progress topic; `look` makes a report."""

    def __init__(self, settings: FlowSettings, target: ClusterAdmin, look: Callable[[], DriverReport]) -> None:
        self._settings = settings
        self._target = target
        self._look = look
        topic = TopicName(progress_topic(settings.source))
        self._writer = TopicWriter(target.client, topic, TIMEOUT_S, "reporting what the flow does", codec=LZ4)
        self._most_bytes = MOST_BYTES
        self._logged = LogOnce(target.clock)
        self._rest = GrowingRest(MISSING_S)

    def publish_report(self) -> None:
        """Append a report. A lost report is superseded by the next report.

        Copying is independent of it, so a failure is harmless to the flow. Copiers report a missing right on the topic.
        While the topic is missing, the next try comes after a `GrowingRest`.
        """
        now = self._target.clock.monotonic()
        if self._rest.is_on(now):
            return
        seen = self._look()
        report = replace(seen, topics=by_need(seen.topics))
        record = (report_key(report), encode_report(report, self._most_bytes))
        try:
            self._target.call(partial(self._writer.append, [record], timestamp_ms=report.at_ms))
        except TwinlogError as error:
            if isinstance(error, NotAppendedError) and error.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
                self._rest.extend(now)
            if isinstance(error, NotAppendedError) and remedy_for(error.code) is Remedy.SPLIT:
                # The next report has fewer topics, in the end none.
                self._most_bytes = max(1, len(record[1]) // 2)
                self._too_large(error.size)
            log.debug("%s: its state was not published: %s", self._settings.name, error)
        else:
            self._rest.end()

    def _too_large(self, size: int) -> None:
        if self._logged.is_new("size"):
            log.warning(
                "TW-INTERNAL-05: %s: %s does not take records of %d bytes, so twinlog status lacks topics of this "
                "flow, or all of it; raise its max.message.bytes",
                *(self._settings.name, self._writer.topic, size),
            )
