"""`twinlog groups`: the offsets of consumer groups on both clusters of a flow, and the groups that may move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinlog.clock import SYSTEM
from twinlog.console.command_log import ends_if_wrong, log_warnings, print_error, print_note, waits_reported
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import FOUND, UNREACHABLE, WRONG, code_of, end_with, failure_text
from twinlog.console.options import (
    AnyFlow,
    ClusterLogins,
    ConnectorFiles,
    FileOrWorker,
    Groups,
    Output,
    Secrets,
    WorkerUrl,
    chosen,
)
from twinlog.console.table import table
from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.errors.message_ids import id_first
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.mirror.groups.safe_move import true_offset
from twinlog.model.amounts import counted
from twinlog.model.groups import GROUPS_TOPIC
from twinlog.model.topics import listed
from twinlog.ops.groups.followers import followers
from twinlog.ops.running_worker import read_flows_asked

if TYPE_CHECKING:
    from twinlog.mirror.unlisted_topics import HiddenOffsets
    from twinlog.ops.groups.reader import GroupsReader
    from twinlog.ops.groups.snapshot import GroupPartitionStatus, GroupsSnapshot, GroupStatus

WAIT_S = 300.0
"""How long --wait waits."""

LOOK_S = 1.0
_HEAD = ("GROUP", "TOPIC", "PARTITION", "SOURCE", "LAG", "TRANSLATED", "TARGET", "LAG", "SAFE TO MOVE")
_NUMBERS = range(2, 8)
NOTHING = "its offsets on the source are gone"


def groups(
    file: FileOrWorker = None,
    connectors: ConnectorFiles = None,
    url: WorkerUrl = None,
    logins: ClusterLogins = None,
    group: Groups = None,
    flow: AnyFlow = None,
    repeats: Annotated[
        int,
        typer.Option(metavar="RECORDS", min=0, help="Accept that a group repeats so many records of a partition."),
    ] = 0,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all groups may move.")] = False,
    output: Output = DataFormat.TABLE,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help=f"How long to wait for a silent cluster, or with --wait for all groups, in seconds. Default: "
            f"{LOOK_CONNECT_S:g}, with --wait {WAIT_S:g}.",
            show_default=False,
        ),
    ] = None,
    secrets: Secrets = None,
) -> None:
    """Show the offsets of consumer groups on both clusters, and which may move to the target now. Changes nothing.

    A group that may move skips no record on the target and repeats none. By default these are the groups that the flow
    follows and that have committed in a mirrored topic.

    With --wait it asks again every second, prints the reasons on stderr, and gives up after --timeout.

    Exit codes: 0 all groups may move or have moved; 1 a group has to wait, a group is nowhere, or the list is empty; 2;
    3; 4.

    Example: twinlog groups mm2.properties --flow east:west

    Example: twinlog groups mm2.properties --group shop --group billing --wait --timeout 60

    Example: twinlog groups --url http://connect-1:8083 --group shop
    """
    with ends_if_wrong(WRONG):
        flows = read_flows_asked(file, connectors or [], secrets, url, logins).flows
    log_warnings()

    from twinlog.ops.groups.reader import GroupsReader  # noqa: PLC0415 - Kafka is slow to import, --help must not wait

    try:
        known = followers(flows)
    except TwinlogError as error:
        raise typer.BadParameter(str(error), param_hint="FILE") from None
    named = chosen(flows, flow, fits=lambda one: one.kind in (None, "checkpoint"), doing="that follows groups")
    wanted = [one for one in known if one.settings in named]
    wait_s = WAIT_S if timeout is None else timeout
    connect_s = LOOK_CONNECT_S if timeout is None else timeout
    if wait:
        connect_s = min(connect_s, LOOK_CONNECT_S)
    with ExitStack() as stack:
        try:
            readers = [
                stack.enter_context(GroupsReader(one.settings, one.copied_by, one.reverse, connect_s=connect_s))
                for one in wanted
            ]
            with waits_reported(readers):
                seen, failed = read_flows(readers, group or [], repeats, wait_s if wait else None)
        except TwinlogError as error:
            end_with(error)
    print_result(
        output,
        lambda: {"safe": _all_done(seen) and not failed, "flows": [flow_json(one) for one in seen]},
        lambda: ["\n\n".join("\n".join(lines(one)) for one in seen)],
    )
    for trouble in failed:
        print_error(failure_text(trouble))
    if failed:
        raise typer.Exit(max(map(code_of, failed)))
    if not _all_done(seen):
        raise typer.Exit(
            UNREACHABLE if any(one.source_trouble or one.unlisted or one.hidden for one in seen) else FOUND
        )


def read_flows(
    readers: Sequence[GroupsReader], wanted: Sequence[str], repeats: int, timeout_s: float | None = None
) -> tuple[list[GroupsSnapshot], list[ClusterError]]:
    """Return the snapshots of the readers, and the errors of further readers: the loss of a cluster leaves the flow to
    the other cluster readable.

    With `timeout_s` wait until all groups may move, or that time is over; then each reader has to answer. Raises
    ClusterError if no reader has a snapshot.
    """
    if timeout_s is not None:
        return wait_until_done(lambda: [reader.read(wanted, most_repeats=repeats) for reader in readers], timeout_s), []
    seen: list[GroupsSnapshot] = []
    failed: list[ClusterError] = []
    for reader in readers:
        try:
            seen.append(reader.read(wanted, most_repeats=repeats))
        except ClusterError as error:
            failed.append(error)
    if not seen:
        raise failed[0]
    return seen, failed


def wait_until_done(
    look: Callable[[], list[GroupsSnapshot]],
    timeout_s: float,
    now: Callable[[], float] = SYSTEM.monotonic,
    sleep: Callable[[float], None] = SYSTEM.sleep,
) -> list[GroupsSnapshot]:
    """Look again and again until all groups may move, for `timeout_s` seconds at most; print the obstacles on stderr.

    Raises ClusterError when the last look failed, and RefusedError at once.
    """
    begun, printed = now(), ""
    while True:
        trouble: ClusterError | None = None
        seen: list[GroupsSnapshot] = []
        try:
            seen = look()
            if _all_done(seen):
                return seen
            text = "; ".join(line for one in seen if (line := missing(one)))
        except RefusedError:
            raise
        except ClusterError as error:
            trouble, text = error, str(error)
        passed = now() - begun
        if text != printed:
            print_note(f"{passed:.0f} s of {timeout_s:.0f} s: {text}")
            printed = text
        if passed >= timeout_s:
            if trouble is not None:
                raise trouble
            return seen
        sleep(min(LOOK_S, max(0.0, timeout_s - passed)))


def _all_done(seen: Sequence[GroupsSnapshot]) -> bool:
    every = [group for one in seen for group in one.groups]
    return bool(every) and all(group.done for group in every) and not any(one.unlisted or one.hidden for one in seen)


def missing(seen: GroupsSnapshot) -> str:
    """The obstacle of a flow's groups, in a line."""
    late = [group for group in seen.groups if not group.done]
    if not late and seen.unlisted:
        return f"{seen.flow}: {_unlisted(seen)}"
    if not late and seen.hidden is not None:
        return id_first(f"{seen.flow}: {hidden_offsets(seen.hidden)}")
    if not late:
        return "" if seen.groups else f"{seen.flow}: no group to move"
    first = late[0]
    why = first.reasons[0].text if first.reasons else NOTHING
    verb = "has" if len(late) == 1 else "have"
    waiting = f"{len(late)} of {counted(len(seen.groups), 'group')} {verb} to wait"
    return f"{seen.flow}: {waiting}, {first.group}: {why}"


