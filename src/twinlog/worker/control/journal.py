"""The topic of what operators ask of single topics: written by commands on any host, and by the process that runs the
flow. Every record counts by its key, so that who writes one twice changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from twinlog.clock import wall_ms
from twinlog.errors import ClusterError, OptionError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.patience import patiently
from twinlog.kafka.producer.topic_writer import OwnRecord, TopicWriter
from twinlog.kafka.record.last_records import LastRecords
from twinlog.mirror.topics.compacted_topic import CompactedTopic
from twinlog.mirror.topics.internal_topics import control
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control import records
from twinlog.worker.control.model import (
    CommandOutcome,
    CommandState,
    PartitionMove,
    TopicCommand,
    TopicPause,
    TopicVerb,
    without_effect,
)
from twinlog.worker.control.records import ControlRecord, ControlState

log = logging.getLogger(__name__)

TIMEOUT_S, TRY_S = 15.0, 30.0
"""How long a broker may take for an append, and for how long a command tries what it asks."""

PURPOSE = "steering single topics"
KEEP_S = 7 * 86_400
"""How long a command that is over is remembered: until then nothing happens when it is asked for again by its id."""

MOST_OVER, MOST_PAUSES = 500, 500
"""Commands that are over, and entries of what is paused, of one flow."""


class ControlJournal:
    """What is asked of the topics of one flow; `target` is connected to its target. Used by one thread at a time.

    All methods raise ClusterError where the target does not answer, and RefusedError without the right to READ or WRITE
    the topic.
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
        """Read what was written since the last call. Nothing is asked where there is no such topic.

        With `timeout_s` it is tried for so many seconds, whatever happens.
        """
        # What was read before an error does not come again.
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
        """Write down what is asked, and return what became of it until now.

        A command whose id is known already is not written again. Raises OptionError where that asks for something else,
        or where so much is paused singly that no more of it is remembered.
        """
        self._made.ensure()
        # A topic that was just created may be without a leader for a moment.
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
                    f"{len(known_pauses)} patterns are paused or resumed already, and no more than {MOST_PAUSES} are "
                    "remembered: pause topics by one pattern, or resume '.*' first"
                )
            written += [records.pause_record(self._flow, pause) for pause in pauses]
        # The last of them: who sees the command has what it stands for.
        written.append(records.command_record(self._flow, command))
        append = partial(self._writer.append, written, at_once=True)
        self._target.call(patiently, self._target.client, TRY_S, append)
        found = self.read(TRY_S).outcome(command.id)
        if found is None:
            raise ClusterError(
                f"cluster {self._target.alias}: {self.topic} lost what was just written to it; ask again with --id "
                f"{command.id}"
            )
        return found

    # For the process that runs the flow.

    def begin_command(self, outcome: CommandOutcome, by: str) -> CommandOutcome:
        """A command is being done from now on."""
        return self._write(replace(outcome, result=CommandState.BEGUN, by=by, reason=""))

    def record_moves(self, outcome: CommandOutcome, moves: Sequence[PartitionMove]) -> CommandOutcome:
        """Write down what becomes of each partition, before anything does."""
        self._append(records.move_records(self._flow, outcome.command, moves))
        return self._seen(outcome)

    def end(self, outcome: CommandOutcome, result: CommandState, by: str, reason: str = "") -> CommandOutcome:
        """A command is over."""
        return self._write(replace(outcome, result=result, by=by, reason=reason))

    def forget_old(self) -> None:
        """Delete commands that were over long ago, and entries of pauses that no partition needs."""
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
        """A command as it is known once what was written is read: what is done next goes by what every other process
        would read."""
        found = self.read().outcome(outcome.command.id)
        if found is None:
            raise ClusterError(f"cluster {self._target.alias}: {self.topic} lost the command {outcome.command.id}")
        return found

    def _append(self, written: Sequence[OwnRecord]) -> None:
        self._target.call(partial(self._writer.append, written))
