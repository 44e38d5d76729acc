"""The hand-over report of a switchover for people, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from twinlog.mirror.groups.group_moves import COMMITTED, THERE
from twinlog.model.amounts import counted, shown_bytes, shown_count
from twinlog.model.topics import listed
from twinlog.ops.switchover.model import Data, FenceMethod, SwitchoverKind
from twinlog.ops.switchover.steps.group_step import AHEAD, IN_USE, MOVED, REFUSED, UNKNOWN

_RESULTS = {
    COMMITTED: "committed",
    THERE: "there already",
    AHEAD: "further on the target",
    MOVED: "moved before, and read on since",
    IN_USE: "left alone, the group has members on the target",
    UNKNOWN: "not translated",
    REFUSED: "refused",
}

MOST_REASONS = 10
"""The most reasons in the row of a group; the JSON report has all of them."""


def markdown(data: Data) -> str:
    """The report for people."""
    if not data:
        return "No switchover is recorded.\n"
    words = {
        SwitchoverKind.PLANNED: "Switchover",
        SwitchoverKind.EMERGENCY: "Emergency switchover",
        SwitchoverKind.BACK: "Switchback",
    }
    lines = [f"# {words[SwitchoverKind(data['kind'])]} {data['from']} -> {data['to']}: {data['state']}", ""]
    waited_s = data["seconds_without_producers"]
    if waited_s is not None and data["kind"] == SwitchoverKind.EMERGENCY:
        lines += [f"Producers may write to {data['to']} since {data['producers_may_go_on']}.", ""]
    elif waited_s is not None and data["fence"] != FenceMethod.NONE:
        until = f"may write to {data['to']} since {data['producers_may_go_on']}: {waited_s:.1f} s."
        lines += [f"Producers were fenced ({data['fence']}) at {data['producers_fenced']} and {until}", ""]
    lines += ["## What to do next", "", *(f"{number}. {line}" for number, line in enumerate(data["next"], 1)), ""]
    lines += [
        "## Steps",
        "",
        *_table(("step", "does", "done", "seconds"), [_step_row(one) for one in data["steps"]]),
        "",
    ]
    if data["partitions"]:
        ends = f"end on {data['from']}", "copied up to", f"topic on {data['to']}", "ends at"
        records: tuple[str, ...] = ("topic", "partition", *ends)
        rows = [_partition_row(one) for one in data["partitions"]]
        lines += ["## Records", ""]
        if data.get("proof") is not None:
            lines += [_proof_line(data["proof"]), ""]
            records = (*records, "proven up to", "differences")
            rows = [(*row, *_proof_cells(one)) for row, one in zip(rows, data["partitions"], strict=True)]
        lines += [*_table(records, rows), ""]
    if data["groups"]:
        head = ("group", "skipped", "repeated", f"on {data['from']}", "offsets")
        of_groups = [_group_row(name, one) for name, one in data["groups"].items()]
        lines += ["## Groups", "", *_table(head, of_groups), ""]
    if "statement" in data:
        signed = data["statement"]
        lines += ["## Statement", "", f"{' with '.join(signed['files'])}, signed by the key {signed['key']}", ""]
    if data["notes"]:
        lines += ["## Known before", "", *(f"- {note}" for note in data["notes"]), ""]
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    cells = [[str("-" if cell is None else cell) for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells)]


def _step_row(one: Data) -> tuple[Any, ...]:
    return one["step"], one["does"], one["done"], one["seconds"]


def _partition_row(one: Data) -> tuple[Any, ...]:
    return one["topic"], one["partition"], one["end"], one["copied"], one["to_topic"], one["to_end"]


def _proof_cells(one: Data) -> tuple[Any, ...]:
    proof = one.get("proof")
    return ("-", "-") if not proof else (proof["source_offset"], proof["differences"])


def _proof_line(proof: Data) -> str:
    equal = f"{counted(proof['records'], 'record')}, {shown_bytes(proof['bytes'])}"
    unproved = f", {counted(proof['unproved'], 'record')} out of the proof" if proof["unproved"] else ""
    return (
        f"Proven equal in {counted(proof['partitions'], 'partition')}: {equal} in the stated ranges, "
        f"{counted(proof['differences'], 'difference')}{unproved}."
    )


def _group_row(name: str, one: Data) -> tuple[Any, ...]:
    counts: dict[str, int] = {}
    for offset in one["offsets"]:
        counts[offset["result"]] = counts.get(offset["result"], 0) + 1
    what = ", ".join(f"{count} {_RESULTS[result]}" for result, count in counts.items()) or "none in these topics"
    refused = dict.fromkeys(why for offset in one["offsets"] if (why := offset.get("refused")))
    trouble = "".join(f"; {text}" for text in (one["trouble"], *refused, *_reasons(one["offsets"])) if text)
    # A group that is further on the target may have read the records there.
    skipped = shown_count(one["skipped"], exact=False)
    repeated = shown_count(one["repeated"], exact=one["repeated_exact"])
    return name, skipped, repeated, one["state"] or "unknown", what + trouble


def _reasons(offsets: Sequence[Data]) -> list[str]:
    """The reasons of the offsets with their partitions, the largest losses first.

    The last line sums up further reasons, so that the lines have all records of the group's cells.
    """
    by_text: dict[str, list[Data]] = {}
    for offset in offsets:
        if offset.get("why"):
            by_text.setdefault(offset["why"], []).append(offset)
    ordered = sorted(by_text.items(), key=lambda one: max(map(_loss, one[1])), reverse=True)
    lines = []
    for text, rows in ordered[:MOST_REASONS]:
        names = listed([f"{row['to_topic']}-{row['partition']}" for row in rows])
        lines.append(f"{'each of ' if len(rows) > 1 else ''}{names}: {text}")
    rest = [row for _, rows in ordered[MOST_REASONS:] for row in rows]
    if rest:
        repeats, skips = (shown_count(_total(row[name] for row in rest), exact=False) for name in ("repeats", "skips"))
        lines.append(f"{counted(len(rest), 'more partition')}: {repeats} repeated, {skips} skipped")
    return lines


def _loss(offset: Data) -> tuple[float, float]:
    """The skipped and the repeated records of an offset; an unknown number is the largest."""
    skips, repeats = (math.inf if offset[name] is None else offset[name] for name in ("skips", "repeats"))
    return skips, repeats


def _total(counts: Iterable[int | None]) -> int | None:
    found = list(counts)
    return None if None in found else sum(count or 0 for count in found)