def lines(seen: GroupsSnapshot) -> list[str]:
    """A table of the groups of a flow, and a line that sums it up."""
    rows: list[Sequence[str]] = [_HEAD]
    for group in seen.groups:
        rows += [_row(group, part) for part in group.partitions] or [(group.group, *"???????", f"no: {NOTHING}")]
    head = [seen.flow] if len(rows) > 1 else []
    shown = table(rows, _NUMBERS) if len(rows) > 1 else []
    return [*head, *shown, *_notes(seen), summary(seen)]


def _notes(seen: GroupsSnapshot) -> list[str]:
    notes = []
    if seen.source_trouble is not None:
        notes.append(id_first(f"the source is silent, these are the facts of the target: {seen.source_trouble}"))
    if seen.unlisted:
        notes.append(f"TW-GROUP-10: {_unlisted(seen)}, and groups that lack a checkpoint are left out")
    if seen.hidden is not None:
        notes.append(hidden_offsets(seen.hidden))
    for command, groups in seen.moved_back.items():
        notes.append(
            f"TW-GROUP-11: a later switchover moved {listed(groups)} back to the source, and the target lacks the end "
            f"of the move before: run {command} again to end it"
        )
    if seen.left_out:
        names = ", ".join(seen.left_out[:5]) + (" ..." if len(seen.left_out) > 5 else "")
        notes.append(f"left out, see them with --group: {names}")
    return notes


