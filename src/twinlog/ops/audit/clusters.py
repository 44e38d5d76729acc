"""Turns the results of check, status, diff and plan into findings of an audit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import Any

from twinlog.config.differences import differences
from twinlog.config.keys.key import Release
from twinlog.config.keys.scope import GUESS
from twinlog.config.load import load_file
from twinlog.config.text.entries import IGNORED_HERE
from twinlog.errors.mistakes import ConfigWarning, MistakeKind
from twinlog.model.amounts import counted, shown_bytes
from twinlog.model.held import HeldPartition, HeldReason
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.audit.report import AuditPart, Finding, PartResult, Severity, limited
from twinlog.ops.audit.uncopied import UncopiedRecords, paused_findings
from twinlog.ops.diff.differences import ClusterDifference
from twinlog.ops.plan.flow_plan import FlowPlan, Problem
from twinlog.ops.status.flow import FlowSnapshot
from twinlog.ops.status.state import FlowCondition
from twinlog.settings.flow import FlowSettings

_ONLY_HERE = frozenset({MistakeKind.IGNORED_FIELDS})
"""Warnings about keys that MirrorMaker 2 or its JVM reads, and twinlog ignores; they have no key of their own."""


def keys_found(warnings: Sequence[ConfigWarning]) -> PartResult:
    """A finding for each warning of the check of a file that is true for MirrorMaker 2, too."""
    found = [_finding(one) for one in warnings if one.key and one.kind not in _ONLY_HERE]
    return PartResult(AuditPart.KEYS, tuple(found), "the whole file")


def release_found(file: Path, was: Release) -> PartResult:
    """A note for each difference from MirrorMaker 2 of the release `was`, by the code of `twinlog check --was`."""
    found = []
    for note in differences(load_file(file, unknown_keys="warn"), was):
        text, _, way = note.sentence.rpartition("; ")
        way = way if text else "for information; docs/configuration.md describes the key"
        shown = f"{note.place}: {note.key}: {text or note.sentence}"
        found.append(Finding("change", Severity.NOTE, AuditPart.CHANGES, shown, way))
    return PartResult(AuditPart.CHANGES, tuple(found), f"MirrorMaker 2 of Kafka {was[0]}.{was[1]}")


def _finding(warning: ConfigWarning) -> Finding:
    place = f"{warning.place}: {warning.key}"
    if warning.kind is MistakeKind.UNKNOWN_KEY:
        guessed = warning.expected.partition(f"{GUESS} ")[2].partition("?")[0]
        way = f"write {guessed}" if guessed else "remove it"
        severity = Severity.WARNING if guessed else Severity.NOTE
        return _of(warning, severity, f"{place} is an unknown key, which MirrorMaker 2 ignores", way)
    text, _, way = warning.sentence.partition("; ")
    if warning.kind is MistakeKind.IGNORED and text == IGNORED_HERE:
        return _of(warning, Severity.WARNING, f"{place} is ignored at this place by MirrorMaker 2, too", way)
    return _of(warning, Severity.WARNING, f"{place}: {text}", way or "see docs/configuration.md for the key")


def _of(warning: ConfigWarning, severity: Severity, text: str, way: str) -> Finding:
    return Finding("ignored-key", severity, AuditPart.KEYS, text, way, cause=warning.id)


def state_found(seen: FlowSnapshot, uncopied: UncopiedRecords | None = None) -> list[Finding]:
    """The troubles of the process that runs a flow, its held and paused partitions, and the lag of each topic.

    `uncopied` None is unread.
    """
    flow = seen.settings
    found: list[Finding] = []
    if seen.state.condition in (FlowCondition.DOWN, FlowCondition.UNKNOWN):
        detail = f": {seen.state.detail}" if seen.state.detail else ""
        text = f"the flow is {seen.state.word}{detail}"
        way = "start it, or mend the cause in its log; `twinlog status` shows the same line"
        found.append(Finding("process", Severity.CRITICAL, AuditPart.LAG, text, way, flow=flow.name))
    found += _held(seen, uncopied or UncopiedRecords())
    if uncopied is not None:
        found += paused_findings(flow, uncopied)
    found += _lag(seen, uncopied)
    # The finding of a held partition has the reason for its unknown lag.
    unknown = {topic.topic: topic.unknown - topic.held for topic in seen.topics if topic.unknown > topic.held}
    if unknown:
        count = sum(unknown.values())
        text = f"the lag of {counted(count, 'partition')} is unknown"
        lines = [f"{topic}: {counted(count, 'partition')}" for topic, count in unknown.items()]
        way = "bring back the brokers that lead them"
        found.append(
            Finding("lag-unknown", Severity.WARNING, AuditPart.LAG, text, way, count, flow.name, limited(lines))
        )
    return found


def _lag(seen: FlowSnapshot, uncopied: UncopiedRecords | None) -> list[Finding]:
    """The records that the mirror will copy by itself; other records wait for an operator, or are deleted."""
    left = {topic: topic.lag for topic in seen.topics}
    if uncopied is not None:
        aside = set(uncopied.deleted)
        if seen.held_report is not None:
            aside |= {one.source for one in seen.held_report.held_partitions}
        # The report of a process leaves paused partitions out of its sums.
        aside = aside | uncopied.paused if seen.by_positions else aside - uncopied.paused
        left = {topic: lag - uncopied.offsets(aside, TopicName(topic.topic)) for topic, lag in left.items()}
    late = {topic: lag for topic, lag in left.items() if lag > 0}
    if not late:
        return []
    lag = sum(late.values())
    text = f"{counted(lag, 'record')} of {counted(len(late), 'topic')} {'waits' if lag == 1 else 'wait'} to be copied"
    way = "a failover now would leave them behind; ask again once the mirror has caught up"
    if uncopied is None and any(topic.held for topic in late):
        way = "a failover now would leave them behind; mend the causes of held partitions, and ask again"
    lines = limited(f"{topic.topic}: {counted(lag, 'record')}" for topic, lag in late.items())
    return [Finding("lag", Severity.NOTE, AuditPart.LAG, text, way, lag, seen.settings.name, lines)]


def _held(seen: FlowSnapshot, uncopied: UncopiedRecords) -> list[Finding]:
    """A finding for each reason that holds partitions."""
    report, flow = seen.held_report, seen.settings.name
    if report is None:
        return []
    by_reason: dict[HeldReason, list[HeldPartition]] = defaultdict(list)
    for one in report.held_partitions:
        by_reason[one.reason].append(one)
    found = []
    for reason, some in by_reason.items():
        count = max(len(some), dict(report.held_by_reason).get(reason, 0))
        text = f"{counted(count, 'partition')} {'is' if count == 1 else 'are'} held ({reason}): {some[0].text}"
        way = some[0].way_out or "`twinlog status` shows each held partition"
        lines = limited(f"{one.source}: {one.text}{_waiting(one.source, uncopied)}" for one in some)
        cause = some[0].message_id
        found.append(Finding("held", Severity.CRITICAL, AuditPart.LAG, text, way, count, flow, lines, cause))
    return found


def _waiting(part: TopicPartition, uncopied: UncopiedRecords) -> str:
    """The records that wait in a held partition, as the end of its line."""
    waits = uncopied.waiting.get(part, 0)
    return f"; {counted(waits, 'record')} {'waits' if waits == 1 else 'wait'} to be copied" if waits else ""


def settings_found(
    flow: FlowSettings, differences: Sequence[ClusterDifference], hidden: Container[str] = ()
) -> list[Finding]:
    """The differences of topics and settings between source and target.

    The login sees no `hidden` source topic; their copies have a source, and stay out.
    """
    by_kind: dict[str, list[ClusterDifference]] = defaultdict(list)
    for one in differences:
        by_kind[one.kind].append(one)
    syncs = flow.sync_topic_configs_interval_s is not None
    missing = [one for one in by_kind["topic"] if one.right is None]
    extra = [one for one in by_kind["topic"] if one.left is None and one.what.split(" / ")[0] not in hidden]
    found = [
        _difference(
            flow,
            "missing-copy",
            Severity.CRITICAL,
            missing,
            ("mirrored topic lacks its copy", "mirrored topics lack their copies"),
            "see the log of the mirror; a new topic waits for refresh.topics.interval.seconds",
            lambda one: f"{one.what}: {one.left}",
        ),
        _difference(
            flow,
            "setting",
            Severity.WARNING,
            by_kind["partitions"],
            ("copy has another number of partitions", "copies have other numbers of partitions"),
            "add partitions to the side with fewer: producers that move send a key to another partition otherwise",
            lambda one: f"{one.what}: {one.left} on {flow.source}, {one.right} on {flow.target}",
        ),
        _difference(
            flow,
            "setting",
            Severity.WARNING if syncs else Severity.NOTE,
            by_kind["setting"],
            ("setting differs", "settings differ"),
            "MirrorMaker 2 corrects settings every sync.topic.configs.interval.seconds, if the login has ALTER_CONFIGS"
            if syncs
            else "set sync.topic.configs.enabled = true, or keep them so",
            lambda one: f"{one.what}: {one.detail} {one.left} on {flow.source}, {one.right} on {flow.target}",
        ),
        _difference(
            flow,
            "missing-copy",
            Severity.NOTE,
            extra,
            ("copy outlived its source", "copies outlived their sources"),
            f"delete them on {flow.target} if their records are useless by now",
            lambda one: f"{one.what}: {one.right}",
        ),
    ]
    return [one for some in found for one in some]


def _difference(
    flow: FlowSettings,
    kind: Any,
    severity: Severity,
    some: Sequence[ClusterDifference],
    words: tuple[str, str],
    way: str,
    line: Callable[[ClusterDifference], str],
) -> list[Finding]:
    if not some:
        return []
    text = f"{len(some):,} {words[len(some) != 1]}"
    return [Finding(kind, severity, AuditPart.SETTINGS, text, way, len(some), flow.name, limited(map(line, some)))]


def changes_found(plan: FlowPlan, *, by_twinlog: bool = False) -> list[Finding]:
    """The problems of a run of twinlog, and its first changes unless the flow runs `by_twinlog` already.

    A gap of a flow that runs holds its partition now, and is a finding of another part.
    """
    if by_twinlog:
        return [_problem(plan, problem, "an obstacle of the run") for problem in plan.problems if problem.kind != "gap"]
    found = [_problem(plan, problem, "a run of twinlog would stop, or skip a part") for problem in plan.problems]
    remotes = [f"{one.name}: {counted(one.partitions, 'partition')}" for one in plan.create if one.source is not None]
    own = [f"{one.cluster}: {one.name}" for one in plan.create if one.source is None]
    settings = [
        f"{one.cluster}: {one.topic}: {one.name} {one.old or 'default'} -> {one.new or 'default'}"
        for one in plan.settings
    ]
    moving = [one.group for one in plan.groups if one.becomes == "moves"]
    grown = [f"{one.name}: {one.old} -> {one.new} partitions" for one in plan.grow]
    for words, lines in (
        (("remote topic would be created", "remote topics would be created"), remotes),
        (("topic of twinlog's own would be created", "topics of twinlog's own would be created"), own),
        (("remote topic would get partitions", "remote topics would get partitions"), grown),
        (("setting would change", "settings would change"), settings),
        (("ACL would be created", "ACLs would be created"), [str(one) for one in plan.acls]),
        (("group would get offsets on the target", "groups would get offsets on the target"), moving),
    ):
        if lines:
            text = f"{len(lines):,} {words[len(lines) != 1]}"
            found.append(_change(plan, text, len(lines), lines))
    if plan.records:
        size = "" if plan.bytes is None else f", {shown_bytes(plan.bytes)}"
        lines = [f"{one.topic}: {counted(one.records, 'record')}" for one in plan.copy]
        found.append(_change(plan, f"{counted(plan.records, 'record')}{size} would be copied", plan.records, lines))
    if plan.notes:
        found.append(
            _change(plan, f"{counted(len(plan.notes), 'hint')} for the first run", len(plan.notes), plan.notes)
        )
    return found


def changes_scope(found: Sequence[Finding], *, by_twinlog: bool) -> str:
    """The content of the part about changes; a flow that twinlog runs may have obstacles, and has no change ahead."""
    if not by_twinlog:
        return "by the code of `twinlog plan`"
    ahead = "no change is ahead, as twinlog runs the flow"
    return f"{ahead}; {counted(len(found), 'obstacle')} of its run" if found else ahead


def _problem(plan: FlowPlan, problem: Problem, words: str) -> Finding:
    """A problem after some words; the way out of most problems is the last part of their text."""
    text, _, way = problem.text.rpartition("; ")
    if problem.kind == "permission":
        text, way = problem.text, "`twinlog acls FILE --missing` prints the commands that grant it or remove a denial"
    elif not text:
        text, way = problem.text, "mend it before the first run; `twinlog plan` shows it, too"
    text = f"{words} ({problem.kind}): {text}"
    return Finding("problem", Severity.WARNING, AuditPart.CHANGES, text, way, flow=plan.flow, cause=problem.id)


def _change(plan: FlowPlan, text: str, count: int, lines: Iterable[str]) -> Finding:
    way = f"for information; `twinlog plan FILE --flow {plan.flow.replace('->', ':')} --all` has every line"
    return Finding("change", Severity.NOTE, AuditPart.CHANGES, text, way, count, plan.flow, limited(lines))
