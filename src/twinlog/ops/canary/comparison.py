"""The comparison of a canary with MirrorMaker 2 as values: copies, lag, resumes of groups, use of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from twinlog.errors.message_ids import ID, with_id
from twinlog.model.amounts import counted, shown_bytes, shown_count
from twinlog.model.types import GroupId, TopicName, TopicPartition
from twinlog.ops.audit.report import Finding
from twinlog.ops.canary.process_tree import ProcessUse

Program = Literal["MirrorMaker 2", "twinlog"]

MM2: Program = "MirrorMaker 2"
TWINLOG: Program = "twinlog"

FEW = 10_000
"""With fewer records, most of the processor time is that of an idle program."""

MOST_LINES = 20

NO_LAG = "stored positions, or the leader of a partition, are missing"
"""The reason for an unknown lag whose reader is silent."""


@dataclass(frozen=True, slots=True)
class CopyEquality:
    """The comparison of a program's copies with the source: `records` are equal, `left` offsets were left out.

    `findings` are differences, `uncompared` the reasons for parts that were left out.
    """

    program: Program
    flow: str
    partitions: int
    records: int
    left: int = 0
    findings: tuple[Finding, ...] = ()
    uncompared: tuple[str, ...] = ()

    @property
    def differences(self) -> int:
        """Records that are missing, doubled or changed."""
        return sum(one.count for one in self.findings)

    def as_json(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "flow": self.flow,
            "partitions": self.partitions,
            "equal_records": self.records,
            "differences": self.differences,
            "offsets_left_out": self.left,
            "findings": [one.as_json() for one in self.findings],
            "not_compared": list(self.uncompared),
        }


@dataclass(frozen=True, slots=True)
class LagOverTime:
    """The lag of a program in the canary's topics, in records, at each look of the observation; None is unknown."""

    program: Program
    state: str
    looks: tuple[int | None, ...] = ()
    trouble: str | None = None

    @property
    def now(self) -> int | None:
        """The lag at the last look."""
        return self.looks[-1] if self.looks else None

    @property
    def most(self) -> int | None:
        """The largest lag."""
        return max((one for one in self.looks if one is not None), default=None)

    @property
    def mean(self) -> float | None:
        known = [one for one in self.looks if one is not None]
        return sum(known) / len(known) if known else None

    def as_json(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "state": self.state,
            "now": self.now,
            "mean": self.mean,
            "most": self.most,
            "looks": len(self.looks),
            "trouble": self.trouble,
        }


@dataclass(frozen=True, slots=True)
class GroupResume:
    """The record at which a group would resume on the target, by each program; counts of records, None if unknown.

    `committed` is the group's offset on the source. `resumes` is its offset in MirrorMaker 2's copy, committed there or
    in a checkpoint, and `should` the offset of the next record, as `twinlog groups` translates it: the least offset if
    `certain` is False. `repeats` is the most records that the group would read a second time from MirrorMaker 2's
    offset on, and with `repeats_exact` no maximum. `skips` is the most records that the group would miss: it may have
    read them on the target. `in_canary` is the next record in the canary's copy by twinlog's exact map.
    """

    group: GroupId
    partition: TopicPartition
    committed: int
    resumes: int | None = None
    should: int | None = None
    certain: bool = False
    repeats: int | None = None
    skips: int | None = None
    in_canary: int | None = None
    exact: bool = False
    repeats_exact: bool = True

    def as_json(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "committed": self.committed,
            "mirror_maker_2": {
                "resumes": self.resumes,
                "should_be": self.should,
                "exact": self.certain,
                "repeats": self.repeats,
                "repeats_exact": self.repeats_exact,
                "skips": self.skips,
            },
            "twinlog": {"resumes": self.in_canary, "exact": self.exact},
        }