def hidden_offsets(hidden: HiddenOffsets) -> str:
    """The topics whose offsets the source hides, and the missing right."""
    return (
        f"TW-RIGHT-02: the source hides the offsets of groups in topic {listed(hidden.topics)}, and groups that lack a "
        f"checkpoint there are left out: {hidden.right}"
    )


def _unlisted(seen: GroupsSnapshot) -> str:
    return f"partitions of {GROUPS_TOPIC} that lack a leader: {seen.unlisted}; the source leaves out their groups"


def summary(seen: GroupsSnapshot) -> str:
    """How many groups may move, and the obstacles of the remaining groups."""
    if not seen.groups:
        return f"{seen.flow}: all groups that it follows lack offsets in the topics that it mirrors"
    safe, moved = sum(group.safe for group in seen.groups), sum(group.moved for group in seen.groups)
    text = f"{seen.flow}: {safe} of {counted(len(seen.groups), 'group')} may move now"
    if moved:
        text += f", {moved} {'have' if moved > 1 else 'has'} moved"
    late = [group for group in seen.groups if not group.done]
    if late:
        kinds = sorted({reason.obstacle.value for group in late for reason in group.reasons}) or [NOTHING]
        text += f"; {len(late)} may not: {', '.join(kinds)}"
        acts = [
            group.group for group in late if not group.partitions or any(not reason.heals for reason in group.reasons)
        ]
        text += f"; an operator has to act for {', '.join(acts[:5])}" if acts else "; that passes with time"
    return text


def _row(group: GroupStatus, part: GroupPartitionStatus) -> tuple[str, ...]:
    facts, verdict = part.facts, part.verdict
    if verdict.moved:
        answer = f"has moved ({group.target_state} on the target)"
    else:
        answer = "yes" if verdict.safe else "no: " + "; ".join(reason.text for reason in verdict.reasons)
    place, exact = true_offset(facts)
    return (
        group.group,
        facts.source.topic,
        str(facts.source.partition),
        _number(facts.committed),
        _number(facts.source_lag),
        f"{'' if exact or place is None else '~'}{_number(place)}",
        _number(facts.target_committed),
        _number(facts.target_lag),
        answer,
    )


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


def flow_json(seen: GroupsSnapshot) -> dict[str, Any]:
    """A flow's groups as JSON."""
    return {
        "flow": seen.flow,
        "at_ms": seen.at_ms,
        "source_trouble": seen.source_trouble,
        "unlisted_partitions": seen.unlisted,
        "hidden_topics": [] if seen.hidden is None else list(seen.hidden.topics),
        "missing_right": None if seen.hidden is None else seen.hidden.right,
        "not_followed": list(seen.left_out),
        "moved_back": [{"groups": groups, "command": command} for command, groups in seen.moved_back.items()],
        "groups": [_group_json(group) for group in seen.groups],
    }


def _group_json(group: GroupStatus) -> dict[str, Any]:
    return {
        "group": group.group,
        "safe": group.safe,
        "moved": group.moved,
        "source_state": group.source_state,
        "target_state": group.target_state,
        "partitions": [_partition_json(part) for part in group.partitions],
    }


def _partition_json(part: GroupPartitionStatus) -> dict[str, Any]:
    facts, verdict = part.facts, part.verdict
    place, exact = true_offset(facts)
    return {
        "topic": facts.source.topic,
        "partition": facts.source.partition,
        "remote_topic": None if facts.remote is None else facts.remote.topic,
        "source_offset": facts.committed,
        "source_end": facts.source_end,
        "source_lag": facts.source_lag,
        "copied_up_to": facts.copied,
        "translated": place,
        "exact": exact,
        "checkpoint": {
            "source_offset": facts.checkpoint_source,
            "target_offset": facts.checkpoint_target,
            "written_ms": part.checkpoint_ms,
        },
        "target_offset": facts.target_committed,
        "target_end": facts.target_end,
        "target_lag": facts.target_lag,
        "safe": verdict.safe,
        "moved": verdict.moved,
        "repeats": verdict.repeats,
        "repeats_exact": verdict.repeats_exact,
        "skips": verdict.skips,
        "reasons": [
            {"reason": reason.obstacle.value, "text": reason.text, "heals": reason.heals} for reason in verdict.reasons
        ],
    }
