"""The text of `twinlog status` about a flow: each figure with its age, and missing figures as unknown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from twinlog.console.table import table
from twinlog.model.amounts import counted, shown_age, shown_bytes
from twinlog.model.held import HeldPartition
from twinlog.model.topics import listed
from twinlog.model.types import TopicName
from twinlog.ops.status.flow import FlowSnapshot
from twinlog.ops.status.readers import ConnectorSnapshot
from twinlog.ops.status.state import FlowStatusFacts
from twinlog.worker.status.report import MOST_HELD, DriverReport, TopicProgress

_HEAD = ("TOPIC", "PARTITIONS", "LAG", "BYTES", "SECONDS", "RECORDS/S", "MB/S", "")
_NUMBERS = range(1, 7)
BY_POSITIONS = "stored positions and the ends of the source"
MOST_TOPICS = 20
"""Topics in text; JSON has all that the report has."""


def lines(seen: FlowSnapshot) -> list[str]:
    """A flow in some lines: its state, then its known figures."""
    facts, report = seen.facts, seen.report
    detail = f": {seen.state.detail}" if seen.state.detail else ""
    found = [f"{seen.settings.name}: {seen.state.word}{detail}"]

    def add(name: str, text: str | None) -> None:
        if text:
            found.append(f"  {name:<11} {text}")

    add("run by", _run_by(facts))
    add("standing by", _standing_by(facts))
    for other in facts.beside:
        add("beside", _beside(other, facts))
    if seen.settings.copies:
        add("lag", _lag(seen))
    if report is not None and seen.settings.copies:
        add("missing", _missing(report))
        add("paused", _paused(report))
        add("rate", _rate(report))
        add("proof", shown_proof(report))
    holds = seen.held_report
    if holds is not None and holds.held:
        add("held", _held_sum(holds))
        found += [f"    {line}" for held in holds.held_partitions[:MOST_TOPICS] for line in _held(held, facts)]
        if holds.held > MOST_TOPICS:
            found.append(f"    and {holds.held - MOST_TOPICS} more; -o json has up to {MOST_HELD}")
    add("groups", _groups(facts))
    add("log level", _log_level(report))
    add("clock", _clock(facts))
    add("last error", _last_error(seen))
    add("heartbeat", None if facts.heartbeat_ms is None else f"{_ago(facts, facts.heartbeat_ms)}")
    shown = seen.topics[:MOST_TOPICS]
    if shown:
        rows: list[Sequence[str]] = [
            _HEAD,
            *(
                _topic(topic, facts, report is not None, identical=seen.settings.keeps_offsets(TopicName(topic.topic)))
                for topic in shown
            ),
        ]
        found += [f"  {line}" for line in table(rows, _NUMBERS)]
        left = len(seen.topics) - len(shown) + (report.more_topics if report is not None else 0)
        if left:
            found.append(f"  and {left} more with less to copy")
    return found


def _run_by(facts: FlowStatusFacts) -> str | None:
    report = facts.report
    if report is None:
        return facts.leader
    if facts.target_trouble is not None:
        return None
    name = facts.leader or (report.process if facts.fresh else None)
    since = ""
    if facts.since_s is not None and facts.leader is not None:
        since = f" since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(facts.since_s))}"
    age = f"last report {_ago(facts, report.at_ms)}"
    if name is None or name != report.process:
        age += f" from {report.process}"
    return age if name is None else f"{name}{since}, {age}"


def _standing_by(facts: FlowStatusFacts) -> str | None:
    if not facts.elected or facts.target_trouble is not None or facts.others is not None:
        return None
    others = [f"{one.name} {'ready' if one.ready else 'not ready'}" for one in facts.processes if not one.leads]
    return ", ".join(others) or "nobody"


def _beside(other: DriverReport, facts: FlowStatusFacts) -> str:
    """A process of another group that copies topics of the same flow."""
    topics = listed([one.topic for one in other.topics], len(other.topics) + other.more_topics) or "no topic"
    lag = "unknown" if other.lag < 0 else _records(other.lag)
    return f"{other.process} in group {other.group} copies {topics}, lag {lag}, last report {_ago(facts, other.at_ms)}"


def _lag(seen: FlowSnapshot) -> str:
    report, before = seen.report, seen.facts.report
    was = ""
    if report is None and before is not None and before.lag >= 0:
        was = f"; it was {_records(before.lag)} {_ago(seen.facts, before.at_ms)}"
    if seen.lag is None:
        why = f" ({seen.lag_trouble})" if seen.lag_trouble and seen.lag_trouble not in (seen.state.detail or "") else ""
        most_s = seen.lag_at_most_s
        bound = "" if most_s is None else f", the oldest record to copy at most {shown_age(most_s)} old"
        return f"unknown{why}{was}{bound}"
    more = f", of {counted(seen.unknown, 'partition')} unknown" if seen.unknown else ""
    size = "" if seen.lag_bytes is None or not seen.lag else f", {shown_bytes(seen.lag_bytes)}"
    if seen.by_positions or report is None:
        most_s = seen.lag_at_most_s
        seconds = "" if most_s is None or not seen.lag else f", at most {shown_age(most_s)} old"
        by = "stored positions, offset syncs and the ends of both sides" if seen.by_syncs else BY_POSITIONS
        return f"{_records(seen.lag)}{size}{seconds}{more}, by {by} now{was}"
    age = f" (known {report.lag_age_s + (seen.facts.report_age_s or 0.0):.0f} s ago)"
    seconds = f", {_seconds(seen.lag_s, undated=report.undated)}" if seen.lag else ""
    eta = "" if not seen.lag else "; ETA " + ("unknown" if report.eta_s is None else shown_age(report.eta_s))
    return f"{_records(seen.lag)}{size}{seconds}{more}{age}{eta}"


def _paused(report: DriverReport) -> str | None:
    if not report.paused:
        return None
    behind = "" if report.paused_lag is None else f", {_records(report.paused_lag)} behind"
    partitions = counted(report.paused, "partition")
    return f"{partitions}{behind}, which all other figures leave out; `twinlog topics` shows them"


def _missing(report: DriverReport) -> str | None:
    if not report.missing:
        return None
    names = listed(dict(report.missing_topics), report.missing)
    one = report.missing == 1
    count = f"{counted(report.missing, 'remote topic')} {'is' if one else 'are'}"
    why = f": {report.missing_topics[0][1]}" if report.missing_topics else ""
    return (
        f"{count} still to create or grow, and all figures leave out {'its' if one else 'their'} records: {names}{why}"
    )


def _rate(report: DriverReport) -> str:
    rates = f"{report.record_rate:,.0f} records/s, {report.byte_rate / 1e6:,.1f} MB/s"
    tasks = "the bridge until Spark has a task" if report.bridged else counted(report.copiers, "task")
    since = _time(report.counts_since_ms or report.since_ms)
    failed = f", {report.failed:,} skipped because the transform failed on them" if report.failed else ""
    dropped = f", {report.dropped:,} dropped by the transform" if report.dropped else ""
    return f"{rates}, by {tasks}; {_records(report.records)} copied since {since}{failed}{dropped}"


def shown_proof(report: DriverReport) -> str | None:
    """The progress of the proof of equality: `0.3 s behind, 1.2 GB in 6 partitions proven, 0 differences`."""
    proof = report.proof
    if proof is None:
        return None
    unproved = f", {_records(proof.unproved)} unproved" if proof.unproved else ""
    proven = f"{shown_bytes(proof.bytes)} in {counted(proof.partitions, 'partition')} proven"
    return f"{proof.lag_s:.1f} s behind, {proven}, {counted(proof.differences, 'difference')}{unproved}"


def _held_sum(report: DriverReport) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in report.held_by_reason)
    return f"{counted(report.held, 'partition')} ({reasons})"


def _held(held: HeldPartition, facts: FlowStatusFacts) -> list[str]:
    """Why a partition is held, its offsets on both sides, since when, and the way out."""
    place = "before its first record" if held.source_offset < 0 else f"at source offset {held.source_offset}"
    target = "" if held.target_offset < 0 else f", target offset {held.target_offset}"
    since = f"{_time(held.since_ms)} ({_ago(facts, held.since_ms)})"
    lines = [f"{held.source} {held.message_id} held {place}{target} since {since}", f"  {held.text}"]
    return [*lines, f"  way out: {held.way_out}"] if held.way_out else lines


def _groups(facts: FlowStatusFacts) -> str | None:
    report = facts.report
    if report is None or report.groups is None:
        return None
    groups = report.groups
    followed = "not looked at yet" if groups.followed is None else f"{groups.followed} followed"
    inexact = f", {groups.inexact} with offsets that lack an exact translation" if groups.inexact else ""
    inexact += f", {groups.ahead} ahead of their translation on the target" if groups.ahead else ""
    inexact += f", {groups.before_start} before the first record of the target" if groups.before_start else ""
    checkpoints = f"; checkpoints {_since(facts, groups.checkpoints_ms)}"
    sync = f", committed on the target {_since(facts, groups.sync_ms)}" if groups.syncs else ", not committed there"
    trouble = f"; {groups.trouble}" if groups.trouble else ""
    return f"{followed}{inexact}{checkpoints}{sync}{trouble}"


def _last_error(seen: FlowSnapshot) -> str | None:
    """The last error, unless the first line has its text already."""
    report = seen.facts.report
    if report is None or report.last_error is None or report.last_error in (seen.state.detail or ""):
        return None
    over_ms = report.last_error_over_ms
    over = "" if over_ms is None else f", over since {_time(over_ms)}"
    return f"{report.last_error} ({_since(seen.facts, report.last_error_ms)}{over})"


def _log_level(report: DriverReport | None) -> str | None:
    level = None if report is None else report.other_log_level
    return None if level is None else f"{level.level} until {_time(level.until_ms)}, in the driver and all tasks"


def _clock(facts: FlowStatusFacts) -> str | None:
    if not facts.skew_s or facts.report is None:
        return None
    side = "behind" if facts.skew_s > 0 else "ahead of"
    return (
        f"the clock of {facts.report.process} is {shown_age(abs(facts.skew_s))} {side} this clock; ages are by the "
        "clock of the process"
    )


def _topic(topic: TopicProgress, facts: FlowStatusFacts, reported: bool, *, identical: bool) -> tuple[str, ...]:
    if topic.paused and not topic.partitions:
        lag = "?" if topic.paused_lag is None else f"{topic.paused_lag:,}"
        return (topic.topic, str(topic.paused), lag, *"----", "paused")
    unknown = topic.unknown == topic.partitions
    lag = "unknown" if unknown else f"{topic.lag:,}" + (f" + {topic.unknown} unknown" if topic.unknown else "")
    size = "?" if topic.lag_bytes is None or unknown else shown_bytes(topic.lag_bytes)
    if not topic.lag and not topic.unknown:
        seconds = "0"
    elif topic.oldest_ms is None or unknown:
        seconds = "?"
    else:
        seconds = (">" if topic.undated else "") + f"{facts.age_s(topic.oldest_ms) or 0.0:.0f}"
    rates = (f"{topic.record_rate:,.0f}", f"{topic.byte_rate / 1e6:,.1f}") if reported else ("?", "?")
    remark = topic.trouble or (f"{counted(topic.paused, 'more partition')} paused" if topic.paused else "")
    remark = remark or ("identical offsets" if identical else "")
    return (topic.topic, str(topic.partitions), lag, size, seconds, *rates, remark)


def flow_json(seen: FlowSnapshot) -> dict[str, Any]:
    """A flow as JSON, with its topics and its last report; unknown figures are null."""
    facts, report = seen.facts, seen.report
    return {
        **flow_figures(seen),
        "topics": [_topic_json(topic, facts, report is not None) for topic in seen.topics],
        "more_topics": 0 if report is None else report.more_topics,
        "last_report": None if facts.report is None else _report_json(facts.report),
    }


def flow_figures(seen: FlowSnapshot) -> dict[str, Any]:
    """The figures of a flow as JSON, in the same time for any number of topics; unknown figures are null."""
    facts, report, holds = seen.facts, seen.report, seen.held_report
    return {
        "flow": seen.settings.name,
        "source": seen.settings.source,
        "target": seen.settings.target,
        "at_ms": facts.at_ms,
        "condition": seen.state.condition.value,
        "state": seen.state.word,
        "detail": seen.state.detail,
        "leader": facts.leader or (report.process if report is not None else None),
        "leader_since_s": facts.since_s,
        "standing_by": [{"process": one.name, "ready": one.ready} for one in facts.processes if not one.leads],
        "others": facts.others,
        "beside": [_beside_json(other, facts) for other in facts.beside],
        "connector": None if facts.connector is None else _connector_json(facts.connector),
        "report_age_s": facts.report_age_s,
        "clock_behind_s": facts.skew_s,
        "heartbeat_age_s": facts.age_s(facts.heartbeat_ms),
        "lag": {
            "records": seen.lag,
            "bytes": seen.lag_bytes,
            "seconds": seen.lag_s,
            "seconds_at_most": seen.lag_at_most_s,
            "seconds_at_least": report is not None and report.undated > 0,
            "partitions_unknown": seen.unknown,
            "age_s": None
            if report is None or seen.lag is None
            else round(report.lag_age_s + (facts.report_age_s or 0.0), 3),
            "by": _lag_by(seen),
            "trouble": seen.lag_trouble,
        },
        "eta_s": None if report is None else report.eta_s,
        "record_rate": None if report is None else report.record_rate,
        "byte_rate": None if report is None else report.byte_rate,
        "held": {
            "partitions": 0 if holds is None else holds.held,
            "by_reason": {} if holds is None else dict(holds.held_by_reason),
            "first": [] if holds is None else [asdict(held) for held in holds.held_partitions],
        },
        "missing": {} if report is None else {"topics": report.missing, "first": dict(report.missing_topics)},
        "paused": None if report is None else {"partitions": report.paused, "records": report.paused_lag},
        "log_level": _log_level_json(report),
        "proof": None if report is None or report.proof is None else asdict(report.proof),
    }


def _beside_json(other: DriverReport, facts: FlowStatusFacts) -> dict[str, Any]:
    return {
        "process": other.process,
        "group": other.group,
        "topics": [one.topic for one in other.topics],
        "lag": None if other.lag < 0 else other.lag,
        "report_age_s": facts.age_s(other.at_ms),
    }


def _log_level_json(report: DriverReport | None) -> dict[str, Any] | None:
    """The level of the flow's log while it differs from the level of its process."""
    level = None if report is None else report.other_log_level
    return None if level is None else {"level": level.level, "until_ms": level.until_ms}


