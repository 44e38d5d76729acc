"""Executes operators' commands for single topics of a flow; only the process that runs the flow has a TopicControl.

Paused partitions stay out of the plan. A partition that will continue at another offset leaves the plan until its
copier has released it; then its position is written, and it is planned again. Each step is recorded before the next
step begins. So a process that takes the flow over continues a command at the last recorded step, and applies each
command once.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError, RefusedError
from twinlog.errors.message_ids import told, with_id
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.lease.fencing import TransactionalIds
from twinlog.lease.leases import Leases
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position
from twinlog.model.amounts import counted, shown_age
from twinlog.model.topics import listed
from twinlog.model.types import TopicName, TopicPartition
from twinlog.process.flow_levels import FLOW_LEVELS, MOST_S
from twinlog.process.log_once import LogOnce
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control.deciding import UNREPORTED
from twinlog.worker.control.journal import ControlJournal
from twinlog.worker.control.model import (
    CommandOutcome,
    CommandState,
    IsHeartbeats,
    PartitionMove,
    PartitionSelector,
    TopicCommand,
    TopicVerb,
    selected,
)
from twinlog.worker.control.mover import PartitionMover
from twinlog.worker.control.recopies import recopies
from twinlog.worker.flow_tasks import FlowTasks
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.held_and_paused import FlowHeldPartitions
from twinlog.worker.status.report import LogLevelProgress

log = logging.getLogger(__name__)

EVERY_S = 2.0
"""Seconds between two reads of the control topic."""

LAG_REST = 4
"""The paused lag is measured at each turn, and after a rest of so many times the duration of the last measurement."""

FORGET_S = 600.0
"""Seconds between removals of old commands."""

HIDDEN_S = 60.0
"""Seconds between two searches for a control topic that is hidden from the login."""

RELEASED_S = 20.0
POLL_S = 0.05
"""The longest wait for copiers per call (RELEASED_S): the cut-off of an unresponsive copier is sooner."""

MOST_TEXT = 2000
REPEATED_S = 60.0
"""The time in which a repeated `release` counts as done."""
_PAUSING = (TopicVerb.PAUSE, TopicVerb.RESUME)
NONE_MATCHES = "the flow copies no partition that is meant"
NONE_HELD = "none of these partitions was held"


class TopicControl:
    """Commands for topics of a flow. A thread of its own calls `run_commands`, the flow's thread the other methods."""

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterAdmin,
        target: ClusterAdmin,
        positions: PositionStore,
        maps: MapStore,
        status: FlowStatus,
        tasks: FlowTasks,
        leases: Leases,
        ids: TransactionalIds | None,
        *,
        held: FlowHeldPartitions,
        is_heartbeats: IsHeartbeats,
        stopping: threading.Event,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`changed` is called once the status shows a command: it has the flow reported at once."""
        self._settings = settings
        self._changed = changed
        self._source = source
        self._target = target
        self._positions = positions
        self._status = status
        self._tasks = tasks
        self._leases = leases
        self._ids = ids
        self._held = held
        self._is_heartbeats = is_heartbeats
        self._stopping = stopping
        self._clock = target.clock
        self._journal = ControlJournal(settings, target)
        self.log_level: LogLevelProgress | None = None
        """The request for a level of the flow's log that was taken over last."""
        self._level_known = ""
        """The id of the last read request for a level."""
        self._mover = PartitionMover(settings, source, target, positions, maps)
        self._by = f"{socket.gethostname()}-{os.getpid()}"
        self._remote: Mapping[TopicPartition, TopicPartition] = {}
        self._paused: frozenset[TopicPartition] = frozenset()
        self._moving: frozenset[TopicPartition] = frozenset()
        """The partitions of the command in progress."""
        self._awaiting: frozenset[TopicPartition] = frozenset()
        """At a start, the partitions of commands that are still pending: copying them must wait for the command."""
        self._lock = threading.Lock()
        self._planned: tuple[frozenset[TopicPartition], frozenset[TopicPartition]] | None = None
        self._copied: frozenset[TopicPartition] | None = None
        """The partitions that copiers may copy by the last plan; None until a plan is valid."""
        self._lag_at = self._forget_at = self._clock.monotonic()
        self._hidden_until = self._lag_at
        self._logged = LogOnce(self._clock)

    # For the flow's thread.

    def begin(self) -> None:
        """Read the commands before the first plan. Raises ClusterError.

        Raises RefusedError if the control topic exists and is unreadable: partitions could be paused in it.
        """
        self._read()
        # A level ends with the process that took it over.
        earlier = self._journal.asked.level
        self._level_known = "" if earlier is None else earlier.id

    def plan(self, remote: Mapping[TopicPartition, TopicPartition]) -> None:
        """Plan these source partitions, each with its remote partition, except the withheld partitions."""
        with self._lock:
            first = not self._remote
            self._remote = remote
        if first:
            asked = [one.command for one in self._journal.asked.pending if one.command.verb not in _PAUSING]
            self._awaiting = frozenset(part for one in asked for part in self._meant(one.selectors))
        self._look_what_is_paused()
        self._plan()

    def poll_withheld(self) -> None:
        """Plan again after a change of the withheld partitions; called every moment."""
        if self._planned is not None and self._planned != (self._paused, self._moving | self._awaiting):
            self._plan()

    def _plan(self) -> None:
        with self._lock:
            # A command that begins after this point waits for the next plan.
            copied, paused, moving = self._remote.keys(), self._paused, self._moving | self._awaiting
            self._planned, self._copied = (paused, moving), None
        heartbeats = {part for part in copied if self._is_heartbeats(part.topic)}
        self._status.paused.set_partitions(paused - heartbeats)
        self._status.plan(copied - paused, heartbeats - paused)
        self._held.retain_partitions(copied - paused)
        wanted = frozenset(copied - paused - moving)
        self._tasks.plan(wanted)
        self._copied = wanted

    # For the thread of its own.

    def run_commands(self) -> None:
        """Execute the pending commands. Raises ClusterError to be called again, RefusedError if a right is missing."""
        try:
            self._read()
            self._follow_level()
            self._look_what_is_paused()
            pending = self._journal.asked.pending
            for outcome in pending:
                if self._stopping.is_set():
                    return
                self._do(outcome)
        except RefusedError:
            # A missing right may stay missing, so partitions stop waiting for it.
            self._moving = self._awaiting = frozenset()
            raise
        self._awaiting = frozenset()
        now = self._clock.monotonic()
        if now >= self._forget_at:
            self._journal.forget_old()
            self._forget_at = now + FORGET_S
        now = self._clock.monotonic()
        if self._paused and now >= self._lag_at:
            self._look_how_far()
            self._lag_at = now + LAG_REST * (self._clock.monotonic() - now)
        if pending:
            self._changed()

    def _read(self) -> None:
        """Read the commands; a control topic that is hidden from the login counts as empty."""
        if self._clock.monotonic() < self._hidden_until:
            return
        try:
            self._journal.read()
        except RefusedError as error:
            if self._journal.topic in self._target.topics():
                raise
            self._hidden_until = self._clock.monotonic() + HIDDEN_S
            if self._logged.is_new("hidden"):
                log.info("%s: nothing can be asked of single topics: %s", self._settings.name, error)

    def _follow_level(self) -> None:
        """Take over a new request for a level of the flow's log, here and in all copiers."""
        request = self._journal.asked.level
        if request is None or request.id == self._level_known:
            return
        self._level_known = request.id
        name, number = self._settings.name, request.level.number
        for_s = min(max(0.0, request.for_s), MOST_S) if number else 0.0
        time = f" for {shown_age(for_s)}" if number else ""
        log.info("%s: the level of its log is %s%s, asked by %s", name, request.level, time, request.by)
        FLOW_LEVELS.set_level(name, number, for_s)
        self._leases.set_log_level(number, for_s)
        until_ms = wall_ms(self._clock) + int(for_s * 1000)
        self.log_level = LogLevelProgress(request.id, request.level.value, until_ms)

    def _do(self, outcome: CommandOutcome) -> None:
        if outcome.result is not CommandState.BEGUN:
            outcome = self._journal.begin_command(outcome, self._by)
        try:
            if outcome.command.verb in _PAUSING:
                self._do_pause(outcome)
            else:
                self._do_move(outcome)
        except RefusedError as error:
            # Endless retries would block the partitions of the command each time.
            self._end(outcome, CommandState.REFUSED, str(error))
        self._awaiting -= self._moving
        self._moving = frozenset()

    def _do_pause(self, outcome: CommandOutcome) -> None:
        parts = self._meant(outcome.command.selectors)
        self._await_plan()
        self._changed()
        self._await_release(parts & self._paused)
        self._fence()
        outcome = self._journal.record_moves(outcome, self._mover.decide_moves(outcome.command, sorted(parts), {}))
        self._lag_at = self._clock.monotonic()
        # Even with an empty result, the command counts for future partitions.
        self._end(outcome, CommandState.APPLIED)

    def _do_move(self, outcome: CommandOutcome) -> None:
        decided = outcome.moves
        meant = self._meant(outcome.command.selectors)
        with self._lock:
            self._moving = meant if decided is None else frozenset(move.partition for move in decided)
        recopied = recopies(self._journal.asked.outcomes, outcome.command.id)
        none_held = decided is None and not any(map(self._held.is_held, meant))
        self._await_release(self._moving)
        self._fence()
        if decided is None:
            if outcome.command.verb.moves:
                self._mover.catch_up(sorted(meant), self._remote)
            outcome = self._journal.record_moves(
                outcome, self._mover.decide_moves(outcome.command, sorted(meant), recopied)
            )
            decided = outcome.moves or ()
        left = {move.partition: move.text for move in decided if move.text == UNREPORTED}
        left |= self._mover.apply_moves(decided, self._remote, recopied)
        done = [move for move in decided if move.partition not in left]
        self._warn_of_loss(outcome, done)
        why = [f"{part}: {text}" for part, text in sorted(left.items())]
        if not decided:
            why = [NONE_MATCHES]
        elif outcome.command.verb is TopicVerb.RELEASE and none_held:
            self._end(outcome, CommandState.APPLIED, "" if self._was_released(outcome.command) else NONE_HELD)
            return
        elif any(move.changes for move in done) or outcome.command.verb is TopicVerb.RELEASE:
            self._end(outcome, CommandState.APPLIED, "; ".join(why)[:MOST_TEXT])
            return
        why += [f"{move.partition}: {move.text}" for move in done if move.text]
        self._end(outcome, CommandState.REFUSED, "; ".join(why)[:MOST_TEXT])

    def _was_released(self, command: TopicCommand) -> bool:
        """Whether the same partitions were released a moment ago: the last report may still have them as held."""
        since_ms = wall_ms(self._clock) - int(REPEATED_S * 1000)
        return any(
            one.command.same_as(command) and one.result is CommandState.APPLIED and not one.reason
            for one in self._journal.asked.outcomes
            if one.command.id != command.id and (one.at_ms or 0) >= since_ms
        )

    def _end(self, outcome: CommandOutcome, result: CommandState, reason: str = "") -> None:
        self._journal.end(outcome, result, self._by, reason)
        reason = f": {reason}" if reason else ""
        command = outcome.command
        text = f"{self._settings.name}: {command}, asked by {command.by}: {result.value}{reason}"
        if result is CommandState.APPLIED:
            log.info("%s", with_id(text, "TW-COMMAND-01"))
        else:
            log.warning("%s", with_id(text, "TW-COMMAND-02"))

    def _warn_of_loss(self, outcome: CommandOutcome, done: Sequence[PartitionMove]) -> None:
        """Log the source offsets that are lost for good, by partition, as far as the line has room."""
        passed = [move for move in done if move.changes and move.passed]
        if passed:
            log.warning(
                "TW-COMMAND-03: %s: %s passes over %s, never copied: %s",
                self._settings.name,
                outcome.command.verb.value,
                counted(sum(move.passed for move in passed), "source offset"),
                listed(f"{move.partition} up to {(move.after or 0) - 1}" for move in passed),
            )

    def _await_plan(self) -> None:
        """Wait until the plan, and so the status, has exactly the paused partitions.

        Raises ClusterError after RELEASED_S.
        """
        until = self._clock.monotonic() + RELEASED_S
        while self._copied is None or self._planned is None or self._planned[0] != self._paused:
            if self._stopping.is_set() or self._clock.monotonic() >= until:
                raise ClusterError("the paused partitions are still to be planned")
            self._clock.wait(self._stopping, POLL_S)

    def _await_release(self, parts: frozenset[TopicPartition]) -> None:
        """Wait until these partitions are released, and excluded from the plan by which copiers begin.

        Raises ClusterError after RELEASED_S.
        """
        until = self._clock.monotonic() + RELEASED_S
        while parts and (self._copied is None or parts & self._copied or self._leases.holds_any(parts)):
            if self._stopping.is_set() or self._clock.monotonic() >= until:
                raise ClusterError(f"copiers still hold {listed(map(str, parts))}")
            self._clock.wait(self._stopping, POLL_S)

    def _fence(self) -> None:
        """Fence lost copiers first: only then is it certain which of their positions count."""
        if self._ids is not None:
            self._ids.fence_lost()

    def _meant(self, selectors: tuple[PartitionSelector, ...]) -> frozenset[TopicPartition]:
        return selected(selectors, self._remote, self._is_heartbeats)

    def _look_what_is_paused(self) -> None:
        with self._lock:
            paused = self._journal.asked.pauses.paused(self._remote, self._is_heartbeats)
            self._paused = paused

    def _look_how_far(self) -> None:
        """Read the lag of paused partitions; a failed read leaves the lag unknown. Raises ClusterError.

        A missing right on a topic leaves the lag of its partitions unknown, and is logged once.
        """
        paused = self._paused
        lags: dict[TopicPartition, int] = {}
        try:
            stored = self._positions.read(paused)
            try:
                lags = self._lags(paused, stored)
            except RefusedError:
                by_topic: dict[TopicName, list[TopicPartition]] = defaultdict(list)
                for part in paused:
                    by_topic[part.topic].append(part)
                for topic, parts in by_topic.items():
                    lags |= self._lags_of_topic(topic, parts, stored)
        finally:
            self._status.paused.set_lags(lags)

    def _lags_of_topic(
        self, topic: TopicName, parts: Sequence[TopicPartition], stored: Mapping[TopicPartition, Position]
    ) -> dict[TopicPartition, int]:
        try:
            found = self._lags(parts, stored)
        except RefusedError as error:
            if self._logged.is_due(("lag", topic)):
                text = f"{self._settings.name}: the lag of paused partitions of {topic} is unknown: {told(error)}"
                log.warning("%s", with_id(text, "TW-RIGHT-02"))
            return {}
        self._logged.end_condition(("lag", topic))
        return found

    def _lags(
        self, parts: Collection[TopicPartition], stored: Mapping[TopicPartition, Position]
    ) -> dict[TopicPartition, int]:
        """The records to copy of these partitions; a partition without a leader is left out.

        Raises ClusterError, and RefusedError if a right on one of the topics is missing.
        """
        committed = self._settings.consumer.isolation_level == "read_committed"
        ends = self._source.offsets(parts, latest=True, read_committed=committed)
        starts = self._source.offsets([part for part in parts if part not in stored], latest=False)
        begins = starts | {part: position.next_source for part, position in stored.items()}
        return {part: max(0, ends[part] - begins[part]) for part in parts if part in ends and part in begins}
