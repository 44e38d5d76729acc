"""What the process that runs a flow reports of it to other programs: one record, every two seconds.

It goes to the progress topic on the target, beside the reports of copiers, which know partitions and nothing of the
rest: state, last error, groups. A reader needs the last one only, however many partitions there are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from twinlog.model.compact_json import ascii_json
from twinlog.model.held import HeldPartition

EVERY_S = 2.0
MOST_HELD = 100
KIND = "driver"
"""The value of the field `kind`; reports of copiers have no such field."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """One source topic: `lag` in source offsets over the partitions where it is known, of `unknown` ones it is not.

    `lag_bytes` is the lag by the mean size of the records that were copied since the process began, None before the
    first. `oldest_ms` is when the oldest record to copy was written (Unix time): its own timestamp if it was read, else
    the last time at which the partition had nothing to copy before it. It is None when nothing waits, or neither is
    known, as for `undated` partitions. `records` and `bytes` are those that were copied since the process
    began, rates are per second. `held` of the partitions are held (`model.held`). `paused` more partitions are paused,
    and count nowhere else: `paused_lag` source offsets wait there, None while unknown.
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
    """How consumer groups are followed: `followed` None before the first look, `inexact` of them with an offset that
    has had no exact translation for long.

    Times are those of the last turn that did all it had to (Unix ms), None before; `syncs` and `checkpoints` whether
    there are such turns at all, and how often they come.
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


@dataclass(frozen=True, slots=True)
class DriverReport:
    """A flow at one moment (`at_ms`, Unix time) as `process`, `host-pid`, knows it; it has run it since `since_ms`.

    `state` and `detail` are what the live table shows. Sums are over all topics, `topics` those with something to copy
    or in trouble first; `more_topics` did not fit. `lag` is -1 while it is known of no partition, and at most
    `lag_age_s` seconds old. `eta_s` is None while the lag grows. `last_error` was at `last_error_ms`. `records` and
    `bytes` are counted since `counts_since_ms`, also where another process ran the flow in between.
    A transform has `dropped` records and was skipped for those that it `failed` on, since this process runs the flow.
    `held` partitions are held, so many for each reason; `held_partitions` are the first of them by name, `MOST_HELD` at
    most. `paused` partitions count in no other sum. `missing` topics have no remote topic yet, or one of too few
    partitions, and count in no other sum; `missing_topics` are the first of them, `left_out` the first topics that the
    flow leaves to other flows, each with the reason.
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


def encode_report(report: DriverReport, most_bytes: int) -> bytes:
    """A report as the value of a record of at most so many bytes, as far as leaving out topics allows: one JSON
    object."""
    rest = replace(report, topics=(), more_topics=report.more_topics + len(report.topics))
    room = most_bytes - len(ascii_json({"kind": KIND, **asdict(rest)}))
    kept: list[TopicProgress] = []
    for topic in report.topics:
        room -= len(ascii_json(asdict(topic))) + 1
        if room < 0:
            break
        kept.append(topic)
    more = report.more_topics + len(report.topics) - len(kept)
    return ascii_json({"kind": KIND, **asdict(replace(report, topics=tuple(kept), more_topics=more))})


def decode_report(value: bytes | None) -> DriverReport | None:
    """A report from a record's value, perhaps of a newer version; None when it is none."""
    try:
        found = json.loads(value or b"")
        if found.get("kind") != KIND:
            return None
        groups, topics = (found.pop(name, ()) for name in ("groups", "topics"))
        left_out, missing = (found.pop(name, ()) for name in ("left_out", "missing_topics"))
        held, reasons = (found.pop(name, ()) for name in ("held_partitions", "held_by_reason"))
        return replace(
            _known(DriverReport, found),
            groups=None if not groups else _known(GroupsProgress, groups),
            topics=tuple(_known(TopicProgress, topic) for topic in topics),
            held_partitions=tuple(_known(HeldPartition, one) for one in held),
            held_by_reason=tuple((str(reason), int(count)) for reason, count in reasons),
            left_out=tuple((str(topic), str(reason)) for topic, reason in left_out),
            missing_topics=tuple((str(topic), str(reason)) for topic, reason in missing),
        )
    except (ValueError, TypeError, AttributeError):
        return None


def _known(kind: type[T], found: dict[str, Any]) -> T:
    names = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in found.items() if name in names})


def by_need(topics: Sequence[TopicProgress]) -> tuple[TopicProgress, ...]:
    """Topics in trouble first, then paused ones, then those with the most to copy."""
    return tuple(
        sorted(topics, key=lambda one: (one.trouble is None, not one.unknown, not one.paused, -one.lag, one.topic))
    )
