"""Writes down what came out: a table on the terminal, JSON and markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isinf
from pathlib import Path
from typing import Any

from bench.flows.scale import DEADLINE_S
from bench.items.catalogue import RATES
from bench.items.goals import SHARE
from bench.systems import TITLES

RESULTS = Path(__file__).parents[1] / "results"

Document = dict[str, Any]
"""A whole run as JSON knows it."""

_SHOWN = {
    "records_per_s": ("records/s", "{:,.0f}"),
    SHARE: ("  of the brokers' own limit", "{:.0%}"),
    "mb_per_s": ("MB/s of values", "{:,.1f}"),
    "cpu_s": ("CPU s, first to last record", "{:.2f}"),
    "cpu_s_per_million": ("CPU s per 1 M records", "{:.2f}"),
    "brokers_cpu_s": ("CPU s of the brokers", "{:.2f}"),
    "source_cpu_s": ("  source", "{:.2f}"),
    "target_cpu_s": ("  target", "{:.2f}"),
    "produce_requests": ("produce requests", "{:,.0f}"),
    "produce_kb": ("  KB of records in each", "{:,.1f}"),
    "fetch_requests": ("fetch requests", "{:,.0f}"),
    "fetch_kb": ("  KB of records in each answer", "{:,.1f}"),
    "start_s": ("start to first record, s", "{:.1f}"),
    "start_at_most_s": ("  twinlog in seconds", "{:.1f}"),
    "start_unprepared_s": ("  without `twinlog warm-up`, s", "{:.1f}"),
    "whole_s": ("start to last record, s", "{:.1f}"),
    "whole_cpu_s": ("CPU s, start to last record", "{:.1f}"),
    "peak_pss_mb": ("peak memory, PSS, MB", "{:,.0f}"),
    "peak_rss_mb": ("peak memory, RSS, MB", "{:,.0f}"),
    "p50_ms": ("latency p50, ms", "{:.2f}"),
    "raw_records_per_s": ("  twinlog without the transform", "{:,.0f}"),
    "p50_ms_eager": ("  MirrorMaker 2 with linger.ms=0", "{:.2f}"),
    "p50_ms_without_linger": ("  both with linger.ms=0", "{:.2f}"),
    "p90_ms": ("latency p90, ms", "{:.2f}"),
    "p99_ms": ("latency p99, ms", "{:.2f}"),
    "p99_ms_eager": ("  MirrorMaker 2 with linger.ms=0", "{:.2f}"),
    "p99_ms_without_linger": ("  both with linger.ms=0", "{:.2f}"),
    "p999_ms": ("latency p99.9, ms", "{:.2f}"),
    "max_ms": ("latency max, ms", "{:.1f}"),
    "cpu_meanwhile_s": ("CPU s meanwhile", "{:.1f}"),
    "cpu_at_0": ("CPU s per s at 0 records/s", "{:.3f}"),
    "brokers_cpu_at_0": ("  of the brokers", "{:.3f}"),
    "cpu_at_10": ("CPU s per s at 10 records/s", "{:.3f}"),
    "brokers_cpu_at_10": ("  of the brokers", "{:.3f}"),
    "cpu_at_100": ("CPU s per s at 100 records/s", "{:.3f}"),
    "brokers_cpu_at_100": ("  of the brokers", "{:.3f}"),
    "cpu_at_1000": ("CPU s per s at 1,000 records/s", "{:.3f}"),
    "brokers_cpu_at_1000": ("  of the brokers", "{:.3f}"),
    "all_copied_s": ("start to last record, s", "{:.1f}"),
    "groups_s": ("start to the last group's offsets, s", "{:.1f}"),
    "new_topic_s": ("until a new topic is there, s", "{:.1f}"),
    "groups_moved_s": ("until all moved groups are there, s", "{:.1f}"),
    "calls_per_s": ("admin calls per s while nothing changes", "{:,.1f}"),
    "steady_cpu": ("CPU s per s while nothing changes", "{:.2f}"),
    "driver_pss_mb": ("memory of the driver, PSS, MB", "{:,.0f}"),
    "take_over_s": ("from the end of a process to the other's first record, s", "{:.1f}"),
    "take_over_used_s": ("  the same at the end of the run, s", "{:.1f}"),
    "rounds": ("faults, each judged", "{:,.0f}"),
    "records": ("records written and judged", "{:,.0f}"),
    "lost": ("records lost", "{:,.0f}"),
    "duplicated": ("records duplicated", "{:,.0f}"),
    "reordered": ("records reordered", "{:,.0f}"),
    "corrupted": ("records corrupted", "{:,.0f}"),
    "unknown": ("records nobody wrote", "{:,.0f}"),
    "resurrected": ("records that were rolled back", "{:,.0f}"),
    "group_skipped": ("offsets that groups would skip", "{:,.0f}"),
    "group_missing": ("positions of groups that are missing", "{:,.0f}"),
    "rounds_wrong": ("rounds with anything wrong", "{:,.0f}"),
    "written": ("records written", "{:,.0f}"),
    "copied": ("records copied", "{:,.0f}"),
    "processed": ("records that the group read before", "{:,.0f}"),
    "skipped": ("records that the group never reads", "{:,.0f}"),
    "repeated": ("records that the group reads twice", "{:,.0f}"),
    "without_producers_s": ("time without producers, s", "{:.1f}"),
    "longest_s": ("longest until all was copied after a fault, s", "{:.1f}"),
    "processes": ("processes", "{:,.0f}"),
    "pss_slope_mb_per_h": ("slope of memory, PSS, MB/h", "{:+,.1f}"),
    "slope_over_s": ("  seen for, s", "{:,.0f}"),
    "peak_files": ("open files at most", "{:,.0f}"),
    "peak_threads": ("threads at most", "{:,.0f}"),
    "idle_cpu": ("CPU s per s while idle", "{:.3f}"),
    "idle_requests_per_s": ("requests per s while idle", "{:,.1f}"),
    "loops": ("loops of requests", "{:,.0f}"),
    "partitions": ("partitions with a proof of equality", "{:,.0f}"),
    "unproven": ("  not proven to their end at rest", "{:,.0f}"),
    "proven_records": ("  records in proven ranges", "{:,.0f}"),
    "unproved_records": ("  records out of the proof", "{:,.0f}"),
    "differences": ("  differences", "{:,.0f}"),
    "alarms": ("  alarms in the logs", "{:,.0f}"),
    "records_per_h": ("records per hour", "{:,.0f}"),
    "mb_per_h": ("MB per hour", "{:,.2f}"),
    "log_lines_per_h": ("log lines per hour", "{:,.0f}"),
    "refresh_s": ("a refresh, s", "{:.2f}"),
    "first_refresh_s": ("the first refresh, s", "{:.2f}"),
    "idle_share": ("CPU of the driver while idle, share of a core", "{:.0%}"),
    "busy_share": ("  the same while all partitions move", "{:.0%}"),
    "answer_s": ("start to first HTTP answer, s", "{:.2f}"),
    "posted_s": ("  from its POST, s", "{:.1f}"),
    "warm_posted_s": ("  from a POST to a worker that is up for 30 s, s", "{:.1f}"),
    "list_p50_ms": ("list with status and info p50, ms", "{:,.1f}"),
    "list_p99_ms": ("  p99, ms", "{:,.1f}"),
    "lists_per_s": ("  lists per s", "{:,.0f}"),
    "idle_pss_mb": ("memory while idle, PSS, MB", "{:,.0f}"),
    "idle_rss_mb": ("memory while idle, RSS, MB", "{:,.0f}"),
    "idle_threads": ("threads while idle", "{:,.0f}"),
    "records_per_s_plain": ("records/s without a watcher", "{:,.0f}"),
    "records_per_s_watched": ("  watched", "{:,.0f}"),
    "records_ratio": ("  ratio", "{:.3f}"),
    "cpu_s_plain": ("CPU s, first to last record, without a watcher", "{:.2f}"),
    "cpu_s_watched": ("  watched", "{:.2f}"),
    "cpu_ratio": ("  ratio", "{:.3f}"),
    "opening_cpu_s": ("CPU s for the first pages of a process", "{:.2f}"),
    "page_ms": ("a page, ms", "{:.1f}"),
    "records_per_s_copied": ("records/s copied", "{:,.0f}"),
    "records_per_s_verified": ("  compared with their copies", "{:,.0f}"),
    "verify_ratio": ("  ratio", "{:.2f}"),
    "verify_cpu_s": ("CPU s of a comparison, start of Spark included", "{:.2f}"),
    "verify_whole_s": ("  s, likewise", "{:.1f}"),
    "records_per_s_unproven": ("records/s without the proof", "{:,.0f}"),
    "records_per_s_proven": ("  proven", "{:,.0f}"),
    "proven_ratio": ("  ratio", "{:.3f}"),
    "cpu_s_unproven": ("CPU s, first to last record, without the proof", "{:.2f}"),
    "cpu_s_proven": ("  proven", "{:.2f}"),
    "proven_cpu_ratio": ("  ratio", "{:.3f}"),
    "all_cpu_s_unproven": ("CPU s with both brokers, without the proof", "{:.2f}"),
    "all_cpu_s_proven": ("  proven", "{:.2f}"),
    "proven_all_cpu_ratio": ("  ratio", "{:.3f}"),
    "load_mb_per_s": ("an even load, MB/s", "{:,.0f}"),
    "load_all_cpu_s_unproven": ("  CPU s with both brokers, without the proof", "{:.2f}"),
    "load_all_cpu_s_proven": ("  proven", "{:.2f}"),
    "load_all_cpu_ratio": ("  ratio", "{:.3f}"),
    "proof_lag_s": ("  the proof is behind, s", "{:.2f}"),
    "proof_lag_most_s": ("  at most, s", "{:.2f}"),
    "steady_s": ("nothing is lost, s", "{:.1f}"),
    "executor_s": ("an executor is killed, s", "{:.1f}"),
    "drained_s": ("a worker is decommissioned, s", "{:.1f}"),
    "worker_s": ("a worker is killed with all of its processes, s", "{:.1f}"),
    "silent_s": ("a worker falls silent with all of its processes, s", "{:.1f}"),
    "read_1k_mb_per_s": ("broker to DataFrame, 1 KB, MB/s", "{:,.0f}"),
    "read_100_records_per_s": ("  100 B, records/s", "{:,.0f}"),
    "write_1k_mb_per_s": ("one task to a broker, 1 KB, MB/s", "{:,.0f}"),
    "spark_read_1k_mb_per_s": ("Spark's own source, 1 KB, MB/s", "{:,.0f}"),
    "spark_read_100_records_per_s": ("  100 B, records/s", "{:,.0f}"),
    "spark_write_1k_mb_per_s": ("  its sink, 1 KB, MB/s", "{:,.0f}"),
    "idle_connections": ("connections while idle", "{:,.0f}"),
}
"""Figures in the table and how; the JSON has all."""
SHORT = 20
MOST_OF_REASON = 600
"""Characters of a reason that stand in a column, and below the table."""

_HIDDEN = {"latency": {"peak_pss_mb", "peak_rss_mb"}}
_BRIEF = (
    "records_per_s",
    "raw_records_per_s",
    "cpu_s_per_million",
    "start_s",
    "start_at_most_s",
    "peak_pss_mb",
    "p50_ms",
    "p50_ms_eager",
    "p50_ms_without_linger",
    "p99_ms",
    "p999_ms",
    *(f"cpu_at_{rate}" for rate in RATES),
)


_BRIEF_PEERS = ("records_per_s", "cpu_s", "brokers_cpu_s", "start_s", "peak_pss_mb")
_QUALITIES = {
    "complete": "each record once, with key and value",
    "order": "order within a partition",
    "partition": "partition",
    "timestamps": "timestamp",
    "headers": "headers",
}


def write(document: Document, kind: str = "") -> Path:
    """Write JSON and markdown into `bench/results`; returns the path of the markdown. `kind` is part of their name."""
    machine = document["machine"]
    parts = [machine["date"], f"{machine['cores']}c", kind, "partial" if document["partial"] else ""]
    stem = "-".join(part for part in parts if part)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{stem}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    path = RESULTS / f"{stem}.md"
    title = document.get("title", "twinlog beside MirrorMaker 2")
    path.write_text(f"# {title}, {machine['date']}\n\n{markdown(document)}", encoding="utf-8")
    return path


def markdown(document: Document) -> str:
    """The whole report."""
    notes = "\n".join(f"- {note}" for note in document["notes"])
    limits = [
        f"- {item['name']}: {item['limit']['records_per_s']:,.0f} records/s, {item['limit']['mb_per_s']:,.0f} MB/s"
        for item in document["items"]
        if item.get("limit")
    ]
    parts = [place(document), *tables(document), "How it was measured:\n\n" + notes]
    if limits:
        parts.append("The brokers' own limit, the same bytes with no copier between:\n\n" + "\n".join(limits))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def tables(document: Document, *, brief: bool = False) -> list[str]:
    """What each system keeps, a table for each item that all systems copy, and one for all other items."""
    found = [] if brief or not document.get("checks") else [_checks(document["checks"])]
    found += [_peers(item, brief=brief) for item in document["items"] if "rows" in item]
    if any("lines" in item for item in document["items"]):
        found.append(_pairs(document, brief=brief))
    return found


def _checks(checks: dict[str, Any]) -> str:
    """Yes or no by quality and system; a system without an answer has a reason in its place."""
    rows = [["kept", *(_title(system) for system in checks)]]
    for quality, title in _QUALITIES.items():
        rows.append([title])
        for found in checks.values():
            rows[-1].append("?" if isinstance(found, str) else "yes" if found[quality] else "**no**")
    failed = {system: found for system, found in checks.items() if isinstance(found, str)}
    return _text(rows) + _reasons(failed)


def _peers(item: dict[str, Any], *, brief: bool) -> str:
    """A column for each system, then twinlog's ratio to the best of the others and to MirrorMaker 2."""
    systems = item["systems"]
    head = ["", *(_title(system) for system in systems), "to the best", "to MirrorMaker 2", "wanted", ""]
    rows = [head]
    failed: dict[str, str] = item["failed"]
    for row in item["rows"]:
        if row["figure"] not in _SHOWN or (brief and row["figure"] not in _BRIEF_PEERS and not row["verdicts"]):
            continue
        title, shape = _SHOWN[row["figure"]]
        values = [
            _short(failed[name]) if name in failed else _value(row["values"].get(name), shape) for name in systems
        ]
        best = _times(row["to_best"]) + (f" {_title(row['best'])}" if row["to_best"] is not None else "")
        wanted = "; ".join(verdict["wanted"] for verdict in row["verdicts"])
        met = "; ".join(_verdict(verdict["met"]) or "?" for verdict in row["verdicts"])
        rows.append([title, *values, best, _times(row["to_mm2"]), wanted, met])
    return f"**{item['name']}**: {item['title']}\n\n{_text(rows)}{_reasons(failed)}"


