"""Requests to a worker about stored offsets (KIP-875) and single topics, and the conditions of all requests.

A request waits until the worker has started and the group has agreed on its leader, as in the herder of Connect.
Offsets change only after the connector has ended. Any worker answers requests for topics of a source connector, and the
worker of the connector fulfils them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from twinlog.clock import Clock
from twinlog.config.connector import connector_kind, refused_class
from twinlog.connect.connector_flows import ConnectorFlows
from twinlog.connect.connector_offsets import ConnectorOffsets
from twinlog.connect.group.member import Assignment
from twinlog.connect.group.state import GroupState
from twinlog.connect.stage import timed_out
from twinlog.connect.worker_thread import WorkerThread
from twinlog.errors import ClusterError, NotOwnerError, OptionError, RequestError, UnavailableError
from twinlog.errors.message_ids import id_first
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.mirror.offsets.starts import is_start
from twinlog.model.amounts import LAST, counted, read_moment
from twinlog.ops.topics.reader import TopicsReader, this_process
from twinlog.ops.topics.text import command_json, moves_json, outcome_json, topics_json
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import GroupSettings, WorkerSettings
from twinlog.worker.connectors.model import ConnectorName, StoredOffset, TargetState, TopicControlRequest
from twinlog.worker.connectors.offset_rules import check_offsets
from twinlog.worker.control.model import LogPlace, LogPlaceKind, TopicCommand, TopicVerb

T = TypeVar("T")

GROUP_S = 90.0
"""How long a request waits for the worker's start, and a change for the worker's membership in its group, in seconds.

The API waits equally long for both, as Connect's API does.
"""
FENCE_S = 60.0
"""How long a change waits until earlier leaders are fenced, in seconds.

The API waits longer, so that the answer has the reason.
"""
POLL_S = 0.05

END_S = 30.0
"""How long a request waits until all parts of a stopped connector have ended."""

WAIT_S = 10.0
"""How long a request waits until it is fulfilled, in seconds."""


class RequestGuard:
    """The changes that this worker may make at present; may be used from several threads.

    A standalone worker has no `group`.
    """

    def __init__(self, state: GroupState, thread: WorkerThread, clock: Clock, group: GroupSettings | None) -> None:
        self._state = state
        self._thread = thread
        self._clock = clock
        self._owner_s = 0.0 if group is None else group.takeover_s
        """How long a request waits for a worker that has the connector."""

    def require_started(self) -> None:
        """Wait until the worker has read the state of the connectors.

        Raises UnavailableError once this worker has left the group, RequestError 500 after `GROUP_S`.
        """
        until = self._clock.monotonic() + GROUP_S
        while not self._thread.started.is_set():
            self._go_on_waiting(until)

    def _go_on_waiting(self, until: float) -> None:
        if self._thread.left:
            raise UnavailableError("This worker is stopping.")
        if self._clock.monotonic() >= until:
            raise RequestError(500, id_first(timed_out(self._thread.stage)))
        self._clock.sleep(POLL_S)

    def require_known(self, name: ConnectorName, text: str | None = None) -> None:
        """Raises RequestError 404 for an unknown connector, with `text` or the usual message."""
        if not self._state.has_connector(name):
            raise RequestError(404, text or f"Connector {name} not found")

    def wait_assignment(self) -> Assignment:
        """Wait for the assignment that the group has agreed on.

        A change waits while the worker starts or the group rebalances, as in Connect's herder: scripts send changes as
        soon as the port is open, and curl gives up after an answer with 409. Raises UnavailableError once this worker
        has left the group, RequestError 500 after `GROUP_S`.
        """
        until = self._clock.monotonic() + GROUP_S
        while True:
            assignment = self._thread.group.assignment
            ready = self._thread.started.is_set() and not self._thread.left
            # After a possible loss of this worker's membership, another leader may write.
            if ready and assignment is not None and self._thread.group.leads_for_s() > 0:
                return assignment
            self._go_on_waiting(until)

    @contextmanager
    def as_leader(self) -> Iterator[None]:
        """Let the leader change something, with knowledge of all earlier changes, including changes of earlier leaders.

        Raises NotOwnerError while another worker leads, RequestError while the group lacks a leader.
        """
        until: float | None = None
        while True:
            term = self._thread.group.term
            assignment = self.wait_assignment()
            if until is None:
                until = self._clock.monotonic() + FENCE_S
            if not assignment.leads:
                raise NotOwnerError(
                    "Cannot complete request because this worker is not the leader.", assignment.leader_url
                )
            with self._thread.changing:
                if self._thread.left or self._thread.group.term != term:
                    # The worker has left the group during the wait for the lock.
                    continue
                claimed = self._try_to_fence(assignment, until)
                if claimed:
                    self.call_step(self._state.read_configs)
                    yield
                    if self.call_step(partial(self._thread.group.confirm_membership, term)):
                        return
            if not claimed:
                self._clock.sleep(POLL_S)
                continue
            raise RequestError(
                500,
                "The change was written, but this worker may have lost the lead of its group before, and the new "
                "leader may have changed the same. The request can be repeated.",
            )

    def _try_to_fence(self, assignment: Assignment, until: float) -> bool:
        """Fence earlier leaders; return False when the fencing has to be repeated. Raises RequestError after `until`.

        A cluster that sees its first transaction answers after seconds, for example.
        """
        try:
            self._thread.duties.fence_earlier_leaders(assignment)
        except ClusterError as error:
            if not error.retriable or self._clock.monotonic() >= until:
                raise RequestError.of(500, error) from error
            return False
        return True

    def require_own(self, name: ConnectorName) -> None:
        """Raises NotOwnerError when another worker has a connector; waits while the connector lacks a worker."""
        until = self._clock.monotonic() + self._owner_s
        while True:
            assignment = self.wait_assignment()
            if name in assignment.connectors:
                return
            owner = assignment.url_of(name)
            if owner is not None or not self._state.has_connector(name) or self._clock.monotonic() >= until:
                raise NotOwnerError(
                    "Cannot complete request because this worker does not have the connector.", owner or ""
                )
            self._clock.sleep(POLL_S)

    def call_step(self, step: Callable[[], T]) -> T:
        """Run a step with the group's topics for a request; a ClusterError becomes a RequestError 500."""
        try:
            return step()
        except ClusterError as error:
            raise RequestError.of(500, error) from error


