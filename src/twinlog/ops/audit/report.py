"""The findings of an audit as values: ordered by importance, with counts, a verdict, and a way out for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Literal

from twinlog.errors.message_ids import split_id
from twinlog.model.amounts import counted, shown_count
from twinlog.model.topics import listed
from twinlog.model.types import Alias

FindingKind = Literal[
    "missing-records",
    "doubled-records",
    "changed-records",
    "gap",
    "unclear-gap",
    "group-skips",
    "group-repeats",
    "group-unclear",
    "process",
    "lag",
    "lag-unknown",
    "topic-absent",
    "topic-outside",
    "group-outside",
    "held",
    "paused",
    "paused-records",
    "passed-over",
    "ignored-key",
    "missing-copy",
    "setting",
    "acl",
    "problem",
    "change",
]


_IDS: Mapping[FindingKind, str] = {
    "missing-records": "TW-VERIFY-01",
    "doubled-records": "TW-VERIFY-01",
    "changed-records": "TW-VERIFY-01",
    "gap": "TW-GAP-01",
    "group-skips": "TW-AUDIT-01",
    "group-unclear": "TW-AUDIT-02",
    "group-outside": "TW-AUDIT-03",
    "process": "TW-AUDIT-04",
    "lag-unknown": "TW-ALERT-06",
    "topic-absent": "TW-AUDIT-09",
    "topic-outside": "TW-AUDIT-05",
    "ignored-key": "TW-FILE-19",
    "missing-copy": "TW-AUDIT-06",
    "setting": "TW-AUDIT-07",
    "acl": "TW-AUDIT-08",
    "paused-records": "TW-AUDIT-10",
}
"""The message ids of findings without a `cause`."""

MISSING_RIGHT = "TW-RIGHT-02"
GRANT = "`twinlog acls FILE --for run,audit --missing` prints the commands that grant it or remove a denial"

SHOWN = 20
"""The most lines of a finding."""


class Severity(IntEnum):
    """How important a finding is; a smaller number is more important."""

    CRITICAL = 0
    """Records are lost, doubled or changed, or would be skipped on a failover."""
    WARNING = 1
    """The mirror does less than its file seems to ask for."""
    NOTE = 2
    """Good to know."""


class AuditPart(StrEnum):
    """A part of an audit; the text is its title."""

    RECORDS = "records"
    GAPS = "gaps"
    GROUPS = "consumer groups"
    LAG = "state and lag"
    FILTER = "topics outside the filter"
    KEYS = "keys of the file"
    SETTINGS = "settings"
    ACLS = "ACLs"
    CHANGES = "what would change under twinlog"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a flow (empty: of the whole file), with the number of records, groups or settings that it is about.

    `lines` are its details, for example a line for each partition. `way_out` is the next step of an operator, `cause`
    the message id of the cause, if it differs from the id of the kind. A `count` that is not `exact` is a maximum.
    `group` is the consumer group, if the finding is about a single group that is unable to move.
    """

    kind: FindingKind
    severity: Severity
    part: AuditPart
    text: str
    way_out: str
    count: int = 1
    flow: str = ""
    lines: tuple[str, ...] = ()
    cause: str = ""
    exact: bool = True
    group: str = ""

    @property
    def id(self) -> str | None:
        """The id that `twinlog explain` takes: `cause`, or the id of the kind; None for a note."""
        return None if self.severity is Severity.NOTE else self.cause or _IDS.get(self.kind)

    def as_json(self) -> dict[str, Any]:
        return {
            "severity": self.severity.name.lower(),
            "kind": self.kind,
            "id": self.id,
            "part": self.part.value,
            "flow": self.flow or None,
            "count": self.count,
            "exact": self.exact,
            "text": self.text,
            "details": list(self.lines),
            "way_out": self.way_out,
        }


@dataclass(frozen=True, slots=True)
class PartResult:
    """The result of a part for a flow: its findings, the scope of the look in words, or the reason why it is missing.

    A part with `not_audited` may still have findings, of the piece that was readable.
    """

    part: AuditPart
    findings: tuple[Finding, ...] = ()
    scope: str = ""
    not_audited: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"part": self.part.value, "scope": self.scope or None, "not_audited": self.not_audited}


