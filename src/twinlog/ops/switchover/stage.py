"""The stage of a switchover by its journal: whether it has ended or changed a cluster, and the commands that are
possible there, in words.
"""

from __future__ import annotations

from contextlib import suppress

from twinlog.errors import RefusedError
from twinlog.mirror.topics.journal_keys import SwitchoverState
from twinlog.ops.switchover.journal import JournalEntries, TopicJournal, ended_by
from twinlog.ops.switchover.model import SwitchoverKind
from twinlog.ops.switchover.repeat import only_repeats_groups
from twinlog.ops.switchover.steps.step import SwitchoverClusters
from twinlog.ops.switchover.steps.steps import ORDER

ENDED = frozenset({SwitchoverState.DONE, SwitchoverState.ABORTED, SwitchoverState.RETURNED})


def unchanged(entries: JournalEntries) -> bool:
    """Whether the newest switchover of a journal has ended, or has begun no step that changes a cluster."""
    ended = entries.run is None or entries.run.state in ENDED
    return ended or {step for step, _ in entries.steps} <= {"check"}


def stage(entries: JournalEntries) -> str:
    """The stage of the newest switchover of a journal, in a line."""
    run = entries.run
    if run is None:
        return "no switchover has begun"
    if entries.refusals:
        return f"the last switchover {run.ends} was refused before its begin; nothing is under way"
    if run.state in ENDED:
        return f"the last switchover {run.ends} is {run.state}; nothing is under way"
    step = entries.last_begun(ORDER[run.options.kind]) or "none"
    where = f"{run.ends} is {run.state}, last step {step}"
    if entries.done("open") is not None:
        return f"{where}; producers may write to {run.ends.target}, so an undo is impossible"
    return f"{where}; producers are fenced" if entries.begun("fence") is not None else where


def stands(entries: JournalEntries) -> str:
    """The stage, and the commands that are possible there, in a line."""
    run = entries.run
    if run is None or run.state in ENDED:
        return stage(entries)
    if entries.done("open") is not None:
        commands = "the same command completes it"
    elif run.state is SwitchoverState.ABORTING:
        commands = "--abort continues to undo it"
    else:
        commands = "the same command continues there, --abort undoes it"
    return f"{stage(entries)}; {commands}"


def stands_before(world: SwitchoverClusters, entries: JournalEntries, kind: SwitchoverKind) -> str:
    """The stage before a command that runs a switchover of this kind, in a line, and the effect of the command after
    a switchover that is done. Raises ClusterError."""
    if not only_repeats_groups(entries, world, kind):
        return stands(entries)
    return (
        f"{stage(entries)}; the same command only commits the offsets of groups again, and a new switchover needs a "
        "way back, or --release, before it"
    )


def read_with_its_end(clusters: SwitchoverClusters, journal: TopicJournal) -> JournalEntries:
    """Read the journal, with the end that a later switchover in the other direction has made. Raises ClusterError."""
    entries, later = journal.read(), JournalEntries()
    # Without the right to read the journal on the source, its own words count.
    with suppress(RefusedError):
        later = clusters.read_earlier_journal()
    return ended_by(entries, later)
