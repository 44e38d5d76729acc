"""The hand-over report: the steps with their times, the state of each topic and group, and the next steps of an
operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from twinlog.mirror.topics.journal_keys import StepPhase, SwitchoverState
from twinlog.model.amounts import shown_moment
from twinlog.model.groups import MEMBERLESS
from twinlog.model.topics import listed
from twinlog.ops.switchover.journal import JournalEntries, SwitchoverRun
from twinlog.ops.switchover.lasting_fences import FENCE_STAYS
from twinlog.ops.switchover.model import Data, FenceMethod, MovedTopic, NoteKind, SwitchoverKind
from twinlog.ops.switchover.steps.group_step import REFUSED
from twinlog.ops.switchover.steps.step import notes_of, topics_of
from twinlog.ops.switchover.steps.steps import ORDER, STEPS

_LAST = "open"
"""After this step producers may resume."""


@dataclass(frozen=True, slots=True)
class SwitchoverActions:
    """The names of the actions on a switchover in the next steps of a report.

    `again` continues it, `undo` undoes it by the action `undo_name`, `repeat` begins it a second time after its end,
    and `release` lifts its fence.
    """

    again: str
    undo: str
    undo_name: str
    repeat: str
    release: str


_COMMANDS = SwitchoverActions(
    "run the same command again", "run it with --abort", "--abort", "run the same command again", "--release"
)


def report(entries: JournalEntries, actions: SwitchoverActions = _COMMANDS) -> Data:
    """Everything that is known of the newest switchover of a journal, as values of JSON. Times are UTC.

    The next steps name `actions`, by default those of the command.
    """
    run = entries.run
    if run is None:
        return {}
    checked, proof = entries.done("check") or {}, entries.done("prove") or {}
    fenced, free = entries.at_ms("fence", StepPhase.BEGUN), entries.at_ms(_LAST, StepPhase.DONE)
    groups = (entries.done("groups") or {}).get("groups", {})
    found: Data = {
        "run": None if entries.refusals else run.name,
        "kind": run.options.kind,
        "from": run.ends.source,
        "to": run.ends.target,
        "state": "refused" if entries.refusals else run.state,
        "began": _time(run.began_ms),
        "fence": checked.get("fence"),
        "producers_fenced": _time(fenced),
        "producers_may_go_on": _time(free),
        "seconds_without_producers": None if fenced is None or free is None else (free - fenced) / 1000,
        "steps": [
            {
                "step": name,
                "does": STEPS[name].describe(run.options.kind),
                "began": _time(entries.at_ms(name, StepPhase.BEGUN)),
                "done": _time(entries.at_ms(name, StepPhase.DONE)),
                "seconds": _seconds(entries, name, run.began_ms),
            }
            for name in ORDER[run.options.kind]
        ],
        "notes": _notes(entries),
        "partitions": proof.get("rows", []),
        "proof": _proof_sums(proof.get("rows", [])),
        "groups": {name: _group(one) for name, one in groups.items()},
        "late": (entries.done("watch") or {}).get("late", {}),
        "tail": (entries.done("rejoin") or {}).get("tail", {}),
    }
    found["failed"] = entries.refusals or failed_parts(entries, run, found["groups"], actions)
    found["next"] = [*_next(entries, run, found, actions), *_refused_since(entries, run, actions)]
    return found


def _notes(entries: JournalEntries) -> list[str]:
    """The notes of the check; the last sync of groups supersedes the notes about members of groups."""
    notes = notes_of(entries.done("check") or {})
    synced = entries.done("groups") is not None
    return [note.text for note in notes if not (synced and note.kind is NoteKind.MEMBERS)]


def failed_parts(
    entries: JournalEntries, run: SwitchoverRun, groups: Mapping[str, Data], actions: SwitchoverActions
) -> list[str]:
    """The parts of a finished switchover that failed, a line for each reason, with the way out.

    These are refused commits, groups whose offsets on the source were unreadable, topics that the target refused, the
    failed fence of a source that answers, and topics of the flow that a repeated command found unmoved; after a
    release, the denials that stay.
    """
    if run.state is not SwitchoverState.DONE:
        return []
    source, target = run.ends.source, run.ends.target
    again = f"{actions.repeat}: it commits these offsets"
    if entries.done("release") is not None:
        again = f"set these offsets on {target} by hand"
    refused: dict[str, list[str]] = {}
    unread: dict[str, list[str]] = {}
    for name, group in groups.items():
        if group["trouble"]:
            unread.setdefault(group["trouble"], []).append(name)
        for one in group["offsets"]:
            if one.get("refused"):
                place = f"group {name} in {one['to_topic']}-{one['partition']} at {one['to_offset']}"
                refused.setdefault(one["refused"], []).append(place)
    lines = []
    left = _left_fence(entries)
    if left.get("answers") and entries.done("release") is None:
        lines.append(
            f"producers on {source} are unfenced, though {source} answers: keep them away ({left['left']}); then "
            f"{actions.repeat}: it fences them"
        )
    lines += [
        f"{target} refused the commit of {listed(places)}: {why}; then {again}" for why, places in refused.items()
    ]
    lines += [f"the offsets of {listed(names)} on {source} were unreadable: {why}" for why, names in unread.items()]
    lines += [
        f"{topic} was not moved, as the check did not see it: its producers write to {source} unfenced; run twinlog "
        f"switchover with --wave {topic} on a copy of the file that has topics = {topic}"
        for topic in (entries.done("groups") or {}).get("unmoved", ())
    ]
    lines += (f"{FENCE_STAYS}: {line}" for line in (entries.done("release") or {}).get("stays", ()))
    created = (entries.done("topics") or {}).get("refused", {})
    return [*lines, *(f"create topic {name} on {target}: {why}" for name, why in created.items())]


def _left_fence(entries: JournalEntries) -> Data:
    """The entry of a fence that an emergency left out; empty if it left out none."""
    found = [one for one in (entries.done("fence"), entries.begun("fence")) if one and "left" in one]
    return found[0] if found else {}


POSITIONS = (
    "By its stored positions the flow has copied every source offset of these ranges. The switchover read "
    "positions only, so the ranges lack digests."
)

BY_PROOF = (
    "By its stored positions the flow has copied every source offset of these ranges. While the flow ran, its proof of "
    "equality compared the records of each range in 'proven' with the answers of the source, and with the log of the "
    "target. 'chain' is a SHA-256 chain over the batches of the target range, which begins with 'chain_before': "
    "twinlog verify --against reads these batches again, and computes the chain. Only the records in 'proven' were "
    "compared; 'unproved' and 'differences' count since the last start of their copier."
)


def proved_flows(entries: JournalEntries) -> list[Data]:
    """The proof of the newest switchover of a journal, as a statement has it: the flow with its moved ranges of
    offsets; empty before the proof."""
    run, proof = entries.run, entries.done("prove")
    if run is None or proof is None:
        return []
    scope = (entries.done("check") or {}).get("scope", {})
    lost = run.options.kind is SwitchoverKind.EMERGENCY
    return [
        {
            "flow": str(run.ends),
            "source": {"alias": run.ends.source, "cluster_id": scope.get("from")},
            "target": {"alias": run.ends.target, "cluster_id": scope.get("to")},
            "result": "source lost" if lost else "moved",
            "meaning": BY_PROOF if any(_proof_of(row)["ranges"] for row in proof["rows"]) else POSITIONS,
            "proved": _time(entries.at_ms("prove", StepPhase.DONE)),
            "partitions": [_moved_range(row, lost=lost) for row in proof["rows"]],
        }
    ]


_UNPROVEN: Data = {"ranges": [], "unproved": 0, "differences": 0}


def _proof_of(row: Data) -> Data:
    """The proof of a row; rows of earlier versions lack it."""
    return row.get("proof") or _UNPROVEN


def _proof_sums(rows: Sequence[Data]) -> Data | None:
    """The sums of the proof over all partitions; None if all partitions lack a proof."""
    proofs = [_proof_of(row) for row in rows if row.get("proof")]
    if not proofs:
        return None
    ranges = [one for proof in proofs for one in proof["ranges"]]
    return {
        "partitions": len(proofs),
        "records": sum(one["records"] for one in ranges),
        "bytes": sum(one["bytes"] for one in ranges),
        "unproved": sum(proof["unproved"] for proof in proofs),
        "differences": sum(proof["differences"] for proof in proofs),
    }


def _moved_range(row: Data, *, lost: bool) -> Data:
    # Records after the copied position of a lost source were never copied.
    start, end = row.get("start"), row["copied"] if lost else row["end"]
    proof = _proof_of(row)
    return {
        "topic": row["topic"],
        "remote_topic": row["to_topic"],
        "partition": row["partition"],
        "source_start": start,
        "source_end": end,
        "target_end": row["to_end"],
        "offsets": None if start is None else max(0, end - start),
        "digest": None,
        "proven": proof["ranges"],
        "unproved": proof["unproved"],
        "differences": proof["differences"],
    }


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _seconds(entries: JournalEntries, step: str, began_ms: int) -> float | None:
    """The seconds of a step; a switchover that lost its source keeps the fence of the switchover before it."""
    begun, done = (entries.at_ms(step, phase) for phase in StepPhase)
    return None if begun is None or done is None else (done - max(begun, began_ms)) / 1000


def _group(one: Data) -> Data:
    offsets = one["offsets"]
    known = not one["trouble"]
    return {
        **one,
        "skipped": _sum(offset.get("skips") for offset in offsets) if known else None,
        "repeated": _sum(offset.get("repeats") for offset in offsets) if known else None,
        "repeated_exact": all(_repeats_exactly(offset) for offset in offsets),
        "members_on_source": one["state"] not in MEMBERLESS,
    }


def _repeats_exactly(offset: Data) -> bool:
    """Whether the repeats of an offset are no maximum; offsets of earlier versions only have an exact place or not."""
    return not offset.get("repeats") or bool(offset.get("repeats_exact", offset.get("exact", True)))


def _has_failed(one: Data) -> bool:
    """Whether a line about failed parts names the group."""
    return bool(one["trouble"]) or any(offset["result"] == REFUSED for offset in one["offsets"])


def _sum(counts: Iterable[int | None]) -> int | None:
    found = list(counts)
    return None if None in found else sum(count or 0 for count in found)


def _next(entries: JournalEntries, run: SwitchoverRun, found: Data, actions: SwitchoverActions) -> list[str]:
    source, target = run.ends.source, run.ends.target
    if entries.refusals:
        return [*entries.refusals, f"nothing was changed: mend that, and {actions.repeat}"]
    if run.state is SwitchoverState.ABORTING:
        return [f"{actions.undo}: that undoes the rest, until then producers to {source} may be fenced"]
    if run.state is SwitchoverState.ABORTED:
        lines = [f"producers may write to {source}; nothing has moved"]
        created = (entries.done("topics") or {}).get("created", [])
        if created:
            lines.append(f"topics that were created on {target} for producers stay there, empty: {listed(created)}")
        if found["fence"] == FenceMethod.QUOTA:
            lines.append("restart producers that were throttled: they wait for the throttle time of their broker")
        return lines
    if run.state is SwitchoverState.RETURNED:
        return [f"producers moved {target}->{source} since, which ended this switchover; that move has the next steps"]
    if run.state is SwitchoverState.RUNNING and entries.done("open") is not None:
        lines = _for_clients(entries, run)
        return [*lines, f"{actions.again}: it looks whether anybody still writes to {source}"]
    if run.state is SwitchoverState.RUNNING:
        return [f"{actions.again}: it goes on there; {actions.undo_name} undoes it"]
    lines = _for_clients(entries, run)
    active = [name for name, one in found["groups"].items() if one["members_on_source"]]
    if active and entries.done("release") is None:
        lines.append(
            f"groups with members on {source}: {listed(active)}. Let them read to the end, stop them, and "
            f"{actions.repeat}: it brings their offsets to {target}"
        )
    lines += found["failed"]
    open_ones = [name for name, one in found["groups"].items() if one["skipped"] != 0 and not _has_failed(one)]
    if open_ones:
        lines.append(f"look at the offsets of {listed(open_ones)} on {target} by hand, see the table of groups")
    kept = {topic.name for topic in topics_of(entries.done("check") or {"topics": []}) if topic.keeps_name}
    for topic, partitions in found["late"].items():
        twice = f"; a way back brings them to {source} a second time" if topic in kept else ""
        lines.append(
            f"find who writes to {topic} on {source} past the fence: records after the cut ({_spans(partitions)}) are "
            f"copied as well, but stand after what producers had written to {target} by then{twice}"
        )
    if (entries.done("watch") or {}).get("lost"):
        lines.append(
            f"{source} was lost before it had stood still for long enough: uncopied records that arrived past the "
            "fence are only there"
        )
    for topic, partitions in found["tail"].items():
        lines.append(
            f"{topic} on {target} has records that were never copied to {source} ({_spans(partitions)}); no group "
            "reads them by itself"
        )
    short = (entries.done("prove") or {}).get("short", [])
    if short:
        lines.append(
            f"{target} lost records that were copied, at the end of {listed(short)}: they are on {source} alone. "
            "Groups that stood after that end continue by auto.offset.reset unless they are reset by hand"
        )
    uncopied = (entries.done("prove") or {}).get("uncopied")
    if uncopied:
        spans = listed([f"{where}: {first} to {end - 1}" for where, (first, end) in uncopied.items()])
        then = (
            "they stay there, before the records of a way back, and groups pass over them"
            if kept
            else f"run flow {source}->{target} again, which copies them after the earlier copies"
        )
        lines.append(f"records without a copy are on {source} alone ({spans}): {then}")
    different = [row for row in found["partitions"] if _proof_of(row)["differences"]]
    if different:
        names = listed([f"{row['to_topic']}-{row['partition']}" for row in different])
        lines.append(
            f"look at {names} on {target}: the proof of equality reported differences there, the last of "
            f"{different[0]['topic']}-{different[0]['partition']} is {different[0]['proof']['difference']}"
        )
    left = _left_fence(entries)
    if left:
        # Of a source that answers, this is a failed part.
        if not left.get("answers") or entries.done("release") is not None:
            lines.append(
                f"producers on {source} stay unfenced: keep them away when it is back, and {actions.repeat} then: it "
                f"fences them ({left['left']})"
            )
    elif found["fence"] != FenceMethod.NONE and entries.done("release") is None:
        if found["fence"] == FenceMethod.QUOTA:
            lines.append(
                f"stop what still produces to {source}: brokers append the next request of each throttled producer"
            )
        lines.append(f"producers stay fenced on {source}, until a way back, or {actions.release}")
        if any(topic.keeps_name for topic in topics_of(entries.done("check") or {"topics": []})):
            lines[-1] += f"; {actions.release} comes before flow {target}->{source} runs without a way back"
    elif found["fence"] != FenceMethod.NONE and not (entries.done("release") or {}).get("stays"):
        lines.append(f"keep producers away from {source}: the fence there is lifted")
    return lines


def _refused_since(entries: JournalEntries, run: SwitchoverRun, actions: SwitchoverActions) -> list[str]:
    """The refusal of the last try to begin a later switchover, in a line."""
    refused = entries.refused_since
    if refused is None:
        return []
    why, at = "; ".join(refused.data["problems"]), shown_moment(refused.at_ms)
    begun = f"the last try to switch over {run.ends} ({at}) was refused, and changed nothing"
    return [f"{begun}: {why}; mend that, and {actions.repeat}"]


def _spans(partitions: Data) -> str:
    return ", ".join(f"partition {number}: {first} to {end - 1}" for number, (first, end) in partitions.items())


def _for_clients(entries: JournalEntries, run: SwitchoverRun) -> list[str]:
    source, target = run.ends.source, run.ends.target
    topics = topics_of(entries.done("check") or {"topics": []})
    lines = [f"point producers to {target}"]
    renamed = [topic for topic in topics if topic.producers and not topic.keeps_name]
    if renamed:
        lines[0] += f": they write to {listed([topic.producers for topic in renamed])}, not to the copies"
        lines.append(
            f"start consumers on {target} with both, the copies and what is new, by the pattern of each topic: "
            f"{listed(map(consumer_pattern, renamed))}"
        )
    else:
        lines.append(f"start consumers on {target}; their groups continue at their positions")
    if any(topic.keeps_name for topic in topics):
        lines.append(
            f"stop flow {source}->{target} for good before {target}->{source} runs: both would copy the same records "
            "round and round. The flow back begins after the copies"
        )
    return lines


def consumer_pattern(topic: MovedTopic) -> str:
    """A regular expression for a topic of producers and its copy."""
    name, remote = (text.replace(".", r"\.") for text in (topic.producers, topic.remote))
    prefix = remote.removesuffix(name)
    return f"^({name}|{remote})$" if prefix == remote else f"^({prefix})?{name}$"