def _title(system: str) -> str:
    return next((title for name, title in TITLES.items() if name == system), system)


def _short(reason: str) -> str:
    """A reason that fits a column, else that there is one."""
    return reason if len(reason) <= SHORT else "failed"


def _reasons(failed: dict[str, str]) -> str:
    lines = (f"- {_title(system)}: {' '.join(reason.split())[:MOST_OF_REASON]}" for system, reason in failed.items())
    return "\n" + "\n".join(lines) + "\n" if failed else ""


def _pairs(document: Document, *, brief: bool) -> str:
    """The items of two systems, or of twinlog alone."""
    head = ["", *document.get("columns", ("MirrorMaker 2", "twinlog")), "ratio", "wanted", ""]
    rows: list[list[str] | str] = [head]
    for item in document["items"]:
        if "lines" not in item:
            continue
        rows.append(f"| **{item['name']}**: {item['title']} {'| ' * len(head)}".rstrip())
        for line in item["lines"]:
            figure = line["figure"]
            hidden = figure in _HIDDEN.get(item["name"], ()) or (brief and figure not in _BRIEF)
            if figure in _SHOWN and not hidden:
                rows.append(_row(line))
    return _text(rows)


def _text(rows: Sequence[list[str] | str]) -> str:
    """A markdown table, padded so that it can be read as it is; the first row is the head."""
    head = rows[0]
    widths = [max(len(row[column]) for row in rows if isinstance(row, list)) for column in range(len(head))]
    text = [row if isinstance(row, str) else _padded(row, widths) for row in rows]
    rule = ("-" * (width + 1 + (at == 0)) + (":" if at else "") for at, width in enumerate(widths))
    text.insert(1, f"|{'|'.join(rule)}|")
    return "\n".join(text) + "\n"


