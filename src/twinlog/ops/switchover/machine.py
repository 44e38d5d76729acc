"""Does the steps of a switchover in turn, and writes an entry before and after each.

A process that is killed at any point leaves entries from which the next process continues: a begun step is repeated
with the same plan, and a finished step is skipped. A single process at a time can write the journal.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from twinlog.errors import ClusterError, FencedError, RefusedError, TwinlogError
from twinlog.errors.message_ids import id_of, with_id, without_id
from twinlog.kafka.retry import SWITCHOVER_STEP, retry_in_thread
from twinlog.mirror.topics.journal_keys import StepPhase, SwitchoverState
from twinlog.model.types import TopicName
from twinlog.ops.switchover.journal import (
    JournalEntries,
    JournalEntry,
    JournalLine,
    SwitchoverRun,
    from_json,
    with_lines,
)
from twinlog.ops.switchover.lasting_fences import FENCE_STAYS, find_unknown_fences
from twinlog.ops.switchover.model import (
    Data,
    FenceMethod,
    NoteKind,
    NotReadyError,
    PreflightNote,
    SwitchoverKind,
    SwitchoverOptions,
    TooLongError,
    UnderWayError,
)
from twinlog.ops.switchover.steps.step import (
    EarlierStep,
    Journal,
    Show,
    StepContext,
    SwitchoverClusters,
    notes_of,
    replace_notes,
)
from twinlog.ops.switchover.steps.steps import ORDER, STEPS, count_uncopied, left_fence, lift
from twinlog.ops.switchover.steps.waiting import ends_of, spans

T = TypeVar("T")

SEEN_MS = 5_000
"""How often a waiting step notes that its process works on it; the note also reveals a process that took over."""

ENDED = frozenset({SwitchoverState.DONE, SwitchoverState.ABORTED, SwitchoverState.RETURNED})
_SCOPES = {"from": "cluster id", "to": "cluster id", "topics": "topics"}


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


def require_same(entries: JournalEntries, world: SwitchoverClusters, *parts: str) -> None:
    """Raise UnderWayError if the journal belongs to other topics or clusters than the file."""
    before, now = (entries.done("check") or {}).get("scope", {}), world.scope()
    for part in parts:
        if before.get(part) and now.get(part) and before[part] != now[part]:
            raise UnderWayError(
                f"switchover {world.ends} in the journal has {_SCOPES[part]} {before[part]}, and this file "
                f"{now[part]}; use the file that it began with, or --wave for a journal of its own"
            )


def unchanged(entries: JournalEntries) -> bool:
    """Whether the newest switchover of a journal has ended, or has begun no step that changes a cluster."""
    ended = entries.run is None or entries.run.state in ENDED
    return ended or {step for step, _ in entries.steps} <= {"check"}


class SwitchoverMachine:
    """A switchover. `owner` names this process; `show` prints its progress."""

    def __init__(
        self, world: SwitchoverClusters, journal: Journal, owner: str, show: Show = lambda _step, _words: None
    ) -> None:
        self._world = world
        self._journal = journal
        self._owner = owner
        self._show = show
        self._shown = ""
        """The last shown words of the step under way."""

    def run(self, options: SwitchoverOptions) -> JournalEntries:
        """Begin, or continue where a process was killed, until all is done; returns the journal.

        A switchover that has passed its pre-flight keeps its first options, except for the chosen options; only a lost
        source turns it into an emergency. A finished step is repeated only after a way back, or after the release of
        its fence. Groups are committed again, as they may have read more. Raises NotReadyError; TooLongError after all
        steps were undone; UnderWayError while a switchover of another kind, of other topics or clusters, or its
        undoing, is unfinished. The error of a step is raised, too: then the journal names the step, and a later call
        continues there.
        """
        entries, run = self._journal.entries, self._journal.entries.run
        emergency = options.kind is SwitchoverKind.EMERGENCY
        if run is not None and run.state is SwitchoverState.ABORTING and not emergency:
            raise UnderWayError(
                f"switchover {run.ends} is being undone; run it with --abort to complete that",
                message_id="TW-SWITCH-09",
            )
        if run is not None and emergency and self._is_open(run):
            require_same(self._journal.entries, self._world, "from", "to", "topics")
            run = self._end_without_source(run)
            self._sync_again(run, emergency=True)
            self._end_earlier(run)
            return self._journal.entries
        if run is not None and only_repeats_groups(entries, self._world, options.kind):
            require_same(self._journal.entries, self._world, "from", "to", "topics")
            run = self._owned(run)
            if emergency:
                try:
                    self._fence_returned_source(run, options.fence)
                except FencedError:
                    self._lift_late_fence(run)
                    raise
            self._sync_again(run, emergency=emergency)
            self._end_earlier(run)
            self._count_uncopied(run)
            return self._journal.entries
        lost = (
            emergency
            and run is not None
            and (run.options.kind, run.state) != (SwitchoverKind.EMERGENCY, SwitchoverState.RUNNING)
        )
        begun = run
        if run is None or run.state in ENDED or entries.done("check") is None or lost:
            run = self._begin(options)
        elif run.options.kind is not options.kind:
            raise UnderWayError(
                f"a switchover {run.ends} of another kind ({run.options.kind}) has begun; complete it, or undo it with "
                "--abort"
            )
        else:
            require_same(self._journal.entries, self._world, "from", "to", "topics")
            run = self._owned(replace(run, options=options.chosen_over(run.options)))
        try:
            self._steps(run)
        except TooLongError as error:
            why = without_id(self._shown)
            self.abort()
            raise TooLongError(f"{error}: {why}" if why else str(error)) from None
        except NotReadyError as error:
            if begun is None or run.name != begun.name:
                self._end_refused(run, entries, error.problems)
            raise
        except FencedError:
            self._lift_late_fence(run)
            raise
        return self._journal.entries

    def abort(self) -> JournalEntries:
        """Undo all steps done so far, last step first; returns the journal.

        Raises UnderWayError when no switchover is under way, or producers may already write to the target.
        """
        run = self._journal.entries.run
        if run is None or run.state in ENDED:
            done = "" if run is None else f"it is done: go back by {self._way_back(run)}"
            if run is None or run.state is SwitchoverState.ABORTED:
                done = "nothing is under way"
                if self._world.read_earlier_journal().fenced:
                    done += (
                        f", but {self._world.ends.source} is still fenced by an earlier switchover: --release lifts "
                        "that fence"
                    )
            raise UnderWayError(f"switchover {self._world.ends}: {done}")
        if self._journal.entries.done("open") is not None:
            raise UnderWayError(
                f"switchover {run.ends}: producers may write to {run.ends.target} already; run the same command to its "
                f"end, and go back by {self._way_back(run)}",
                message_id="TW-SWITCH-04",
            )
        require_same(self._journal.entries, self._world, "from", "to")
        run = replace(self._owned(run), state=SwitchoverState.ABORTING)
        self._journal.write([], run)
        context = StepContext(self._world, run.options, self._journal.entries, self._show)
        for name in reversed(ORDER[run.options.kind]):
            undo = STEPS[name].undo
            if undo is not None and context.entries.begun(name) is not None:
                self._show("abort", f"takes back: {STEPS[name].describe(run.options.kind)}")
                self._tried(name, undo, context)
        self._journal.write([], replace(run, state=SwitchoverState.ABORTED))
        return self._journal.entries

    def release_fence(self) -> JournalEntries:
        """Lift the fence of a switchover that is done, for good, or of a switchover whose journal is lost; returns the
        journal, with the denials that stay. Raises UnderWayError, also for denials that no journal names."""
        run = self._journal.entries.run
        if run is None or run.state is SwitchoverState.ABORTED:
            left = self._world.read_earlier_journal().fenced
            context = StepContext(
                self._world, SwitchoverOptions(SwitchoverKind.PLANNED), self._journal.entries, self._show
            )
            if left:
                self._tried("release", lambda _context: self._lift_left(left), context)
            # Without a journal only the ACLs and quotas of the source tell of a fence.
            unknown = self._tried("release", lambda _context: find_unknown_fences(self._world), context)
            if unknown.stays:
                raise UnderWayError("; ".join(unknown.stays), message_id=FENCE_STAYS)
            if left:
                return self._journal.entries
            if unknown.unread:
                raise UnderWayError("; ".join(unknown.unread), message_id=FENCE_STAYS)
        if run is None or run.state is not SwitchoverState.DONE:
            raise UnderWayError(f"switchover {self._world.ends} must be done before its fence can be released")
        require_same(self._journal.entries, self._world, "from", "to")
        run = self._owned(run)
        context = StepContext(self._world, run.options, self._journal.entries, self._show)
        self._tried("release", lift, context)
        found: Data = {}
        if context.fence is FenceMethod.ACL and self._world.source_answers:
            stays = self._tried("release", lambda context: self._world.find_lasting_denials(context.topics), context)
            with suppress(RefusedError):
                stays += self._tried("release", lambda _context: self._world.find_lasting_quotas(), context)
            found["stays"] = stays
        self._journal.write([JournalLine("release", StepPhase.DONE, JournalEntry(self._world.now_ms(), found))])
        return self._journal.entries

    def _way_back(self, run: SwitchoverRun) -> str:
        """The command that moves back after a switchover that is done."""
        command = "switchover" if run.options.kind is SwitchoverKind.BACK else "switchback"
        return f"twinlog {command} FILE {self._world.ends.back.as_options}"

    def leave_switchover(self) -> None:
        """Note that an unfinished switchover is free for the next process, as far as the cluster takes the note."""
        run = self._journal.entries.run
        if run is not None and run.state not in ENDED and run.owner == self._owner:
            with suppress(TwinlogError):
                self._journal.write([], replace(run, owner=""))

    def _lift_left(self, left: Data) -> None:
        self._show("release", f"lifts the fence that is noted on {self._world.ends.source}")
        self._world.lift_fence(left, "source")
        self._world.note_fence(None, "source")

    def _lift_late_fence(self, run: SwitchoverRun) -> None:
        """Lift the fence of this process if the process that took over has undone the switchover already, or released
        its fence: some changes may have come after that, and only this process knows them."""
        before = self._journal.entries
        plan = before.begun("fence")
        if not plan or "left" in plan or before.done("fence") is not None:
            return
        now = self._journal.read()
        same = now.run is not None and now.run.name == run.name
        undone = same and now.run is not None and now.run.state in (SwitchoverState.ABORTING, SwitchoverState.ABORTED)
        released = same and now.done("release") is not None
        # A later switchover may have the same fence.
        replaced = now.run is not None and not same and now.begun("fence") is None
        if undone or released or replaced:
            self._world.lift_fence(plan, "source")
            what = "released the fence of" if released else "undone"
            self._show("fence", f"lifted its late fence: another process has {what} switchover {run.ends}")

    def _sync_again(self, run: SwitchoverRun, *, emergency: bool) -> None:
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

    def _fence_returned_source(self, run: SwitchoverRun, wanted: FenceMethod | None) -> None:
        """Raise the fence that an emergency had to leave out, if the source answers now; its other steps stay done.

        `wanted` is the method of the fence, None for the method of the run before.
        """
        world = self._world
        context = StepContext(world, run.options, self._journal.entries, self._show, self._confirming(run))
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
                self._tried("fence", lift, context)
            except ClusterError as error:
                self._end_returned_fence(context, left_fence(context, error))
                return
            begun = {}
            amended = self._amended("check", {**context.done("check"), "fence": wanted})
            self._journal.write([amended, JournalLine("fence", StepPhase.BEGUN, None)])
            context.entries = self._journal.entries
        if not begun or "left" in begun:
            plan = self._tried("fence", STEPS["fence"].begin, context)
            lines.append(JournalLine("fence", StepPhase.BEGUN, JournalEntry(world.now_ms(), plan)))
        self._journal.write(lines)
        context.entries = self._journal.entries
        result = self._tried("fence", STEPS["fence"].act, context)
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

    def _count_uncopied(self, run: SwitchoverRun) -> None:
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

    def _end_earlier(self, run: SwitchoverRun) -> None:
        """End the switchover before, if a lost source left its journal open, and the source answers now."""
        if not lacks_end(self._journal.entries, self._world):
            return
        context = StepContext(self._world, run.options, self._journal.entries, self._show)
        self._show("close", STEPS["close"].words)
        begun = JournalLine("close", StepPhase.BEGUN, JournalEntry(self._world.now_ms(), {}))
        result = self._tried("close", STEPS["close"].act, context)
        if not isinstance(result, EarlierStep):
            ended = JournalLine("close", StepPhase.DONE, JournalEntry(self._world.now_ms(), result))
            self._journal.write([begun, ended])

    def _is_open(self, run: SwitchoverRun) -> bool:
        """Whether a switchover is unfinished while its producers may already write to the target: they stay there."""
        return run.state is SwitchoverState.RUNNING and self._journal.entries.done("open") is not None

    def _end_without_source(self, run: SwitchoverRun) -> SwitchoverRun:
        """End a switchover that lost its source after `open`: its remaining steps would only read the source."""
        run = replace(run, state=SwitchoverState.DONE, owner=self._owner, seen_ms=self._world.now_ms())
        cut = from_json((self._journal.entries.done("settle") or {}).get("cut", {}))
        copied = self._world.read_copied_positions()
        late = {where: copied[where].source for where, end in cut.items() if where in copied}
        found = {"late": spans(cut, {where: end for where, end in late.items() if end > cut[where]}), "lost": True}
        self._journal.write([JournalLine("watch", StepPhase.DONE, JournalEntry(self._world.now_ms(), found))], run)
        return run

    def _begin(self, options: SwitchoverOptions) -> SwitchoverRun:
        now_ms = self._world.now_ms()
        name = f"{now_ms:x}-{secrets.token_hex(3)}"
        run = SwitchoverRun(name, self._world.ends, options, SwitchoverState.RUNNING, now_ms, self._owner, now_ms)
        # Lines of the previous run have its name, and are ignored; but its fence is lifted by its own plan.
        before = self._journal.entries
        plan = before.steps.get(("fence", StepPhase.BEGUN))
        if plan is not None and "left" in plan.data:
            # A cluster that was silent then may answer now.
            plan = None
        ended = before.run is None or before.run.state in ENDED
        if (
            before.run is not None
            and before.run.state is SwitchoverState.DONE
            and options.kind is SwitchoverKind.EMERGENCY
        ):
            ended = before.done("release") is not None
        self._journal.write([] if ended or plan is None else [JournalLine("fence", StepPhase.BEGUN, plan)], run)
        return run

    def _end_refused(self, run: SwitchoverRun, before: JournalEntries, problems: Sequence[str]) -> None:
        """Leave no switchover under way after a refused pre-flight: the journal has the `problems`, and the ended
        switchover before it."""
        if not unchanged(self._journal.entries):
            return
        # The obstacles are the news, even if the journal is silent now.
        with suppress(ClusterError):
            now_ms = self._world.now_ms()
            if before.run is not None and before.run.state in ENDED and not before.refusals:
                begun_ms = before.at_ms("check", StepPhase.BEGUN) or before.run.began_ms
                since = {"refused_since": {"at_ms": now_ms, "problems": list(problems)}}
                begun = JournalEntry(begun_ms, (before.begun("check") or {}) | since)
                self._journal.write([JournalLine("check", StepPhase.BEGUN, begun)], before.run)
                # The lines of the switchover before count again.
                self._journal.read()
            else:
                refused = JournalEntry(now_ms, {"problems": list(problems)})
                self._journal.write(
                    [JournalLine("check", StepPhase.BEGUN, refused)], replace(run, state=SwitchoverState.ABORTED)
                )

    def _showing(self, run: SwitchoverRun) -> Show:
        seen_ms = self._world.now_ms()

        def show(step: str, words: str) -> None:
            nonlocal seen_ms
            self._shown = words
            self._show(step, words)
            if self._world.now_ms() - seen_ms >= SEEN_MS:
                seen_ms = self._world.now_ms()
                self._journal.write([], replace(run, seen_ms=seen_ms))

        return show

    def _confirming(self, run: SwitchoverRun) -> Callable[[], None]:
        return lambda: self._journal.write([], replace(run, seen_ms=self._world.now_ms()))

    def _owned(self, run: SwitchoverRun) -> SwitchoverRun:
        run = replace(run, owner=self._owner, seen_ms=self._world.now_ms())
        self._journal.write([], run)
        return run

    def _tried(self, name: str, part: Callable[[StepContext], T], context: StepContext) -> T:
        """Repeat a part of a step while a cluster fails to answer, for a minute; every part may be repeated.

        The journal shows meanwhile that this process lives. Raises FencedError if another process has taken over.
        """
        noted_ms = self._world.now_ms()

        def failed(error: TwinlogError) -> None:
            nonlocal noted_ms
            self._show(name, with_id(f"tries again: {error}", id_of(error, "TW-NET-11")))
            if self._world.now_ms() - noted_ms >= SEEN_MS:
                noted_ms = self._world.now_ms()
                # The cluster of the journal may be the silent cluster.
                with suppress(ClusterError):
                    context.confirm()

        return retry_in_thread(self._world.clock, SWITCHOVER_STEP, lambda: part(context), failed=failed)

    def _steps(self, run: SwitchoverRun) -> None:
        context = StepContext(
            self._world, run.options, self._journal.entries, self._showing(run), self._confirming(run)
        )
        order = ORDER[run.options.kind]
        ended: list[JournalLine] = []
        """Finished steps: they are written together with the begin of the next step, because producers wait
        meanwhile."""
        while (name := with_lines(self._journal.entries, ended).next_step(order)) is not None:
            step = STEPS[name]
            context.entries = with_lines(self._journal.entries, ended)
            if context.entries.begun(name) is None:
                try:
                    data = self._tried(name, step.begin, context)
                except TwinlogError:
                    self._journal.write(ended)
                    raise
                ended.append(JournalLine(name, StepPhase.BEGUN, JournalEntry(self._world.now_ms(), data)))
            if ended:
                self._journal.write(ended)
                ended = []
                context.entries = self._journal.entries
            # Operators act on shown words: producers resume after `open`, so the end of that step is written first.
            self._show(name, step.describe(run.options.kind))
            result = self._tried(name, step.act, context)
            if isinstance(result, EarlierStep):
                self._show(name, f"{result.why}: goes back to {result.step}")
                # `rejoin` keeps its result: the flow back has begun at its positions.
                back = [one for one in order[order.index(result.step) : order.index(name) + 1] if one != "rejoin"]
                self._journal.write([JournalLine(one, phase, None) for one in back for phase in StepPhase])
                if result.step == "check":
                    context = StepContext(
                        self._world, run.options, self._journal.entries, context.show, context.confirm
                    )
            else:
                ended.append(JournalLine(name, StepPhase.DONE, JournalEntry(self._world.now_ms(), result)))
        self._journal.write(ended, replace(run, state=SwitchoverState.DONE, seen_ms=self._world.now_ms()))
