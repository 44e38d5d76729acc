"""Repeats a switchover that is done: groups are committed again, as they may have read more, and the parts follow that
an emergency left out on a silent source.
"""

from __future__ import annotations

from dataclasses import replace

from twinlog.errors import ClusterError
from twinlog.mirror.topics.journal_keys import StepPhase, SwitchoverState
from twinlog.model.types import TopicName
from twinlog.ops.switchover.journal import JournalEntries, JournalEntry, JournalLine, SwitchoverRun, from_json
from twinlog.ops.switchover.model import Data, FenceMethod, NoteKind, PreflightNote, SwitchoverKind
from twinlog.ops.switchover.steps.step import (
    EarlierStep,
    Journal,
    Show,
    StepContext,
    SwitchoverClusters,
    confirming,
    notes_of,
    replace_notes,
    try_part,
)
from twinlog.ops.switchover.steps.steps import STEPS, count_uncopied, left_fence, lift
from twinlog.ops.switchover.steps.waiting import ends_of


def only_repeats_groups(entries: JournalEntries, world: SwitchoverClusters, kind: SwitchoverKind) -> bool:
    """Whether the command of a switchover of this kind only commits the offsets of groups again: the newest switchover
    of the journal is done, and no way back and no release of its fence came after it."""
    run = entries.run
    if run is None or run.state is not SwitchoverState.DONE or entries.done("release") is not None:
        return False
    if kind is SwitchoverKind.EMERGENCY and not world.source_answers:
        # The way back is in the journal of the lost source. Before a way back, only the seen late records were copied
        # after the cut.
        copied, cut = world.read_copied_positions(), from_json((entries.done("settle") or {}).get("cut", {}))
        ends = cut | ends_of((entries.done("watch") or {}).get("late", {}))
        return not any(copied[where].source > end for where, end in ends.items() if where in copied)
    other = world.read_earlier_journal().run
    ended = other is not None and other.state in (SwitchoverState.DONE, SwitchoverState.RETURNED)
    return other is None or not ended or other.began_ms <= run.began_ms


def lacks_fence(entries: JournalEntries, world: SwitchoverClusters) -> bool:
    """Whether an emergency had to leave out the fence on a source that answers now."""
    done = entries.done("fence")
    return world.source_answers and (done is None or "left" in done)


def lacks_end(entries: JournalEntries, world: SwitchoverClusters) -> bool:
    """Whether an emergency had to leave open the switchover before it on a source that answers now."""
    done = entries.done("close")
    return world.source_answers and (done is None or "left" in done)


def counts_uncopied(run: SwitchoverRun, world: SwitchoverClusters) -> bool:
    """Whether the repeat of a switchover counts the records that an emergency left on its source."""
    return run.options.kind is SwitchoverKind.EMERGENCY and world.source_answers


def count_words(world: SwitchoverClusters) -> str:
    """The count of these records, in words."""
    return f"count the records on {world.ends.source} without a copy"