def _row(line: dict[str, Any]) -> list[str]:
    title, shape = _SHOWN[line["figure"]]
    values = [_value(line[system], shape) for system in ("mm2", "twinlog")]
    return [title, *values, _times(line["ratio"]), line["wanted"] or "", _verdict(line["met"])]


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def _verdict(met: bool | None) -> str:
    return "" if met is None else "pass" if met else "MISS"


def _value(value: float | None, shape: str) -> str:
    if value is None:
        return ""
    return f"> {DEADLINE_S:g}" if isinf(value) else shape.format(value)


def _padded(row: list[str], widths: list[int]) -> str:
    cells = [
        cell.ljust(width) if at == 0 else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "| " + " | ".join(cells) + " |"


def place(document: Document) -> str:
    """When it was measured, on what machine, with which versions."""
    machine = document["machine"]
    commit = f" ({machine['commit']})" if machine["commit"] else ""
    text = (
        f"Measured on {machine['date']} on one machine with {machine['cores']} cores ({machine['processor']}) and "
        f"{machine['memory_gb']:g} GB of memory, brokers included: twinlog {machine['twinlog']}{commit} on PySpark "
        f"{machine['pyspark']} and Python {machine['python']}; Kafka and MirrorMaker 2 {machine['kafka']} on Java "
        f"{machine['java']}."
    )
    if document["partial"]:
        part = document.get("part") or f"scale {document['scale']:g}, {document['latency_s']} s of latency"
        text += f" **Not a whole run**: {part}."
    return text
