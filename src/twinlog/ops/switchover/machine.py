"""Does the steps of a switchover in turn, and writes an entry before and after each.

A process that is killed at any point leaves entries from which the next process continues: a begun step is repeated
with the same plan, and a finished step is skipped. A single process at a time can write the journal.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from twinlog.errors import ClusterError, FencedError, RefusedError, TwinlogError
from twinlog.errors.message_ids import without_id
from twinlog.mirror.topics.journal_keys import StepPhase, SwitchoverState
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
    NotReadyError,
    SwitchoverKind,
    SwitchoverOptions,
    TooLongError,
    UnderWayError,
)
from twinlog.ops.switchover.repeat import SwitchoverRepeat, only_repeats_groups
from twinlog.ops.switchover.stage import ENDED, unchanged
from twinlog.ops.switchover.steps.step import (
    SEEN_MS,
    EarlierStep,
    Journal,
    Show,
    StepContext,
    SwitchoverClusters,
    confirming,
    try_part,
)
from twinlog.ops.switchover.steps.steps import ORDER, STEPS, lift
from twinlog.ops.switchover.steps.waiting import spans

_SCOPES = {"from": "cluster id", "to": "cluster id", "topics": "topics"}


def require_same(entries: JournalEntries, world: SwitchoverClusters, *parts: str) -> None:
    """Raise UnderWayError if the journal belongs to other topics or clusters than the file."""
    before, now = (entries.done("check") or {}).get("scope", {}), world.scope()
    for part in parts:
        if before.get(part) and now.get(part) and before[part] != now[part]:
            raise UnderWayError(
                f"switchover {world.ends} in the journal has {_SCOPES[part]} {before[part]}, and this file "
                f"{now[part]}; use the file that it began with, or --wave for a journal of its own"
            )


class SwitchoverMachine:
    """A switchover. `owner` names this process; `show` prints its progress."""

    def __init__(
        self, world: SwitchoverClusters, journal: Journal, owner: str, show: Show = lambda _step, _words: None
    ) -> None:
        self._world = world
        self._journal = journal
        self._owner = owner
        self._show = show
        self._repeat = SwitchoverRepeat(world, journal, show)
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
            self._repeat.sync_groups(run, emergency=True)
            self._repeat.end_earlier(run)
            return self._journal.entries
        if run is not None and only_repeats_groups(entries, self._world, options.kind):
            require_same(self._journal.entries, self._world, "from", "to", "topics")
            run = self._owned(run)
            if emergency:
                try:
                    self._repeat.fence_returned_source(run, options.fence)
                except FencedError:
                    self._lift_late_fence(run)
                    raise
            self._repeat.sync_groups(run, emergency=emergency)
            self._repeat.end_earlier(run)
            self._repeat.count_uncopied(run)
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
                try_part(name, undo, context, self._show)
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
                try_part("release", lambda _context: self._lift_left(left), context, self._show)
            # Without a journal only the ACLs and quotas of the source tell of a fence.
            unknown = try_part("release", lambda _context: find_unknown_fences(self._world), context, self._show)
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
        try_part("release", lift, context, self._show)
        found: Data = {}
        if context.fence is FenceMethod.ACL and self._world.source_answers:
            stays = try_part(
                "release", lambda context: self._world.find_lasting_denials(context.topics), context, self._show
            )
            with suppress(RefusedError):
                stays += try_part("release", lambda _context: self._world.find_lasting_quotas(), context, self._show)
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

    def _owned(self, run: SwitchoverRun) -> SwitchoverRun:
        run = replace(run, owner=self._owner, seen_ms=self._world.now_ms())
        self._journal.write([], run)
        return run

    def _steps(self, run: SwitchoverRun) -> None:
        context = StepContext(
            self._world,
            run.options,
            self._journal.entries,
            self._showing(run),
            confirming(self._world, self._journal, run),
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
                    data = try_part(name, step.begin, context, self._show)
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
            result = try_part(name, step.act, context, self._show)
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