@dataclass(frozen=True, slots=True)
class FlowAudit:
    """The parts of a flow; `runner` is the program that runs the flow now, in words."""

    flow: str
    source: Alias
    target: Alias
    parts: tuple[PartResult, ...]
    runner: str = ""

    @property
    def not_audited(self) -> tuple[PartResult, ...]:
        return tuple(one for one in self.parts if one.not_audited is not None)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The audit of a file at a moment (`at_ms`, Unix): the findings about the file itself, and the audits of flows."""

    file: str
    at_ms: int
    of_file: tuple[PartResult, ...]
    flows: tuple[FlowAudit, ...]

    @property
    def findings(self) -> list[Finding]:
        """All findings, the most important first."""
        parts = [*self.of_file, *(one for flow in self.flows for one in flow.parts)]
        every = [found for one in parts for found in one.findings]
        order = list(AuditPart)
        return sorted(every, key=lambda one: (one.severity, order.index(one.part), -one.count, one.flow, one.text))

    @property
    def not_audited(self) -> list[tuple[str, PartResult]]:
        """The parts that are missing wholly or partly, each with its flow."""
        return [(flow.flow, part) for flow in self.flows for part in flow.not_audited]

    @property
    def complete(self) -> bool:
        return not self.not_audited

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        return verdict_of(self.findings, self.not_audited)

    def as_json(self) -> dict[str, Any]:
        findings = self.findings
        return {
            "file": self.file,
            "at_ms": self.at_ms,
            "verdict": self.verdict,
            "complete": self.complete,
            "counts": {one.name.lower(): count for one, count in counts(findings).items()},
            "findings": [one.as_json() for one in findings],
            "flows": [
                {
                    "flow": flow.flow,
                    "source": flow.source,
                    "target": flow.target,
                    "run_by": flow.runner or None,
                    "parts": [part.as_json() for part in flow.parts],
                }
                for flow in self.flows
            ],
        }


def unread_reason(texts: Iterable[str]) -> str | None:
    """The reasons of an unread part as a line with the id of the first, and the way to grant missing rights; None
    without a reason."""
    parted = [split_id(text) for text in texts]
    if not parted:
        return None
    line = "; ".join(text for text, _ in parted)
    first = next((message_id for _, message_id in parted if message_id), "")
    if any(message_id == MISSING_RIGHT for _, message_id in parted):
        first, line = MISSING_RIGHT, f"{line}; {GRANT}"
    return f"{first}: {line}" if first else line


def limited(lines: Iterable[str]) -> tuple[str, ...]:
    """The first `SHOWN` lines of a finding, and the number of the other lines."""
    every = tuple(lines)
    if len(every) <= SHOWN:
        return every
    return (*every[:SHOWN], f"and {len(every) - SHOWN} more")


def counts(findings: Iterable[Finding]) -> dict[Severity, int]:
    """How many findings there are of each severity."""
    found = Counter(one.severity for one in findings)
    return {severity: found[severity] for severity in Severity}


_ABOUT_RECORDS: tuple[tuple[tuple[FindingKind, ...], str, str], ...] = (
    (("missing-records", "gap"), "record is missing", "records are missing"),
    (("doubled-records",), "record is doubled", "records are doubled"),
    (("changed-records",), "record is changed", "records are changed"),
    (("held",), "partition is held", "partitions are held"),
    (("paused-records",), "record waits in paused partitions", "records wait in paused partitions"),
    (("group-skips",), "record would be skipped by consumer groups", "records would be skipped by consumer groups"),
    (("group-repeats",), "record would be repeated by consumer groups", "records would be repeated by consumer groups"),
)


def verdict_of(findings: Sequence[Finding], not_audited: Sequence[object]) -> str:
    """The result in a sentence: losses first, then the number of the other findings, then the missing parts."""
    words = []
    for kinds, one, several in _ABOUT_RECORDS:
        about = [found for found in findings if found.kind in kinds]
        count = sum(found.count for found in about)
        if count:
            shown = shown_count(count, exact=all(found.exact for found in about))
            words.append(f"{shown} {one if count == 1 else several}")
    unclear = sum(found.kind == "group-unclear" and found.severity is Severity.CRITICAL for found in findings)
    if unclear:
        words.append(f"{counted(unclear, 'consumer group')} {'has' if unclear == 1 else 'have'} to wait")
    stuck = {found.group for found in findings if found.group and found.severity is Severity.WARNING}
    if stuck:
        groups, are = ("group", "is") if len(stuck) == 1 else ("groups", "are")
        words.append(f"{groups} {listed(stuck)} {are} unable to move")
    waiting = sum(found.count for found in findings if found.kind == "lag")
    lossy = any(found.severity is Severity.CRITICAL for found in findings)
    if lossy:
        if waiting:
            words.append(f"{counted(waiting, 'record')} {'waits' if waiting == 1 else 'wait'} to be copied")
        text = f"A failover today would lose or repeat records: {', '.join(words)}." if words else _BROKEN
    elif waiting:
        lost = f"{counted(waiting, 'record')} that {'waits' if waiting == 1 else 'wait'} to be copied"
        repeats = f"; {', '.join(words)}" if words else ""
        text = f"A failover at this moment would lose {lost}, and keep every other audited record{repeats}."
    elif words:
        text = f"A failover today would keep every audited record; {', '.join(words)}."
    elif findings:
        text = "The audited copies are equal, and each audited group would continue at its next record."
    else:
        text = "The audit is clean."
    if not_audited:
        text += f" The audit is incomplete: {counted(len(not_audited), 'part')} stayed unread."
    return text


_BROKEN = "The mirror fails to do the work of its file."