class OffsetRequests:
    """Answers these requests; may be used from several threads. All raise RequestError and NotOwnerError."""

    def __init__(
        self, state: GroupState, offsets: ConnectorOffsets, thread: WorkerThread, permission: RequestGuard
    ) -> None:
        self._state = state
        self._offsets = offsets
        self._thread = thread
        self._may = permission

    def read(self, name: ConnectorName) -> Sequence[StoredOffset]:
        """The stored offsets."""
        self._may.require_started()
        self._may.require_known(name)
        stored = self._may.call_step(lambda: self._offsets.read_offsets(name))
        # A partition before its first copied record is hidden from clients, as a client is unable to give -1 back.
        return [
            one
            for one in stored
            if not is_start(one.partition) and (one.offset is None or one.offset.get("offset") != -1)
        ]

    def alter(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> None:
        """Replace some offsets, or delete them (None)."""
        with self._stopped(name):
            self._check(name, offsets)
            self._may.call_step(lambda: self._offsets.replace_offsets(name, offsets))

    def reset(self, name: ConnectorName) -> None:
        """Delete all offsets."""
        with self._stopped(name):
            stored = self._may.call_step(lambda: self._offsets.read_offsets(name))
            self._may.call_step(
                lambda: self._offsets.replace_offsets(name, [StoredOffset(one.partition, None) for one in stored])
            )

    @contextmanager
    def _stopped(self, name: ConnectorName) -> Iterator[None]:
        """Hold a stopped connector, for changes of its offsets.

        Only its worker writes its offsets, as this worker alone knows that the connector has ended.
        """
        self._may.require_started()
        self._may.call_step(self._state.read_configs)
        self._require_stopped(name)
        self._may.require_own(name)
        with self._thread.standing_still(name, END_S):
            yield

    def _require_stopped(self, name: ConnectorName) -> None:
        self._may.require_known(name)
        target, tasks = self._state.query_state(lambda cluster, _: (cluster.target_state(name), cluster.tasks(name)))
        if target is not TargetState.STOPPED or tasks:
            raise RequestError(
                400,
                "Connectors must be in the STOPPED state before their offsets can be modified. "
                "This can be done for the specified connector by issuing a 'PUT' request to the "
                f"'/connectors/{name}/stop' endpoint",
            )

    def _check(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> None:
        class_name = self._state.query_state(
            lambda cluster, _: cluster.connectors[name].config.get("connector.class", "")
        )
        kind = connector_kind(class_name)
        if kind is None:
            raise RequestError(400, refused_class(class_name))
        check_offsets(kind, offsets)


class TopicRequests:
    """Answers these requests for a worker; may be used from several threads. All raise RequestError."""

    def __init__(
        self, worker: WorkerSettings, flows: ConnectorFlows, permission: RequestGuard, connect: Connect = ClusterAdmin
    ) -> None:
        self._worker = worker
        self._flows = flows
        self._may = permission
        self._connect = connect

    def read(self, name: ConnectorName) -> Mapping[str, object]:
        """The topics of a connector with their states and with the pending requests."""
        settings = self._settings(name)
        with TopicsReader(settings, self._worker, connect=self._connect) as reader:
            return topics_json(self._may.call_step(reader.read))

    def submit_request(self, name: ConnectorName, asked: TopicControlRequest) -> Mapping[str, object]:
        """Submit a request for topics; returns its outcome, or the expected outcome of a dry run."""
        settings = self._settings(name)
        try:
            with TopicsReader(settings, self._worker, connect=self._connect) as reader:
                return _ask(reader, asked)
        except OptionError as error:
            raise RequestError(400, str(error), message_id=error.message_id) from None
        except ClusterError as error:
            raise RequestError.of(500, error) from error

    def _settings(self, name: ConnectorName) -> FlowSettings:
        self._may.require_started()
        self._may.require_known(name)
        flow, why = self._flows.build(name)
        if flow is None:
            raise RequestError(400, id_first(f"The configuration of connector {name} is unusable: {why}"))
        if not flow.settings.copies:
            raise RequestError(400, f"Connector {name} copies no topics.")
        return flow.settings


def _ask(reader: TopicsReader, asked: TopicControlRequest) -> Mapping[str, object]:
    verb, place = TopicVerb(asked.verb), _place(asked)
    known = reader.read_asked()
    selectors = reader.selectors(asked.topics, asked.partitions)
    command = TopicCommand(asked.id or uuid.uuid4().hex[:12], verb, selectors, place, by=this_process())
    if asked.dry_run or (verb.moves and known.outcome(command.id) is None):
        moves = reader.preview(command)
        if asked.dry_run:
            return {**command_json(command), "dry_run": True, "partitions": moves_json(moves)}
        passed, repeated = sum(move.passed for move in moves), sum(move.repeated for move in moves)
        if not any(move.changes for move in moves):
            texts = "; ".join(dict.fromkeys(move.text for move in moves if move.text))
            raise OptionError(f"The command was dropped, as all partitions would stay as they are: {texts}")
        if not asked.confirm:
            raise OptionError(
                f"{counted(passed, 'source offset')} would be passed over and never copied, {repeated} would be "
                "copied again; "
                "send it again with 'confirm': true, or with 'dry_run': true to see each partition"
            )
    outcome = reader.submit_command(command)
    if reader.read_state().runs:
        outcome = reader.wait(outcome, WAIT_S)
    return outcome_json(outcome)


def _place(asked: TopicControlRequest) -> LogPlace | None:
    """The place in a request. Raises OptionError when it is missing, invalid, or forbidden for the verb."""
    needs = TopicVerb(asked.verb).needs_place
    if asked.to is None and needs:
        raise OptionError(f"{asked.verb} needs 'to', a place in the source")
    if asked.to is None:
        return None
    if not needs:
        raise OptionError(f"{asked.verb} takes no 'to'")
    kind, value = LogPlaceKind(asked.to[0]), asked.to[1]
    if kind is LogPlaceKind.OFFSET:
        if not value.isdecimal() or int(value) > LAST:
            raise OptionError(f"{value!r} is no offset")
        return LogPlace(kind, int(value))
    return LogPlace(kind, _moment_ms(value)) if kind is LogPlaceKind.TIME else LogPlace(kind)


def _moment_ms(text: str) -> int:
    try:
        moment = read_moment(text)
    except OverflowError as error:
        raise OptionError(str(error)) from None
    if moment is None:
        raise OptionError(f"{text!r} is no moment; expected milliseconds since 1970, or ISO 8601")
    return moment