def _lag_by(seen: FlowSnapshot) -> str | None:
    if seen.lag is None:
        return None
    return "syncs" if seen.by_syncs else "positions" if seen.by_positions else "report"


def _connector_json(seen: ConnectorSnapshot) -> dict[str, Any]:
    reported = seen.reported
    return {
        "group": seen.group,
        "workers": seen.members,
        "state": None if reported is None else reported.state,
        "worker": None if reported is None else reported.worker,
        "tasks": [one.state for one in seen.tasks],
        "trouble": seen.failure,
    }


def _topic_json(topic: TopicProgress, facts: FlowStatusFacts, reported: bool) -> dict[str, Any]:
    unknown = topic.unknown == topic.partitions
    seconds = 0.0 if not topic.lag and not topic.unknown else facts.age_s(topic.oldest_ms)
    return {
        "topic": topic.topic,
        "partitions": topic.partitions,
        "lag": {
            "records": None if unknown else topic.lag,
            "bytes": None if unknown else topic.lag_bytes,
            "seconds": None if unknown else seconds,
            "seconds_at_least": topic.undated > 0,
            "partitions_unknown": topic.unknown,
        },
        "record_rate": topic.record_rate if reported else None,
        "byte_rate": topic.byte_rate if reported else None,
        "trouble": topic.trouble,
        "held": topic.held,
        "paused": {"partitions": topic.paused, "records": topic.paused_lag},
    }


def _report_json(report: DriverReport) -> dict[str, Any]:
    fields = asdict(replace(report, topics=(), held_partitions=(), missing_topics=()))
    for name in ("topics", "more_topics", "held", "held_by_reason", "held_partitions", "missing", "missing_topics"):
        del fields[name]
    return fields


def _records(count: int) -> str:
    return counted(count, "record")


def _seconds(lag_s: float | None, *, undated: int) -> str:
    if lag_s is None:
        return "of unknown age"
    return f"{'more than ' if undated else ''}{shown_age(lag_s)} old"


def _ago(facts: FlowStatusFacts, at_ms: int) -> str:
    return f"{shown_age(facts.age_s(at_ms) or 0.0)} ago"


def _since(facts: FlowStatusFacts, at_ms: int | None) -> str:
    return "never yet" if at_ms is None else _ago(facts, at_ms)


def _time(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1000))
