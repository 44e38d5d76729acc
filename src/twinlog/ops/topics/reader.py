"""Reads the state of each topic of a flow from both clusters (copied, paused, waiting, left out), and submits commands.

A command is a record in the flow's control topic, on the target. The process that runs the flow executes the command,
now or at its next start.
"""

from __future__ import annotations

import os
import re
import socket
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError, OptionError, RefusedError
from twinlog.errors.message_ids import told
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.mirror.gaps import UNKNOWN
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.amounts import shown_age
from twinlog.model.held import HeldPartition
from twinlog.model.topics import listed
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.ops.proven_ranges import ProvenRangesReader
from twinlog.ops.status.flow import FlowReader, FlowSnapshot
from twinlog.ops.status.readers import ClustersReader, ask_twice
from twinlog.ops.topics.snapshot import PartitionSnapshot, TopicSnapshot, TopicsSnapshot, TopicState
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import WorkerSettings
from twinlog.worker.control.deciding import decide, earlier_command
from twinlog.worker.control.journal import ControlJournal
from twinlog.worker.control.model import (
    CommandOutcome,
    LevelRequest,
    PartitionMove,
    PartitionSelector,
    TopicCommand,
    TopicVerb,
    selected,
)
from twinlog.worker.control.recopies import counting_first_copies, recopies
from twinlog.worker.control.records import ControlState
from twinlog.worker.control.source_logs import look
from twinlog.worker.status.report import DriverReport

POLL_S = 0.25
_COPYING = ("running", "idle")
_PARTITION = re.compile(r"(.+)-(\d+)")
_DONE = {
    TopicVerb.ACCEPT_GAP: "the gap was accepted",
    TopicVerb.SKIP_TO: "the offsets were passed over",
    TopicVerb.RESTART_FROM: "the partition was moved",
}


