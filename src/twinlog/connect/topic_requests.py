"""Requests for single topics of a source connector: any worker answers them, the connector's worker fulfils them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from twinlog.connect.connector_flows import ConnectorFlows
from twinlog.connect.permission import RequestGuard
from twinlog.connectors.model import ConnectorName, TopicControlRequest
from twinlog.errors import ClusterError, OptionError, RequestError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.model.amounts import LAST, read_moment
from twinlog.ops.topics.reader import TopicsReader, this_process
from twinlog.ops.topics.text import command_json, moves_json, outcome_json, topics_json
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import WorkerSettings
from twinlog.worker.control.model import LogPlace, LogPlaceKind, TopicCommand, TopicVerb

WAIT_S = 10.0
"""How long a request waits until it is fulfilled, in seconds."""


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
            raise RequestError(400, str(error)) from None
        except ClusterError as error:
            raise RequestError(500, str(error)) from error

    def _settings(self, name: ConnectorName) -> FlowSettings:
        self._may.require_started()
        self._may.require_known(name)
        flow, why = self._flows.build(name)
        if flow is None:
            raise RequestError(400, f"The configuration of connector {name} cannot be used: {why}")
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
            raise OptionError(f"Nothing would change, so that nothing was asked: {texts}")
        if not asked.confirm:
            raise OptionError(
                f"{passed} source offsets would be passed over and never copied, {repeated} would be copied again; "
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