class SwitchoverRepeat:
    """The parts of a switchover that a later run of its command does. `show` prints its progress."""

    def __init__(self, world: SwitchoverClusters, journal: Journal, show: Show) -> None:
        self._world = world
        self._journal = journal
        self._show = show

    def sync_groups(self, run: SwitchoverRun, *, emergency: bool) -> None:
        """Sync groups again: they read from the source until their consumers stop."""
        options = replace(run.options, kind=SwitchoverKind.EMERGENCY) if emergency else run.options
        context = StepContext(self._world, options, self._journal.entries, self._show)
        self._show("groups", STEPS["groups"].words)
        begun = JournalLine("groups", StepPhase.BEGUN, JournalEntry(self._world.now_ms(), {}))
        result = STEPS["groups"].act(context)
        if not isinstance(result, EarlierStep):
            result["unmoved"] = self._find_unmoved(context)
            self._journal.write(
                [begun, JournalLine("groups", StepPhase.DONE, JournalEntry(self._world.now_ms(), result))]
            )

    def _find_unmoved(self, context: StepContext) -> list[TopicName]:
        """The topics of the flow that no switchover has moved; empty for a source that has fallen silent."""
        if not self._world.source_answers:
            return []
        try:
            return self._world.find_unmoved_topics(context.topics)
        except ClusterError:
            if context.options.kind is not SwitchoverKind.EMERGENCY:
                raise
            # The groups have moved by their checkpoints, and a later run looks again.
            return []

    def fence_returned_source(self, run: SwitchoverRun, wanted: FenceMethod | None) -> None:
        """Raise the fence that an emergency had to leave out, if the source answers now; its other steps stay done.

        `wanted` is the method of the fence, None for the method of the run before.
        """
        world = self._world
        context = StepContext(
            world, run.options, self._journal.entries, self._show, confirming(world, self._journal, run)
        )
        if not lacks_fence(self._journal.entries, world):
            done = context.entries.done("fence")
            raised = done is not None and "left" not in done
            if raised and wanted is not None and wanted is not context.fence:
                self._show("fence", f"--fence {wanted} has no effect: the fence here is {context.fence} already")
            return
        begun = context.entries.begun("fence") or {}
        lines = [JournalLine("fence", StepPhase.DONE, None)]
        self._show("fence", STEPS["fence"].words)
        if wanted is not None and wanted is not context.fence:
            # The changes of the other method may be there in part.
            try:
                try_part("fence", lift, context, self._show)
            except ClusterError as error:
                self._end_returned_fence(context, left_fence(context, error))
                return
            begun = {}
            amended = self._amended("check", {**context.done("check"), "fence": wanted})
            self._journal.write([amended, JournalLine("fence", StepPhase.BEGUN, None)])
            context.entries = self._journal.entries
        if not begun or "left" in begun:
            plan = try_part("fence", STEPS["fence"].begin, context, self._show)
            lines.append(JournalLine("fence", StepPhase.BEGUN, JournalEntry(world.now_ms(), plan)))
        self._journal.write(lines)
        context.entries = self._journal.entries
        result = try_part("fence", STEPS["fence"].act, context, self._show)
        if not isinstance(result, EarlierStep):
            self._end_returned_fence(context, result)

    def _end_returned_fence(self, context: StepContext, result: Data) -> None:
        """Note the fence on a source that was silent, or the obstacle: groups and count follow all the same."""
        world = self._world
        lines = [JournalLine("fence", StepPhase.DONE, JournalEntry(world.now_ms(), result))]
        answered = f"cluster {world.ends.source} was silent, answered later"
        note = PreflightNote(f"{answered}, and was fenced then")
        if "left" in result or context.fence is FenceMethod.NONE:
            note = PreflightNote(f"{answered}, and its producers stay unfenced", NoteKind.SILENT)
        checked = context.done("check")
        if any(one.kind is NoteKind.SILENT for one in notes_of(checked)):
            lines.append(self._amended("check", replace_notes(checked, {NoteKind.SILENT}, note)))
        self._journal.write(lines)

    def count_uncopied(self, run: SwitchoverRun) -> None:
        """Count the records that an emergency left on its source, once the source answers, fenced or not."""
        entries, world = self._journal.entries, self._world
        if not counts_uncopied(run, world):
            return
        self._show("prove", count_words(world))
        context = StepContext(world, run.options, entries, self._show)
        try:
            results = zip(("check", "prove"), count_uncopied(context), strict=True)
        except ClusterError as error:
            # All steps are done, and a later run counts.
            self._show("prove", f"the records on {world.ends.source} stay uncounted: {error}")
            return
        self._journal.write([self._amended(name, data) for name, data in results])

    def _amended(self, step: str, data: Data) -> JournalLine:
        """The line that replaces the result of a step, and keeps the time of the step."""
        at_ms = self._journal.entries.at_ms(step, StepPhase.DONE) or self._world.now_ms()
        return JournalLine(step, StepPhase.DONE, JournalEntry(at_ms, data))

    def end_earlier(self, run: SwitchoverRun) -> None:
        """End the switchover before, if a lost source left its journal open, and the source answers now."""
        if not lacks_end(self._journal.entries, self._world):
            return
        context = StepContext(self._world, run.options, self._journal.entries, self._show)
        self._show("close", STEPS["close"].words)
        begun = JournalLine("close", StepPhase.BEGUN, JournalEntry(self._world.now_ms(), {}))
        result = try_part("close", STEPS["close"].act, context, self._show)
        if not isinstance(result, EarlierStep):
            ended = JournalLine("close", StepPhase.DONE, JournalEntry(self._world.now_ms(), result))
            self._journal.write([begun, ended])
