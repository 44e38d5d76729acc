"""Compares the chosen ranges of records, and judges the places of which offset syncs prove that records are missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from twinlog.mirror.offsets.sync_history import SyncHistory
from twinlog.model.amounts import counted
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.audit.report import AuditPart, Finding, FindingKind, Severity
from twinlog.ops.inventory import LogOffsets
from twinlog.ops.verify.model import PartitionToVerify, Verdict
from twinlog.ops.verify.planner import VerifyPlan
from twinlog.settings.flow import FlowSettings

EMPTY: Mapping[TopicPartition, int] = MappingProxyType({})

SHOWN = 20
"""The most places of a topic in a finding."""

CompareRanges = Callable[..., Iterable[Verdict]]
"""Called with the plan, the ranges and the deadline; yields a row for each range, and raises AuditTimeoutError."""

_KINDS: Mapping[str, FindingKind] = {"missing": "missing-records", "doubled": "doubled-records"}

_WORDS: Mapping[FindingKind, tuple[str, str]] = {
    "missing-records": ("is missing", "are missing"),
    "doubled-records": ("is doubled", "are doubled"),
    "changed-records": ("differs", "differ"),
}


def record_findings(flow: FlowSettings, rows: Sequence[Verdict]) -> tuple[list[Finding], list[str]]:
    """A finding for each topic and kind of difference, and the reasons why ranges stayed uncompared."""
    places: dict[tuple[str, str, FindingKind], list[tuple[int, str]]] = defaultdict(list)
    problems: dict[str, int] = defaultdict(int)
    for row in rows:
        if row.problem is not None:
            problems[row.problem] += 1
        if row.first is None:
            continue
        first = row.first
        kind = _KINDS.get(first.what, "changed-records")
        text = f": {first.text}" if first.text else ""
        line = (
            f"{row.topic}-{row.partition}: {row.differences} {first.what}, the first at source offset "
            f"{first.source_offset}, target offset {first.target_offset}{text}"
        )
        places[row.topic, row.remote_topic, kind].append((row.differences, line))
    return [_of_records(flow, *key, some) for key, some in places.items()], _joined(problems)


def _of_records(
    flow: FlowSettings, topic: str, remote: str, kind: FindingKind, places: Sequence[tuple[int, str]]
) -> Finding:
    count = sum(differences for differences, _ in places)
    one, several = _WORDS[kind]
    text = f"{counted(count, 'record')} of {topic} {one if count == 1 else several} in {remote} on {flow.target}"
    verify = f"`twinlog verify FILE --topic {topic}` lists all places"
    way = {
        "missing-records": f"{verify}; `twinlog replay FILE --topic {topic}` copies a range once more",
        "doubled-records": f"{verify}; the consumers must accept repeats, or the topic is mirrored once more from its "
        "first record",
    }.get(kind, f"{verify}; look for another producer of {remote}")
    lines = [line for _, line in sorted(places, key=lambda place: -place[0])]
    return Finding(kind, Severity.CRITICAL, AuditPart.RECORDS, text, way, count, flow.name, _limited(lines))


def _joined(problems: Mapping[str, int]) -> list[str]:
    return [text if count == 1 else f"{text} (and {count - 1} more)" for text, count in problems.items()]


def suspect_histories(plan: VerifyPlan) -> list[PartitionToVerify]:
    """The partitions that lack an exact map, so that only offset syncs show their copies."""
    return [
        part
        for part in plan.parts
        if part.problem is None and not any(section.kind == "exact" for section in part.sections)
    ]


def gap_findings(
    flow: FlowSettings,
    parts: Sequence[PartitionToVerify],
    history: SyncHistory,
    logs: Mapping[TopicPartition, LogOffsets],
    mapped_from: Mapping[TopicPartition, int] = EMPTY,
) -> list[Finding]:
    """A finding for each topic whose source deleted records before the copy.

    The exact map of a partition shows the holes from source offset `mapped_from` on.

    A place that the source still has is compared record by record instead. A single missing offset may be the marker of
    a transaction, and in a compacted topic each missing offset may be a hole: both are notes.
    """
    lost: dict[TopicName, list[tuple[int, str]]] = defaultdict(list)
    unclear: dict[TopicName, list[tuple[int, str]]] = defaultdict(list)
    for part in parts:
        log = logs.get(part.source)
        for jump in history.jumps(part.source):
            if jump.after.source > mapped_from.get(part.source, jump.after.source):
                continue
            if not jump.missing or log is None or jump.before.source + 1 >= log.start:
                continue
            # The source still has the other offsets of the place, which are compared.
            count = min(jump.missing, log.start - jump.before.source - 1)
            line = f"{part.source}: {counted(count, 'offset')} between {jump.before.source} and {jump.after.source}"
            sure = jump.missing > 1 and not part.compacted
            (lost if sure else unclear)[part.source.topic].append((count, line))
    return [
        *(_of_gap(flow, topic, places) for topic, places in lost.items()),
        *(_of_unclear(flow, topic, places) for topic, places in unclear.items()),
    ]


def _of_gap(flow: FlowSettings, topic: TopicName, places: Sequence[tuple[int, str]]) -> Finding:
    count = sum(missing for missing, _ in places)
    text = (
        f"{counted(count, 'record')} of {topic} {'was' if count == 1 else 'were'} deleted on {flow.source} before the "
        "copy, and MirrorMaker 2, or a command of an operator, passed over the gap"
    )
    if flow.consumer.isolation_level == "read_committed":
        text += " (or they were in aborted transactions)"
    way = (
        "the records are lost on both clusters unless another system has them; raise retention.ms on the source or the "
        "speed of the mirror. twinlog holds a partition at a gap and reports it"
    )
    lines = _limited([line for _, line in sorted(places, key=lambda place: -place[0])])
    return Finding("gap", Severity.CRITICAL, AuditPart.GAPS, text, way, count, flow.name, lines)


def _of_unclear(flow: FlowSettings, topic: TopicName, places: Sequence[tuple[int, str]]) -> Finding:
    count = sum(missing for missing, _ in places)
    text = (
        f"{counted(count, 'source offset')} of {topic} {'lacks a copy' if count == 1 else 'lack copies'}: markers of "
        "transactions, holes of compaction, or lost records"
    )
    way = f"{flow.source} has deleted these offsets: compare with the systems that produced {topic}"
    lines = _limited([line for _, line in places])
    return Finding("unclear-gap", Severity.NOTE, AuditPart.GAPS, text, way, count, flow.name, lines)


def _limited(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) <= SHOWN:
        return tuple(lines)
    return (*lines[:SHOWN], f"and {len(lines) - SHOWN} more places")
