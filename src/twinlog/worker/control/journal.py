"""The control topic with the operators' commands for single topics.

It is written by commands on any host, and by the process that runs the flow. Every record counts by its key, so a
repeated write is harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError, OptionError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.producer.topic_writer import OwnRecord, TopicWriter
from twinlog.kafka.record.last_records import LastRecords
from twinlog.kafka.retry import RetryPolicy, retry
from twinlog.mirror.topics.internal_topics import CompactedTopic, control
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control import records
from twinlog.worker.control.model import (
    CommandOutcome,
    CommandState,
    LevelRequest,
    PartitionMove,
    TopicCommand,
    TopicPause,
    TopicVerb,
    without_effect,
)
from twinlog.worker.control.records import ControlRecord, ControlState

log = logging.getLogger(__name__)

TIMEOUT_S, TRY_S = 15.0, 30.0
"""The longest time that a broker may take for an append, and for which a command is retried."""

PURPOSE = "steering single topics"
KEEP_S = 7 * 86_400
"""The time for which a finished command is remembered: until then a request with the same id is ignored."""

MOST_OVER, MOST_PAUSES = 500, 500
"""The most finished commands, and the most entries of pauses, of a flow."""


class ControlJournal:
    """The commands for the topics of a flow; `target` is connected to its target. Used by a single thread at a time.

    All methods raise ClusterError if the target is silent, and RefusedError if the right to READ or WRITE the topic is
    missing.
    """

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._flow = settings.name
        self._target = target
        topic = control(settings)
        self.topic = topic.name
        self._made = CompactedTopic(settings.name, target, topic, "what is asked of topics")
        self._reader = TopicReader(target, topic.name, optional=True)
        self._writer = TopicWriter(target.client, topic.name, TIMEOUT_S, PURPOSE)
        self._news: LastRecords = {}
        self._records: dict[bytes, ControlRecord] = {}
        self.asked = ControlState()
        """As of the last `read`."""

    def read(self, timeout_s: float | None = None) -> ControlState:
        """Read the records written since the last call. A missing topic counts as an empty topic.

        With `timeout_s`, the read is retried for this number of seconds after any error.
        """
        # Records that were read before an error are read only once.
        self._reader.read_last(self._news, timeout_s=timeout_s)
        if self._news:
            for key, kept in self._news.items():
                self._records.pop(key, None)
                found = records.stored(self._flow, key, kept.offset, kept.value())
                if found is not None:
                    self._records[key] = found
            self._news = {}
            self.asked = records.asked_by(self._records.values())
        return self.asked

    # For who asks.

    def write_command(self, command: TopicCommand) -> CommandOutcome:
        """Write a command down, and return its present outcome.

        A command with a known id is left as it is. Raises OptionError if this id belongs to a different command, or if
        the number of patterns that are paused singly is above the limit.
        """
        self._made.ensure()
        # The leader of a newly created topic is elected after a moment.
        known = self.read(TRY_S).outcome(command.id)
        if known is not None:
            if not known.command.same_as(command):
                raise OptionError(f"the id {command.id} was given to another command: {known.command}")
            return known
        command = replace(command, at_ms=wall_ms(self._target.clock))
        written: list[OwnRecord] = []
        if command.verb in (TopicVerb.PAUSE, TopicVerb.RESUME):
            paused = command.verb is TopicVerb.PAUSE
            pauses = [TopicPause(one, paused, command.at_ms, command.by) for one in command.selectors]
            known_pauses = {entry.selector for entry in self.asked.pauses.entries}
            if paused and len(known_pauses | {*command.selectors}) > MOST_PAUSES:
                raise OptionError(
                    f"{len(known_pauses)} patterns are paused or resumed already, and {MOST_PAUSES} is the limit: "
                    "pause topics by a single pattern, or resume '.*' first"
                )
            written += [records.pause_record(self._flow, pause) for pause in pauses]
        # The command is the last record: a process that sees the command has also read its pauses.
        written.append(records.command_record(self._flow, command))
        self._append_again(written)
        found = self.read(TRY_S).outcome(command.id)
        if found is None:
            raise ClusterError(
                f"cluster {self._target.alias}: {self.topic} lost what was just written to it; ask again with --id "
                f"{command.id}"
            )
        return found

    def write_level(self, request: LevelRequest) -> LevelRequest:
        """Write a request for a level of the flow's log down; returns it with its time."""
        self._made.ensure()
        # The leader of a newly created topic is elected after a moment.
        self.read(TRY_S)
        request = replace(request, at_ms=wall_ms(self._target.clock))
        self._append_again([records.level_record(self._flow, request)])
        return request

    # For the process that runs the flow.

    def begin_command(self, outcome: CommandOutcome, by: str) -> CommandOutcome:
        """Record that the command has begun."""
        return self._write(replace(outcome, result=CommandState.BEGUN, by=by, reason=""))

    def record_moves(self, outcome: CommandOutcome, moves: Sequence[PartitionMove]) -> CommandOutcome:
        """Record the move of each partition, before the first move is done."""
        self._append(records.move_records(self._flow, outcome.command, moves))
        return self._seen(outcome)

    def end(self, outcome: CommandOutcome, result: CommandState, by: str, reason: str = "") -> CommandOutcome:
        """Record that the command has ended."""
        return self._write(replace(outcome, result=result, by=by, reason=reason))

    def forget_old(self) -> None:
        """Delete commands that ended long ago, and overruled entries of pauses."""
        now_ms = wall_ms(self._target.clock)
        over = [one for one in self.asked.outcomes if one.result.over]
        old = [one for one in over if now_ms - (one.at_ms or 0) > KEEP_S * 1000]
        old += [one for one in over[: max(0, len(over) - MOST_OVER)] if one not in old]
        gone = [record for one in old for record in records.without_command(self._flow, one)]
        gone += [records.without_pause(self._flow, one) for one in without_effect(self.asked.pauses.entries)]
        if gone:
            self._append(gone)
            self.read()

    def _write(self, outcome: CommandOutcome) -> CommandOutcome:
        self._append([records.result_record(self._flow, replace(outcome, at_ms=wall_ms(self._target.clock)))])
        return self._seen(outcome)

    def _seen(self, outcome: CommandOutcome) -> CommandOutcome:
        """The command as read after the write: so the next step uses the same records as every other process."""
        found = self.read().outcome(outcome.command.id)
        if found is None:
            raise ClusterError(f"cluster {self._target.alias}: {self.topic} lost the command {outcome.command.id}")
        return found

    def _append_again(self, written: Sequence[OwnRecord]) -> None:
        """Append, and try again for some time after an error."""
        append = partial(self._writer.append, written, at_once=True)
        client = self._target.client
        self._target.call(retry, client.loop, RetryPolicy.of(client.settings, TRY_S, warns=True), append)

    def _append(self, written: Sequence[OwnRecord]) -> None:
        self._target.call(partial(self._writer.append, written))