@dataclass(frozen=True, slots=True)
class ProgramUse:
    """The processor time and memory of a program, while it copied so many `records` in `seconds`.

    `use` is None while the number of its process is unknown, and during its start; `way_out` then says how to
    get the figure. `after_start_of` is the part whose start ended before these seconds and is left out, "" for none.
    """

    program: Program
    records: int
    seconds: float
    use: ProcessUse | None = None
    way_out: str = ""
    after_start_of: str = ""

    @property
    def cpu_per_million(self) -> float | None:
        """CPU seconds for a million records; None for few records."""
        if self.use is None or self.records < FEW:
            return None
        return self.use.cpu_s * 1e6 / self.records

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"program": self.program, "records": self.records, "seconds": round(self.seconds, 1)}
        if self.use is None:
            return {**found, "way_out": self.way_out}
        per_million = self.cpu_per_million
        return {
            **found,
            "cpu_seconds": round(self.use.cpu_s, 2),
            "cpu_seconds_per_million": None if per_million is None else round(per_million, 2),
            "memory_bytes": self.use.memory,
            "processes": self.use.processes,
        }


@dataclass(frozen=True, slots=True)
class CanaryReport:
    """The comparison of a canary with MirrorMaker 2 at a moment (`at_ms`, Unix), after an observation of `watch_s`."""

    topics: tuple[TopicName, ...]
    at_ms: int
    watch_s: float
    copies: tuple[CopyEquality, ...]
    lags: tuple[LagOverTime, ...]
    groups: tuple[GroupResume, ...]
    uses: tuple[ProgramUse, ...]
    groups_trouble: str | None = None
    full: bool = False

    @property
    def problems(self) -> list[str]:
        """All that keeps the copies from being equal, or that is unknown, in sentences."""
        found: list[str] = []
        for one in self.copies:
            if one.differences:
                found.append(f"{counted(one.differences, 'record')} of {one.program}'s copies differ from the source")
            if one.uncompared:
                found.append(f"a part of {one.program}'s copies could not be compared")
        found += [f"the lag of {lag.program} is unknown" for lag in self.lags if lag.now is None]
        skips = sum(one.skips or 0 for one in self.groups)
        if skips:
            found.append(f"consumer groups would skip up to {counted(skips, 'record')} by MirrorMaker 2's offsets")
        if self.groups_trouble is not None:
            found.append("the offsets of consumer groups could not be read")
        return found

    @property
    def verdict(self) -> str:
        """The result in a sentence or two."""
        compared = min((one.records for one in self.copies), default=0)
        if self.problems:
            return f"Different, or unknown: {'; '.join(self.problems)}."
        what = "every record" if self.full else "every record of the sample"
        text = f"Both copies are equal to the source: {what} (at least {compared:,} on each side)."
        if not compared:
            text = "No record was compared: the canary has yet to copy."
        repeats = [one.repeats for one in self.groups if one.repeats is not None]
        if self.groups:
            exact = all(one.repeats_exact for one in self.groups if one.repeats is not None)
            shown = f"{shown_count(sum(repeats), exact=exact)} {'record' if sum(repeats) == 1 else 'records'}"
            by_mm2 = f"{shown} by MirrorMaker 2's offsets, and " if repeats else ""
            none, some = ("none", "some") if repeats else ("no record", "some records")
            by_map = none if all(one.exact for one in self.groups) else some
            text += f" On a failover now, consumer groups would repeat {by_mm2}{by_map} by twinlog's map."
        lacking = sum(one.resumes is None for one in self.groups)
        if lacking:
            text += (
                f" MirrorMaker 2 lacks the offset of {counted(lacking, 'partition')} of a group: auto.offset.reset "
                "decides there."
            )
        rates = {one.program: one.cpu_per_million for one in self.uses}
        mm2, own = rates.get(MM2), rates.get(TWINLOG)
        if mm2 is not None and own is not None:
            text += f" A million records cost MirrorMaker 2 {mm2:.2f} and twinlog {own:.2f} CPU seconds."
        return text

    @property
    def equal(self) -> bool:
        """Whether everything was compared and is equal."""
        return not self.problems and bool(self.copies) and all(one.records for one in self.copies)

    @property
    def ids(self) -> list[str]:
        """The ids in the lines of the report, for `twinlog explain`."""
        return list(dict.fromkeys(name for line in report_lines(self, everything=True) for name in ID.findall(line)))

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "equal": self.equal,
            "ids": self.ids,
            "problems": self.problems,
            "topics": list(self.topics),
            "at_ms": self.at_ms,
            "watch_seconds": self.watch_s,
            "full": self.full,
            "copies": [one.as_json() for one in self.copies],
            "lag": [one.as_json() for one in self.lags],
            "groups": [one.as_json() for one in self.groups],
            "groups_trouble": self.groups_trouble,
            "use": [one.as_json() for one in self.uses],
        }


