"""The pre-flight of a switchover: its obstacles and notes, derived from facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from twinlog.model.acls import AclOperation
from twinlog.model.amounts import counted
from twinlog.model.topics import listed
from twinlog.model.types import Alias
from twinlog.ops.proven_ranges import lag_s
from twinlog.ops.switchover.model import (
    FenceMethod,
    NoteKind,
    Preflight,
    PreflightNote,
    SwitchoverKind,
    as_notes,
)
from twinlog.ops.switchover.preflight_facts import PreflightFacts
from twinlog.ops.switchover.steps.waiting import PROOF_NEAR_S, lag
from twinlog.ops.switchover.stopped_partitions import MOST_NAMED


def judge_preflight(facts: PreflightFacts, wanted: FenceMethod | None) -> Preflight:
    """Return the verdict for a switchover whose fence is `wanted`, None to choose a fence."""
    fence = wanted or (FenceMethod.QUOTA if facts.authorizer is False else FenceMethod.ACL)
    problems: list[str] = []
    notes: list[str | PreflightNote] = list(facts.unread)
    if not facts.topics:
        problems.append(f"flow {facts.source}->{facts.target} mirrors no topic that exists on {facts.source}")
    problems += facts.journal_rights
    if facts.kind is SwitchoverKind.EMERGENCY:
        if facts.source_error is None:
            notes.append(
                f"cluster {facts.source} still answers: an emergency switchover may lose records, which a planned "
                "switchover keeps"
            )
        else:
            silent = f"cluster {facts.source} is silent, and producers there stay unfenced"
            notes.append(PreflightNote(silent, NoteKind.SILENT))
        notes += facts.stopped.losses(facts.source, {topic.name for topic in facts.topics})
        notes += _hidden_topics(facts)
        return Preflight(facts.topics, fence, tuple(problems), as_notes(notes))
    problems += _hidden_topics(facts)
    problems += _of_fence(facts, fence)
    if fence is not FenceMethod.NONE or facts.closes_earlier:
        problems += facts.fence_note_rights
    if facts.kind is SwitchoverKind.BACK and not facts.earlier:
        swapped = f"; {facts.source}->{facts.target} is done: give --from {facts.target} --to {facts.source}"
        problems.append(
            f"no switchover {facts.target}->{facts.source} is recorded as done, so there is no way back"
            f"{swapped if facts.done else ''}"
        )
    if facts.under_way:
        problems.append(
            f"a switchover {facts.target}->{facts.source} has begun and is still incomplete; complete it, or undo it "
            "with --abort"
        )
    missing = [
        topic.remote
        for topic in facts.topics
        if topic.remote not in facts.target_topics or facts.target_topics[topic.remote].partitions < topic.partitions
    ]
    ends = {where: end.end for where, end in facts.ends.items()}
    left = lag(ends, facts.starts, facts.copied)
    stopped = facts.stopped
    if facts.kind is SwitchoverKind.BACK:
        # The fence of the switchover before refuses the writes of the flow back until step `rejoin` lifts it.
        held = tuple(one for one in stopped.held if one.reason != "missing right")
        stopped = replace(stopped, held=held, more_held=0)
    problems += stopped.obstacles(ends, facts.starts, facts.copied)
    if facts.kind is SwitchoverKind.PLANNED:
        if missing:
            problems.append(
                f"{listed(missing)}: missing on {facts.target}, or with fewer partitions; the flow makes them"
            )
        uncopied = {where.topic for where in left if where not in facts.copied and where.topic not in missing}
        if uncopied:
            problems.append(
                f"{listed(uncopied)}: nothing is copied yet, by the positions on {facts.target}; MirrorMaker 2 stores "
                "these at offset.flush.interval.ms, once a minute by default"
            )
    mismatches = list(facts.processes.mismatches(facts.staying, runs=facts.runs))
    problems += mismatches
    if _is_stopped(facts) and not _starts_later(facts) and not mismatches:
        problems.append(
            f"{_no_process(facts)}, and its positions stayed the same during the check: start the flow, and keep it "
            "running until the end"
        )
    problems += [f"TW-SWITCH-20: {line}" for line in facts.refused_commits]
    expected = sum(topic.partitions for topic in facts.topics)
    if len(facts.ends) < expected:
        leaderless = expected - len(facts.ends)
        problems.append(
            f"{counted(leaderless, 'partition')} of {facts.source} {'has' if leaderless == 1 else 'have'} no leader"
        )
    notes += _notes(facts, fence)
    notes += _notes_of_proof(facts)
    return Preflight(
        facts.topics,
        fence,
        tuple(problems),
        as_notes(notes),
        sum(left.values()),
        facts.rate,
        proven=tuple(sorted({where.topic for where, one in facts.proofs.items() if one.proves})),
        proof_lag_s=lag_s(facts.proofs),
        foreseen=facts.foreseen,
    )


def _hidden_topics(facts: PreflightFacts) -> list[str]:
    if not facts.hidden:
        return []
    lacks = f"the login lacks DESCRIBE on {facts.source}"
    left = (
        "the topic would be left behind; `twinlog acls FILE --missing` prints the command that grants it; or leave the "
        "topic out of the flow"
    )
    return [f"{listed(facts.hidden)}: {lacks}, so {left}"]


def _is_stopped(facts: PreflightFacts) -> bool:
    """Whether the flow is stopped: its group is empty, and its positions stayed the same during the check."""
    return facts.runs is False and facts.rate is None


def _starts_later(facts: PreflightFacts) -> bool:
    """Whether step `rejoin` comes before the start of the flow: the flow back writes to topics of the same names."""
    return facts.kind is SwitchoverKind.BACK and any(topic.keeps_name for topic in facts.topics)


def _no_process(facts: PreflightFacts) -> str:
    return f"no process of flow {facts.source}->{facts.target} is in its group"


def _notes_of_proof(facts: PreflightFacts) -> list[str]:
    """The state of the proof of equality, as far as an operator should know it."""
    proofs = facts.proofs
    proven = {where.topic for where, one in proofs.items() if one.proves}
    held = {one.source for one in facts.stopped.held}
    found = [
        f"{where} has {counted(one.differences, 'difference')}, reported as its policy says; the last is "
        f"{one.difference}"
        for where, one in sorted(proofs.items())
        if one.differences and where not in held
    ]
    missing = [topic for topic in facts.asks_proof if topic not in proven]
    if missing:
        found.append(
            f"{listed(missing)}: twinlog.proof is true, and no process proves the copies; the switchover counts "
            "positions there"
        )
    if lag_s(proofs) > PROOF_NEAR_S:
        found.append(f"the proof of equality is {lag_s(proofs):.0f} s behind; producers are fenced once it is near")
    return found


def _of_fence(facts: PreflightFacts, fence: FenceMethod) -> list[str]:
    needed = {FenceMethod.ACL: AclOperation.ALTER, FenceMethod.QUOTA: AclOperation.ALTER_CONFIGS}.get(fence)
    found = []
    other = FenceMethod.QUOTA if facts.quotas else FenceMethod.NONE
    if fence is FenceMethod.ACL and facts.authorizer is False:
        found.append(f"cluster {facts.source} lacks an authorizer that would apply ACLs; use --fence {other}")
    if fence is FenceMethod.QUOTA and not facts.quotas:
        found.append(
            f"cluster {facts.source} takes no quotas over its protocol, as no Kafka before 2.6 does; use "
            f"{'' if facts.authorizer is False else '--fence acl, or '}--fence none, and stop its producers when the "
            "switchover waits for that"
        )
    allowed = facts.operations is None or AclOperation.ALL in facts.operations or needed in facts.operations
    if needed is not None and not allowed:
        found.append(
            f"this login lacks {needed.name} on cluster {facts.source}, needed for --fence {fence}; every missing "
            "right: twinlog acls FILE --for switchover --missing"
        )
    return found


def _notes(facts: PreflightFacts, fence: FenceMethod) -> list[str | PreflightNote]:
    found: list[str | PreflightNote] = []
    if facts.way_back is not None:
        found.append(
            f"switchover {facts.target}->{facts.source} is done, and its way back is `twinlog switchback FILE "
            f"{facts.way_back.as_options}`: this command begins a "
            "switchover of its own"
        )
    if fence is FenceMethod.ACL:
        found.append(f"super users of {facts.source} pass ACLs: stop those that write")
    if fence is FenceMethod.ACL and facts.fenced_too:
        found.append(f"fenced as well, for their names begin with that of a mirrored topic: {listed(facts.fenced_too)}")
    if fence is FenceMethod.QUOTA:
        found.append(
            f"a quota throttles every producer of {facts.source}, also producers of other topics, and a throttled "
            "producer stays silent after an undo until it is restarted"
        )
    if fence is FenceMethod.NONE:
        found.append(f"producers stay unfenced: stop all that write to {facts.source} when the switchover waits for it")
    if facts.runs is False and (_starts_later(facts) or not _is_stopped(facts)):
        found.append(f"{_no_process(facts)}: it must run until the end")
    if facts.runs is None:
        found.append(f"the processes of flow {facts.source}->{facts.target} are unknown: it must run until the end")
    if not facts.stopped.reported:
        found.append(
            f"held partitions of flow {facts.source}->{facts.target} are unknown, as it lacks a report: MirrorMaker 2 "
            "writes none"
        )
    found += [str(one) for one in facts.stopped.passed[:MOST_NAMED]]
    if facts.staying:
        found.append(f"not mirrored, so their producers are left alone: {listed(facts.staying)}")
    fewer = [
        topic.producers
        for topic in facts.topics
        if topic.producers in facts.target_topics and facts.target_topics[topic.producers].partitions < topic.partitions
    ]
    if fewer:
        found.append(f"{listed(fewer)}: fewer partitions on {facts.target}, where producers will write, than now")
    found += [
        f"{principal} may write on {facts.source}, and lacks WRITE on {facts.target} for {listed(topics)}: grant it, "
        "unless it is a super user there"
        for principal, topics in sorted(facts.refused.items())
    ]
    copies = [topic.name for topic in facts.topics if not topic.producers]
    if copies:
        found.append(f"{listed(copies)}: written by other flows, which are fenced, too")
    if facts.members:
        found.append(_members(facts.source, facts.members, "they may read on until they stop"))
    if facts.on_target:
        found.append(_members(facts.target, facts.on_target, "their offsets there stay"))
    if facts.transactions:
        found.append(f"open now: {listed(facts.transactions)}; they are waited for")
    if any(topic.keeps_name for topic in facts.topics):
        found.append(
            f"topics keep their names: stop flow {facts.source}->{facts.target} after the switchover, before "
            f"{facts.target}->{facts.source} runs"
        )
    return found


def _members(cluster: Alias, groups: Iterable[str], then: str) -> PreflightNote:
    return PreflightNote(f"groups with members on {cluster}: {listed(groups)}; {then}", NoteKind.MEMBERS)