class TopicsReader(ClustersReader):
    """The topics of a flow. All methods raise ClusterError if the target fails to answer, and RefusedError if a right
    is missing. Used by a single thread."""

    def __init__(
        self,
        settings: FlowSettings,
        worker: WorkerSettings | None = None,
        *,
        connect: Connect = ClusterAdmin,
        connect_s: float = LOOK_CONNECT_S,
    ) -> None:
        """`worker` has the settings of the connector's worker."""
        self._connect_s = connect_s
        self.settings = settings
        clusters = self._source, self._target = both_clusters(settings, connect)
        self._flow = FlowReader(settings, worker, connect=connect, connect_s=connect_s, clusters=clusters)
        super().__init__((self._target, self._source))
        self._topology = topology_of(settings)
        self._positions = PositionStore(settings, self._target, optional=True)
        self._journal = ControlJournal(settings, self._target)
        self._proofs = ProvenRangesReader(settings, self._target)

    def close(self) -> None:
        self._flow.close()
        super().close()

    def waits(self) -> list[str]:
        return [*self._flow.waits(), *super().waits()]

    # Looking.

    def read(self) -> TopicsSnapshot:
        """Return the present state of each topic."""
        seen = self._flow.read()
        asked = ask_twice(self._target, self._read_asked)
        try:
            positions = self._positions.read_all()
            there = self._mirrored()
            starts, ends = (self._source.offsets(there, latest=latest) for latest in (False, True))
            # A held topic may be hidden from the login, and is missing in the list of topics then.
            held = _held(seen)
            there |= dict.fromkeys(held)
            proves = seen.report is not None and seen.report.proof is not None
            proofs = self._proofs.read_proven(there) if proves else {}
        except RefusedError:
            raise
        except ClusterError as error:
            return TopicsSnapshot(seen, (), asked, told(error, "TW-WAIT-01"))
        topics: dict[TopicName, list[TopicPartition]] = {}
        for part in there:
            topics.setdefault(part.topic, []).append(part)
        report = seen.report
        left_out = dict(report.left_out) if report is not None else {}
        missing = self._missing(report, there)
        paused = asked.pauses.paused(there, self._is_heartbeats)
        pending: defaultdict[TopicPartition, list[str]] = defaultdict(list)
        for one in asked.pending:
            for part in self._meant(one.command, there):
                pending[part].append(str(one.command))
        stands = "" if report is not None and report.state in _COPYING else f"the flow is {_word(seen)}"
        found = []
        for topic in sorted(topics):
            remote = self._topology.remote_name(topic)
            if topic in left_out:
                found.append(TopicSnapshot(topic, remote, left_out=left_out[topic]))
                continue
            troubles = _troubles(report, topic)
            parts = []
            for part in topics[topic]:
                state, detail = TopicState.COPYING, ""
                if part in pending:
                    state, detail = TopicState.ASKED, ", then ".join(pending[part])
                elif part in paused:
                    state = TopicState.PAUSED
                elif part in held and not stands:
                    state, detail = TopicState.HELD, f"{held[part].message_id}: {held[part].text}"
                elif (trouble := stands or troubles(part) or missing.get(part, "")) != "":
                    state, detail = TopicState.WAITING, trouble
                position = positions.get(part)
                resume = held[part].resume_at if part in held else UNKNOWN
                behind = position is not None and 0 <= resume < position.next_source
                parts.append(
                    PartitionSnapshot(
                        part,
                        state,
                        detail,
                        None if position is None else position.next_source,
                        None if position is None else position.next_target,
                        SourceOffset(starts[part]) if part in starts else None,
                        SourceOffset(ends[part]) if part in ends else None,
                        resume if behind else None,
                        proofs.get(part),
                    )
                )
            found.append(TopicSnapshot(topic, remote, tuple(parts)))
        return TopicsSnapshot(seen, tuple(found), asked)

    def read_state(self) -> FlowSnapshot:
        """Return the state of the flow only, and skip its topics."""
        return self._flow.read()

    @property
    def control_topic(self) -> str:
        """The topic with the records of commands."""
        return self._journal.topic

    def selectors(
        self,
        words: Sequence[str],
        numbers: Sequence[int] = (),
        *,
        unchecked: Callable[[str], None] | None = None,
        partitions_by_name: bool = True,
    ) -> tuple[PartitionSelector, ...]:
        """Return a selector of source topics for each word.

        A word is a pattern of source topics. If it fails to match a topic as a whole and ends in a number, for example
        `orders-3`, it names the partition of that number, except with `partitions_by_name` False. `numbers` are
        partitions of each word.

        Raises OptionError if a word matches no topic that the flow mirrors. With `unchecked`, a source that fails to
        answer is ignored, and `unchecked` is called with the reason.
        """
        try:
            partitions = self._mirrored()
        except RefusedError:
            raise
        except ClusterError as error:
            if unchecked is None:
                raise
            unchecked(str(error))
            return tuple(_unchecked(word, numbers) for word in words)
        names = sorted({part.topic for part in partitions})
        return tuple(
            self._selector(word, numbers, partitions, names, partitions_by_name=partitions_by_name) for word in words
        )

    def _selector(
        self,
        word: str,
        numbers: Sequence[int],
        partitions: Mapping[TopicPartition, object],
        names: Sequence[TopicName],
        *,
        partitions_by_name: bool,
    ) -> PartitionSelector:
        wanted = PartitionSelector(word, tuple(sorted(set(numbers))) or None)
        if selected([wanted], partitions, self._is_heartbeats):
            return wanted
        single = _PARTITION.fullmatch(word)
        if partitions_by_name and single is not None and not numbers:
            one = PartitionSelector(single[1], (int(single[2]),))
            if selected([one], partitions, self._is_heartbeats):
                return one
        known = self._journal.asked.pauses.entries
        if any(entry.selector == wanted for entry in known):
            # The words of a pause also resume its topics, even after these topics were deleted.
            return wanted
        raise OptionError(
            f"{wanted} matches no topic that {self.settings.name} mirrors; it mirrors {listed(names) or 'none'}",
            message_id="TW-COMMAND-10",
        )

    def preview(self, command: TopicCommand) -> list[PartitionMove]:
        """Return the move of each partition that a command selects, computed from the stored positions; only reads."""
        partitions = sorted(self._meant(command, self._mirrored()))
        stored = self._positions.read(partitions)
        logs = look(self.settings, self._source, command, partitions, stored)
        moves = [decide(command, part, stored.get(part), logs.get(part)) for part in partitions]
        outcomes = self.read_asked().outcomes
        recopied = recopies(outcomes, command.id)
        moves = [counting_first_copies(move, recopied.get(move.partition)) for move in moves]
        if not command.verb.moves or all(move.changes for move in moves):
            return moves
        held, now_ms = _held(self._flow.read()), wall_ms(self._target.clock)
        return [
            _with_reason(move, held.get(move.partition), earlier_command(command, move, outcomes), now_ms)
            for move in moves
        ]

    def is_redundant(self, command: TopicCommand, asked: ControlState) -> bool:
        """Whether a `pause` or `resume` is redundant; false if the source fails to answer."""
        if command.verb not in (TopicVerb.PAUSE, TopicVerb.RESUME) or asked.pending:
            return False
        try:
            return asked.pauses.is_redundant(command, self._mirrored(), self._is_heartbeats)
        except RefusedError:
            raise
        except ClusterError:
            return False

    # Asking.

    def submit_command(self, command: TopicCommand) -> CommandOutcome:
        """Write the command; if its id is known already, return its outcome until now. Raises OptionError if another
        command has this id."""
        return self._journal.write_command(command)

    def wait(
        self, outcome: CommandOutcome, timeout_s: float, runs: Callable[[], bool] = lambda: True, poll_s: float = POLL_S
    ) -> CommandOutcome:
        """Return the outcome of a command when the command is over, or `timeout_s` seconds have passed, or `runs()` is
        false."""
        clock = self._target.clock
        until = clock.monotonic() + timeout_s
        found = outcome
        while not found.result.over and clock.monotonic() < until and runs():
            clock.sleep(poll_s)
            try:
                found = self._journal.read().outcome(outcome.command.id) or found
            except RefusedError:
                raise
            except ClusterError:
                # The command is written: the process executes it also while this reader is disconnected.
                continue
        return found

    def submit_level(self, request: LevelRequest) -> LevelRequest:
        """Write a request for a level of the flow's log; returns it with its time."""
        self.read_asked()
        return self._journal.write_level(request)

    def wait_level(self, request: LevelRequest, timeout_s: float, *, poll_s: float = POLL_S) -> DriverReport | None:
        """Return the report of the process that runs the flow, once it has taken a request for a level over; None if
        that takes longer than `timeout_s` seconds."""
        clock = self._target.clock
        until = clock.monotonic() + timeout_s
        while True:
            report = self._flow.read().report
            if report is not None and report.log_level is not None and report.log_level.request == request.id:
                return report
            if clock.monotonic() >= until:
                return None
            clock.sleep(poll_s)

    # Both.

    def connect(self) -> None:
        """Connect to both clusters; `read` does so itself."""
        for cluster in (self._target, self._source):
            if not cluster.client.connected:
                cluster.connect(self._connect_s)

    def read_asked(self) -> ControlState:
        """Return the commands for the topics of the flow."""
        return ask_twice(self._target, self._read_asked)

    def _read_asked(self) -> ControlState:
        if not self._target.client.connected:
            self._target.connect(self._connect_s)
        return self._journal.read()

    def _mirrored(self) -> dict[TopicPartition, None]:
        if not self._source.client.connected:
            self._source.connect(self._connect_s)
        return {
            TopicPartition(name, number): None
            for name, topic in sorted(self._source.topics().items())
            if self._topology.mirrors(name)
            for number in range(topic.partitions)
        }

    def _missing(self, report: DriverReport | None, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """Source partitions that lack a remote partition, each with the reason that the process reports."""
        reasons = {} if report is None else dict(report.missing_topics)
        if not reasons:
            return {}
        remote = self._target.topics()
        found = {}
        for part in partitions:
            reason, there = reasons.get(part.topic), remote.get(self._topology.remote_name(part.topic))
            if reason is not None and (there is None or part.partition >= there.partitions):
                found[part] = reason
        return found

    def _meant(self, command: TopicCommand, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        return selected(command.selectors, partitions, self._is_heartbeats)

    def _is_heartbeats(self, topic: TopicName) -> bool:
        return self._topology.is_heartbeats(topic)


def _unchecked(word: str, numbers: Sequence[int]) -> PartitionSelector:
    """The selector of a word, read by its form alone. Raises OptionError if the word could be a topic as well as a
    partition of another topic."""
    if not numbers and _PARTITION.fullmatch(word):
        raise OptionError(
            f"{word} may be a topic or a partition, and the source is silent: name the topic, and its partition by "
            "--partition, or, for a topic, write its last digit as a class, for example [3]",
            message_id="TW-COMMAND-11",
        )
    return PartitionSelector(word, tuple(sorted(set(numbers))) or None)


def this_process() -> str:
    """Who asks, by host and process."""
    return f"{socket.gethostname()}-{os.getpid()}"


def _held(seen: FlowSnapshot) -> dict[TopicPartition, HeldPartition]:
    return {} if seen.held_report is None else {one.source: one for one in seen.held_report.held_partitions}


def _with_reason(
    move: PartitionMove, held: HeldPartition | None, earlier: CommandOutcome | None, now_ms: int
) -> PartitionMove:
    """The move of a partition that stays, with the command that has moved it already, or the reason for which the
    partition is held."""
    if earlier is not None and (held is None or _is_passed(held, move)):
        age = shown_age(max(0, now_ms - (earlier.at_ms or now_ms)) / 1000)
        waits = "" if held is None else "; the process takes it up at its next report"
        return replace(move, repeats=True, text=f"{_DONE[earlier.command.verb]} {age} ago{waits}")
    if move.changes or held is None:
        return move
    way_out = f", way out: {held.way_out}" if held.way_out else ""
    return replace(move, text=f"{move.text}; the partition is held for {held.message_id}{way_out}")


def _is_passed(held: HeldPartition, move: PartitionMove) -> bool:
    """Whether the partition is at an offset after the reason for which the last report has the partition as held."""
    if move.before is None:
        return False
    return held.source_offset < move.before if held.resume_at < 0 else held.resume_at <= move.before


def _word(seen: FlowSnapshot) -> str:
    """The state of a flow: the state that its process reports, or else the state known from the target."""
    return seen.report.state if seen.runs and seen.report is not None else seen.state.word


def _troubles(report: DriverReport | None, topic: TopicName) -> Callable[[TopicPartition], str]:
    """The reason why a partition of a topic waits, by the last report, which names a single partition of the topic."""
    trouble = next((one.trouble or "" for one in report.topics if one.topic == topic), "") if report else ""

    def of(part: TopicPartition) -> str:
        return trouble.removeprefix(f"{part}: ") if trouble.startswith(f"{part}: ") else ""

    return of