def report_lines(report: CanaryReport, *, everything: bool = False) -> Iterator[str]:
    """The report for people: the verdict first, then a part for each question."""
    yield report.verdict if report.equal or report.problems else f"TW-CANARY-01: {report.verdict}"
    yield ""
    yield "copies, against the source:"
    for copy in report.copies:
        left = f", {counted(copy.left, 'offset')} outside the sample (--full compares all)" if copy.left else ""
        verb = "is" if copy.records == 1 else "are"
        text = f"{counted(copy.records, 'record')} of {counted(copy.partitions, 'partition')} {verb} equal{left}"
        yield f"  {copy.program:<14} {copy.flow}: {text}"
        for finding in copy.findings:
            yield f"    {finding.text}" if finding.id is None else f"    {finding.id}: {finding.text}"
            yield from _limited([f"      {line}" for line in finding.lines], everything)
            yield f"      way out: {finding.way_out}"
        yield from (f"    {with_id(f'not compared: {reason}', 'TW-VERIFY-03')}" for reason in copy.uncompared)
    yield f"lag of the canary's topics, in records, {len(report.lags[0].looks)} looks in {report.watch_s:.0f} s:"
    for lag in report.lags:
        numbers = (
            f"now {_number(lag.now)}, mean {'?' if lag.mean is None else f'{lag.mean:,.1f}'}, most {_number(lag.most)}"
        )
        yield f"  {lag.program:<14} {numbers}; {lag.state}"
        if lag.now is None:
            yield f"    {with_id(f'the lag is unknown: {lag.trouble or NO_LAG}', 'TW-CANARY-02')}"
    yield "consumer groups, if they failed over now:"
    if report.groups_trouble is not None:
        yield f"  {with_id(f'not read: {report.groups_trouble}', 'TW-RIGHT-02')}"
    elif not report.groups:
        yield "  no followed group has offsets in these topics"
    yield from _limited([f"  {_resume(one)}" for one in report.groups], everything)
    yield "processor time and memory:"
    for use in report.uses:
        yield f"  {use.program:<14} {_use(use)}"


def _limited(lines: Sequence[str], everything: bool) -> list[str]:
    if everything or len(lines) <= MOST_LINES:
        return list(lines)
    return [*lines[:MOST_LINES], f"  ... and {len(lines) - MOST_LINES} more (--all)"]


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _resume(one: GroupResume) -> str:
    if one.resumes is None:
        mm2 = "MirrorMaker 2 has no offset yet"
    elif one.should is None:
        mm2 = f"MirrorMaker 2 resumes at {one.resumes}, and the right offset is unknown"
    else:
        at_least = "" if one.certain else "at least "
        repeated = shown_count(one.repeats, exact=one.repeats_exact)
        counts = f"{repeated} repeated, {shown_count(one.skips or 0, exact=False)} skipped"
        mm2 = f"MirrorMaker 2 resumes at {one.resumes}, should be {at_least}{one.should}: {counts}"
    if one.in_canary is None:
        own = "twinlog: before the canary's first copy"
    else:
        repeats = "0 repeated" if one.exact else "some repeated, until the map is exact there"
        own = f"twinlog resumes at {one.in_canary}: {repeats}, 0 skipped"
    text = f"{one.group} {one.partition} (committed {one.committed}): {mm2}; {own}"
    return f"TW-AUDIT-01: {text}" if one.skips else text


def _use(one: ProgramUse) -> str:
    if one.use is None:
        return one.way_out
    after = f" after the start of {one.after_start_of}" if one.after_start_of else ""
    text = f"{one.use.cpu_s:.2f} CPU s in {one.seconds:.0f} s{after} for {counted(one.records, 'record')}"
    rate = one.cpu_per_million
    if rate is None:
        text += f" (fewer than {FEW:,}: most of it is the time of an idle program)"
    else:
        text += f", {rate:.2f} CPU s for a million"
    return f"{text}; {shown_bytes(one.use.memory)} in {counted(one.use.processes, 'process')}"
